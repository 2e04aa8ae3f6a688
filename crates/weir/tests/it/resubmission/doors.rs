//! Every door, tried by an operator who wants to act as somebody else, reach another API, or see
//! what he may not; and that all he does is written down.

use super::{Backend, ROUTE, TRACKER, as_it_was, call, place, resubmit};
use crate::admin_api::{ask, command, get, tokens};
use crate::harness::Weir;
use serde_json::{Value, json};

#[test]
fn an_operator_is_nobody_else_and_reaches_nothing_else() {
    let backend = Backend::start();
    let more = "    resubmit: {targets: [all, admin]}\n";
    let routes = "      - {op: all, path: \"/*\", proxy: back}\n      \
        - {op: admin, path: /admin, auth: other, proxy: back}\n";
    let config = backend.config(more, routes, TRACKER).replace(
        "auth: {keys:",
        "auth: {other: {api_key: {header: x-other-key}}, inq: {api_key: {query: key}}, keys:",
    ) + "  secret: {base: /secret, auth: other, routes: [{op: secret, path: \"/*\", proxy: back}]}\n";
    let weir = Weir::new(&config).start();
    let sent = place(&weir, "{}");
    backend.response(200);
    let before = backend.got().len();
    // No header that says who it is or where it goes.
    for name in [
        "authorization",
        "Cookie",
        "x-api-key",
        "X-Other-Key",
        "proxy-authorization",
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "weir-transaction-id",
        "weir-resubmission-of",
        "te",
        "a b",
        "a:b",
        "",
    ] {
        let set = json!({"headers": {"set": [{"name": name, "value": "x"}]}});
        assert_eq!(resubmit(&weir, &sent, &set).status, 400, "{name}");
        let remove = json!({"headers": {"remove": [name]}});
        assert_eq!(resubmit(&weir, &sent, &remove).status, 400, "{name}");
    }
    let set = json!({"headers": {"set": [{"name": "x-a", "value": "a\r\nx-api-key: b"}]}});
    assert_eq!(resubmit(&weir, &sent, &set).status, 400);
    // No query that does, and none that is more than a query.
    for query in ["key=x", "a=1&k%65y=x", "a b", "a HTTP/1.1\r\nx: y", "a#b", "é"] {
        let response = resubmit(&weir, &sent, &json!({"query": query}));
        assert_eq!(response.status, 400, "{query}");
        assert!(!response.text().contains(query), "{}", response.text());
    }
    // No member that there is not.
    for member in
        ["consumer", "principal", "api", "host", "path", "method", "scopes", "id", "target"]
    {
        assert_eq!(resubmit(&weir, &sent, &json!({member: "x"})).status, 400, "{member}");
    }
    // No route of another API, nor one that the consumer could not call.
    for (to, reason) in [("secret", "target-not-listed"), ("admin", "not-admitted")] {
        super::refused(&weir, &sent, &json!({"to": to}), reason);
        let job = json!({"query": format!("id:{sent}"), "to": to, "run": true});
        let number = super::job(&weir, &job);
        let over = super::wait_for(&weir, number, "finished");
        assert_eq!(super::count(&over, "cannot", reason), 1, "{over}");
    }
    assert_eq!(backend.got().len(), before);
    // What upstreams hear of who it is comes from weir alone.
    super::succeeds(&weir, &sent, &json!({"query": "x=1"}));
    let got = backend.last();
    assert_eq!((got.header("x-api-key"), got.header("x-forwarded-for")), (None, Some("127.0.0.1")));
}

