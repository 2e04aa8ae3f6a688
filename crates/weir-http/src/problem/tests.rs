use super::*;
use proptest::prelude::*;
use quick_xml::events::Event;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::Path;

const ID: &str = "01933b3e-7c00-7000-8000-000000000001";

fn accept(value: &str) -> ProblemFormat {
    let mut headers = Headers::new();
    headers.push("accept", value.as_bytes());
    ProblemFormat::negotiated(&headers)
}

fn rendered(format: ProblemFormat, detail: Option<&str>) -> String {
    let mut out = Vec::new();
    let detail = Detail { text: detail, violations: &[] };
    Problem::RateLimited.render(format, detail, Some(ID), &mut out);
    String::from_utf8(out).expect("text")
}

/// The text of all elements of an XML problem, by name.
fn elements(xml: &str) -> Vec<(String, String)> {
    let mut reader = quick_xml::Reader::from_str(xml.trim_end());
    let (mut name, mut found) = (String::new(), Vec::new());
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(start) => {
                name = start.name().as_ref().to_owned();
                found.push((name.clone(), String::new()));
            }
            Event::Text(text) => {
                if let Some((_, before)) = found.last_mut() {
                    before.push_str(&text);
                }
            }
            Event::GeneralRef(entity) => {
                let text = match &*entity {
                    "amp" => "&",
                    "lt" => "<",
                    "gt" => ">",
                    other => panic!("unknown entity {other} in {name}"),
                };
                found.last_mut().expect("inside an element").1.push_str(text);
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

#[test]
fn json_documents_hold_every_member() {
    let document: Value =
        serde_json::from_str(&rendered(ProblemFormat::Json, Some("a \"b\"\n\\ü"))).expect("JSON");
    assert_eq!(
        document,
        json!({
            "type": "urn:weir:problem:rate-limited",
            "title": "Too many requests",
            "status": 429,
            "detail": "a \"b\"\n\\ü",
            "instance": format!("urn:uuid:{ID}"),
            "transaction": ID,
            "fault": "client",
            "retry": "safe",
        })
    );
}

#[test]
fn members_without_a_value_are_left_out() {
    let mut out = Vec::new();
    Problem::NoRoute.render(ProblemFormat::Json, Detail::default(), None, &mut out);
    let document: Value = serde_json::from_slice(&out).expect("JSON");
    let names: Vec<_> = document.as_object().expect("an object").keys().collect();
    assert_eq!(names, ["type", "title", "status", "fault", "retry"]);
}

#[test]
fn xml_documents_hold_every_element() {
    let found = elements(&rendered(ProblemFormat::Xml, Some("a <b> & \u{1}")));
    let expected = [
        ("type", "urn:weir:problem:rate-limited"),
        ("title", "Too many requests"),
        ("status", "429"),
        ("detail", "a <b> & \u{fffd}"),
        ("instance", &format!("urn:uuid:{ID}")),
        ("transaction", ID),
        ("fault", "client"),
        ("retry", "safe"),
    ];
    for (name, text) in expected {
        assert!(found.contains(&(name.to_owned(), text.to_owned())), "{name} in {found:?}");
    }
}

#[test]
fn the_format_follows_accept_and_falls_back_to_json() {
    assert_eq!(ProblemFormat::negotiated(&Headers::new()), ProblemFormat::Json);
    assert_eq!(accept("application/xml"), ProblemFormat::Xml);
    assert_eq!(accept("application/problem+xml, */*;q=0.1"), ProblemFormat::Xml);
    assert_eq!(accept("application/json, application/xml;q=0.9"), ProblemFormat::Json);
    assert_eq!(accept("image/png"), ProblemFormat::Json);
    assert_eq!(accept("text/html,application/xml;q=0.9,*/*;q=0.8"), ProblemFormat::Json);
}

#[test]
fn slugs_are_unique_and_statuses_say_who_is_at_fault() {
    let slugs: HashSet<_> = Problem::ALL.iter().map(|p| p.slug()).collect();
    assert_eq!(slugs.len(), Problem::ALL.len());
    for problem in Problem::ALL {
        let client = problem.fault() == Fault::Client;
        let expected =
            (400..500).contains(&problem.status()) || *problem == Problem::NotImplemented;
        assert_eq!(client, expected, "{problem:?}");
        assert!(problem.slug().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
    }
}

#[test]
fn the_reference_lists_every_problem_as_it_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/problems.md");
    let text = std::fs::read_to_string(path).expect("the reference exists");
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<_> = Problem::ALL
        .iter()
        .map(|p| {
            let (fault, retry) = (<&str>::from(p.fault()), <&str>::from(p.retry()));
            format!("| `{}` | {} | {} | {fault} | {retry} |", p.slug(), p.status(), p.title())
        })
        .collect();
    assert_eq!(rows, expected);
}

proptest! {
    #[test]
    fn any_detail_survives_both_formats(detail in any::<String>()) {
        let json: Value = serde_json::from_str(&rendered(ProblemFormat::Json, Some(&detail))).expect("JSON");
        prop_assert_eq!(json["detail"].as_str(), Some(&detail[..]));
        elements(&rendered(ProblemFormat::Xml, Some(&detail)));
    }
}
