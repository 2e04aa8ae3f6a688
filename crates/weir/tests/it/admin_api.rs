//! The admin API and the commands that ask it: who may see what, and what is shown.

use crate::harness::{self, Client, Response, Server, Weir, eventually, files, weir};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Roles, the least first.
const ROLES: [&str; 4] = ["viewer", "payload-viewer", "operator", "admin"];
/// Something in a body that only those may see who may see payloads.
const BODY: &str = "{\"name\": \"quokka\"}";

fn start() -> (Server, Server) {
    let echo = harness::echo(&[]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\ntracker: {{enabled: true}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: echo}}]}}}}\n",
        echo.listen[0],
    );
    (Weir::new(&config).start(), echo)
}

pub(crate) fn data(server: &Server) -> PathBuf {
    server.dir().join("data")
}

pub(crate) fn first_token(server: &Server) -> String {
    std::fs::read_to_string(data(server).join("admin.token")).unwrap().trim().to_owned()
}

pub(crate) fn ask(
    server: &Server,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &str,
) -> Response {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("host", "localhost")];
    headers.extend(bearer.iter().map(|bearer| ("authorization", bearer.as_str())));
    let lines: String = headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
    let mut client = server.connect_admin();
    let length = body.len();
    client
        .send(format!("{method} {path} HTTP/1.1\r\n{lines}content-length: {length}\r\n\r\n{body}"));
    client.response()
}

pub(crate) fn get(server: &Server, path: &str, token: &str) -> Response {
    ask(server, "GET", path, Some(token), "")
}

/// A token for each role.
pub(crate) fn tokens(server: &Server) -> Vec<String> {
    let first = first_token(server);
    let make = |role: &&str| {
        let body = json!({"name": role, "role": role}).to_string();
        let made = ask(server, "POST", "/v1/tokens", Some(&first), &body);
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()["token"].as_str().unwrap().to_owned()
    };
    ROLES.iter().map(make).collect()
}

pub(crate) fn id(response: &Response) -> String {
    response.header("weir-transaction-id").unwrap().to_owned()
}

/// Runs a command with a token in its environment; gives what it prints.
pub(crate) fn command(server: &Server, token: &str, args: &[&str]) -> (bool, String, String) {
    let url = format!("http://{}", server.admin.unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(args)
        .args(["--admin", &url])
        .env("WEIR_TOKEN", token)
        .current_dir(server.dir())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_endpoint_needs_a_token_and_the_role_it_states() {
    let (server, _echo) = start();
    let tokens = tokens(&server);
    let recorded = id(&server.connect().get("/a"));
    let document = get(&server, "/v1/openapi.json", &tokens[0]).json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{document}");
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        // A tail does not end, and what happens does not.
        let path = path.replace("/transactions/{id}", &format!("/transactions/{recorded}"));
        let path = path.replace("{id}", "none");
        for (method, operation) in methods.as_object().unwrap() {
            let method = method.to_uppercase();
            let stated = operation["x-weir-role"].as_str();
            if stated == Some("none") {
                // The sign-in itself.
                assert!(path.starts_with("/v1/oidc"), "{method} {path} needs no token");
                continue;
            }
            // No person is a node.
            let nobody = (stated == Some("node")).then_some(ROLES.len());
            let needed = ROLES.iter().position(|role| Some(*role) == stated).or(nobody);
            let needed = needed.unwrap_or_else(|| panic!("{method} {path} states no role"));
            let missing = ask(&server, &method, &path, None, "");
            assert_eq!(missing.status, 401, "{method} {path}");
            assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
            assert_eq!(missing.json()["type"], "urn:weir:problem:unauthorized");
            for (role, token) in tokens.iter().enumerate() {
                if (path.ends_with("/tail") || path.ends_with("/live")) && role >= needed {
                    continue;
                }
                let status = ask(&server, &method, &path, Some(token), "").status;
                assert_eq!(status == 403, role < needed, "{method} {path} {role}: {status}");
                assert_ne!(status, 401, "{method} {path}");
                asked += 1;
            }
        }
    }
    assert!(asked > 20, "only {asked}");
    for path in ["/v1/nothing", "/v1/journal"] {
        assert_eq!(ask(&server, "GET", path, None, "").status, 401, "{path}");
        assert_eq!(get(&server, path, "wadm_wrong").status, 401, "{path}");
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(ask(&server, "GET", path, None, "").status, 200, "{path}");
    }
}

#[test]
fn wrong_tokens_are_slowed_down_and_right_ones_are_not() {
    let (server, _echo) = start();
    let wrong: Vec<_> = (0..40)
        .map(|n| {
            let addr = server.admin.unwrap();
            std::thread::spawn(move || {
                let mut client = Client::connect(addr);
                client.send(format!(
                    "GET /v1/journal HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wadm_{n}\r\n\r\n"
                ));
                client.response().status
            })
        })
        .collect();
    let statuses: Vec<u16> = wrong.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&401) && statuses.contains(&429), "{statuses:?}");
    assert_eq!(get(&server, "/v1/journal", &first_token(&server)).status, 200);
}

