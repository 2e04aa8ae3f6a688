//! Rolling quotas, and who is told how they stand.

use crate::harness::{Server, Weir};
use serde_json::Value;

/// SHA-256 of `k`.
const KEY: &str = "sha256:8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a";

fn server(plan: &str) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         auth: {{keys: {{api_key: {{header: x-api-key}}}}}}\n\
         plans: {{gold: {plan}}}\n\
         consumers: {{acme: {{plan: gold, api_keys: [\"{KEY}\"]}}}}\n\
         apis:\n  api: {{base: /, auth: keys, routes: [{{get: /, reply: {{text: hello}}}}]}}\n"
    ))
    .start()
}

fn statuses(server: &Server, count: usize) -> Vec<u16> {
    let get = |_| server.connect().request("GET", "/", &[("x-api-key", "k")], "").status;
    (0..count).map(get).collect()
}

fn limits(server: &Server) -> Vec<Value> {
    let admin = format!("http://{}", server.admin.unwrap());
    let output = crate::harness::weir(server.dir(), &["limits", "--json", "--admin", &admin]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_rolling_quota_is_told_in_headers_and_by_the_command() {
    let mut server = server("{quota: {calls: 3, per: day, rolling: true}}");
    assert_eq!(statuses(&server, 4), [200, 200, 200, 429]);
    let refused = server.connect().request("GET", "/", &[("x-api-key", "k")], "");
    assert_eq!(refused.json()["type"], "urn:weir:problem:quota-exhausted");
    assert_eq!(refused.header("ratelimit-policy"), Some("\"gold-quota\";q=3;w=86400"));
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((86_400..=86_400 + 24 * 60).contains(&wait), "{wait}");
    let told = limits(&server);
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["consumer"], &told[0]["throttled"]), (&"acme".into(), &"quota".into()));
    assert_eq!(told[0]["quota"]["used"], 3);
    assert_eq!(told[0]["quota"]["rolling"], true);
    assert_eq!(told[0]["refused_by_quota"], 2);
    // What was used comes back after a crash.
    server.kill();
    server.restart(&[]);
    assert_eq!(statuses(&server, 1), [429]);
    assert_eq!(limits(&server)[0]["quota"]["used"], 3);
}

#[test]
fn what_is_left_of_a_rate_is_told() {
    let server = server("{rate: 10/h, burst: 2}");
    assert_eq!(statuses(&server, 1), [200]);
    let told = limits(&server);
    assert_eq!((&told[0]["rate"]["remaining"], &told[0]["throttled"]), (&1.into(), &Value::Null));
    assert_eq!(statuses(&server, 2), [200, 429]);
    assert_eq!(limits(&server)[0]["throttled"], "rate");
}
