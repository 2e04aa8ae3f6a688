//! Accounts: scopes of tokens, sessions of others, and sign-in with a real identity provider.

mod provider;

use crate::admin_api::{ask, command, first_token, get, id};
use crate::harness::{self, Server, Weir, eventually};
use serde_json::{Value, json};

/// Two APIs that record everything.
fn start() -> (Server, Server) {
    let echo = harness::echo(&[]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\nmonitor: {{count: all}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis:\n  orders: {{base: /orders, routes: [{{op: order, path: \"/*\", proxy: echo}}]}}\n  \
         other: {{base: /other, routes: [{{op: other, path: \"/*\", proxy: echo}}]}}\n",
        echo.listen[0],
    );
    (Weir::new(&config).start(), echo)
}

fn token(server: &Server, role: &str, scope: Value) -> String {
    let body = json!({"name": format!("{role} of {scope}"), "role": role, "scope": scope});
    let made = ask(server, "POST", "/v1/tokens", Some(&first_token(server)), &body.to_string());
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["token"].as_str().unwrap().to_owned()
}

/// The reaches that a scope does not permit.
const REFUSED: [(&str, &[&str]); 4] = [
    (r#"{"apis":["orders"]}"#, &["server", "jobs", "records", "requests", "administration"]),
    (
        r#"{"depth":"counts"}"#,
        &[
            "transactions",
            "payloads",
            "resolution",
            "resubmission",
            "jobs",
            "records",
            "requests",
            "administration",
        ],
    ),
    (r#"{"depth":"metadata"}"#, &["payloads", "records", "requests", "administration"]),
    (r#"{"resubmit":false}"#, &["resubmission", "jobs", "requests", "administration"]),
];
/// Each endpoint with the least role and the reach that it needs. Stated apart from the code: whoever changes one
/// decides about both.
const ENDPOINTS: &str = include_str!("accounts/endpoints.txt");

#[test]
fn every_endpoint_decides_about_scopes() {
    let (server, _echo) = start();
    let recorded = id(&server.connect().get("/orders/a"));
    let document = get(&server, "/v1/openapi.json", &first_token(&server)).json();
    let described = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path))
    });
    let described: Vec<String> =
        described.map(|(method, path)| format!("{method} {path} ")).collect();
    assert_eq!(described.len(), ENDPOINTS.lines().count(), "an endpoint is not in the table");
    for (scope, refused) in REFUSED {
        let token = token(&server, "admin", serde_json::from_str(scope).unwrap());
        for line in ENDPOINTS.lines() {
            let &[method, path, role, reach] = &*line.split(' ').collect::<Vec<_>>() else {
                panic!("{line}")
            };
            assert!(described.contains(&format!("{method} {path} ")), "{line}");
            let stated = &document["paths"][path][method.to_lowercase()];
            assert_eq!(
                (&stated["x-weir-role"], &stated["x-weir-reach"]),
                (&json!(role), &json!(reach))
            );
            let path = path.replace("/transactions/{id}", &format!("/transactions/{recorded}"));
            let path = path.replace("{id}", "none");
            let is_refused = refused.contains(&reach);
            let is_endless = path.ends_with("/tail") || path.ends_with("/live");
            if role == "none" || (is_endless && !is_refused) || role == "node" {
                continue;
            }
            let response = ask(&server, method, &path, Some(&token), "");
            let is_out = response.status == 403
                && response.json()["type"] == "urn:weir:problem:out-of-scope";
            assert_eq!(is_out, is_refused, "{scope} {method} {path}: {}", response.status);
        }
    }
}

/// Names of the saved views that somebody sees.
fn views(server: &Server, token: &str) -> Vec<String> {
    let views = get(server, "/v1/views", token).json();
    let name = |view: &Value| view["name"].as_str().unwrap().to_owned();
    views.as_array().unwrap().iter().map(name).collect()
}

/// The first lines of a tail, while these requests are sent.
fn tail(server: &Server, token: &str, paths: &[&str]) -> String {
    use std::io::{BufRead, BufReader};
    let mut tail = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["tail", "--json", "--limit", "1", "--admin"])
        .arg(format!("http://{}", server.admin.unwrap()))
        .env("WEIR_TOKEN", token)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (send, lines) = std::sync::mpsc::channel();
    let out = BufReader::new(tail.stdout.take().unwrap());
    std::thread::spawn(move || {
        out.lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    let mut first = None;
    eventually("a line of the tail", || {
        paths.iter().for_each(|path| drop(server.connect().get(path)));
        first = lines.recv_timeout(std::time::Duration::from_millis(300)).ok();
        first.is_some()
    });
    let _ = tail.wait();
    first.unwrap_or_default()
}

#[test]
fn a_token_for_an_api_sees_nothing_of_others() {
    let (server, _echo) = start();
    let order = id(&server.connect().post("/orders/1", "{\"name\": \"quokka\"}"));
    let other = id(&server.connect().post("/other/1", "{\"name\": \"quokka\"}"));
    let mine = token(&server, "operator", json!({"apis": ["orders"]}));
    let shown =
        |id: &str, rest: &str| get(&server, &format!("/v1/transactions/{id}{rest}"), &mine).status;
    eventually("recorded", || shown(&order, "") == 200);
    for rest in ["", "/explanation", "/request-body"] {
        assert_eq!((shown(&order, rest), shown(&other, rest)), (200, 404), "{rest}");
    }
    // However the query is written, and wherever an id is named.
    for query in ["", "api:other%20OR%20api:orders", "-api:orders%20OR%20body:quokka", "quokka"] {
        let found = get(&server, &format!("/v1/transactions?q={query}"), &mine);
        let text = found.text();
        assert_eq!((found.status, text.contains(&other)), (200, false), "{query}: {text}");
        let found = get(&server, &format!("/v1/transactions/export?q={query}"), &mine).text();
        assert!(!found.contains(&other), "{query}: {found}");
    }
    assert!(get(&server, "/v1/transactions", &mine).text().contains(&order));
    let counted = get(&server, "/v1/transactions/summary", &mine).json();
    assert_eq!(counted["matched"], 1, "{counted}");
    let profile = get(&server, "/v1/transactions/profile", &mine).text();
    assert!(profile.contains(&order) && !profile.contains(&other), "{profile}");
    for query in ["q=api:other&among=", "q=api:orders&among=", "q=&among=api:other"] {
        let difference = get(&server, &format!("/v1/transactions/difference?{query}"), &mine);
        assert_eq!(difference.status, 200, "{query}");
        let text = difference.text();
        assert!(!text.contains("other/other") && !text.contains("/other/"), "{query}: {text}");
        assert!(!text.contains(&other), "{query}: {text}");
    }
    let apis = get(&server, "/v1/apis", &mine).json();
    let names: Vec<_> = apis.as_array().unwrap().iter().map(|api| api["api"].clone()).collect();
    assert_eq!(names, ["orders"]);
    let traffic = get(&server, "/v1/traffic", &mine).text();
    assert!(traffic.contains("\"orders\"") && !traffic.contains("\"other\""), "{traffic}");
    let line = tail(&server, &mine, &["/other/2", "/orders/2"]);
    assert!(line.contains("/orders/2") && !line.contains("/other/2"), "{line}");
    let usage = || get(&server, "/v1/usage?by=api", &mine).text();
    eventually("counted", || usage().contains("orders"));
    assert!(!usage().contains("other"), "{}", usage());
    let resubmit = |id: &str, body: &str| {
        ask(&server, "POST", &format!("/v1/transactions/{id}/resubmit"), Some(&mine), body).status
    };
    assert_eq!((resubmit(&other, ""), resubmit(&order, r#"{"to":"other/other"}"#)), (404, 403));
    let resolve = format!("/v1/transactions/{other}/resolution");
    assert_eq!(ask(&server, "POST", &resolve, Some(&mine), r#"{"state":"open"}"#).status, 404);
    let first = first_token(&server);
    for (name, search) in [("mine", "q=api:orders"), ("other", "q=api:other"), ("all", "q=")] {
        let body = json!({"search": search}).to_string();
        let path = format!("/v1/views/{name}");
        assert_eq!(ask(&server, "PUT", &path, Some(&first), &body).status, 204);
    }
    assert_eq!(views(&server, &mine), ["all", "mine"]);
    assert_eq!(views(&server, &first), ["all", "mine", "other"]);
    // Nobody widens the scope of a token by it.
    let admin = token(&server, "admin", json!({"apis": ["orders"]}));
    let new = r#"{"name":"x","role":"admin"}"#;
    assert_eq!(ask(&server, "POST", "/v1/tokens", Some(&admin), new).status, 403);
    // A denial is audited with its reason.
    let audit = get(&server, "/v1/audit?action=denied", &first_token(&server)).text();
    assert!(audit.contains("orders; this covers all APIs"), "{audit}");
}

#[test]
fn metadata_shows_transactions_without_payloads_and_says_so() {
    let (server, _echo) = start();
    let order = id(&server.connect().post("/orders/1?pin=4711", "{\"name\": \"quokka\"}"));
    let metadata = token(&server, "operator", json!({"depth": "metadata"}));
    let show = || get(&server, &format!("/v1/transactions/{order}"), &metadata);
    eventually("recorded", || show().status == 200);
    assert!(!show().text().contains("quokka") && !show().text().contains("4711"));
    for query in ["q=body:quokka", "q=header.host:a", "q=key.order:1"] {
        let found = get(&server, &format!("/v1/transactions?{query}"), &metadata);
        assert_eq!(found.status, 403, "{query}");
        assert!(found.text().contains("payloads"), "{}", found.text());
    }
    for path in [
        "/v1/transactions/tail?q=body:quokka",
        "/v1/transactions/export?q=body:quokka",
        "/v1/transactions/summary?q=body:quokka",
        "/v1/transactions/profile?q=body:quokka",
        "/v1/transactions/difference?q=body:quokka&among=",
        "/v1/transactions/difference?q=&among=body:quokka",
    ] {
        assert_eq!(get(&server, path, &metadata).status, 403, "{path}");
    }
    let first = first_token(&server);
    let job = |token: &str, query: &str| {
        ask(&server, "POST", "/v1/jobs", Some(token), &json!({"query": query}).to_string())
    };
    // Also a text that is an id: a job would search it as a word, too.
    for query in ["body:quokka", "header.host:a", "key.order:1", "-quokka", &order] {
        let made = job(&metadata, query);
        assert_eq!((made.status, made.text().contains("depth metadata")), (403, true), "{query}");
    }
    assert_eq!(job(&metadata, "status:500").status, 201);
    let hidden = job(&first, "body:quokka").json()["number"].clone();
    for path in ["/v1/jobs".to_owned(), format!("/v1/jobs/{hidden}")] {
        let shown = get(&server, &path, &metadata);
        assert_eq!((shown.status, shown.text().contains("quokka")), (200, false), "{path}");
        assert!(get(&server, &path, &first).text().contains("quokka"), "{path}");
    }
    let act = ask(&server, "POST", &format!("/v1/jobs/{hidden}/pause"), Some(&metadata), "");
    assert!(!act.text().contains("quokka"), "{}", act.text());
    for (name, search) in [("failures", "q=status:500"), ("quokkas", "q=body:quokka")] {
        let body = json!({"search": search}).to_string();
        let path = format!("/v1/views/{name}");
        assert_eq!(ask(&server, "PUT", &path, Some(&first), &body).status, 204);
    }
    assert_eq!(views(&server, &metadata), ["failures"]);
    let keys = get(&server, "/v1/transactions/summary?keys=true", &metadata);
    assert_eq!((keys.status, keys.text().contains("metadata")), (403, true), "{}", keys.text());
    let export = get(&server, "/v1/transactions/export", &metadata).text();
    assert!(export.contains(&order) && !export.contains("quokka"), "{export}");
}

#[test]
fn a_token_expires_and_shows_its_last_use() {
    let (server, _echo) = start();
    let first = first_token(&server);
    let args = ["token", "new", "ci", "--expires", "2s", "--api", "orders", "--depth", "counts"];
    let (made, token, said) = command(&server, &first, &args);
    assert!(made && said.contains("(orders; counts)"), "{said}");
    let token = token.trim();
    assert_eq!(get(&server, "/v1/session", token).json()["scope"]["depth"], "counts");
    let (_, listed, _) = command(&server, &first, &["token", "list"]);
    let line = listed.lines().find(|line| line.contains(" ci ")).unwrap();
    assert!(line.contains("orders; counts") && line.matches('Z').count() == 2, "{listed}");
    eventually("expired", || get(&server, "/v1/session", token).status == 401);
    let expired = get(&server, "/v1/session", token).text();
    assert!(expired.contains("expired on"), "{expired}");
    let none = json!({"name": "x", "role": "viewer", "scope": {"apis": []}}).to_string();
    let none = ask(&server, "POST", "/v1/tokens", Some(&first), &none);
    assert_eq!((none.status, none.text().contains("at least one API")), (400, true));
    let (wrong, _, why) = command(&server, &first, &["token", "new", "x", "--api", "oders"]);
    assert!(!wrong && why.contains("There is no API `oders`"), "{why}");
}

#[test]
fn sessions_of_others_are_listed_and_ended() {
    let (server, _echo) = start();
    let first = first_token(&server);
    let (cookie, csrf) = crate::console::sign_in(&server, &first);
    let both = format!("{cookie}{csrf}user-agent: Browser/7\r\n");
    let list = || get(&server, "/v1/sessions", &first).json();
    let session = list()[0].clone();
    assert_eq!((&session["name"], &session["role"]), (&json!("first"), &json!("admin")));
    assert_eq!((&session["address"], &session["own"]), (&json!("127.0.0.1"), &json!(false)));
    assert!(!both.contains(session["id"].as_str().unwrap()));
    // A session does not start another one, and so ends after twelve hours.
    assert_eq!(crate::console::browse(&server, "POST", "/v1/session", &both).status, 409);
    let own = crate::console::browse(&server, "GET", "/v1/sessions", &both).json();
    assert_eq!(own[0]["own"], true);
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    assert_eq!(ask(&server, "DELETE", &path, Some(&first), "").status, 204);
    assert_eq!(ask(&server, "DELETE", &path, Some(&first), "").status, 404);
    assert_eq!(crate::console::browse(&server, "GET", "/v1/session", &both).status, 401);
    assert_eq!(list(), json!([]));
    let audit = get(&server, "/v1/audit?action=end-session", &first).text();
    assert!(audit.contains("session of first"), "{audit}");
}

#[test]
fn the_audit_log_says_who_viewed_a_payload_and_is_exported() {
    let (server, _echo) = start();
    let first = first_token(&server);
    let order = id(&server.connect().post("/orders/1", "{\"name\": \"quokka\"}"));
    let viewer = token(&server, "payload-viewer", json!({}));
    let show = format!("/v1/transactions/{order}");
    eventually("recorded", || get(&server, &show, &viewer).status == 200);
    assert_eq!(get(&server, &format!("{show}/request-body"), &viewer).status, 200);
    let audit = |query: &str| get(&server, &format!("/v1/audit?{query}"), &first).json();
    let viewed = audit(&format!("action=show&subject={order}"));
    assert!(viewed.as_array().unwrap().len() >= 2, "{viewed}");
    assert!(viewed[0]["name"].as_str().unwrap().starts_with("payload-viewer"), "{viewed}");
    let none = json!([]);
    assert_eq!(audit("from=2030-01-01"), none);
    assert_eq!(audit("to=2020-01-01"), none);
    assert_eq!(audit("from=1h&text=PAYLOAD-VIEWER%20OF").as_array().unwrap()[0], viewed[0]);
    assert_eq!(audit("text=nobody%25"), none);
    let export = |format: &str| {
        let path = format!("/v1/audit/export/{format}?action=show&from=1h");
        get(&server, &path, &first)
    };
    assert_eq!(export("json").json(), viewed);
    let csv = export("csv");
    assert!(csv.header("content-disposition").unwrap().contains("audit.csv"));
    assert_eq!(csv.text().lines().count(), viewed.as_array().unwrap().len() + 1, "{}", csv.text());
    assert!(csv.text().contains(&order));
    assert_eq!(export("xml").status, 404);
    assert_eq!(get(&server, "/v1/audit?from=soon", &first).status, 400);
    assert!(audit("action=export-audit")[0]["details"].as_str().unwrap().ends_with("entries"));
}