#[test]
fn the_command_opens_no_other_door() {
    let backend = Backend::start();
    let more = "    resubmit: {targets: [all, admin]}\n";
    let routes = "      - {op: all, path: \"/*\", proxy: back}\n      \
        - {op: admin, path: /admin, auth: other, proxy: back}\n";
    let config = backend.config(more, routes, TRACKER).replace(
        "auth: {keys:",
        "auth: {other: {api_key: {header: x-other-key}}, inq: {api_key: {query: key}}, keys:",
    ) + "  secret: {base: /secret, auth: other, routes: [{op: secret, path: \"/*\", proxy: back}]}\n";
    let weir = Weir::new(&config).start();
    let tokens = tokens(&weir);
    let sent = place(&weir, "{\"a\": \"quokka\"}");
    super::indexed(&weir);
    backend.response(200);
    let before = backend.got().len();
    for (args, words) in [
        (["--header", "x-api-key: of beta"], "carries credentials"),
        (["--header", "X-Other-Key: k"], "carries credentials"),
        (["--header", "host: secret.example.com"], "weir itself decides"),
        (["--header", "x-forwarded-for: 10.0.0.1"], "weir itself decides"),
        (["--without-header", "cookie"], "carries credentials"),
        (["--set-query", "key=x"], "carries credentials"),
        (["--to", "secret"], super::words("target-not-listed")),
        (["--to", "admin"], super::words("not-admitted")),
    ] {
        for (role, token) in tokens.iter().enumerate() {
            let all = [&["resubmit", sent.as_str()][..], &args].concat();
            let (ok, out, said) = command(&weir, token, &all);
            assert!(!ok, "{args:?}: {out}");
            let expected = if role < 2 { "operator" } else { words };
            assert!(said.contains(expected), "{role} {args:?}: {said}");
        }
    }
    for (to, reason) in [("secret", "target-not-listed"), ("admin", "not-admitted")] {
        let args = ["resubmit", "--query", "state:failed", "--to", to, "--run", "--wait", "--json"];
        let (_, out, said) = command(&weir, &tokens[2], &args);
        assert!(out.contains(reason) && !out.contains("quokka"), "{out}{said}");
        assert!(!command(&weir, &tokens[1], &args).0, "only operators");
    }
    for edit in ["--header=x-a: b", "--set-query=a=1", "--without-header=x-a", "--body=/dev/null"] {
        let args = ["resubmit", "--query", "state:failed", "--run", edit];
        assert!(!command(&weir, &tokens[2], &args).0, "a job edits nothing: {edit}");
    }
    for member in ["consumer", "principal", "api", "host", "headers", "body", "who", "scopes"] {
        let job = json!({"query": "state:failed", "run": true, member: "x"});
        let response = ask(&weir, "POST", "/v1/jobs", Some(&tokens[2]), &job.to_string());
        assert_eq!(response.status, 400, "{member}");
    }
    assert_eq!(backend.got().len(), before, "nothing was sent");
    // Who may not see payloads sees none of what is sent again, either.
    let (ok, out, said) = command(&weir, &tokens[2], &["resubmit", &sent, "--json"]);
    assert!(ok && !out.contains("quokka"), "{out}{said}");
    let itself: Value = serde_json::from_str(&out).unwrap();
    for id in [sent.as_str(), itself["id"].as_str().unwrap()] {
        for (role, token) in tokens.iter().enumerate() {
            let (_, shown, said) = command(&weir, token, &["show", id, "--json"]);
            assert_eq!(shown.contains("quokka"), role > 0, "{role}: {shown}{said}");
            let (ok, raw, _) = command(&weir, token, &["show", id, "--raw", "request"]);
            assert_eq!((ok, raw.contains("quokka")), (role > 0, role > 0), "{role}: {raw}");
        }
    }
}

#[test]
fn clients_cannot_pretend_to_be_sent_again() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    call(&weir, "GET", "/orders/a", &[("weir-resubmission-of", "x")], "");
    assert_eq!(backend.last().header("weir-resubmission-of"), None);
}

#[test]
fn each_role_does_what_it_may_and_all_is_written_down() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let tokens = tokens(&weir);
    let sent = place(&weir, "{\"a\": \"quokka\"}");
    backend.response(200);
    let transaction = format!("/v1/transactions/{sent}");
    for token in &tokens[..2] {
        for (method, path) in [
            ("POST", format!("{transaction}/resubmit")),
            ("POST", format!("{transaction}/resolution")),
            ("POST", "/v1/jobs".to_owned()),
            ("GET", "/v1/jobs".to_owned()),
            ("GET", "/v1/jobs/1".to_owned()),
            ("POST", "/v1/jobs/1/run".to_owned()),
            ("GET", "/v1/audit".to_owned()),
        ] {
            assert_eq!(ask(&weir, method, &path, Some(token), "").status, 403, "{method} {path}");
        }
    }
    assert_eq!(get(&weir, "/v1/audit", &tokens[2]).status, 403);
    assert_eq!(backend.got().len(), 1);
    let (ok, out, said) = command(&weir, &tokens[2], &["resubmit", &sent, "--json"]);
    assert!(ok, "{said}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["who"], "operator");
    let (ok, ..) = command(&weir, &tokens[0], &["resubmit", &sent]);
    assert!(!ok);
    let args = ["resubmit", "--query", "body:quokka", "--preview", "--json"];
    let (ok, out, said) = command(&weir, &tokens[2], &args);
    assert!(ok && out.contains("\"settled\""), "{out}{said}");
    let (ok, _, said) = command(&weir, &tokens[2], &["resubmit", "--job", "1", "--cancel"]);
    assert!(ok, "{said}");
    resubmit(&weir, &sent, &as_it_was());
    let (ok, out, said) = command(&weir, &tokens[3], &["audit", "--json"]);
    assert!(ok, "{said}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let did = |action: &str| lines.iter().find(|line| line["action"] == action).unwrap().clone();
    for action in ["resubmit", "make-job", "cancel-job"] {
        let line = lines.iter().rfind(|line| line["action"] == action).unwrap();
        assert_eq!((&line["name"], &line["role"]), (&json!("operator"), &json!("operator")));
    }
    assert_eq!(did("resubmit")["subject"], sent.as_str());
    assert_eq!(did("make-job")["subject"], "body:quokka");
    assert_eq!(did("make-token")["about"], "token");
    // A folder nobody uses is read, too.
    let data = weir.data();
    drop(get(&weir, "/v1/audit?limit=1", &tokens[3]));
    let out = crate::harness::weir(
        weir.dir(),
        &["audit", "--data", data.to_str().unwrap(), "--limit", "2", "--json"],
    );
    assert_eq!(String::from_utf8_lossy(&out.stdout).lines().count(), 2, "{out:?}");
}
