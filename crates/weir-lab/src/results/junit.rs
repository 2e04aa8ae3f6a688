//! `junit.xml`: cases and thresholds as tests, for continuous integration.
//!
//! The format of Jenkins' xUnit schema and GitLab: `testsuites` with `testsuite`s with `testcase`s.
//! A missed threshold or a regression is a `failure`, an invalid measurement an `error`.

use super::{Cell, Summary};
use crate::verdict::Verdict;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use std::io::{self, Write};

/// One test.
struct Test<'a> {
    name: &'a str,
    seconds: f64,
    /// `failure` or `error`, its type and its text.
    wrong: Option<(&'static str, &'static str, String)>,
}

/// Writes the file: one suite per case, with a test for the measurement and one for each threshold,
/// and one suite for the comparison.
///
/// # Errors
/// The output cannot be written.
pub fn write(out: impl Write, summary: &Summary) -> io::Result<()> {
    let mut xml = Writer::new_with_indent(out, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let name = clean(&summary.name);
    xml.create_element("testsuites").with_attribute(("name", name.as_str())).write_inner_content(
        |xml| {
            for cell in &summary.cells {
                suite(
                    xml,
                    if cell.name.is_empty() { &summary.name } else { &cell.name },
                    &tests(cell),
                )?;
            }
            if let Some(comparison) = &summary.comparison {
                let cells = comparison.cells.iter().map(|cell| {
                    let reason = cell.reason();
                    let wrong =
                        reason.map(|reason| ("failure", Verdict::Regression.word(), reason));
                    Test { name: &cell.name, seconds: 0.0, wrong }
                });
                suite(xml, "comparison with the baseline", &cells.collect::<Vec<_>>())?;
            }
            Ok(())
        },
    )?;
    xml.into_inner().write_all(b"\n")
}

fn tests(cell: &Cell) -> Vec<Test<'_>> {
    let reasons = || cell.reasons.join("\n");
    let wrong = match cell.verdict {
        Verdict::Invalid | Verdict::Unstable => Some(("error", cell.verdict.word(), reasons())),
        Verdict::Fail if cell.thresholds.iter().all(|result| result.met) => {
            Some(("failure", cell.verdict.word(), reasons()))
        }
        Verdict::Pass | Verdict::Quick | Verdict::Fail | Verdict::Regression => None,
    };
    let mut tests = vec![Test { name: "measurement", seconds: cell.window, wrong }];
    for result in &cell.thresholds {
        let found = || ("failure", "threshold", format!("found {}", result.found));
        let wrong = (!result.met).then(found);
        tests.push(Test { name: &result.threshold, seconds: 0.0, wrong });
    }
    tests
}

fn suite<W: Write>(xml: &mut Writer<W>, name: &str, tests: &[Test<'_>]) -> io::Result<()> {
    let count = |element: &str| {
        let is = |test: &&Test<'_>| test.wrong.as_ref().is_some_and(|wrong| wrong.0 == element);
        tests.iter().filter(is).count().to_string()
    };
    let (failures, errors, all) = (count("failure"), count("error"), tests.len().to_string());
    let seconds = format!("{:.3}", tests.iter().map(|test| test.seconds).sum::<f64>());
    let suite = clean(name);
    xml.create_element("testsuite")
        .with_attributes([
            ("name", suite.as_str()),
            ("tests", all.as_str()),
            ("failures", failures.as_str()),
            ("errors", errors.as_str()),
            ("skipped", "0"),
            ("time", seconds.as_str()),
        ])
        .write_inner_content(|xml| tests.iter().try_for_each(|one| test(xml, &suite, one)))?;
    Ok(())
}

fn test<W: Write>(xml: &mut Writer<W>, suite: &str, test: &Test<'_>) -> io::Result<()> {
    let (name, seconds) = (clean(test.name), format!("{:.3}", test.seconds));
    let element = xml.create_element("testcase").with_attributes([
        ("name", name.as_str()),
        ("classname", suite),
        ("time", seconds.as_str()),
    ]);
    let Some((kind, of, text)) = &test.wrong else {
        element.write_empty()?;
        return Ok(());
    };
    let text = clean(text);
    let message = text.lines().next().unwrap_or_default();
    element.write_inner_content(|xml| {
        xml.create_element(*kind)
            .with_attributes([("message", message), ("type", of)])
            .write_text_content(BytesText::new(&text))?;
        Ok(())
    })?;
    Ok(())
}

/// Replaces characters that are not allowed in XML 1.0.
fn clean(text: &str) -> String {
    let fits = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    text.chars().map(|c| if fits(c) { c } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threshold::ThresholdResult;

    fn result(met: bool) -> ThresholdResult {
        ThresholdResult {
            threshold: "p99<5ms for \"echo\"".to_owned(),
            cell: String::new(),
            met,
            found: "7.00 ms".to_owned(),
            about_errors: false,
        }
    }

    #[test]
    fn cases_and_thresholds_are_tests() {
        let cell = |name: &str, verdict, reasons: &[&str], thresholds| Cell {
            name: name.to_owned(),
            verdict,
            reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
            window: 12.5,
            thresholds,
            ..Cell::default()
        };
        let summary = Summary {
            name: "a & b".to_owned(),
            cells: vec![
                cell("one", Verdict::Fail, &["p99"], vec![result(true), result(false)]),
                cell("two", Verdict::Invalid, &["7 of 9 <failed>\u{0}", "steal"], vec![]),
            ],
            ..Summary::default()
        };
        let mut out = Vec::new();
        write(&mut out, &summary).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains(r#"<testsuites name="a &amp; b">"#), "{text}");
        assert!(text.contains(r#"name="one" tests="3" failures="1" errors="0""#), "{text}");
        assert!(text.contains(r#"name="two" tests="1" failures="0" errors="1""#), "{text}");
        assert!(text.contains("&lt;failed&gt;\u{fffd}"), "{text}");
        assert!(text.contains("found 7.00 ms"), "{text}");
        assert_eq!(text.matches("<testcase").count(), 4);
        let mut reader = quick_xml::Reader::from_str(&text);
        loop {
            match reader.read_event().expect("well formed") {
                Event::Eof => break,
                _ => continue,
            }
        }
    }
}
