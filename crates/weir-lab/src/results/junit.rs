//! `junit.xml`: cases and thresholds as tests, for continuous integration.
//!
//! The format that Jenkins (`junit-10.xsd` of its xUnit plug-in), GitLab and actions of GitHub read: `testsuites`
//! with `testsuite`s with `testcase`s. A missed threshold or a regression is a `failure`, an invalid measurement
//! an `error`, and what could not be decided is `skipped`.

use super::{BarOutcome, BarResult, Cell, CellComparison, Judgement, Run, Summary};
use crate::verdict::Verdict;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use std::io::{self, Write};

/// Tests of a case, of bars or of the comparison.
struct Suite {
    name: String,
    tests: Vec<Test>,
}

/// One test.
struct Test {
    name: String,
    seconds: f64,
    defect: Option<Defect>,
    /// Its figures, for readers.
    output: String,
}

/// Why a test did not pass.
struct Defect {
    /// `failure`, `error` or `skipped`.
    element: &'static str,
    kind: &'static str,
    text: String,
}

/// Writes the file: one suite per case, with a test for the measurement and one for each threshold,
/// one suite for bars, and one for the comparison.
///
/// # Errors
/// The output cannot be written.
pub fn write(out: impl Write, run: &Run, summary: &Summary) -> io::Result<()> {
    let mut suites: Vec<Suite> = summary.cells.iter().map(|cell| of_case(summary, cell)).collect();
    if !summary.bars.is_empty() {
        let tests = summary.bars.iter().map(of_bar).collect();
        suites.push(Suite { name: "bars".to_owned(), tests });
    }
    if let Some(comparison) = &summary.comparison {
        let tests = comparison.cells.iter().map(|cell| of_comparison(summary, cell)).collect();
        suites.push(Suite { name: "comparison with the baseline".to_owned(), tests });
    }
    let mut xml = Writer::new_with_indent(out, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all = || suites.iter().flat_map(|suite| &suite.tests);
    let (name, [tests, failures, errors, _], seconds) =
        (clean(&summary.name), counts(all()), seconds(all()));
    xml.create_element("testsuites")
        .with_attributes([
            ("name", name.as_str()),
            ("tests", &tests),
            ("failures", &failures),
            ("errors", &errors),
            ("time", &seconds),
        ])
        .write_inner_content(|xml| suites.iter().try_for_each(|one| suite(xml, run, one)))?;
    xml.into_inner().write_all(b"\n")
}

fn of_case(summary: &Summary, cell: &Cell) -> Suite {
    let reasons = || cell.reasons.join("\n");
    let defect = |element| Some(Defect { element, kind: cell.verdict.word(), text: reasons() });
    let defect = match cell.verdict {
        Verdict::Invalid | Verdict::Unstable => defect("error"),
        Verdict::Fail if cell.thresholds.iter().all(|result| result.met) => defect("failure"),
        Verdict::Pass | Verdict::Quick | Verdict::Fail | Verdict::Regression => None,
    };
    let name = "measurement".to_owned();
    let mut tests = vec![Test { name, seconds: cell.window, defect, output: figures(cell) }];
    tests.extend(cell.thresholds.iter().map(|result| {
        let text = format!("found {}", result.found);
        let missed = || Defect { element: "failure", kind: "threshold", text: text.clone() };
        Test {
            name: result.threshold.clone(),
            seconds: 0.0,
            defect: (!result.met).then(missed),
            output: text,
        }
    }));
    Suite { name: summary.name_of(cell).to_owned(), tests }
}

/// Figures of a case in a line.
fn figures(cell: &Cell) -> String {
    let Some(total) = cell.total().filter(|total| total.samples > 0) else { return String::new() };
    let times = &total.response;
    format!(
        "{:.2} requests/s, mean {:.2} ms, p50 {:.2}, p95 {:.2}, p99 {:.2}, max {:.2}; {} samples, {} errors",
        cell.throughput.map_or(total.throughput, |spread| spread.mean),
        times.mean,
        times.p50,
        times.p95,
        times.p99,
        times.max,
        total.samples,
        total.failed(),
    )
}

fn of_bar(bar: &BarResult) -> Test {
    let text = format!("found {}", bar.found());
    let defect = |element, kind| Some(Defect { element, kind, text: text.clone() });
    let defect = match bar.outcome {
        BarOutcome::Met => None,
        BarOutcome::Missed => defect("failure", "bar"),
        BarOutcome::Inconclusive => defect("skipped", "inconclusive"),
    };
    Test { name: bar.name(), seconds: 0.0, defect, output: text }
}

fn of_comparison(summary: &Summary, cell: &CellComparison) -> Test {
    let output = match (cell.after, cell.before) {
        (Some(after), Some(before)) => format!("{after:.2} instead of {before:.2} requests/s"),
        _ => "one of the runs has no throughput".to_owned(),
    };
    let defect = match cell.judgement {
        Judgement::Better | Judgement::Same => None,
        Judgement::Worse => Some(Defect {
            element: "failure",
            kind: Verdict::Regression.word(),
            text: cell.reason().unwrap_or_default(),
        }),
        Judgement::Unclear | Judgement::Incomparable => Some(Defect {
            element: "skipped",
            kind: cell.judgement.word(),
            text: match cell.judgement {
                Judgement::Unclear => "too few or too noisy rounds".to_owned(),
                _ => "one of the runs has no valid figures".to_owned(),
            },
        }),
    };
    let name = if cell.name.is_empty() { &summary.name } else { &cell.name };
    Test { name: name.clone(), seconds: 0.0, defect, output }
}

/// Numbers of tests, failures, errors and skipped tests.
fn counts<'t>(tests: impl Iterator<Item = &'t Test> + Clone) -> [String; 4] {
    let of = |element: &str| {
        let is = |test: &&Test| test.defect.as_ref().is_some_and(|one| one.element == element);
        tests.clone().filter(is).count().to_string()
    };
    [tests.clone().count().to_string(), of("failure"), of("error"), of("skipped")]
}

