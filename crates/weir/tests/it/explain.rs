//! `weir explain` and `/v1/explain`: nothing is sent, and the same is told by both.

use crate::admin_api::{ask, command, first_token, get, id, tokens};
use crate::harness::{self, KEYS, SECRET, Server, Weir, eventually, unix_now, weir};
use serde_json::{Value, json};

fn start() -> (Server, Server) {
    let echo = harness::echo(&[]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, limit: {{rate: 1/h, burst: 5}}, routes: [\n\
         {{path: \"/items/{{id}}\", proxy: echo}}, {{get: /, reply: {{text: hello}}}}]}}}}\n",
        echo.listen[0],
    );
    (Weir::new(&config).start(), echo)
}

fn step<'a>(told: &'a Value, name: &str) -> &'a Value {
    told["steps"].as_array().unwrap().iter().find(|step| step["name"] == name).unwrap()
}

#[test]
fn operators_are_told_by_the_running_configuration_and_nothing_is_counted_or_recorded() {
    let (server, _echo) = start();
    let tokens = tokens(&server);
    let wanted = json!({"curl": "curl -H 'authorization: Bearer s3cret' 'http://a/items/7?x=1'"});
    for token in &tokens[..2] {
        let refused = ask(&server, "POST", "/v1/explain", Some(token), &wanted.to_string());
        assert_eq!(refused.status, 403, "{}", refused.text());
    }
    assert_eq!(server.connect().get("/").status, 200);
    for _ in 0..10 {
        let told = ask(&server, "POST", "/v1/explain", Some(&tokens[2]), &wanted.to_string());
        assert_eq!(told.status, 200, "{}", told.text());
        assert!(!told.text().contains("s3cret"), "{}", told.text());
        let told = told.json();
        assert_eq!(told["decision"]["kind"], "handed-on");
        assert_eq!(told["sent"]["line"], "GET /items/7?x=1");
        assert_eq!(told["capture"]["level"], "body");
        // One of five is taken, by the request.
        let limit = step(&told, "limit")["parts"][0]["why"].as_str().unwrap();
        assert!(limit.ends_with("3 remaining after the request"), "{limit}");
    }
    let audit = ask(&server, "GET", "/v1/audit", Some(&first_token(&server)), "").text();
    assert!(audit.contains("\"explain\"") && audit.contains("GET /items/7\""), "{audit}");
    assert!(!audit.contains("x=1") && !audit.contains("s3cret"), "{audit}");
    assert_eq!(server.metric("http_server_request_duration_seconds_count", &[]), 1.0);
    assert_eq!(server.metric("http_client_request_duration_seconds_count", &[]), 0.0);
    for wrong in [
        json!({"curl": "curl --proxy p http://a/"}),
        json!({"curl": "curl http://a/", "target": "/"}),
        json!({"target": "nowhere"}),
        json!({"unknown": 1}),
    ] {
        let refused = ask(&server, "POST", "/v1/explain", Some(&tokens[2]), &wrong.to_string());
        assert_eq!(refused.status, 400, "{}", refused.text());
    }
}

#[test]
fn the_command_reads_a_configuration_or_asks_a_running_weir() {
    let (server, _echo) = start();
    let run = |args: &[&str]| weir(server.dir(), &[&["explain"], args].concat());
    let told = |args: &[&str]| -> Value {
        let output = run(&[args, &["--json"]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let offline = told(&["DELETE", "/", "weir.yaml"]);
    assert_eq!(offline["decision"]["problem"], "method-not-allowed");
    assert_eq!(offline["others"][0]["why"], "accepts GET, not DELETE");
    assert_eq!(told(&["--curl", "curl http://a/", "weir.yaml"])["answer"]["body"]["text"], "hello");
    let text = run(&["GET", "/items/7", "-H", "X-A: b"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("forwarded to the upstream echo") && text.contains("x-a: b"), "{text}");
    for wrong in [&["GET"][..], &["--curl", "curl --proxy p http://a/"], &["GET", "/", "-H", "x"]] {
        assert_eq!(run(wrong).status.code(), Some(1), "{wrong:?}");
    }
    assert_eq!(run(&["GET", "/", "none.yaml"]).status.code(), Some(2));
    let running = ["explain", "GET", "/", "--running", "--json"];
    let (done, out, errors) = command(&server, &first_token(&server), &running);
    assert!(done, "{errors}");
    let running: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(running["answer"]["status"], 200);
    assert_eq!(running["steps"], told(&["GET", "/"])["steps"]);
}

/// What the record of a transaction says, once it is indexed.
fn recorded(server: &Server, id: &str, token: &str) -> Value {
    let path = format!("/v1/transactions/{id}/explanation");
    eventually("it is indexed", || get(server, &path, token).status == 200);
    get(server, &path, token).json()
}

#[test]
fn a_recorded_transaction_is_explained_by_what_happened_to_it() {
    let echo = harness::echo(&[]);
    let config = |auth: &str| {
        format!(
            "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\n\
             auth: {{idp: {{jwt: {{algorithms: HS256, key: \"file:secret\"}}}}}}\n\
             upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
             apis: {{all: {{base: /, {auth} routes: [\n\
             {{op: item, path: \"/items/{{id}}\", proxy: echo}},\n\
             {{op: few, get: /few, limit: {{rate: 1/h, burst: 1}}, reply: {{text: hello}}}}]}}}}\n",
            echo.listen[0],
        )
    };
    let mut server =
        Weir::new(&config("auth: {idp: {scopes: [read]}},")).file("secret", SECRET).start();
    let tokens = tokens(&server);
    let call = |path: &str, claims: Value| {
        let bearer = format!("Bearer {}", KEYS.token("HS256", &claims));
        server.connect().request("GET", path, &[("authorization", &*bearer)], "")
    };
    let until = |seconds: u64| unix_now() + seconds;
    let expired = call("/items/7", json!({"sub": "anna", "exp": 1000, "scope": "read"}));
    let scope = call("/items/7", json!({"sub": "anna", "exp": until(600), "scope": "write"}));
    let good = call("/items/7", json!({"sub": "anna", "exp": until(600), "scope": "read"}));
    let reader = json!({"sub": "anna", "exp": until(600), "scope": "read"});
    assert_eq!(call("/few", reader.clone()).status, 200);
    let limited = call("/few", reader);
    let lost = server.connect().get("/items/7");
    let statuses = [&expired, &scope, &good, &limited, &lost].map(|response| response.status);
    assert_eq!(statuses, [401, 403, 200, 429, 401]);
    // By this configuration all of them would pass: that is not what happened.
    server.reload(&config(""));
    for (response, code, detail) in [
        (&expired, "token-expired", "auth idp"),
        (&scope, "insufficient-scope", "auth idp: required scopes: read"),
        (&limited, "rate-limited", "is exhausted"),
        (&lost, "missing-credential", "no credential for idp"),
    ] {
        let told = recorded(&server, &id(response), &tokens[0]);
        assert_eq!(
            (&told["outcome"], &told["status"]),
            (&json!("problem"), &json!(response.status))
        );
        assert_eq!(
            (&told["problem"]["code"], &told["problem"]["fault"]),
            (&json!(code), &json!("client"))
        );
        assert!(told["problem"]["detail"].as_str().unwrap().contains(detail), "{told}");
        assert!(told["why"].as_str().unwrap().contains(detail), "{told}");
        let shown = get(&server, &format!("/v1/transactions/{}", id(response)), &tokens[0]).json();
        assert_eq!(shown["detail"], told["problem"]["detail"]);
    }
    let told = recorded(&server, &id(&good), &tokens[0]);
    assert_eq!((&told["outcome"], &told["upstream"]), (&json!("answered"), &json!("echo")));
    assert_eq!(told["principal"], "anna", "{told}");
    assert!(told.get("problem").is_none(), "{told}");
    let unknown = "/v1/transactions/019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55/explanation";
    assert_eq!(get(&server, unknown, &tokens[0]).status, 404);
}
