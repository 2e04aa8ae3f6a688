//! Explain and serving have the same results.

mod leases;

use crate::gateway::Gateway;
use fastrand::Rng;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_auth::RevokedKeys;
use weir_config::{Config, Source};
use weir_gateway::Compiled;
use weir_gateway::explanation::{Explanation, Kind, Outcome};
use weir_gateway::request_text::RequestText;
use weir_net::passed::Passed;

/// Number of requests in an ordinary run; `WEIR_EXPLAIN_REQUESTS=10000` compares more.
const REQUESTS: usize = 3000;
const SECRET: &str = "0123456789abcdef0123456789abcdef";

const DOCUMENT: &str = r#"{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {
  "/orders": {
    "get": {"operationId": "list", "parameters": [
      {"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 9}}],
      "responses": {"200": {"description": "ok"}}},
    "post": {"operationId": "place", "requestBody": {"required": true, "content": {
      "application/json": {"schema": {"type": "object", "required": ["sku"],
        "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}}}},
      "responses": {"200": {"description": "ok"}}}}}}"#;

fn config(upstream: SocketAddr, key: impl Fn(&str) -> String) -> String {
    let (alpha, beta, gamma) = (key("alpha-key"), key("beta-key"), key("gamma-key"));
    format!(
        r#"
workers: 1
listen: [{{addr: "127.0.0.1:0"}}]
log: {{access: json, to: access.log}}
limits: {{url: 1KiB, body: 2KiB}}
auth:
  keys: {{api_key: {{header: x-api-key}}}}
  query: {{api_key: {{query: key}}}}
  corp: {{jwt: {{algorithms: HS256, key: "file:secret"}}}}
plans:
  small: {{quota: {{calls: 15, per: year}}}}
  rolling: {{quota: {{calls: 12, per: year, rolling: true}}}}
  slow: {{rate: 1/h, burst: 50}}
consumers:
  alpha: {{plan: small, api_keys: ["{alpha}"]}}
  beta: {{plan: slow, api_keys: ["{beta}"], match: {{auth: corp, when: 'claims.sub == "beta"'}}}}
  gamma: {{plan: rolling, api_keys: ["{gamma}"]}}
upstreams:
  back:
    targets: ["http://{upstream}"]
    auth: {{header: {{name: x-inner, value: upstream-s3cret}}}}
apis:
  plain:
    base: /
    hosts: ["*.example", localhost, shop.local, "127.0.0.1", a]
    cors: {{origins: ["https://app.example"]}}
    routes:
      - {{get: /, reply: {{text: root}}}}
      - {{get: "/items/{{id}}", reply: {{json: {{a: 1}}}}}}
      - {{post: "/items/{{id}}", request: {{map: {{sku: "$.sku"}}}}, proxy: back}}
      - {{put: "/items/special", reply: {{status: 202}}}}
      - {{get: "/files/*", files: {{root: files}}}}
      - {{path: "/any/*", proxy: {{upstream: back, path: strip-base}}}}
  guarded:
    base: /guarded
    hosts: ["*.example", localhost, "127.0.0.1", a]
    auth: [keys, query]
    limit: {{rate: 1/h, burst: 40, key: consumer}}
    routes:
      - {{get: "/{{name}}", proxy: back}}
      - {{post: /, limit: {{rate: 1/h, burst: 4, key: {{cel: "request.headers['x-group']"}}}}, proxy: back}}
  tokens:
    base: /tokens
    hosts: ["*.example"]
    auth: [corp, anonymous]
    routes:
      - {{get: /, reply: {{text: token}}}}
      - {{post: /scoped, auth: {{corp: {{scopes: [write]}}}}, proxy: back}}
  shop:
    base: /shop
    hosts: ["*.example", localhost]
    openapi: shop.json
    routes:
      - {{op: list, proxy: back}}
      - {{op: place, proxy: back}}
"#
    )
}

fn hash(key: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn load(dir: &Path, upstream: SocketAddr) -> (Arc<Config>, Compiled) {
    std::fs::create_dir_all(dir.join("files")).unwrap();
    for (name, text) in [
        ("weir.yaml", config(upstream, hash).as_str()),
        ("secret", SECRET),
        ("shop.json", DOCUMENT),
        ("files/a.txt", "a file"),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let source = Source { path: dir.join("weir.yaml"), ..Default::default() };
    let loaded =
        weir_gateway::configuration::load(&source).unwrap_or_else(|found| panic!("{found:?}"));
    (Arc::new(loaded.config), loaded.compiled)
}

/// An upstream that responds to every request with 200; returns its address and the received heads.
fn upstream() -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (sender, heads) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), sender) = (stream, sender.clone()) else { return };
            std::thread::spawn(move || {
                let (mut read, mut part) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = stream.read(&mut part) {
                    read.extend_from_slice(&part[..count]);
                    let text = String::from_utf8_lossy(&read).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head
                        .lines()
                        .filter_map(|line| line.split_once(':'))
                        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                        .map_or(0, |(_, value)| value.trim().parse().unwrap());
                    if body.len() >= length {
                        let _ = sender.send(text.clone());
                        read.clear();
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                        if stream.write_all(answer).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (addr, heads)
}

fn token(sub: &str, scope: &str, expires: i64) -> String {
    let now = jiff::Timestamp::now().as_second();
    let claims = json!({"sub": sub, "scope": scope, "exp": now + expires});
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    let header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS256);
    format!("Bearer {}", jsonwebtoken::encode(&header, &claims, &key).unwrap())
}

/// A random request that mostly matches one of the APIs.
fn generated(random: &mut Rng, tokens: &[String]) -> RequestText {
    let mut pick = |from: &[&str]| from[random.usize(..from.len())].to_owned();
    let method = pick(&["GET", "GET", "GET", "POST", "POST", "PUT", "HEAD", "OPTIONS", "PATCH"]);
    let path = pick(&[
        "/",
        "/items/7",
        "/items/special",
        "/items/a%20b",
        "/items//",
        "/items",
        "/files/a.txt",
        "/files/none",
        "/files/%2e%2e/secret",
        "/any/x/y",
        "/guarded/me",
        "/guarded/me",
        "/guarded/me",
        "/guarded",
        "/guarded",
        "/guarded",
        "/tokens",
        "/tokens/scoped",
        "/tokens/scoped",
        "/shop/orders",
        "/shop/orders",
        "/shop/other",
        "/%zz",
        "*",
        "/a/../items/7",
        "/nowhere",
    ]);
    let query = pick(&["", "", "?limit=3", "?limit=30", "?limit=x&limit=3", "?key=alpha-key"]);
    let mut headers = vec![("connection".to_owned(), "close".to_owned())];
    let host = pick(&[
        "a.example",
        "a.example",
        "a.example",
        "a.example",
        "a.example",
        "a.example",
        "A.Example:80",
        "localhost",
        "x.example",
        "x.example",
        "other",
        "",
    ]);
    headers.push(("host".to_owned(), host));
    let credential = pick(&["none", "alpha-key", "beta-key", "gamma-key", "wrong", "twice"]);
    match credential.as_str() {
        "none" => {}
        "twice" => headers
            .extend(["alpha-key", "beta-key"].map(|key| ("x-api-key".to_owned(), key.to_owned()))),
        key => headers.push(("x-api-key".to_owned(), key.to_owned())),
    }
    let kind = pick(&["application/json", "application/json", "text/plain", ""]);
    if !kind.is_empty() {
        headers.push(("content-type".to_owned(), kind));
    }
    let body = pick(&["", r#"{"sku":"a"}"#, r#"{"sku":1}"#, "{}", "{", "[1]", "long"]);
    let body = if body == "long" { "x".repeat(3000) } else { body };
    headers.push(("x-group".to_owned(), pick(&["a", "b"])));
    let extra = pick(&[
        "origin",
        "preflight",
        "expect",
        "via",
        "odd",
        "bad",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
    ]);
    match extra.as_str() {
        "origin" => headers.push(("origin".to_owned(), "https://app.example".to_owned())),
        "preflight" => headers.extend(
            [("origin", "https://app.example"), ("access-control-request-method", "POST")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        ),
        "expect" => headers.push(("expect".to_owned(), "miracles".to_owned())),
        "via" => headers.push(("x-forwarded-for".to_owned(), "192.0.2.1".to_owned())),
        "odd" => headers.push(("x-long".to_owned(), "y".repeat(random.usize(..60_000)))),
        "bad" => headers.push(("bad name".to_owned(), "x".to_owned())),
        _ => {}
    }
    if random.u8(..) < 100 {
        let at = random.usize(..tokens.len());
        headers.push(("authorization".to_owned(), tokens[at].clone()));
    }
    let query = if path == "*" { String::new() } else { query };
    let target = if random.u8(..) < 3 { format!("/{}", "u".repeat(1100)) } else { path + &query };
    RequestText { method, target, headers, body: body.into_bytes(), ..RequestText::default() }
}

/// The status of the response to a request.
fn sent(addr: SocketAddr, ask: &RequestText) -> u16 {
    let mut text = format!("{} {} HTTP/1.1\r\n", ask.method, ask.target);
    for (name, value) in &ask.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !ask.body.is_empty() {
        text.push_str(&format!("content-length: {}\r\n", ask.body.len()));
    }
    text.push_str("\r\n");
    let mut stream = TcpStream::connect(addr).unwrap();
    let bytes = [text.as_bytes(), &ask.body].concat();
    let _ = stream.write_all(&bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

fn logged(dir: &Path, count: usize) -> Vec<Value> {
    for _ in 0..200 {
        let text = std::fs::read_to_string(dir.join("access.log")).unwrap_or_default();
        let lines: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if lines.len() >= count {
            return lines;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the access log has fewer than {count} lines");
}

/// Observable results: status, problem, API, operation, consumer.
type Seen = (u16, Option<String>, Option<String>, Option<String>, Option<String>);

fn explained(explanation: &Explanation) -> Seen {
    let decision = &explanation.decision;
    // The status of the upstream.
    let handed_on = decision.kind == Kind::HandedOn;
    (
        if handed_on { 200 } else { decision.status.unwrap() },
        decision.problem.clone(),
        explanation.api.clone(),
        explanation.operation.clone(),
        explanation.principal.as_ref().and_then(|who| who.consumer.clone()),
    )
}

fn done(status: u16, line: &Value) -> Seen {
    let text = |name: &str| line[name].as_str().map(str::to_owned);
    assert_eq!(line["status"], status);
    (status, text("problem"), text("api"), text("operation"), text("consumer"))
}

fn start(dir: &Path) -> (Gateway, SocketAddr, std::sync::mpsc::Receiver<String>) {
    let (back, heads) = upstream();
    let (config, compiled) = load(dir, back);
    let bound = Gateway::bind(&config, &mut Passed::default()).unwrap();
    let addr = bound.listen_addrs()[0];
    (bound.start(config, compiled, vec![]).unwrap(), addr, heads)
}

#[test]
fn what_is_explained_is_what_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, addr, _heads) = start(dir.path());
    let count = std::env::var("WEIR_EXPLAIN_REQUESTS").ok().and_then(|n| n.parse().ok());
    let count = count.unwrap_or(REQUESTS);
    let mut random = Rng::with_seed(7);
    let tokens = [
        token("beta", "write", 600),
        token("beta", "read", 600),
        token("nobody", "write read", 600),
        token("beta", "write", -600),
        "Bearer nonsense".to_owned(),
        "Basic YTpi".to_owned(),
    ];
    let mut expected = Vec::new();
    for _ in 0..count {
        let ask = generated(&mut random, &tokens);
        let explanation = gateway.explain(ask.clone()).unwrap();
        expected.push((explained(&explanation), sent(addr, &ask), ask));
    }
    let lines = logged(dir.path(), count);
    assert_eq!(lines.len(), count, "explanations leave no line in the log");
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for ((explained, status, ask), line) in expected.iter().zip(&lines) {
        let done = done(*status, line);
        assert_eq!(*explained, done, "{} {} {:?}", ask.method, ask.target, ask.headers);
        *kinds.entry(done.1.unwrap_or_else(|| done.0.to_string())).or_default() += 1;
    }
    // Every policy has rejected or responded at least once.
    for kind in [
        "200",
        "204",
        "202",
        "no-route",
        "unknown-host",
        "method-not-allowed",
        "bad-request",
        "missing-credential",
        "unknown-api-key",
        "malformed-credential",
        "token-expired",
        "insufficient-scope",
        "rate-limited",
        "quota-exhausted",
        "invalid-request",
        "malformed-json",
        "unsupported-media-type",
        "body-too-large",
        "url-too-long",
        "headers-too-large",
        "expectation-failed",
        "no-file",
    ] {
        assert!(kinds.contains_key(kind), "{kind} is missing: {kinds:?}");
    }
    gateway.finish_draining(Duration::from_secs(5));
}

/// The counters of requests.
fn counted(gateway: &Gateway) -> Vec<u64> {
    let stats = gateway.stats();
    let requests = stats.requests.values().map(|durations| durations.count).sum();
    let totals = &stats.totals;
    let more = [totals.active, totals.aborted, totals.request_bytes, totals.response_bytes];
    let refused = [totals.bad_requests, totals.limited, totals.over_quota, totals.invalid_requests];
    let kept = [stats.token_misses, stats.limit_keys, stats.targets.len() as u64, requests];
    [more, refused, kept].concat()
}

#[test]
fn nothing_is_sent_counted_or_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, addr, heads) = start(dir.path());
    let ask = |path: &str, key: &str| RequestText {
        method: "GET".to_owned(),
        target: path.to_owned(),
        headers: vec![("x-api-key".to_owned(), key.to_owned())],
        ..RequestText::default()
    };
    assert_eq!(
        sent(
            addr,
            &RequestText {
                headers: vec![
                    ("host".to_owned(), "a".to_owned()),
                    ("x-api-key".to_owned(), "alpha-key".to_owned()),
                    ("connection".to_owned(), "close".to_owned())
                ],
                ..ask("/guarded/me", "")
            }
        ),
        200
    );
    assert!(heads.recv().unwrap().contains("x-inner: upstream-s3cret"));
    // Without the seconds until the end of the quota period, which change meanwhile.
    let limits = || {
        let mut limits = gateway.limits();
        let quotas = limits.consumers.iter_mut().filter_map(|plan| plan.quota.as_mut());
        quotas.for_each(|quota| quota.reset_seconds = 0);
        limits
    };
    let before = limits();
    let served = counted(&gateway);
    for _ in 0..100 {
        let explained = gateway.explain(ask("/guarded/me", "alpha-key")).unwrap();
        assert_eq!(explained.decision.kind, Kind::HandedOn);
        let limit = explained.steps.iter().find(|step| step.name == "limit").unwrap();
        let whys: Vec<&str> = limit.parts.iter().map(|part| part.why.as_str()).collect();
        assert!(whys[0].ends_with("38 remaining after the request"), "{whys:?}");
        assert!(whys[1].ends_with("13 remaining after the request"), "{whys:?}");
        let refused = gateway.explain(ask("/guarded/me", "wrong")).unwrap();
        assert_eq!(refused.decision.problem.as_deref(), Some("unknown-api-key"));
    }
    assert_eq!(limits(), before);
    assert_eq!(counted(&gateway), served);
    assert!(heads.try_recv().is_err(), "the upstream was sent something");
    gateway.finish_draining(Duration::from_secs(5));
}

#[test]
fn keys_that_are_revoked_before_the_start_are_never_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let (back, _heads) = upstream();
    let (config, compiled) = load(dir.path(), back);
    let mut bound = Gateway::bind(&config, &mut Passed::default()).unwrap();
    let addr = bound.listen_addrs()[0];
    let key = config.consumers.iter().find(|consumer| consumer.name == "alpha").unwrap();
    let revoked = RevokedKeys::from_iter([key.api_keys[0].hash]);
    bound.revoke_keys(revoked.clone());
    let gateway = bound.start(Arc::clone(&config), compiled.clone(), vec![]).unwrap();
    let headers = [("host", "a"), ("x-api-key", "alpha-key"), ("connection", "close")];
    let request = RequestText {
        method: "GET".to_owned(),
        target: "/guarded/me".to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..RequestText::default()
    };
    let explained = || gateway.explain(request.clone()).unwrap().decision.problem;
    assert_eq!((sent(addr, &request), explained().as_deref()), (401, Some("api-key-revoked")));
    gateway.reload(Arc::clone(&config), compiled).unwrap();
    assert_eq!((sent(addr, &request), explained().as_deref()), (401, Some("api-key-revoked")));
    gateway.revoke_keys(RevokedKeys::default());
    assert_eq!((sent(addr, &request), explained()), (200, None));
    gateway.revoke_keys(revoked);
    assert_eq!((sent(addr, &request), explained().as_deref()), (401, Some("api-key-revoked")));
    gateway.finish_draining(Duration::from_secs(5));
}

#[test]
fn it_is_told_what_would_be_sent_with_credentials_masked_and_what_came_near() {
    let dir = tempfile::tempdir().unwrap();
    let (config, compiled) = load(dir.path(), "127.0.0.1:9".parse().unwrap());
    let ask = RequestText {
        method: "POST".to_owned(),
        target: "http://shop.local/items/a%20b?q=1".to_owned(),
        headers: [
            ("content-type", "application/json"),
            ("authorization", "Bearer s3cret"),
            ("x-api-key", "s3cret"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        body: br#"{"sku": "x", "more": true}"#.to_vec(),
        ..RequestText::default()
    };
    let explain = |request| {
        let (config, compiled) = (Arc::clone(&config), compiled.clone());
        weir_gateway::explain::offline(config, compiled, request).unwrap().unwrap()
    };
    let told = explain(ask.clone());
    assert_eq!(told.host, "shop.local");
    assert_eq!(told.parameters[0].value, "a b");
    let sent = told.sent.as_ref().unwrap();
    assert_eq!((sent.name.as_str(), sent.line.as_str()), ("back", "POST /items/a%20b?q=1"));
    assert_eq!(sent.body.as_ref().unwrap().text.as_deref(), Some(r#"{"sku":"x"}"#));
    let masked: Vec<&str> =
        sent.headers.iter().filter(|h| h.value == "***").map(|h| h.name.as_str()).collect();
    assert_eq!(masked, ["authorization", "x-api-key", "x-inner"]);
    assert!(!serde_json::to_string(&told).unwrap().contains("s3cret"));
    let near = &told.others[0];
    assert_eq!((near.path.as_str(), near.why.as_str()), ("/items/{id}", "accepts GET, not POST"));
    let names: Vec<&str> = told.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names[..5], ["head", "route", "clients", "auth", "limit"]);
    let later = RequestText { target: "/guarded/me".to_owned(), method: "GET".to_owned(), ..ask };
    let told = explain(later);
    assert_eq!(told.steps[3].outcome, Outcome::Refused);
    assert_eq!(told.steps[4].outcome, Outcome::NotReached);
    let ways: Vec<&str> = told.steps[3].parts.iter().map(|part| part.outcome.as_str()).collect();
    assert_eq!(ways, ["refused", "absent"]);
}

#[test]
fn what_cannot_be_sent_is_not_explained() {
    let dir = tempfile::tempdir().unwrap();
    let (config, compiled) = load(dir.path(), "127.0.0.1:9".parse().unwrap());
    let explain = |ask| {
        let (config, compiled) = (Arc::clone(&config), compiled.clone());
        weir_gateway::explain::offline(config, compiled, ask).unwrap().map(|_| ())
    };
    let good =
        RequestText { method: "GET".to_owned(), target: "/".to_owned(), ..RequestText::default() };
    assert_eq!(explain(good.clone()), Ok(()));
    for bad in [
        RequestText { method: "GET / HTTP/1.1\r\nx: y\r\n".to_owned(), ..good.clone() },
        RequestText { target: "nowhere".to_owned(), ..good.clone() },
        RequestText { target: "ftp://a/".to_owned(), ..good.clone() },
        RequestText { headers: vec![("a".to_owned(), "b\nc: d".to_owned())], ..good.clone() },
        RequestText { listener: Some("1.2.3.4:5".to_owned()), ..good },
    ] {
        assert!(explain(bad.clone()).is_err(), "{bad:?}");
    }
}
