//! Scenario files against a server: data of feeders, weighted mixes, checks and extractors.

use crate::server::Server;
use std::path::Path;
use weir_lab::engine::{self, Control, Options, Summary};
use weir_lab::sample::ErrorKind;
use weir_lab::scenario::{self, Overrides, Scenario};

/// A folder with these files.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

pub(crate) fn load(folder: &Path, text: &str) -> Result<Scenario, String> {
    let loaded = scenario::load_text(&folder.join("scenario.yaml"), text, &Overrides::default());
    loaded.map(|(scenario, _)| scenario).map_err(|findings| findings.render(false))
}

fn text(server: &Server, requests: &str, more: &str) -> String {
    let base = server.origin().url("");
    format!("lab: 1\ntarget: {{base: \"{base}\"}}\nrequests: {requests}\n{more}\n")
}

/// Runs a scenario of one cell.
pub(crate) fn run(folder: &Path, text: &str) -> Summary {
    let scenario = load(folder, text).unwrap();
    let program = scenario.cells[0].program.clone();
    engine::run(program, &Options::default(), &Control::default(), &mut |_| {}).unwrap()
}

const ONE: &str = "load: {executor: shared-iterations, vus: 1, iterations: 1}";

/// The messages of failed checks of one request.
fn failures(checks: &str) -> Vec<String> {
    let server = Server::start();
    let schema = r#"{"required": ["id"], "properties": {"id": {"type": "string"}}}"#;
    let folder = folder(&[("schema.json", schema)]);
    let requests = format!("[{{get: /json, checks: [{checks}]}}]");
    let summary = run(folder.path(), &text(&server, &requests, ONE));
    let tally = &summary.total.labels[0];
    let failed = tally.errors[ErrorKind::Check.index()] + tally.errors[ErrorKind::Http2xx.index()];
    assert_eq!(tally.ok + failed, 1, "{tally:?}");
    let errors = summary.total.failures.groups().iter();
    errors.map(|error| error.message.clone()).collect()
}

#[test]
fn a_failed_check_names_what_was_expected_and_what_came() {
    for (check, message) in [
        ("{status: [201, 3xx]}", "the status is 200 instead of 201, 300-399"),
        ("{json: {$.id: 7}}", "$.id is 17 instead of 7"),
        ("{json: {$.list: [a]}}", "$.list is [\"a\",\"b\"] instead of [\"a\"]"),
        ("{json: {$.id: 17}, not: true}", "$.id is 17"),
        (
            "{header: {content-type: text/html}}",
            "the header content-type is \"text/plain\" instead of",
        ),
        ("{header: {etag: x}}", "the header etag is missing instead of \"x\""),
        ("{bytes: {min: 30, max: 40}}", "26 bytes instead of ≥ 30"),
        ("{cel: \"body.id == 7 && status == 200\"}", "is false instead of true, status is 200"),
        ("{cel: \"body.missing.x == 1\"}", "cannot be evaluated: "),
        (
            "{schema: schema.json}",
            "/id does not conform to the schema: 17 is not of type \"string\"",
        ),
        ("{schema: {type: array}}", "the body does not conform to the schema:"),
    ] {
        let found = failures(check);
        assert!(found.iter().any(|found| found.contains(message)), "{check}: {found:?}");
    }
}

#[test]
fn checks_that_hold() {
    let checks = "{json: {$.id: 17, \"$.list[0]\": a}}, {json: {$.list: [a, b]}}, \
                  {header: {content-type: text/plain}}, {bytes: {min: 26, max: 26}}, \
                  {cel: \"body.id == 17 && 'b' in body.list && headers['content-type'] == 'text/plain'\"}, \
                  {cel: \"text.contains('list') && size == 26 && duration_ms < 60000\"}, \
                  {schema: {required: [id]}}, {schema: schema.json, not: true}";
    assert_eq!(failures(checks), Vec::<String>::new());
}

