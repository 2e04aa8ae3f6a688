//! Counting calls: whose, which, and what comes back after a restart.

use crate::admin_api::{ask, command, data, first_token, get};
use crate::harness::{self, Server, Signal, Upstream, Weir, eventually, key_hash, weir};
use serde_json::Value;
use std::time::Duration;

/// Consumers `acme`, with a plan with a quota, and `beta`, without one; APIs `orders` and `site`,
/// and `dead`, which nobody serves; with more lines at the top level.
fn config(quota: &str, more: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\n{more}\n\
         auth: {{keys: {{api_key: {{header: x-key}}}}}}\nplans: {{gold: {{{quota}}}}}\n\
         consumers:\n  acme: {{plan: gold, api_keys: [\"{}\"]}}\n  beta: {{api_keys: [\"{}\"]}}\n\
         upstreams: {{dead: {{targets: [\"http://127.0.0.1:1\"], connect_timeout: 1s}}}}\n\
         apis:\n  orders:\n    base: /orders\n    auth: keys\n    routes:\n      \
         - {{op: hello, get: /hello, reply: {{text: hello}}}}\n      \
         - {{op: send, post: /send, reply: {{text: taken}}}}\n  \
         site:\n    base: /site\n    routes: [{{get: /, reply: {{text: page}}}}]\n  \
         dead:\n    base: /dead\n    routes: [{{get: /, proxy: dead}}]\n",
        key_hash("of acme"),
        key_hash("of beta"),
    )
}

fn call(server: &Server, key: &str, path: &str) -> u16 {
    server.connect().request("GET", path, &[("x-key", key)], "").status
}

/// Waits until everything is counted and written.
pub(crate) fn settle(server: &Server) {
    eventually("everything is counted", || server.metric("weir_monitor_lag_seconds", &[]) == 0.0);
}

/// Rows of usage, once everything is counted.
pub(crate) fn usage(server: &Server, query: &str) -> Vec<Value> {
    settle(server);
    let response = get(server, &format!("/v1/usage?{query}"), &first_token(server));
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["rows"].as_array().unwrap().clone()
}

pub(crate) fn calls(rows: &[Value]) -> u64 {
    rows.iter().map(|row| row["calls"].as_u64().unwrap()).sum()
}

#[test]
fn calls_are_counted_by_rules_and_plans_with_nothing_recorded() {
    let more = "monitor: {count: [{api: orders, operation: send, consumer: beta}]}";
    let mut server = Weir::new(&config("quota: {calls: 1000, per: day}", more)).start();
    for _ in 0..3 {
        assert_eq!(call(&server, "of acme", "/orders/hello"), 200);
        assert_eq!(call(&server, "of beta", "/orders/hello"), 200);
        assert_eq!(call(&server, "", "/site"), 200);
    }
    assert_eq!(call(&server, "wrong", "/orders/hello"), 401);
    assert_eq!(call(&server, "of acme", "/orders/nothing"), 404);
    for body in ["four", "sixsix"] {
        let sent = server.connect().request("POST", "/orders/send", &[("x-key", "of beta")], body);
        assert_eq!(sent.status, 200);
    }
    let chunked = "POST /orders/send HTTP/1.1\r\nHost: a\r\nx-key: of beta\r\n\
                   Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n";
    let mut client = server.connect();
    client.send(chunked);
    assert_eq!(client.response().status, 200);

    let rows = usage(&server, "by=consumer,operation,plan,status");
    assert_eq!(rows.len(), 2, "{rows:?}");
    let (acme, beta) = (&rows[0], &rows[1]);
    assert_eq!((&acme["consumer"], &acme["operation"]), (&"acme".into(), &"hello".into()));
    assert_eq!((&acme["plan"], &acme["calls"]), (&"gold".into(), &3.into()));
    assert_eq!((&acme["request_bytes"], &acme["response_bytes"]), (&0.into(), &15.into()));
    assert_eq!(
        (&beta["operation"], &beta["calls"], &beta["status"]),
        (&"send".into(), &3.into(), &"2xx".into())
    );
    assert_eq!((&beta["request_bytes"], &beta["response_bytes"]), (&15.into(), &15.into()));
    assert!(acme["p50_us"].as_u64().unwrap() > 0, "{acme}");

    // There is nothing that the Tracker shows.
    let token = first_token(&server);
    assert_eq!(get(&server, "/v1/transactions", &token).status, 409);
    let bad = get(&server, "/v1/usage?by=nobody", &token);
    assert!(bad.status == 400 && bad.text().contains("consumer, api"), "{}", bad.text());

    let args = ["usage", "--json", "--by", "consumer,api", "--step", "day", "--from", "1d"];
    let (done, told, error) = command(&server, &token, &args);
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(done && lines.len() == 2 && lines[0]["calls"] == 3, "{told}{error}");
    let (done, told, _) = command(&server, &token, &["usage"]);
    assert!(done && told.starts_with("CONSUMER  CALLS"), "{told}");
    let (done, told, error) = command(&server, &token, &["monitor", "rebuild", "--json"]);
    let rebuilt: Value = serde_json::from_str(&told).unwrap_or_default();
    assert!(done, "{error}");
    assert_eq!((&rebuilt["before"], &rebuilt["after"]), (&6.into(), &6.into()), "{rebuilt}");

    server.signal(Signal::TERM);
    server.wait();
    let output = weir(server.dir(), &["usage", "--json", "--data", "data", "--by", "plan"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(told.lines().count(), 2, "{told}");
    let output = weir(server.dir(), &["monitor", "rebuild", "--data", "data"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("calls before 6, now 6"), "{told}{output:?}");
}

#[test]
fn what_counts_is_configured_and_can_be_changed() {
    let slow = Upstream::start(|_, peer| {
        peer.head();
        peer.hang();
    });
    let base = |counts: &str| {
        let more = format!("monitor: {{count: all, counts: {{{counts}}}}}");
        let all = config("rate: 1000/s", &more);
        let slow = format!("upstreams:\n  slow: {{targets: [\"http://{}\"]}}\n", slow.addr);
        all.replace("upstreams: {", &format!("{slow}  ")).replace("1s}}", "1s}")
            + "  slow:\n    base: /slow\n    routes: [{path: /, proxy: slow}]\n"
    };
    let mut server = Weir::new(&base("")).start();
    let all = |server: &Server| {
        assert_eq!(call(server, "wrong", "/orders/hello"), 401);
        assert_eq!(call(server, "", "/dead"), 502);
        assert_eq!(call(server, "of acme", "/orders/hello"), 200);
        // One that leaves before it has sent everything.
        let mut client = server.connect();
        let before = slow.heads().len();
        client.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1");
        slow.wait_for_requests(before + 1);
        client.reset();
    };
    let status = |server: &Server| -> Vec<(String, u64)> {
        let told = |row: &Value| {
            (row["status"].as_str().unwrap().to_owned(), row["calls"].as_u64().unwrap())
        };
        usage(server, "by=status").iter().map(told).collect()
    };
    let counted = |server: &Server, calls: u64| {
        eventually("they are counted", || {
            server.metric("weir_monitor_counted_total", &[]) >= calls as f64
        });
    };
    let expected = |list: &[(&str, u64)]| -> Vec<(String, u64)> {
        list.iter().map(|(class, calls)| ((*class).to_owned(), *calls)).collect()
    };
    all(&server);
    counted(&server, 3);
    assert_eq!(status(&server), expected(&[("none", 1), ("2xx", 1), ("5xx", 1)]));
    server.reload(&base("rejected: true, failed: false, interrupted: false"));
    all(&server);
    counted(&server, 5);
    assert_eq!(status(&server), expected(&[("none", 1), ("2xx", 2), ("4xx", 1), ("5xx", 1)]));
    // Back again; nothing else was ever counted.
    server.reload(&base("failed: false, interrupted: false"));
    all(&server);
    counted(&server, 6);
    assert_eq!(calls(&usage(&server, "")), 6);
}

#[test]
fn what_is_only_counted_is_one_small_record_even_if_nothing_may_be_left_out() {
    let config = config("rate: 10000/s", "monitor: {count: all}\njournal: {when_full: refuse}");
    let server = Weir::new(&config).start();
    let mut client = server.connect();
    let mut request = |method: &str, path: &str, body: &str| {
        client.request(method, path, &[("x-key", "of acme")], body).status
    };
    let records = || server.metric("weir_journal_records_total", &[]);
    let before = records();
    for _ in 0..20 {
        assert_eq!(request("GET", "/orders/hello", ""), 200);
        assert_eq!(request("POST", "/orders/send", "some body"), 200);
        assert_eq!(request("GET", "/dead", ""), 502);
    }
    assert_eq!(records() - before, 60.0);
    let rows = usage(&server, "by=operation");
    assert_eq!(calls(&rows), 60, "{rows:?}");
    let sent = rows.iter().find(|row| row["operation"] == "send").unwrap();
    assert_eq!(sent["request_bytes"], 180, "{sent}");
}

#[test]
fn what_was_sent_twice_or_again_counts_as_configured() {
    // It closes each connection with the second request on it.
    let upstream = Upstream::start(|_, peer| {
        if peer.request().is_some() {
            peer.send("HTTP/1.1 503 x\r\ncontent-length: 2\r\n\r\nno");
            peer.head();
        }
    });
    let base = |counts: &str, billed: bool| {
        format!(
            "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\n\
             monitor: {{count: all, counts: {{{counts}}}}}\n\
             upstreams: {{back: {{targets: [\"http://{}\"]}}}}\n\
             apis: {{all: {{base: /, resubmit: {{billed: {billed}}}, routes: [{{path: \"/*\", proxy: back}}]}}}}\n",
            upstream.addr
        )
    };
    let mut server = Weir::new(&base("", false)).start();
    let counted = |server: &Server| {
        settle(server);
        server.metric("weir_monitor_counted_total", &[])
    };
    let retries = |server: &Server| server.metric("weir_upstream_retries_total", &[]);
    // Requests until one had to be repeated; gives how many, and the last one.
    let until_repeated = |server: &Server| {
        let before = retries(server);
        let (mut client, mut served, mut failed) = (server.connect(), 0.0, String::new());
        while retries(server) == before {
            let response = client.get("/");
            assert_eq!(response.status, 503);
            (served, failed) = (served + 1.0, crate::admin_api::id(&response));
        }
        (served, failed)
    };
    let again = |server: &Server, id: &str| {
        let path = format!("/v1/transactions/{id}/resubmit");
        let response = ask(server, "POST", &path, Some(&first_token(server)), "{}");
        assert_eq!(response.json()["status"], 503, "{}", response.text());
    };
    let (served, failed) = until_repeated(&server);
    let first = counted(&server);
    assert_eq!(first, served, "a call that is repeated is one call");
    again(&server, &failed);
    assert_eq!(counted(&server), first, "what is sent again is not billed");
    server.reload(&base("resubmitted: true", false));
    again(&server, &failed);
    assert_eq!(counted(&server), first + 1.0);
    server.reload(&base("", true));
    again(&server, &failed);
    assert_eq!(counted(&server), first + 2.0, "its route says that it is");
    server.reload(&base("retried: false", false));
    let before = counted(&server);
    let (served, _) = until_repeated(&server);
    assert_eq!(counted(&server), before + served - 1.0, "all but the one that was repeated");
}

/// Answers `200` come from consumers until the quota is used up, in spite of kills; no call that
/// was answered is ever forgotten. How large the quota is and how often it is killed can be said.
fn quota_survives(more: &str) {
    const CLIENTS: usize = 8;
    let size: u64 = harness::from_environment("WEIR_QUOTA", 4000);
    let wanted: usize = harness::from_environment("WEIR_KILLS", 5);
    let longest = 150 + size / 700;
    let quota = format!("quota: {{calls: {size}, per: year}}");
    let mut server = Weir::new(&config(&quota, more)).start();
    let (mut answered, mut kills) = (0, 0);
    loop {
        let addr = server.listen[0];
        let clients = std::array::from_fn::<_, CLIENTS, _>(|_| {
            std::thread::spawn(move || {
                let (mut answered, mut refused) = (0_u64, false);
                let mut client = harness::Client::try_connect(addr);
                while let Some(open) = &mut client {
                    if !open
                        .try_send("GET /orders/hello HTTP/1.1\r\nHost: a\r\nx-key: of acme\r\n\r\n")
                    {
                        break;
                    }
                    match open.try_response() {
                        Some(response) if response.status == 200 => answered += 1,
                        Some(response) if response.status == 429 => {
                            refused = true;
                            break;
                        }
                        _ => break,
                    }
                }
                (answered, refused)
            })
        });
        std::thread::sleep(Duration::from_millis(fastrand::u64(30..longest)));
        if kills < wanted {
            server.kill();
            kills += 1;
        }
        let ended = clients.map(|client| client.join().unwrap());
        answered += ended.iter().map(|(answered, _)| answered).sum::<u64>();
        if ended.iter().any(|(_, refused)| *refused) {
            break;
        }
        if server_is_gone(&mut server) {
            server.restart(&[]);
        }
    }
    if server_is_gone(&mut server) {
        server.restart(&[]);
    }
    assert_eq!(call(&server, "of acme", "/orders/hello"), 429);
    assert!(answered <= size, "{answered} of {size} were answered");
    // Each client may have been owed one answer when weir was killed.
    let lost = (kills * CLIENTS) as u64;
    assert!(answered + lost >= size, "only {answered} of {size} were answered, {kills} kills");
    let counted = calls(&usage(&server, "consumer=acme"));
    assert!((answered..=answered + lost).contains(&counted), "{counted} of {answered}");
    eprintln!("{answered} answered, {counted} counted, {kills} kills");
}

/// Whether it was killed just now.
fn server_is_gone(server: &mut Server) -> bool {
    harness::Client::try_connect(server.listen[0]).is_none()
}

#[test]
fn a_quota_survives_kills_with_nothing_recorded() {
    quota_survives("");
}

#[test]
fn a_quota_survives_kills_with_everything_recorded() {
    quota_survives("tracker: {enabled: true}");
}

#[test]
fn counting_needs_a_restart_to_begin_and_none_to_end() {
    let mut server = Weir::new(&config("rate: 1000/s", "")).start();
    assert!(!data(&server).join("journal").exists());
    server.replace("weir.yaml", config("rate: 1000/s", "monitor: {count: all}"));
    let refused = server.event("reload-refused").to_string();
    assert!(refused.contains("needs-restart") && refused.contains("`monitor`"), "{refused}");
    server.signal(Signal::TERM);
    server.wait();
    server.restart(&[]);
    assert_eq!(call(&server, "", "/site"), 200);
    assert_eq!(calls(&usage(&server, "")), 1);
    server.reload(&config("rate: 1000/s", ""));
    assert_eq!(call(&server, "", "/site"), 200);
    server.signal(Signal::TERM);
    server.wait();
    let output = weir(server.dir(), &["usage", "--json", "--data", "data"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["calls"], 1);
}
