//! The console: signing in, what it is served, and all of it in a browser.

use crate::admin_api::{ask, first_token, get, tokens};
use crate::harness::{Response, Server, Weir, echo};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn start() -> (Server, Server) {
    let echo = echo(&[]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [{{op: any, path: \"/*\", proxy: echo}}]}}}}\n",
        echo.listen[0],
    );
    (Weir::new(&config).start(), echo)
}

/// Asks with header lines as a browser sends them.
pub(crate) fn browse(server: &Server, method: &str, path: &str, lines: &str) -> Response {
    let mut client = server.connect_admin();
    client.send(format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n"));
    client.response()
}

/// Header lines of a new session: the cookie, and the CSRF token.
pub(crate) fn sign_in(server: &Server, token: &str) -> (String, String) {
    let response = ask(server, "POST", "/v1/session", Some(token), "");
    assert_eq!(response.status, 200, "{}", response.text());
    let cookie = response.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(token), "the token is not in it");
    let csrf = response.json()["csrf_token"].as_str().unwrap().to_owned();
    assert!(!cookie.contains(&csrf), "nor is the second secret");
    let cookie = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
    (cookie, format!("weir-csrf-token: {csrf}\r\n"))
}

#[test]
fn a_session_stands_for_its_token() {
    let (server, _echo) = start();
    let tokens = tokens(&server);
    for (token, role) in tokens.iter().zip(["viewer", "payload-viewer", "operator", "admin"]) {
        let (cookie, csrf) = sign_in(&server, token);
        let session = browse(&server, "GET", "/v1/session", &format!("{cookie}{csrf}"));
        assert_eq!(session.json()["role"], role);
        assert_eq!(session.json().get("csrf_token"), None, "it is told once");
        let audit = browse(&server, "GET", "/v1/audit", &format!("{cookie}{csrf}")).status;
        assert_eq!(audit, if role == "admin" { 200 } else { 403 }, "{role}");
    }
    let (cookie, csrf) = sign_in(&server, &tokens[3]);
    let both = format!("{cookie}{csrf}");
    assert_eq!(ask(&server, "POST", "/v1/session", Some("wadm_wrong"), "").status, 401);
    assert_eq!(browse(&server, "DELETE", "/v1/session", &both).status, 204);
    assert_eq!(browse(&server, "GET", "/v1/session", &both).status, 401);
    let audit = get(&server, "/v1/audit", &tokens[3]).text();
    assert!(audit.contains("sign-in") && audit.contains("sign-out"), "{audit}");
}

#[test]
fn a_cookie_alone_is_good_for_nothing_and_a_session_ends_with_its_token() {
    let (server, _echo) = start();
    let first = first_token(&server);
    let made = ask(&server, "POST", "/v1/tokens", Some(&first), r#"{"name":"x","role":"admin"}"#);
    let made = made.json();
    let (cookie, csrf) = sign_in(&server, made["token"].as_str().unwrap());
    let (_, other) = sign_in(&server, &first);
    // What has the cookie: a page on another port. Neither the header of old nor the second secret
    // of another session helps.
    for lines in ["", "weir-console: 1\r\n", "weir-csrf-token: \r\n", &other] {
        let lines = format!("{cookie}{lines}");
        for path in ["/v1/session", "/v1/tokens", "/v1/transactions", "/v1/live"] {
            assert_eq!(browse(&server, "GET", path, &lines).status, 401, "{path} {lines}");
        }
        assert_eq!(browse(&server, "POST", "/v1/configuration/reload", &lines).status, 401);
    }
    for site in ["sec-fetch-site: same-site\r\n", "sec-fetch-site: cross-site\r\n"] {
        let lines = format!("{cookie}{csrf}{site}");
        assert_eq!(browse(&server, "GET", "/v1/tokens", &lines).status, 401, "{site}");
        assert_eq!(browse(&server, "POST", "/v1/configuration/reload", &lines).status, 401);
    }
    let own = format!("{cookie}{csrf}sec-fetch-site: same-origin\r\n");
    let reloaded = browse(&server, "POST", "/v1/configuration/reload", &own);
    assert_eq!(reloaded.json()["taken"], true, "{}", reloaded.text());
    assert_eq!(reloaded.json()["by"], "x");
    let id = made["id"].as_str().unwrap();
    assert_eq!(ask(&server, "DELETE", &format!("/v1/tokens/{id}"), Some(&first), "").status, 204);
    assert_eq!(browse(&server, "GET", "/v1/session", &own).status, 401);
}

#[test]
fn a_link_is_good_once_for_its_url() {
    let (server, _echo) = start();
    let tokens = tokens(&server);
    let (cookie, csrf) = sign_in(&server, &tokens[0]);
    let ticket = |target: &str, lines: &str| {
        let body = json!({"target": target}).to_string();
        let lines = format!("{lines}content-length: {}\r\n", body.len());
        let mut client = server.connect_admin();
        let head = format!("POST /v1/session/tickets HTTP/1.1\r\nhost: localhost\r\n{lines}");
        client.send(format!("{head}\r\n{body}"));
        client.response()
    };
    let target = "/v1/transactions/export?q=api%3Aall";
    let made = |target: &str| {
        let response = ticket(target, &format!("{cookie}{csrf}"));
        assert_eq!(response.status, 201, "{}", response.text());
        response.json()["ticket"].as_str().unwrap().to_owned()
    };
    let open = |link: &str, lines: &str| browse(&server, "GET", link, lines).status;
    let link = format!("{target}&ticket={}", made(target));
    assert_eq!(open(&link, ""), 401, "nothing without the cookie");
    assert_eq!(open(&link, &format!("{cookie}sec-fetch-site: same-origin\r\n")), 200);
    assert_eq!(open(&link, &cookie), 401, "it was used");
    let ticket_of = made("/v1/session");
    assert_eq!(open(&format!("{target}&ticket={ticket_of}"), &cookie), 401, "for another URL");
    assert_eq!(open(&format!("/v1/session?ticket={ticket_of}"), &cookie), 401, "used up by that");
    assert_eq!(open(&format!("/v1/session?ticket={}", made("/v1/session")), &cookie), 200);
    assert_eq!(open(&format!("/v1/audit?ticket={}", made("/v1/audit")), &cookie), 403, "a viewer");
    let link = format!("/v1/session?ticket={}", made("/v1/session"));
    assert_eq!(browse(&server, "DELETE", &link, &cookie).status, 401, "a ticket reads");
    assert_eq!(ticket(target, &cookie).status, 401);
    let bearer = format!("authorization: Bearer {}\r\n", tokens[0]);
    assert_eq!(ticket(target, &bearer).status, 409, "links are for sessions");
    assert_eq!(ticket("https://example.com/", &format!("{cookie}{csrf}")).status, 400);
}

#[test]
fn a_refused_configuration_is_told_with_its_line_and_without_secrets() {
    let secret = "hush-hush-hush";
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\napis:\n  a:\n    base: /\n    routes:\n      \
         - {{op: x, get: /, reply: {{text: hi}}, request: {{headers: {{set: {{authorization: \"{secret}\"}}}}}}}}\n"
    );
    let mut server = Weir::new(&config).start();
    let token = first_token(&server);
    let state = get(&server, "/v1/configuration", &token);
    assert_eq!(state.json()["reloads"][0]["by"], "start");
    assert!(!state.text().contains(secret), "{}", state.text());
    server.replace("weir.yaml", format!("{config}rootes: 1\n"));
    server.event("reload-refused");
    let state = get(&server, "/v1/configuration", &token).json();
    let last = &state["reloads"][0];
    assert_eq!((&last["taken"], &last["by"]), (&json!(false), &json!("files")), "{last}");
    assert_eq!(last["findings"][0]["line"], 8, "{last}");
    assert_eq!(last["findings"][0]["excerpt"], "rootes: 1", "{last}");
    let apis = get(&server, "/v1/apis", &token).json();
    assert_eq!(apis[0]["routes"][0]["line"], 7, "{apis}");
    let draft = "version: 1\ninclude: [/etc/passwd]\n";
    let checked = ask(&server, "POST", "/v1/configuration/check", Some(&token), draft);
    assert_eq!(checked.json()["usable"], false, "{}", checked.text());
    assert!(!checked.text().contains("root:"), "{}", checked.text());
}

#[test]
fn the_listener_has_the_console_and_says_what_may_be_done_with_it() {
    let (server, _echo) = start();
    let to = browse(&server, "GET", "/", "");
    assert_eq!((to.status, to.header("location")), (307, Some("/console/")));
    for path in ["/console/", "/console/tracker?q=x"] {
        let page = browse(&server, "GET", path, "");
        assert_eq!(page.status, 200, "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
    let elsewhere = ask_host(&server, "evil.example.com");
    assert_eq!(elsewhere.status, 421);
}

fn ask_host(server: &Server, host: &str) -> Response {
    let mut client = server.connect_admin();
    client.send(format!("GET /console/ HTTP/1.1\r\nhost: {host}\r\n\r\n"));
    client.response()
}

#[test]
fn a_request_that_is_tried_is_served_recorded_and_audited() {
    let (server, _echo) = start();
    let tokens = tokens(&server);
    let tried = r#"{"method":"POST","target":"/a?secret=1","headers":[{"name":"content-type","value":"text/plain"}],"body":"quokka"}"#;
    for token in &tokens[..2] {
        assert_eq!(ask(&server, "POST", "/v1/try", Some(token), tried).status, 403);
    }
    let response = ask(&server, "POST", "/v1/try", Some(&tokens[2]), tried);
    let told = response.json();
    assert_eq!((told["status"].as_u64(), told["text"].as_str()), (Some(200), Some("quokka")));
    let path = format!("/v1/transactions/{}", told["id"].as_str().unwrap());
    let found = (0..100).find_map(|_| {
        let response = get(&server, &path, &tokens[2]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        (response.status == 200).then(|| response.json())
    });
    let found = found.expect("it is recorded");
    let by = &found["payload"]["properties"][0];
    assert_eq!((by["name"].as_str(), by["value"].as_str()), (Some("tried-by"), Some("operator")));
    let audit = get(&server, "/v1/audit", &tokens[3]).text();
    assert!(audit.contains("POST /a") && !audit.contains("secret"), "{audit}");
    let wrong = [r#"{"target":"nonsense"}"#, r#"{"target":"/a","client":"192.0.2.1"}"#];
    for wrong in wrong {
        assert_eq!(ask(&server, "POST", "/v1/try", Some(&tokens[2]), wrong).status, 400, "{wrong}");
    }
    let hosts = ask(&server, "POST", "/v1/try", Some(&tokens[2]), r#"{"target":"/a b"}"#);
    assert_eq!(hosts.json()["status"], 400, "what cannot be read is answered as a client's is");
    let traffic = get(&server, "/v1/traffic", &tokens[0]).json();
    let of = |api| traffic["routes"].as_array().unwrap().iter().find(|one| one["api"] == api);
    assert_eq!(of("all").unwrap()["requests"], 1, "{traffic}");
    assert_eq!(get(&server, "/v1/apis/all/openapi", &tokens[0]).status, 404);
}

#[test]
fn a_load_is_started_by_an_admin_within_caps_and_on_own_listeners_only() {
    let (server, _echo) = start();
    let tokens = tokens(&server);
    let state = get(&server, "/v1/lab", &tokens[0]).json();
    let own = format!("http://{}", server.listen[0]);
    assert_eq!(state["targets"], json!([own]));
    assert_eq!(state["suites"][0]["missing"], json!([]), "the proxy of this server takes all");
    let start = |token: usize, suite: &str, target: &str, rate: u32, seconds: u32| {
        let body = json!({"suite": suite, "level": "quick", "target": target, "rate": rate,
            "seconds": seconds});
        ask(&server, "POST", "/v1/lab/run", Some(&tokens[token]), &body.to_string()).status
    };
    assert_eq!(start(2, "toro", &own, 10, 10), 403, "no operator");
    for (suite, target, rate, seconds) in [
        ("nothing", own.as_str(), 10, 10),
        ("toro", "http://192.0.2.1", 10, 10),
        ("toro", &own, 0, 10),
        ("toro", &own, 1_000_000, 10),
        ("toro", &own, 10, 1_000_000),
    ] {
        assert_eq!(
            start(3, suite, target, rate, seconds),
            400,
            "{suite} {target} {rate} {seconds}"
        );
    }
    assert_eq!(get(&server, "/v1/lab/run", &tokens[0]).status, 204);
    assert_eq!(ask(&server, "DELETE", "/v1/lab/run", Some(&tokens[0]), "").status, 403);
    assert_eq!(ask(&server, "DELETE", "/v1/lab/run", Some(&tokens[2]), "").status, 404);
    for run in ["..", "..%2F..", "%2Fetc", "nothing"] {
        assert_eq!(
            get(&server, &format!("/v1/lab/results/{run}"), &tokens[0]).status,
            404,
            "{run}"
        );
        let report = format!("/v1/lab/results/{run}/report");
        assert_eq!(get(&server, &report, &tokens[0]).status, 404, "{run}");
    }
}

/// The scenarios of `console/e2e`, if this binary has a console and there is a browser.
#[test]
fn in_a_browser() {
    let console: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console");
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let chromium = std::env::var("CHROMIUM").unwrap_or("/usr/bin/chromium".to_owned());
    if !console.join("dist/index.html").is_file() || !is_there("node") || !is_there(&chromium) {
        eprintln!("skipped: `make console` has not run, or there is no chromium");
        return;
    }
    let output = Command::new("node")
        .arg("e2e/run.mjs")
        .current_dir(&console)
        .env("WEIR_BIN", env!("CARGO_BIN_EXE_weir"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    println!("{told}");
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
}
