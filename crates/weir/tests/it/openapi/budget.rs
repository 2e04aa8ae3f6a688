//! The budget of validation: bodies that would multiply its work or memory are rejected, counted and
//! logged, in requests and responses.

use crate::harness::{self, Response, Server, Upstream, Weir, eventually, transactions, weir};
use std::fmt::Write as _;

/// Memory that validation may take beyond what weir has anyway, and beyond copies of the body, in KiB.
const MEMORY: u64 = 64 << 10;

const DOCUMENT: &str = "
openapi: 3.1.0
info: {title: Budget, version: '1'}
components:
  schemas:
    Tree:
      type: [object, array]
      anyOf:
        - {type: object, properties: {a: {$ref: '#/components/schemas/Tree'}, b: {type: integer}}, required: [b]}
        - {type: object, properties: {a: {$ref: '#/components/schemas/Tree'}, c: {type: integer}}, required: [c]}
        - {type: array, items: {$ref: '#/components/schemas/Tree'}, minItems: 1}
    List:
      type: array
      items:
        oneOf:
          - {type: object, required: [a]}
          - {type: object, required: [b]}
          - {type: object, required: [c, d, e]}
          - {type: object, required: [f, g, h]}
paths:
  /tree:
    post:
      operationId: tree
      requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Tree'}}}}
      responses:
        '200': {description: d, content: {application/json: {schema: {$ref: '#/components/schemas/Tree'}}}}
  /list:
    post:
      operationId: list
      requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/List'}}}}
      responses: {'200': {description: d}}
  /text:
    post:
      operationId: text
      requestBody:
        content:
          application/json:
            schema:
              type: object
              properties:
                slow: {type: string, pattern: '[ab]*a[ab]{300}c'}
                back: {type: string, pattern: '(?:(.*)a)*\\1c'}
                name: {type: string, pattern: '^[a-z0-9-]{1,64}$'}
                mail: {type: string, pattern: '^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$'}
                text: {type: string, pattern: '^[^<>]*$'}
                rule: {type: string, pattern: '^(?=.*[0-9])(?!.*--).{8,}$'}
              patternProperties: {'[ab]*a[ab]{30}c': {type: string}}
      responses: {'200': {description: d}}
  /form:
    post:
      operationId: form
      requestBody:
        content:
          application/x-www-form-urlencoded: {schema: {type: object, properties: {n: {type: integer}}}}
      responses: {'200': {description: d}}
";