#[test]
fn only_payload_viewers_see_payloads_and_it_is_written_down() {
    let (server, _echo) = start();
    let tokens = tokens(&server);
    let posted = id(&server.connect().post("/orders?pin=4711", BODY));
    for (role, token) in tokens.iter().enumerate() {
        let shown = get(&server, &format!("/v1/transactions/{posted}"), token);
        assert_eq!(shown.status, 200, "{}", shown.text());
        let (text, shown) = (shown.text(), shown.json());
        assert_eq!((&shown["path"], &shown["status"]), (&json!("/orders"), &json!(200)));
        assert_eq!(text.contains("quokka"), role >= 1, "{text}");
        assert_eq!(text.contains("4711"), role >= 1, "{text}");
        assert_eq!(shown["payload"]["request_body"]["text"] == BODY, role >= 1);
        let found = get(&server, "/v1/transactions?q=body:quokka", token);
        assert_eq!(found.status, if role >= 1 { 200 } else { 403 }, "{}", found.text());
        let found = get(&server, "/v1/transactions?q=status:200", token);
        assert_eq!(found.json()["transactions"][0]["id"], posted.as_str());
        assert!(!found.text().contains("quokka") && !found.text().contains("4711"));
    }
    let lines = get(&server, "/v1/audit", &tokens[3]).json();
    let lines = lines.as_array().unwrap();
    let of = |action: &str| {
        let roles =
            lines.iter().rev().filter(|line| line["action"] == action).map(|line| &line["role"]);
        roles.filter_map(Value::as_str).collect::<Vec<_>>()
    };
    assert_eq!(of("make-token"), ["admin"; 4]);
    assert_eq!(of("show"), &ROLES[1..]);
    assert_eq!(of("search"), &ROLES[1..]);
    assert!(lines.iter().all(|line| line["token"].as_str().is_some_and(|id| id.len() == 12)));
    let shown = lines.iter().find(|line| line["action"] == "show").unwrap();
    assert_eq!((&shown["about"], &shown["subject"]), (&json!("transaction"), &json!(posted)));
}

#[test]
fn wrong_questions_say_what_would_be_right() {
    let (server, _echo) = start();
    let token = first_token(&server);
    for (path, status, what) in [
        ("/v1/transactions/nonsense", 400, "UUID"),
        ("/v1/transactions/019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55", 404, "never recorded"),
        ("/v1/transactions?q=status:%3E%3Dx", 400, "at "),
        ("/v1/transactions?limit=0", 400, "1 to 1000"),
        ("/v1/transactions?limit=1001", 400, "1 to 1000"),
        ("/v1/transactions?cursor=x", 400, "cursor"),
        ("/v1/transactions?nonsense=x", 400, "nonsense"),
        ("/v1/nothing", 404, "openapi.json"),
    ] {
        let response = get(&server, path, &token);
        assert_eq!(response.status, status, "{path}: {}", response.text());
        assert_eq!(response.header("content-type"), Some("application/problem+json"));
        assert!(response.text().contains(what), "{path}: {}", response.text());
    }
    assert_eq!(ask(&server, "PUT", "/v1/journal", Some(&token), "").status, 405);
}

