//! What of the admin side must not leak, and what ends with the credential that allowed it.

use crate::admin_api::{ask, data, first_token, get, tokens};
use crate::console::{browse, sign_in, start};
use crate::harness::{self, Certificate, Client, Upstream, Weir, eventually, weir};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

const COOKIE: &str = "weir-session-9080=s3cret";

#[test]
fn a_session_cookie_reaches_no_upstream_and_none_sets_one() {
    let upstream = Upstream::responding(
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: weir-session-9080=evil; Path=/v1\r\n\
         Set-Cookie: =weir-session-9080=evil\r\nContent-Length: 2\r\n\r\nok",
    );
    let mirrored = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let script =
        "export default (request) => Response.json({ cookie: request.headers.get('cookie') });\n";
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\n\
         upstreams: {{one: {{targets: [\"http://{}\"]}}, two: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [\
         {{get: /script, script: cookie.js}}, \
         {{get: /reply, reply: {{map: {{cookie: {{cel: \"request.headers.cookie\"}}}}}}}}, \
         {{path: \"/*\", proxy: {{upstream: one, mirror: {{upstream: two}}}}}}]}}}}\n",
        upstream.addr, mirrored.addr,
    );
    let server = Weir::new(&config).file("cookie.js", script).start();
    let sent = format!("a=1; {COOKIE}; b=2");
    let response = server.connect().request("GET", "/proxy", &[("cookie", &sent)], "");
    let set: Vec<_> = response
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        .collect();
    assert_eq!(set.len(), 1, "{set:?}");
    assert_eq!(set[0].1, "a=1");
    server.connect().request("GET", "/proxy", &[("cookie", COOKIE)], "");
    mirrored.wait_for_requests(2);
    for heads in [upstream.heads(), mirrored.heads()] {
        assert!(heads.iter().all(|head| !head.contains("weir-session")), "{heads:?}");
        assert!(heads[0].to_lowercase().contains("cookie: a=1; b=2\r\n"), "{heads:?}");
        assert!(!heads[1].to_lowercase().contains("cookie:"), "{heads:?}");
    }
    for path in ["/script", "/reply"] {
        let told = server.connect().request("GET", path, &[("cookie", &sent)], "").json();
        assert_eq!(told["cookie"], "a=1; b=2", "{path}: {told}");
    }
    let token = first_token(&server);
    eventually("what was recorded is found", || {
        let found = get(&server, "/v1/transactions/export?q=", &token).text();
        assert!(!found.contains("s3cret") && !found.contains("evil"), "{found}");
        found.matches("\"path\":\"/proxy\"").count() >= 2
    });
}

#[test]
fn streams_end_with_the_token_and_the_session_that_they_are_given_by() {
    let (server, _echo) = start();
    let first = first_token(&server);
    let body = r#"{"name":"x","role":"operator"}"#;
    let made = ask(&server, "POST", "/v1/tokens", Some(&first), body).json();
    let (token, id) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    let (cookie, csrf) = sign_in(&server, token);
    let bearer = format!("authorization: Bearer {token}\r\n");
    let follow = |path: &str, lines: &str| {
        let mut client = server.connect_admin();
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        client.send(format!("{head}{lines}\r\n"));
        assert_eq!(client.response_to_head().status, 200, "{path}");
        client
    };
    let session = format!("{cookie}{csrf}");
    let of_session = [follow("/v1/live", &session), follow("/v1/transactions/tail", &session)];
    let of_token = [follow("/v1/live", &bearer), follow("/v1/transactions/tail", &bearer)];
    assert_eq!(browse(&server, "DELETE", "/v1/session", &session).status, 204);
    // The last chunk, or the end of the connection; waiting for them has a limit.
    let ended = |client: Client| {
        let (rest, _) = client.rest_or_reset();
        assert!(rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
    };
    of_session.into_iter().for_each(ended);
    server.connect().get("/still-followed");
    let [_, mut tail] = of_token;
    let mut seen = String::new();
    eventually("the token's tail goes on", || {
        seen.push_str(&String::from_utf8_lossy(&tail.chunk()));
        seen.contains("/still-followed")
    });
    assert_eq!(ask(&server, "DELETE", &format!("/v1/tokens/{id}"), Some(&first), "").status, 204);
    server.connect().get("/not-for-them");
    let (rest, _) = tail.rest_or_reset();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.ends_with("0\r\n\r\n") && !rest.contains("/not-for-them"), "{rest}");
}

#[test]
fn an_export_ends_with_its_token() {
    let echo = harness::echo(&[]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         tracker: {{enabled: true, body_limit: 256KiB}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [{{op: any, path: \"/*\", proxy: echo}}]}}}}\n",
        echo.listen[0],
    );
    let server = Weir::new(&config).start();
    let first = first_token(&server);
    let body = "x".repeat(200 << 10);
    for _ in 0..60 {
        server.connect().request("POST", "/large", &[], &body);
    }
    eventually("all are found", || {
        let found = get(&server, "/v1/transactions/summary?q=", &first).json();
        found["matched"] == 60
    });
    let wanted = r#"{"name":"x","role":"payload-viewer"}"#;
    let made = ask(&server, "POST", "/v1/tokens", Some(&first), wanted).json();
    let (token, id) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    let mut export = server.connect_admin();
    export.send(format!(
        "GET /v1/transactions/export?q= HTTP/1.1\r\nhost: localhost\r\n\
         connection: close\r\nauthorization: Bearer {token}\r\n\r\n"
    ));
    assert_eq!(export.response_to_head().status, 200);
    // Nobody reads while it is revoked: what waits in buffers is all that comes.
    assert_eq!(ask(&server, "DELETE", &format!("/v1/tokens/{id}"), Some(&first), "").status, 204);
    let (rest, _) = export.rest_or_reset();
    let rest = String::from_utf8_lossy(&rest);
    assert!(!rest.contains("\"end\":"), "{} bytes came", rest.len());
}

#[test]
fn denied_calls_are_in_the_audit_and_do_not_fill_it() {
    let (server, _echo) = start();
    let tokens = tokens(&server);
    assert_eq!(get(&server, "/v1/audit?who=s3cret", &tokens[0]).status, 403);
    assert_eq!(get(&server, "/v1/transactions?q=body:secret", &tokens[0]).status, 403);
    assert_eq!(get(&server, "/v1/journal", "wadm_wrong").status, 401);
    let (cookie, _) = sign_in(&server, &tokens[1]);
    assert_eq!(browse(&server, "GET", "/v1/tokens", &cookie).status, 401);
    let denied = || -> Vec<Value> {
        let found = get(&server, "/v1/audit?action=denied&limit=1000", &tokens[3]).json();
        found.as_array().unwrap().clone()
    };
    let told: Vec<_> = denied()
        .iter()
        .rev()
        .map(|line| [&line["name"], &line["role"], &line["subject"]].map(Value::clone))
        .collect();
    assert_eq!(
        json!(told),
        json!([
            ["viewer", "viewer", "GET /v1/audit"],
            ["viewer", "viewer", "GET /v1/transactions"],
            ["unknown", "none", "GET /v1/journal"],
            ["payload-viewer", "payload-viewer", "GET /v1/tokens"],
        ])
    );
    assert!(denied()[3]["details"].as_str().unwrap().contains("role admin"), "{:?}", denied()[3]);
    for _ in 0..100 {
        assert_eq!(get(&server, "/v1/audit", &tokens[2]).status, 403);
    }
    let lines = denied().iter().filter(|line| line["name"] == "operator").count();
    assert!((20..90).contains(&lines), "{lines}");
}

#[test]
fn the_admin_listener_speaks_tls_and_commands_speak_it_too() {
    let own = Certificate::of("localhost");
    let config = |tls: &str| {
        format!(
            "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\n\
             admin: {{addr: \"127.0.0.1:0\", tls: {tls}}}\n\
             apis: {{a: {{base: /, routes: [{{get: /, reply: {{text: hi}}}}]}}}}\n"
        )
    };
    let files = "{cert: \"file:a.crt\", key: \"file:a.key\"}";
    for tls in ["self-signed", files] {
        let server =
            Weir::new(&config(tls)).file("a.crt", &own.cert).file("a.key", &own.key).start();
        let addr = server.admin.unwrap();
        let kept = data(&server).join("tls/self-signed.crt");
        let ca = if tls == files { server.dir().join("a.crt") } else { kept };
        let pem = std::fs::read_to_string(&ca).unwrap();
        let mut client = Client::connect_tls(addr, b"", "localhost", &[&pem]).unwrap();
        let token = first_token(&server);
        client.send(format!(
            "POST /v1/session HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-length: 0\r\n\r\n"
        ));
        let begun = client.response();
        assert_eq!(begun.status, 200, "{}", begun.text());
        assert!(begun.header("set-cookie").unwrap().ends_with("; Secure"));
        let mut plain = server.connect_admin();
        plain.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let (rest, _) = plain.rest_or_reset();
        assert!(!rest.starts_with(b"HTTP/"), "nothing without TLS");
        let line = "weir: admin: TLS handshakes with clients failed: 1; last: 127.0.0.1 at \
                    listener 127.0.0.1:";
        eventually("it is logged", || server.stderr().contains(line));
        let reason = "received corrupt message of type InvalidContentType";
        assert!(server.stderr().contains(reason), "{}", server.stderr());
        let url = format!("https://localhost:{}", addr.port());
        let ca = ca.to_str().unwrap().to_owned();
        let run = |args: &[&str]| weir(server.dir(), args);
        let told = run(&["search", "--json", "--admin", &url, "--ca", &ca]);
        assert!(told.status.success(), "{told:?}");
        let default = run(&["search", "--json", "--admin", &url]);
        // Weir's own certificate is known from the data folder; another one is not.
        assert_eq!(default.status.success(), tls != files, "{default:?}");
        if tls == files {
            let stderr = String::from_utf8_lossy(&default.stderr).into_owned();
            assert!(stderr.contains("--ca"), "{stderr}");
            // A new certificate is in use after a reload, without a restart.
            let other = Certificate::of("localhost");
            server.replace("a.key", &other.key);
            server.replace("a.crt", &other.cert);
            eventually("the new certificate", || {
                Client::connect_tls(addr, b"", "localhost", &[&other.cert]).is_ok()
            });
        }
    }
}

#[test]
fn check_warns_of_what_is_open_to_everybody() {
    let config = "listen: [{addr: \"0.0.0.0:0\"}, {addr: \"127.0.0.1:0\", trust: [\"0.0.0.0/0\"]}]\n\
        admin: {addr: \"0.0.0.0:0\"}\n\
        auth:\n  corp: {jwt: {algorithms: HS256, key: \"a shared secret of more than thirty-two bytes\"}}\n  \
        users: {basic: true}\n  \
        asked: {introspect: {url: \"http://127.0.0.1:2\", auth: {basic: {user: a, password: b}}}}\n\
        upstreams: {old: {targets: [\"http://192.0.2.1\"], auth: {basic: {user: a, password: b}}}}\n\
        apis: {a: {base: /, auth: [corp, users], routes: [{get: /, proxy: old}]}}\n";
    let weir_ = Weir::new(config);
    let open = weir_.dir().join("data");
    std::fs::create_dir(&open).unwrap();
    let mode = |mode| std::fs::set_permissions(&open, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o755);
    let check = || {
        let output = weir(weir_.dir(), &["check", "weir.yaml"]);
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (usable, told) = check();
    assert!(usable, "{told}");
    for (code, remedy) in [
        ("admin-without-tls", "tls: self-signed"),
        ("trusts-everybody", "trust: [10.0.0.0/24]"),
        ("jwt-for-anybody", "`issuer` and `audience`"),
        ("introspection-for-anybody", "`audience: NAME`"),
        ("basic-without-tls", "https://"),
        ("open-data-folder", "chmod 700"),
    ] {
        assert!(told.contains(code) && told.contains(remedy), "{code}: {told}");
    }
    assert_eq!(told.matches("basic-without-tls").count(), 2, "{told}");
    mode(0o777);
    let (usable, told) = check();
    assert!(!usable && told.contains("open-data-folder"), "{told}");
    let refused = Weir::new("listen: [{addr: \"127.0.0.1:0\"}]\nworkers: 1\n");
    let data = refused.dir().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o777)).unwrap();
    let refused = refused.refused();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("chmod 700"), "{refused:?}");
    mode(0o700);
    assert!(!check().1.contains("open-data-folder"));
}

#[test]
fn secrets_are_not_followed_through_links() {
    let weir_ = Weir::new("listen: [{addr: \"127.0.0.1:0\"}]\nworkers: 1\n");
    let data = weir_.dir().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o700)).unwrap();
    let mine = weir_.dir().join("mine");
    std::fs::write(&mine, "mine").unwrap();
    for name in ["admin.token.new", "admin-tokens.json.new"] {
        symlink(&mine, data.join(name)).unwrap();
    }
    let server = weir_.start();
    let token = first_token(&server);
    assert_eq!(get(&server, "/v1/session", &token).status, 200);
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
    // Tokens of somebody else are not taken for those of this server.
    let planted = Weir::new("listen: [{addr: \"127.0.0.1:0\"}]\nworkers: 1\n");
    let folder = planted.dir().join("data");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    symlink(data.join("admin-tokens.json"), folder.join("admin-tokens.json")).unwrap();
    let planted = planted.start();
    let response = get(&planted, "/v1/session", &token);
    assert_eq!(response.status, 503, "{}", response.text());
    eventually("it is said", || planted.stderr().contains("symbolic link"));
}

#[test]
fn an_access_log_is_not_for_everybody() {
    let config = "listen: [{addr: \"127.0.0.1:0\"}]\nworkers: 1\n\
        log: {access: json, to: access.log}\n\
        apis: {a: {base: /, routes: [{get: /, reply: {text: hi}}]}}\n";
    let weir_ = Weir::new(config);
    let path = weir_.dir().join("access.log");
    // As a user has it whose files are for everybody.
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 0; exec \"$0\" serve --json --admin 127.0.0.1:0 weir.yaml"])
        .arg(env!("CARGO_BIN_EXE_weir"))
        .current_dir(weir_.dir())
        .stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    eventually("the log is there", || path.exists());
    let mode = path.metadata().unwrap().permissions().mode() & 0o777;
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(mode, 0o640, "{mode:o}");
}

#[test]
fn views_of_the_configuration_show_no_secrets_of_queries_scripts_and_signatures() {
    let echo = harness::echo(&[]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams: {{one: {{targets: [\"http://{}\"], \
         health: {{check: {{path: \"/alive?token=hush-check\"}}}}}}}}\n\
         apis:\n  a:\n    base: /\n    routes:\n    \
         - {{get: /proxy, proxy: {{upstream: one, query: {{set: {{format: hush-query}}}}, \
         headers: {{set: {{x-sig: hush-header}}}}}}}}\n    \
         - {{get: /script, script: {{file: a.js, config: {{endpoint: {{deep: [hush-script]}}}}}}}}\n    \
         - {{get: /calls, calls: {{c: {{upstream: one, path: /x, query: {{sig: hush-call, page: 7}}}}}}}}\n",
        echo.listen[0],
    );
    let server = Weir::new(&config).file("a.js", "export default () => \"hi\";\n").start();
    let token = first_token(&server);
    let state = get(&server, "/v1/configuration", &token).text();
    assert!(state.contains("x-sig") && state.contains("endpoint"), "{state}");
    assert!(!state.contains("hush"), "{state}");
    for path in ["/proxy?a=1&signature=hush-client", "/calls"] {
        let asked = json!({"method": "GET", "target": path}).to_string();
        let told = ask(&server, "POST", "/v1/explain", Some(&token), &asked).json();
        // What a client sends itself is told as it would be recorded.
        let sent = json!([told["sent"], told["steps"]]).to_string();
        assert!(!sent.contains("hush"), "{sent}");
        let kept = if path == "/calls" { "page=7" } else { "a=1" };
        assert!(sent.contains(kept), "{sent}");
    }
}