fn config(upstream: &str, validate: &str, limits: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n{limits}\n\
         upstreams: {{up: {{targets: [\"{upstream}\"]}}}}\n\
         apis:\n  a:\n    base: /\n    openapi: d.yaml\n    validate: {validate}\n    \
         routes: [{{op: tree, proxy: up}}, {{op: list, proxy: up}}, {{op: text, proxy: up}}, \
         {{op: form, proxy: up}}]\n"
    )
}

/// In front of an echo.
fn server(validate: &str, more: &str) -> (Server, Server) {
    let echo = harness::echo(&[]);
    let config = config(&format!("http://{}", echo.listen[0]), validate, more);
    let server = Weir::new(&config).file("d.yaml", DOCUMENT).start();
    (echo, server)
}

fn post(server: &Server, path: &str, body: &str) -> Response {
    server.connect().request("POST", path, &[("content-type", "application/json")], body)
}

/// A tree of so many bytes at least that matches no branch at any level.
fn tree(bytes: usize) -> String {
    let deep = format!("{}{}{}", "[{\"a\":".repeat(20), "[[]]", "}]".repeat(20));
    let mut tree = String::from("{\"a\":[");
    while tree.len() < bytes {
        let _ = write!(tree, "{deep},");
    }
    tree + "{}]}"
}

fn list(bytes: usize) -> String {
    format!("[{}{{}}]", "{},".repeat(bytes / 3))
}

#[test]
fn bodies_that_multiply_work_are_rejected_within_the_budget() {
    for (path, body) in [
        ("/tree", tree(10 << 10)),
        ("/tree", tree(1 << 20)),
        ("/list", list(1 << 20)),
        ("/list", list(3 << 20)),
    ] {
        let (_echo, server) = server("{requests: enforce}", "");
        assert_eq!(post(&server, "/tree", "[{\"b\": 1, \"a\": [{\"c\": 2}]}]").status, 200);
        let before = server.peak_memory();
        let rejected = post(&server, path, &body);
        assert_eq!(rejected.status, 400, "{path} of {}", body.len());
        let problem = rejected.json();
        assert_eq!(problem["type"], "urn:weir:problem:invalid-request");
        let errors = problem["errors"].as_array().expect("errors");
        assert!((1..=16).contains(&errors.len()), "{problem}");
        // The body itself is held once in the buffer it is read into and once whole.
        let (peak, most) = (server.peak_memory(), before + MEMORY + (16 << 10));
        assert!(peak < most, "{path} of {}: {peak} KiB, {before} KiB before", body.len());
        assert_eq!(server.metric("weir_invalid_requests_total", &[]), 1.0);
        let counted = server.metric("weir_validation_over_budget_requests_total", &[]);
        assert!(counted == 1.0 || (path == "/list" && body.len() < 2 << 20), "{path}: {counted}");
    }
    // What is wrong with each item is still told where there are few values.
    let (_echo, server) = server("{requests: enforce}", "");
    let few = post(&server, "/list", &list(30)).json();
    assert_eq!(few["errors"].as_array().map(Vec::len), Some(11), "{few}");
}

#[test]
fn what_is_over_budget_passes_where_it_is_only_noted_and_is_logged() {
    let (_echo, mut server) = server("{requests: log}", "tracker: {enabled: true}");
    let body = list(3 << 20);
    // It passes: the echo itself takes no more than 1 MiB.
    assert_eq!(post(&server, "/list", &body).status, 413);
    assert_eq!(server.metric("weir_validation_over_budget_requests_total", &[]), 1.0);
    let line = "validations over budget: 1; last: request of `a list`: body: ";
    eventually("the operator is told", || server.stderr().contains(line));
    server.kill();
    let logs: Vec<String> =
        transactions(&server.dir().join("data")).into_iter().flat_map(|t| t.logs).collect();
    assert_eq!(logs.len(), 1, "{logs:?}");
    assert!(logs[0].starts_with("invalid request: body: "), "{logs:?}");
    assert!(logs[0].contains("budget of the validation"), "{logs:?}");
}

#[test]
fn responses_have_the_same_budget() {
    let bodies = ["[{\"b\": 1}]".to_owned(), tree(1 << 20), list(3 << 20)];
    for (body, status) in bodies.iter().zip([200, 502, 502]) {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
        let upstream = Upstream::responding(format!("{head}: {}\r\n\r\n{body}", body.len()));
        let validate = "{requests: \"off\", responses: enforce}";
        let config = config(&format!("http://{}", upstream.addr), validate, "");
        let server = Weir::new(&config).file("d.yaml", DOCUMENT).start();
        let before = server.peak_memory();
        assert_eq!(post(&server, "/tree", "{}").status, status);
        let peak = server.peak_memory();
        assert!(
            peak < before + MEMORY + (16 << 10),
            "{}: {peak} KiB, {before} KiB before",
            body.len()
        );
        if body.len() > 2 << 20 {
            let counted = server.metric("weir_validation_over_budget_responses_total", &[]);
            assert_eq!(counted, 1.0);
            let line = "last: response of `a tree`: body: ";
            eventually("the operator is told", || server.stderr().contains(line));
        }
    }
}

/// A text of two letters without an order that an automaton could keep.
fn mixed(length: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state & 1 == 0 { 'a' } else { 'b' }
    };
    (0..length).map(letter).collect()
}

#[test]
fn slow_matches_of_patterns_are_over_budget_and_ordinary_ones_are_not() {
    let (_echo, server) = server("{requests: enforce}", "");
    let over_budget = || server.metric("weir_validation_over_budget_requests_total", &[]);
    let long = 900 << 10;
    let mixed = mixed(long);
    for (count, body) in [
        format!("{{\"slow\": \"{mixed}\"}}"),
        format!("{{\"back\": \"{mixed}\"}}"),
        format!("{{\"{mixed}\": 1}}"),
    ]
    .iter()
    .enumerate()
    {
        let rejected = post(&server, "/text", body);
        assert_eq!(rejected.status, 400);
        assert!(rejected.text().contains("budget of the validation"), "{}", rejected.text());
        assert_eq!(over_budget(), count as f64 + 1.0);
    }
    // What is wrong with long texts is found within the budget.
    let told = |body: String| post(&server, "/text", &body).json()["errors"].clone();
    let name = told(format!("{{\"name\": \"{mixed}\"}}"));
    assert_eq!(name[0]["pointer"], "#/name", "{name}");
    assert_eq!(name[0]["detail"], "the value does not match \"^[a-z0-9-]{1,64}$\"");
    let mail = told(format!("{{\"mail\": \"{mixed}\"}}"));
    assert_eq!(mail[0]["pointer"], "#/mail", "{mail}");
    let long = &mixed[..long - 2000];
    for body in [
        format!("{{\"text\": \"{long}\"}}"),
        format!("{{\"mail\": \"{}@{}.example\"}}", &long[..long.len() / 2], &long[..100]),
        format!("{{\"rule\": \"{long}7\", \"back\": \"aac\", \"slow\": \"{}c\"}}", &long[..400]),
    ] {
        let accepted = post(&server, "/text", &body);
        assert_eq!(accepted.status, 200, "{}", accepted.text());
    }
    assert_eq!(over_budget(), 3.0);
}

#[test]
fn fields_of_a_form_beyond_those_that_are_compared_do_not_pass() {
    let (_echo, server) = server("{requests: enforce}", "");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let post = |body: &str| server.connect().request("POST", "/form", &form, body).status;
    assert_eq!(post("n=1&x=2"), 200);
    assert_eq!(post("n=x"), 400);
    assert_eq!(post(&format!("{}n=x", "x=1&".repeat(10_000))), 400);
}

#[test]
fn a_limit_of_bodies_beyond_the_budget_is_a_warning() {
    let check = |limits: &str, validate: &str| {
        let dir = tempfile::tempdir().expect("a folder");
        let config = config("http://127.0.0.1:9", validate, limits);
        std::fs::write(dir.path().join("weir.yaml"), config).expect("a file");
        std::fs::write(dir.path().join("d.yaml"), DOCUMENT).expect("a file");
        let output = weir(dir.path(), &["check", "weir.yaml"]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let told = check("limits: {body: 17MiB}", "{requests: enforce}");
    assert!(told.contains("over-budget") && told.contains("validate: {requests: off"), "{told}");
    assert!(!check("limits: {body: 16MiB}", "{requests: enforce}").contains("over-budget"));
    assert!(!check("limits: {body: 17MiB}", "{requests: \"off\"}").contains("over-budget"));
}