fn seconds<'t>(tests: impl Iterator<Item = &'t Test>) -> String {
    format!("{:.3}", tests.map(|test| test.seconds).sum::<f64>())
}

fn suite<W: Write>(xml: &mut Writer<W>, run: &Run, suite: &Suite) -> io::Result<()> {
    let [all, failures, errors, skipped] = counts(suite.tests.iter());
    let seconds = seconds(suite.tests.iter());
    let [name, started, host] = [&suite.name, &run.started, &run.host.name].map(|text| clean(text));
    let attributes = [
        ("name", &name),
        ("tests", &all),
        ("failures", &failures),
        ("errors", &errors),
        ("skipped", &skipped),
        ("time", &seconds),
        ("timestamp", &started),
        ("hostname", &host),
    ];
    let used = attributes.into_iter().filter(|(_, value)| !value.is_empty());
    xml.create_element("testsuite")
        .with_attributes(used.map(|(key, value)| (key, value.as_str())))
        .write_inner_content(|xml| {
            properties(xml, run)?;
            suite.tests.iter().try_for_each(|one| test(xml, &name, one))
        })?;
    Ok(())
}

/// What was measured, as properties of a suite.
fn properties<W: Write>(xml: &mut Writer<W>, run: &Run) -> io::Result<()> {
    let all = [("target", &run.target), ("server", &run.server), ("version", &run.version)];
    let used: Vec<_> = all.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    if used.is_empty() {
        return Ok(());
    }
    xml.create_element("properties").write_inner_content(|xml| {
        used.iter().try_for_each(|(name, value)| {
            let value = clean(value);
            let element = xml.create_element("property");
            element.with_attributes([("name", *name), ("value", &value)]).write_empty().map(drop)
        })
    })?;
    Ok(())
}

fn test<W: Write>(xml: &mut Writer<W>, suite: &str, test: &Test) -> io::Result<()> {
    let (name, seconds) = (clean(&test.name), format!("{:.3}", test.seconds));
    let element = xml.create_element("testcase").with_attributes([
        ("name", name.as_str()),
        ("classname", suite),
        ("time", seconds.as_str()),
    ]);
    if test.defect.is_none() && test.output.is_empty() {
        element.write_empty()?;
        return Ok(());
    }
    element.write_inner_content(|xml| {
        if let Some(Defect { element, kind, text }) = &test.defect {
            let text = clean(text);
            let message = text.lines().next().unwrap_or_default();
            xml.create_element(*element)
                .with_attributes([("message", message), ("type", *kind)])
                .write_text_content(BytesText::new(&text))?;
        }
        if !test.output.is_empty() {
            let output = clean(&test.output);
            xml.create_element("system-out").write_text_content(BytesText::new(&output))?;
        }
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
    use crate::figures::LabelFigures;
    use crate::results::Comparison;
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
        let total = LabelFigures { samples: 10, throughput: 250.0, ..LabelFigures::default() };
        let mut first = cell("one", Verdict::Fail, &["p99"], vec![result(true), result(false)]);
        first.labels = vec![total];
        let bar = |outcome| BarResult { bar: "a < b".to_owned(), outcome, ..BarResult::default() };
        let compared = CellComparison {
            name: String::new(),
            judgement: Judgement::Incomparable,
            before: Some(1.0),
            after: Some(2.0),
            throughput: None,
            bootstrap: None,
            ranks: None,
            times: Vec::new(),
            errors: [0.0; 2],
        };
        let summary = Summary {
            name: "a & b".to_owned(),
            bars: vec![bar(BarOutcome::Missed), bar(BarOutcome::Inconclusive)],
            comparison: Some(Comparison { cells: vec![compared], ..Comparison::default() }),
            cells: vec![
                first,
                cell("two", Verdict::Invalid, &["7 of 9 <failed>\u{0}", "steal"], vec![]),
            ],
            ..Summary::default()
        };
        let mut out = Vec::new();
        let run = Run {
            started: "2026-01-02T03:04:05Z".to_owned(),
            target: "http://a/?x=\"1\"".to_owned(),
            ..Run::default()
        };
        write(&mut out, &run, &summary).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let all =
            r#"<testsuites name="a &amp; b" tests="7" failures="2" errors="1" time="25.000">"#;
        assert!(text.contains(all), "{text}");
        assert!(
            text.contains(r#"timestamp="2026-01-02T03:04:05Z""#) && !text.contains("hostname"),
            "{text}"
        );
        assert!(
            text.contains(r#"<property name="target" value="http://a/?x=&quot;1&quot;"/>"#),
            "{text}"
        );
        assert!(text.contains(r#"name="one" tests="3" failures="1" errors="0""#), "{text}");
        assert!(text.contains(r#"name="two" tests="1" failures="0" errors="1""#), "{text}");
        assert!(text.contains("&lt;failed&gt;\u{fffd}"), "{text}");
        assert!(text.contains("found 7.00 ms"), "{text}");
        assert_eq!(text.matches("<testcase").count(), 7);
        assert!(
            text.contains(r#"name="bars" tests="2" failures="1" errors="0" skipped="1""#),
            "{text}"
        );
        assert!(
            text.contains("<skipped message=\"one of the runs has no valid figures\""),
            "{text}"
        );
        assert!(text.contains("<system-out>250.00 requests/s, mean 0.00 ms"), "{text}");
        let mut reader = quick_xml::Reader::from_str(&text);
        loop {
            match reader.read_event().expect("well formed") {
                Event::Eof => break,
                _ => continue,
            }
        }
    }
}