#[test]
fn json_lines_have_nested_values() {
    let server = Server::start();
    let lines = "{\"id\": 1, \"at\": {\"city\": \"Ulm\"}, \"tags\": [\"x\"]}\n\n{\"id\": 2, \"at\": null}\n";
    let folder = folder(&[("users.jsonl", lines)]);
    let requests = "[{get: \"/?${u.id}-${u.at.city}-${u.tags.0}-${p.town}\"}]";
    let feeders = "feeders:\n  u: {jsonl: users.jsonl, at_end: stop}\n  \
                   p: {jsonl: {file: users.jsonl, columns: {town: $.at.city}}}\n\
                   load: {executor: constant-vus, vus: 1, iterations: 5}";
    run(folder.path(), &text(&server, requests, feeders));
    assert_eq!(server.targets(), ["/?1-Ulm-x-Ulm", "/?2---"], "the user ends with the rows");
}

#[test]
fn values_are_escaped_in_json_and_where_the_url_needs_it() {
    let server = Server::start();
    let name = r#"O\"Brien\\ C#&100%/\n"#;
    let folder = folder(&[("users.jsonl", &format!("{{\"name\": \"{name}\"}}"))]);
    let requests = "[{post: /echo, json: {\"${u.name}\": [\"${u.name}\", \"${given}\"]}, \
                    checks: [{json: {\"$.*[0]\": \"${u.name}\"}}, {json: {\"$.*[1]\": \"${given}\"}}, \
                    {json: {\"$.*\": [\"${u.name}\", \"${given}\"]}}]}, \
                    {get: \"/?${urlencode(u.name)}&b=${urlencode( given )}\"}]";
    let more =
        format!("{ONE}\nvariables: {{given: '\"ä b'}}\nfeeders: {{u: {{jsonl: users.jsonl}}}}");
    let summary = run(folder.path(), &text(&server, requests, &more));
    let errors = summary.total.failures.groups().iter().map(|error| error.message.clone());
    assert_eq!(errors.collect::<Vec<_>>(), Vec::<String>::new());
    let encoded = "/?O%22Brien%5C%20C%23%26100%25%2F%0A&b=%22%C3%A4%20b";
    assert_eq!(server.targets()[1], encoded);
}

#[test]
fn generated_rows_are_the_same_for_the_same_seed() {
    let targets = |seed: u32| {
        let server = Server::start();
        let folder = folder(&[]);
        let requests = "[{get: \"/?${g.id}&${g.n}&${g.day}&${g.kind}&${g.key}\"}]";
        let feeders = format!(
            "feeders:\n  g:\n    order: unique\n    generate:\n      rows: 20\n      seed: {seed}\n      columns:\n        \
             id: {{kind: sequence, from: 10, step: 5, prefix: o-}}\n        \
             n: {{kind: number, from: 1, to: 3}}\n        \
             day: {{kind: date, from: 2026-02-27, to: 2026-03-01}}\n        \
             kind: {{kind: choice, of: [a, b]}}\n        key: {{kind: uuid}}\n\
             load: {{executor: constant-vus, vus: 1, iterations: 50}}"
        );
        run(folder.path(), &text(&server, requests, &feeders));
        server.targets()
    };
    let (first, again, other) = (targets(1), targets(1), targets(2));
    assert_eq!((first.len(), &first), (20, &again), "each row once");
    assert_ne!(first, other);
    assert!(first[0].starts_with("/?o-10&") && first[19].starts_with("/?o-105&"), "{first:?}");
    let part = |at: usize| first.iter().map(move |target| target.split('&').nth(at).unwrap());
    assert!(part(1).all(|n| ["1", "2", "3"].contains(&n)), "{first:?}");
    assert!(part(2).all(|day| ["2026-02-27", "2026-02-28", "2026-03-01"].contains(&day)));
    assert!(part(3).any(|kind| kind == "a") && part(3).any(|kind| kind == "b"));
}