#[test]
fn tokens_are_nowhere_but_in_the_file_of_the_first() {
    let (server, _echo) = start();
    let first = first_token(&server);
    let tokens = tokens(&server);
    for token in tokens.iter().chain([&first]) {
        assert!(token.starts_with("wadm_") && token.len() == 48, "{token}");
        get(&server, "/v1/journal", token);
        get(&server, "/v1/nothing", token);
    }
    server.connect().get("/a");
    let metrics = server.connect_admin().get("/metrics").text();
    for file in files(server.dir()) {
        let bytes = std::fs::read(&file).unwrap();
        for token in tokens.iter().chain([&first]) {
            let found = memchr::memmem::find(&bytes, &token.as_bytes()[5..]).is_some();
            let may = file.ends_with("admin.token") && *token == first;
            assert_eq!(found, may, "{}", file.display());
            assert!(!metrics.contains(token.as_str()));
        }
    }
    for name in ["admin.token", "admin-tokens.json", "weir.db"] {
        let mode = data(&server).join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    // A token that is revoked is not taken any more.
    let list = get(&server, "/v1/tokens", &first).json();
    let of = |role: &str| list.as_array().unwrap().iter().find(|t| t["name"] == role).unwrap();
    let path = format!("/v1/tokens/{}", of("viewer")["id"].as_str().unwrap());
    assert_eq!(ask(&server, "DELETE", &path, Some(&first), "").status, 204);
    assert_eq!(get(&server, "/v1/journal", &tokens[0]).status, 401);
    assert_eq!(ask(&server, "DELETE", &path, Some(&first), "").status, 404);
}

#[test]
fn commands_ask_a_running_server() {
    let (server, _echo) = start();
    let tokens = tokens(&server);
    let posted = id(&server.connect().post("/orders", "\u{1b}[2J quokka"));
    // A body with control characters is no text, and not searched.
    let words = id(&server.connect().post("/orders", BODY));
    server.connect().get("/status/503");

    let (ok, out, err) = command(&server, &tokens[1], &["show", &posted]);
    assert!(ok, "{err}");
    assert!(out.contains("quokka") && out.contains("POST /orders"), "{out}");
    assert!(!out.contains('\u{1b}'), "{out:?}");
    let (_, out, _) = command(&server, &tokens[0], &["show", &posted]);
    assert!(!out.contains("quokka") && out.contains("payload-viewer"), "{out}");

    let (ok, out, err) = command(&server, &tokens[1], &["search", "quokka", "--json"]);
    assert!(ok, "{err}");
    let found: Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(found["id"], words.as_str());
    assert!(found["highlights"][0]["text"].as_str().unwrap().contains("quokka"), "{found}");
    let (_, out, _) = command(&server, &tokens[0], &["search", "--limit", "1"]);
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(out.contains("503") && out.contains("failed"), "{out}");
    let (ok, _, err) = command(&server, &tokens[0], &["search", "body:quokka"]);
    assert!(!ok && err.contains("payload-viewer"), "{err}");
    let (ok, _, err) = command(&server, "wadm_wrong", &["search"]);
    assert!(!ok && err.contains("401") && !err.contains("wadm_wrong"), "{err}");

    let (ok, out, err) = command(&server, &tokens[0], &["journal", "inspect", "--json"]);
    assert!(ok, "{err}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["id"], "journal");
    assert!(lines[0]["records"].as_u64().unwrap() >= 2, "{out}");
    assert!(lines.iter().all(|line| line["id"].is_string()), "{out}");

    // The token of the data folder is found by itself.
    let url = format!("http://{}", server.admin.unwrap());
    let output = weir(server.dir(), &["search", "--admin", &url]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_tail_shows_what_happens() {
    let (server, _echo) = start();
    server.connect().get("/before");
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["tail", "--json", "--limit", "3", "--admin"])
        .arg(format!("http://{}", server.admin.unwrap()))
        .current_dir(server.dir())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Until it follows, nothing is shown.
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut asked = Vec::new();
    eventually("three transactions", || {
        asked.push(id(&server.connect().get("/after")));
        std::thread::sleep(std::time::Duration::from_millis(50));
        child.try_wait().unwrap().is_some()
    });
    let shown: Vec<Value> =
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(shown.len(), 3);
    for summary in &shown {
        assert_eq!(summary["path"], "/after");
        assert!(asked.iter().any(|id| summary["id"] == id.as_str()), "{summary}");
    }
}

#[test]
fn commands_read_a_data_folder_that_nobody_uses() {
    let (mut server, _echo) = start();
    let posted = id(&server.connect().post("/orders", BODY));
    let folder = data(&server);
    let folder = folder.to_str().unwrap().to_owned();
    let run = |args: &[&str]| {
        let output = weir(server.dir(), &[args, &["--data", &folder]].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for args in [&["search"][..], &["show", &posted], &["tail"], &["journal", "verify"]] {
        let (code, _, said) = run(args);
        assert_eq!(code, Some(1), "{args:?}");
        assert!(said.contains("in use") && said.contains("--admin"), "{said}");
    }
    server.signal(harness::Signal::KILL);
    server.wait();
    let run = |args: &[&str]| {
        let output = weir(server.dir(), &[args, &["--data", &folder]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(run(&["show", &posted]).contains("quokka"));
    let found: Value = serde_json::from_str(run(&["search", "quokka", "--json"]).trim()).unwrap();
    assert_eq!(found["id"], posted.as_str());
    assert!(run(&["tail", "--limit", "1"]).contains(&posted));
    assert!(run(&["journal", "inspect"]).contains("recovery"));
    let verified = run(&["journal", "verify", "--json"]);
    let sum = |what: &str| -> u64 {
        let lines = verified.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lanes = lines.filter(|line| line["id"].as_str().unwrap().starts_with("lane/"));
        lanes.map(|line| line[what].as_u64().unwrap_or(0)).sum()
    };
    assert_eq!((sum("transactions"), sum("damaged")), (1, 0), "{verified}");
    assert!(verified.lines().last().unwrap().contains("\"end\":true"), "{verified}");
}

#[test]
fn without_an_index_it_is_said_that_there_is_none() {
    let config = "listen: [{addr: \"127.0.0.1:0\"}]\ntracker: {enabled: true, index: none}\n\
        apis: {a: {base: /, routes: [{get: /, reply: {text: a}}]}}\n";
    let server = Weir::new(config).start();
    let token = first_token(&server);
    let recorded = id(&server.connect().get("/"));
    for path in ["", "/summary", "/export", "/tail", &format!("/{recorded}")] {
        let response = get(&server, &format!("/v1/transactions{path}"), &token);
        assert_eq!(response.status, 409, "{}", response.text());
        assert!(response.text().contains("`tracker.index` is none"), "{}", response.text());
    }
    assert_eq!(get(&server, "/v1/journal", &token).status, 200);
}

#[test]
fn without_recording_there_is_nothing_to_ask_for() {
    let config = "listen: [{addr: \"127.0.0.1:0\"}]\napis: {a: {base: /, routes: [{get: /, reply: {text: a}}]}}\n";
    let server = Weir::new(config).start();
    let token = first_token(&server);
    for path in ["/v1/journal", "/v1/transactions", "/v1/transactions/tail"] {
        let response = get(&server, path, &token);
        assert_eq!(response.status, 409, "{}", response.text());
        assert!(response.text().contains("tracker.enabled"), "{}", response.text());
    }
    assert_eq!(get(&server, "/v1/openapi.json", &token).status, 200);
}
