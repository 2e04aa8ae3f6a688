//! Figures of transactions: what distinguishes a group, and rate, outcomes and durations over time.

use super::{KEYS, PAYLOAD_VIEWER, VIEWER, encode, lines};
use crate::admin_api::{command, get, id, tokens};
use crate::harness::{Server, Upstream, Weir, eventually};
use serde_json::{Value, json};
use std::time::Duration;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BROKEN: &str = "HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n";

/// How long the target that fails takes.
const SLOW: Duration = Duration::from_millis(20);

/// weir before two targets, by turns; one of them is slow and fails.
fn start() -> (Server, [Upstream; 2]) {
    let bad = Upstream::start(|_, peer| {
        while peer.request().is_some() {
            std::thread::sleep(SLOW);
            peer.send(BROKEN);
        }
    });
    let targets = [Upstream::responding(OK), bad];
    let named = targets.each_ref().map(|one| format!("\"http://{}\"", one.addr)).join(", ");
    let weir = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true{KEYS}}}\n\
         upstreams: {{two: {{targets: [{named}], health: {{failures: 0}}}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", op: any, proxy: two}}]}}}}\n"
    ));
    (weir.start(), targets)
}

fn figures(server: &Server, token: &str, kind: &str, query: &str) -> Value {
    let response = get(server, &format!("/v1/transactions/{kind}?{query}"), token);
    assert_eq!(response.status, 200, "{query}: {}", response.text());
    response.json()
}

#[test]
fn what_distinguishes_failures_is_the_target_that_fails() {
    let (server, [good, bad]) = start();
    let tokens = tokens(&server);
    let mut client = server.connect();
    for number in 0..60 {
        let order = format!("{{\"orderId\": \"A-{}\"}}", number % 4);
        client.post(&format!("/orders/{}", number % 7), &order);
    }
    let (good, bad) = (good.addr.to_string(), bad.addr.to_string());
    let difference =
        |query: &str, role: usize| figures(&server, &tokens[role], "difference", query);
    let found = difference("q=status:500&among=", VIEWER);
    assert_eq!((&found["group"], &found["rest"]), (&json!(30), &json!(30)), "{found}");
    let first = &found["attributes"][0];
    assert_eq!((&first["field"], &first["difference"]), (&json!("upstream_target"), &json!(1.0)));
    let mut values = first["values"].as_array().unwrap().clone();
    values.sort_by_key(|one| one["group"].as_u64());
    let share = |value: &str, group, rest| json!({"value": value, "group": group, "rest": rest});
    assert_eq!(values, [share(&good, 0, 30), share(&bad, 30, 0)]);
    // The paths do not differ more than chance would explain, and the rest is alike.
    let mut others = found["attributes"].as_array().unwrap().iter().skip(1);
    assert!(others.all(|one| one["difference"] == 0.0), "{found}");

    // Business keys: only on request, and then each failure has one of two.
    let found = difference("q=status:500&keys=true", PAYLOAD_VIEWER);
    let key =
        found["attributes"].as_array().unwrap().iter().find(|one| one["field"] == "key.order");
    assert_eq!(key.unwrap()["difference"], 0.5, "{found}");
    // Among a part of all.
    let found =
        difference(&format!("q=status:500&among={}", encode("target:orders/1")), PAYLOAD_VIEWER);
    assert_eq!(found["group"].as_u64().unwrap() + found["rest"].as_u64().unwrap(), 9, "{found}");
    // Nothing to compare with.
    let found = difference("q=api:all", VIEWER);
    assert_eq!((&found["group"], &found["rest"]), (&json!(60), &json!(0)), "{found}");
    assert!(found["attributes"].as_array().unwrap().iter().all(|one| one["difference"] == 0.0));

    let (ok, out, said) =
        command(&server, &tokens[VIEWER], &["search", "status:500", "--difference"]);
    assert!(ok, "{said}");
    assert!(out.contains("30 transactions, compared with 30 others"), "{out}");
    let line = out.lines().find(|line| line.contains(&bad)).unwrap();
    assert!(line.contains("upstream_target") && line.contains("100.0 %  0.0 %"), "{out}");
    let args = ["search", "status:500", "--difference=status:*", "--keys", "--json"];
    let (_, out, _) = command(&server, &tokens[PAYLOAD_VIEWER], &args);
    assert!(lines(&out).iter().any(|line| line["id"] == "attribute/key.order/A-1"), "{out}");
}

#[test]
fn a_profile_has_every_transaction_once_and_the_slowest_first() {
    let (server, [_good, _bad]) = start();
    let tokens = tokens(&server);
    let mut client = server.connect();
    let ids: Vec<String> = (0..40).map(|_| id(&client.get("/x"))).collect();
    // The same figures from the end of the journal, from the open part and from files.
    for indexed in [false, true] {
        if indexed {
            eventually("all are indexed", || server.metric("weir_index_transactions", &[]) == 40.0);
        }
        let found = figures(&server, &tokens[VIEWER], "profile", "q=api:all");
        assert_eq!((&found["matched"], &found["failed"]), (&json!(40), &json!(20)), "{found}");
        let intervals = found["intervals"].as_array().unwrap();
        let sum = |of: &dyn Fn(&Value) -> u64| intervals.iter().map(of).sum::<u64>();
        let class = |at: usize| sum(&|one| one["classes"][at].as_u64().unwrap());
        assert_eq!([0, 1, 2, 3, 4, 5].map(class), [0, 0, 20, 0, 0, 20]);
        let bins = |one: &Value| -> u64 {
            let bins = one["durations"]["bins"].as_array().unwrap();
            bins.iter().map(|bin| bin[1].as_u64().unwrap()).sum()
        };
        assert_eq!(sum(&bins), 40);
        let quantile = |name: &str| found["durations"][name].as_u64().unwrap();
        let slow = SLOW.as_micros() as u64;
        // To a 32nd.
        assert!(quantile("p90_us") >= slow - slow / 32, "{found}");
        assert!(
            quantile("p50_us") <= quantile("p90_us") && quantile("p99_us") <= quantile("max_us")
        );
        let slowest = found["slowest"].as_array().unwrap();
        assert!(slowest.is_sorted_by_key(|one| u64::MAX - one["took_us"].as_u64().unwrap()));
        assert_eq!(slowest.len(), 20);
        for one in slowest {
            assert!(one["took_us"].as_u64().unwrap() >= slow, "{found}");
            assert!(ids.contains(&one["id"].as_str().unwrap().to_owned()), "{found}");
        }
        let stages = found["stages"].as_array().unwrap();
        let mean =
            |name: &str| stages.iter().find(|one| one["name"] == name).unwrap()["mean_us"].as_u64();
        assert!(mean("first-byte") <= mean("total") && found["staged"] == 40, "{found}");
    }
    let found = figures(&server, &tokens[VIEWER], "profile", "q=status:404");
    assert_eq!((&found["matched"], &found["slowest"]), (&json!(0), &json!([])));
}