#[test]
fn each_iteration_executes_one_of_a_weighted_mix() {
    let server = Server::start();
    let folder = folder(&[]);
    let requests = "[{get: /?first}, {get: /?browse, weight: 9, flow: browse}, \
                    {get: /?item, flow: browse}, {get: /?buy, weight: 1}, {get: /?last}]";
    let load = "load: {executor: constant-vus, vus: 1, iterations: 500}";
    run(folder.path(), &text(&server, requests, load));
    let targets = server.targets();
    let count = |of: &str| targets.iter().filter(|target| target.as_str() == of).count();
    let (browse, buy) = (count("/?browse"), count("/?buy"));
    assert_eq!((count("/?first"), count("/?last"), browse + buy), (500, 500, 500));
    assert_eq!(count("/?item"), browse, "the flow is whole");
    // Binomial with a mean of 50 and a standard deviation of 6.7; the seed is fixed.
    assert!((20..80).contains(&buy), "{buy}");
    assert_eq!(&targets[..2], ["/?first", "/?browse"]);
}

#[test]
fn cookies_are_extracted() {
    let server = Server::start();
    let folder = folder(&[]);
    let requests = "[{get: /login, extract: {s: {cookie: session}}}, {get: \"/?${s}\"}]";
    run(folder.path(), &text(&server, requests, ONE));
    assert_eq!(server.targets(), ["/login", "/?17"]);
}

#[test]
fn mistakes_have_a_remedy() {
    let server = Server::start();
    let folder = folder(&[("bad.jsonl", "{\"a\": 1}\n[2]\n"), ("empty.pem", "none\n")]);
    let request = "[{get: /}]";
    let checked = |check: &str| text(&server, &format!("[{{get: /, checks: [{check}]}}]"), ONE);
    let fed = |feeder: &str| text(&server, request, &format!("feeders: {{f: {feeder}}}\n{ONE}"));
    let base = server.origin().url("");
    let tls = |keys: &str| {
        format!("lab: 1\ntarget: {{base: \"{base}\", tls: {keys}}}\nrequests: {request}\n{ONE}\n")
    };
    for (scenario, message) in [
        (checked("{cel: \"body.\"}"), "invalid CEL expression"),
        (checked("{cel: \"boddy.id == 1\"}"), "unknown variable `boddy`; known: `status`"),
        (checked("{json: {id: 1}}"), "`id` is not a JSONPath"),
        (checked("{bytes: {min: 1}, not: true}"), "limits have `min`, `max` or both, and no `not`"),
        (checked("{schema: {type: nothing}}"), "not a JSON Schema"),
        (checked("{schema: nowhere.json}"), "cannot be read"),
        (fed("{jsonl: bad.jsonl}"), "line 2: not a JSON object"),
        (fed("{csv: x.csv, random: true}"), "write `order: random`"),
        (
            fed(
                "{generate: {rows: 5, columns: {d: {kind: date, from: 2026-13-01, to: 2026-12-01}}}}",
            ),
            "column `d`: `2026-13-01` is not a date",
        ),
        (
            fed(
                "{generate: {rows: 5, columns: {d: {kind: sequence}}}, order: unique, at_end: recycle}",
            ),
            "each row is used at most once",
        ),
        (text(&server, "[{websocket: /}]", ONE), "a WebSocket needs `messages`"),
        (
            text(&server, "[{websocket: /, messages: [{pause: 1s}]}]", ONE),
            "sent, expected, or both",
        ),
        (
            text(&server, "[{get: /, until: {events: 1}}]", ONE),
            "`until` belongs to `sse` and `grpc`",
        ),
        (text(&server, "[{get: /, flow: a}]", ONE), "the first request of a flow has no weight"),
        (text(&server, "[{get: /, think: {exponential: 1s, to: 2s}}]", ONE), "not a pause"),
        (text(&server, "[{get: /, think: {median: 2s}}]", ONE), "has `median` and `p95`"),
        (text(&server, "[{get: /, think: {median: 2s, p95: 1s}}]", ONE), "not below it"),
        (tls("{cert: client.crt}"), "`key` is missing"),
        (tls("{ca: empty.pem}"), "empty.pem` has no certificate in PEM"),
    ] {
        let found = load(folder.path(), &scenario).err().unwrap_or_default();
        assert!(found.contains(message), "{scenario}\n{message}\n{found}");
    }
}
