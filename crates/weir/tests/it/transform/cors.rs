//! Cross-origin requests, as browsers make them.

use crate::harness::{self, Response, Server, Weir};

const APP: &str = "https://app.example.com";

fn server(upstream: &Server) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         auth: {{keys: {{api_key: {{header: x-api-key}}}}}}\n\
         apis:\n  app:\n    base: /app\n    auth: keys\n    cors: {{origins: [\"{APP}\"], \
         credentials: true, headers: [content-type, x-api-key], expose: [etag], max_age: 1h}}\n    \
         routes: [{{get: /, proxy: echo}}, {{put: /, proxy: echo}}, {{get: /open, auth: none, proxy: echo}}]\n  \
         all:\n    base: /all\n    cors: {{origins: \"*\"}}\n    routes: [{{get: /, reply: {{text: hello}}}}]\n  \
         none:\n    base: /none\n    routes: [{{get: /, reply: {{text: hello}}}}]\n",
        upstream.listen[0]
    ))
    .start()
}

fn preflight(server: &Server, path: &str, origin: &str) -> Response {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "x-api-key"),
    ];
    server.connect().request("OPTIONS", path, &headers, "")
}

#[test]
fn a_preflight_is_answered_without_a_credential() {
    let echo = harness::echo(&[]);
    let server = server(&echo);
    let response = preflight(&server, "/app", APP);
    assert_eq!((response.status, response.body.len()), (204, 0));
    for (name, expected) in [
        ("access-control-allow-origin", APP),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-headers", "content-type, x-api-key"),
        ("access-control-max-age", "3600"),
    ] {
        assert_eq!(response.header(name), Some(expected), "{name}");
    }
    let methods = response.header("access-control-allow-methods").unwrap();
    assert!(methods.contains("GET") && methods.contains("PUT"), "{methods}");
    for origin in [
        "https://evil.example.com",
        "http://app.example.com",
        "null",
        "https://app.example.com.evil",
    ] {
        let response = preflight(&server, "/app", origin);
        assert_eq!(response.header("access-control-allow-origin"), None, "{origin}");
        assert_eq!(response.header("access-control-allow-methods"), None, "{origin}");
    }
    let response = preflight(&server, "/all", "https://any.example");
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    assert_eq!(response.header("access-control-allow-credentials"), None);
    let response = preflight(&server, "/none", APP);
    assert_eq!(response.header("access-control-allow-origin"), None, "no rules, no permission");
    assert_eq!(server.metric("http_client_request_duration_seconds_count", &[]), 0.0);
}

#[test]
fn actual_responses_may_be_read_rejections_too() {
    let echo = harness::echo(&[]);
    let server = server(&echo);
    let get =
        |path: &str, origin: &str| server.connect().request("GET", path, &[("origin", origin)], "");
    let response = get("/app/open", APP);
    assert_eq!((response.status, response.header("access-control-allow-origin")), (200, Some(APP)));
    assert_eq!(response.header("access-control-expose-headers"), Some("etag"));
    assert!(response.header("vary").unwrap().contains("origin"));
    let refused = get("/app", APP);
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, Some(APP)));
    let response = get("/app/open", "https://evil.example.com");
    assert_eq!((response.status, response.header("access-control-allow-origin")), (200, None));
    assert_eq!(get("/none", APP).header("access-control-allow-origin"), None);
}
