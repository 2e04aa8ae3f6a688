//! Figures of the console are those of what was recorded.

use crate::admin_api::{first_token, get};
use crate::harness::{Server, Upstream, Weir, eventually, key_hash};
use serde_json::{Value, json};
use std::time::Duration;

const KEY: &str = "a key of acme";

/// Answers `/STATUS/MILLISECONDS` so.
fn upstream() -> Upstream {
    Upstream::start(|_, peer| {
        while peer.request().is_some() {
            let head = peer.last_head();
            let mut parts = head.split(['/', ' ']).filter(|part| !part.is_empty()).skip(1);
            let status = parts.next().unwrap_or("200").to_owned();
            let wait = parts.next().and_then(|text| text.parse().ok()).unwrap_or(0);
            std::thread::sleep(Duration::from_millis(wait));
            peer.send(format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\nok"));
        }
    })
}

fn start(upstream: &Upstream) -> Server {
    let hash = key_hash(KEY);
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\ntracker: {{enabled: true}}\n\
         auth: {{keys: {{api_key: {{header: x-api-key}}}}}}\n\
         plans: {{gold: {{rate: 1/h, burst: 3}}}}\n\
         consumers: {{acme: {{plan: gold, api_keys: [\"{hash}\"]}}}}\n\
         upstreams: {{back: {{targets: [\"http://{}\"]}}}}\n\
         apis:\n  open: {{base: /open, routes: [{{op: quick, get: /quick, reply: {{text: hi}}}}, \
         {{op: slow, path: \"/*\", proxy: {{upstream: back, path: \"/{{*}}\"}}}}]}}\n  \
         closed: {{base: /closed, auth: keys, routes: [{{op: call, path: \"/*\", proxy: {{upstream: back, path: \"/{{*}}\"}}}}]}}\n",
        upstream.addr,
    ))
    .start()
}

/// All that was recorded, once so many transactions are.
fn export(server: &Server, count: usize) -> Vec<Value> {
    let token = first_token(server);
    let all = || -> Vec<Value> {
        let text = get(server, "/v1/transactions/export?limit=100000", &token).text();
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.filter(|line: &Value| line.get("end").is_none()).collect()
    };
    eventually("all is indexed", || all().len() >= count);
    all()
}

/// What so many of a hundred took at most, by the records themselves.
fn exact(times: &mut [u64], percent: usize) -> u64 {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

fn assert_near(told: &Value, exact: u64, what: &str) {
    let told = told.as_u64().unwrap_or_else(|| panic!("{what}: {told}"));
    assert!(told.abs_diff(exact) as f64 <= exact as f64 * 0.01, "{what}: {told} for {exact}");
}

#[test]
fn percentiles_are_within_one_percent_of_what_was_recorded() {
    let upstream = upstream();
    let server = start(&upstream);
    let mut client = server.connect();
    for turn in 0..150 {
        assert_eq!(client.get("/open/quick").status, 200);
        if turn % 3 == 0 {
            assert_eq!(client.get(&format!("/open/200/{}", turn % 9)).status, 200);
        }
    }
    let all = export(&server, 200);
    let token = first_token(&server);
    let traffic = get(&server, "/v1/traffic", &token).json();
    for operation in ["quick", "slow"] {
        let of = all.iter().filter(|one| one["operation"] == operation);
        let mut times: Vec<u64> = of.map(|one| one["took_us"].as_u64().unwrap()).collect();
        let routes = traffic["routes"].as_array().unwrap();
        let route = routes.iter().find(|route| route["operation"] == operation).unwrap();
        assert_eq!(route["requests"], times.len(), "{route}");
        for (name, percent) in [("p50_us", 50), ("p99_us", 99)] {
            let what = format!("{name} of {operation}");
            assert_near(&route[name], exact(&mut times, percent), &what);
        }
    }
    // The overview's: every point of the past has the quantiles of its own second.
    let now = crate::harness::unix_now();
    let path = format!("/v1/live/history?from={}&to={}", now - 600, now + 6000);
    let requests = |past: &Value| -> u64 {
        past["requests"].as_array().unwrap().iter().filter_map(Value::as_u64).sum()
    };
    let mut sent = 200;
    eventually("a second of the past has requests", || {
        sent += 1;
        assert_eq!(client.get("/open/quick").status, 200);
        requests(&get(&server, &path, &token).json()) > 0
    });
    let past = get(&server, &path, &token).json();
    let all = export(&server, sent);
    let mut times: Vec<u64> = all.iter().map(|one| one["took_us"].as_u64().unwrap()).collect();
    let (least, most) = (exact(&mut times, 0), exact(&mut times, 100));
    for name in ["p50_us", "p90_us", "p99_us"] {
        for told in past[name].as_array().unwrap().iter().filter_map(Value::as_u64) {
            let within = told as f64 >= least as f64 * 0.99 && told as f64 <= most as f64 * 1.01;
            assert!(within, "{name}: {told} of {least} to {most}");
        }
    }
}

#[test]
fn rejections_count_by_reason_and_exclude_responses_of_upstreams() {
    let upstream = upstream();
    let server = start(&upstream);
    let mut client = server.connect();
    // What an upstream answers, and what weir has no route for, is not turned away.
    for status in [401, 403, 404, 429, 503] {
        assert_eq!(client.get(&format!("/open/{status}/0")).status, status);
    }
    assert_eq!(client.get("/nowhere").status, 404);
    let key = [("x-api-key", KEY)];
    let mut called =
        |headers: &[(&str, &str)]| client.request("GET", "/closed/404/0", headers, "").status;
    assert_eq!([called(&key), called(&key), called(&key)], [404, 404, 404]);
    assert_eq!([called(&key), called(&key)], [429, 429]);
    assert_eq!([called(&[]), called(&[("x-api-key", "wrong")])], [401, 401]);
    let told = get(&server, "/v1/rejections", &first_token(&server)).json();
    assert_eq!(told["requests"], 4, "{told}");
    let of = |consumer: &str| -> Value {
        let all = told["consumers"].as_array().unwrap();
        all.iter().find(|one| one["consumer"] == consumer).cloned().unwrap_or_default()
    };
    let limited = json!([{"reason": "rate-limited", "status": 429, "requests": 2}]);
    assert_eq!(of("acme")["reasons"], limited);
    assert_eq!(of("")["requests"], 2, "{told}");
    let metric = |reason: &str| {
        let label = format!("error_type=\"{reason}\"");
        server.metric("weir_rejected_requests_total", &[&label])
    };
    let reasons = ["rate-limited", "missing-credential", "unknown-api-key", "no-route"];
    assert_eq!(reasons.map(metric), [2.0, 1.0, 1.0, 0.0]);
}
