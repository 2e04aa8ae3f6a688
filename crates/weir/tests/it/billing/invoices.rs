//! Invoices, computed a second time by a script that shares nothing with weir.

use crate::admin_api::{first_token, get};
use crate::harness::{Server, Signal, Weir, eventually, key_hash, run, weir};
use serde_json::{Value, json};
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/billing/invoices.py");

const CEL: &str = "call.status >= 500 ? 0.0 : 0.1 * 3.0 + double(call.response_bytes) * 0.0001 \
                   + double(call.duration_ms) * 0.00003";

/// Prices of every kind.
fn plans() -> Value {
    json!({
        "gold": {"per_call": "0.0004", "per_kib": "0.00000007", "currency": "EUR"},
        "silver": {"cel": CEL, "currency": "JPY"},
        "bronze": {"per_kib": "0.00012345", "currency": "USD", "decimals": 4, "tiers": [
            {"up_to": 10, "per_call": "0.3"},
            {"up_to": 35, "per_call": "0.07"},
            {"per_call": "0.00000001"},
        ]},
    })
}

fn consumers() -> Value {
    json!({"acme": "gold", "beta": "silver", "gamma": "bronze"})
}

/// JSON is YAML.
fn config() -> String {
    let plans: serde_json::Map<String, Value> = plans()
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, price)| (name.clone(), json!({"price": price})))
        .collect();
    let consumers: serde_json::Map<String, Value> = consumers()
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, plan)| (name.clone(), json!({"plan": plan, "api_keys": [key_hash(name)]})))
        .collect();
    json!({
        "listen": [{"addr": "127.0.0.1:0"}],
        "workers": 2,
        "tracker": {"enabled": true, "capture": "meta"},
        "auth": {"keys": {"api_key": {"header": "x-key"}}},
        "plans": plans,
        "consumers": consumers,
        "apis": {"orders": {"base": "/", "auth": "keys", "routes": [
            {"op": "take", "post": "/take", "reply": {"text": "taken, and well"}},
            {"post": "/break", "reply": {"status": 500, "text": "broken"}},
        ]}},
    })
    .to_string()
}

/// Calls of every consumer, and some that nobody pays for; gives how many are counted.
fn call(server: &Server) -> usize {
    let mut client = server.connect();
    let mut counted = 0;
    for round in 0..40 {
        for key in ["acme", "beta", "gamma"] {
            let path = if round % 7 == 3 { "/break" } else { "/take" };
            let body = "x".repeat(round * 37 % 1500);
            let status = client.request("POST", path, &[("x-key", key)], &body).status;
            assert_eq!(status, if path == "/break" { 500 } else { 200 });
            counted += 1;
        }
    }
    assert_eq!(server.connect().request("POST", "/take", &[("x-key", "nobody")], "").status, 401);
    counted
}

fn lines(output: &std::process::Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// An invoice as the script tells it.
fn in_short(invoice: &Value) -> Value {
    let row = |line: &Value, names: &[&str]| {
        Value::Array(names.iter().map(|name| line[*name].clone()).collect())
    };
    let rows = |list: &str, names: &[&str]| {
        let list = invoice[list].as_array().unwrap();
        Value::Array(list.iter().map(|line| row(line, names)).collect())
    };
    let total = &invoice["totals"][0];
    json!({
        "consumer": invoice["consumer"],
        "lines": rows("lines", &["plan", "api", "operation", "calls", "bytes", "amount"]),
        "tiers": rows("tiers", &["first", "last", "amount"]),
        "exact": total["exact"],
        "due": total["due"],
    })
}

/// Sets the counts of the database back by so many days, and says since when they are settled.
fn set_back(server: &Server, days: u64, settled: &str) {
    let database = rusqlite::Connection::open(server.data().join("weir.db")).unwrap();
    let back = format!("UPDATE bucket SET start = start - {days} * 86400");
    database.execute(&back, []).unwrap();
    database.execute("UPDATE price SET since = 0", []).unwrap();
    database.execute(&format!("UPDATE counted_until SET settled = {settled}"), []).unwrap();
}

/// The first day of which there are counts.
fn first_day(server: &Server) -> String {
    let database = rusqlite::Connection::open(server.data().join("weir.db")).unwrap();
    let first = "SELECT date(min(start), 'unixepoch') FROM bucket WHERE step = 86400";
    database.query_row(first, [], |row| row.get(0)).unwrap()
}

#[test]
fn an_invoice_is_provisional_until_all_calls_of_its_period_are_counted() {
    let mut server = Weir::new(&config()).start();
    let counted = call(&server) as f64;
    eventually("all are counted", || server.metric("weir_monitor_counted_total", &[]) >= counted);
    server.kill();
    let provisional = |server: &Server| -> bool {
        let day = first_day(server);
        let made = weir(server.dir(), &["invoice", "--period", &day, "--json", "--data", "data"]);
        let made = lines(&made);
        assert!(made.iter().all(|one| one["provisional"] == made[0]["provisional"]), "{made:?}");
        made[0]["provisional"].as_bool().unwrap()
    };
    assert!(provisional(&server), "the day is not over");
    // There may be calls in the journal that nobody has counted.
    set_back(&server, 3, "unixepoch() - 4 * 86400");
    assert!(provisional(&server));
    server.restart(&[]);
    server.signal(Signal::TERM);
    server.wait();
    assert!(!provisional(&server));
}

#[test]
fn calls_that_could_not_be_counted_are_noted_with_usage_and_on_invoices() {
    let mut server = Weir::new(&config()).start();
    let counted = call(&server) as f64;
    eventually("all are counted", || server.metric("weir_monitor_counted_total", &[]) >= counted);
    server.signal(Signal::TERM);
    server.wait();
    // As of a journal without room for megabytes of counts.
    let database = rusqlite::Connection::open(server.data().join("weir.db")).unwrap();
    let gap = "INSERT INTO gap VALUES (unixepoch() - unixepoch() % 60, 0, 0, 7)";
    database.execute(gap, []).unwrap();
    drop(database);
    let usage = |place: &[&str]| {
        let told = weir(server.dir(), &[&["usage"], place].concat());
        String::from_utf8_lossy(&told.stderr).into_owned()
    };
    let told = usage(&["--data", "data"]);
    assert!(told.contains("7 calls are not included"), "{told}");
    let period = jiff::Timestamp::now().strftime("%Y-%m").to_string();
    let invoice = ["invoice", "--period", &period, "--data", "data"];
    for made in lines(&weir(server.dir(), &[&invoice[..], &["--json"]].concat())) {
        assert_eq!(made["uncounted"], 7, "{made}");
    }
    for format in ["table", "html"] {
        let made = weir(server.dir(), &[&invoice[..], &["--format", format]].concat());
        let told = String::from_utf8_lossy(&[made.stdout, made.stderr].concat()).into_owned();
        assert!(told.contains("7 calls"), "{format}: {told}");
    }
    let told = usage(&["--data", "data", "--to", "1h"]);
    assert!(!told.contains("7 calls"), "of another time: {told}");
}

#[test]
fn an_invoice_of_a_time_that_is_not_kept_any_more_is_refused() {
    let keep: Value = json!({"keep": "7d"});
    let mut config: Value = serde_json::from_str(&config()).unwrap();
    config["monitor"] = keep;
    let mut server = Weir::new(&config.to_string()).start();
    let counted = call(&server) as f64;
    eventually("all are counted", || server.metric("weir_monitor_counted_total", &[]) >= counted);
    assert!(
        server.stderr().contains("are deleted before the end of a month"),
        "{}",
        server.stderr()
    );
    server.signal(Signal::TERM);
    server.wait();
    set_back(&server, 9, "unixepoch()");
    let gone = first_day(&server);
    server.restart(&[]);
    eventually("it is told", || {
        let path = format!("/v1/invoices?period={gone}");
        get(&server, &path, &first_token(&server)).status == 400
    });
    let admin = format!("http://{}", server.admin.unwrap());
    let output = weir(server.dir(), &["invoice", "--period", &gone, "--admin", &admin]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("is not kept any more"), "{told}");
    assert!(told.contains("monitor.keep"), "{told}");
}

#[test]
fn a_script_that_only_knows_the_metadata_comes_to_the_same_decimals() {
    let mut server = Weir::new(&config()).start();
    let counted = call(&server) as f64;
    eventually("all are counted", || server.metric("weir_monitor_counted_total", &[]) >= counted);
    assert_eq!(server.metric("weir_monitor_counted_total", &[]), counted);
    assert_eq!(server.metric("weir_monitor_unpriced_total", &[]), 0.0);
    let admin = format!("http://{}", server.admin.unwrap());
    let period = jiff::Timestamp::now().strftime("%Y-%m").to_string();
    let command = ["invoice", "--period", &period, "--json"];
    let made = lines(&weir(server.dir(), &[&command[..], &["--admin", &admin]].concat()));
    assert_eq!(made.len(), 3);
    assert_eq!(made[0]["provisional"], true, "the month is not over");

    let export = server.dir().join("export.ndjson");
    eventually("all are indexed", || {
        let output = weir(server.dir(), &["search", "", "--export", "--admin", &admin]);
        std::fs::write(&export, &output.stdout).unwrap();
        lines(&output).len() as f64 >= counted
    });
    let rules = json!({"plans": plans(), "consumers": consumers()}).to_string();
    let mut script = Command::new("python3");
    script.arg(SCRIPT).arg(&export).arg(&rules);
    script.args([made[0]["from"].as_str().unwrap(), made[0]["to"].as_str().unwrap()]);
    let told = String::from_utf8(run(&mut script, b"")).unwrap();
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let short: Vec<Value> = made.iter().map(in_short).collect();
    assert_eq!(short, told);
    assert_eq!(short[2]["tiers"].as_array().unwrap().len(), 3);

    // The same to be read otherwise, and from the folder.
    let formats = |format: &str| {
        let path = format!("/v1/invoices?period={period}&consumer=acme&format={format}");
        get(&server, &path, &first_token(&server))
    };
    let due = made[0]["totals"][0]["due"].as_str().unwrap();
    let csv = formats("csv").text();
    assert!(
        csv.contains(&format!("\r\ndue,acme,{period},"))
            && csv.contains(&format!(",EUR,{due},{due},\r\n"))
    );
    let html = formats("html");
    assert_eq!(html.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(html.text().contains(&format!("{due} EUR")));
    let wrong = get(&server, "/v1/invoices?period=2026-13", &first_token(&server));
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    let data = server.data();
    server.signal(Signal::TERM);
    server.wait();
    let read = [&command[..], &["--data", data.to_str().unwrap()]].concat();
    assert_eq!(lines(&weir(server.dir(), &read)), made);
    // Counted again in the folder they cost the same.
    let again = weir(server.dir(), &["monitor", "rebuild", "--json", "--data", "data"]);
    assert_eq!(lines(&again)[0]["after"].as_f64(), Some(counted));
    assert_eq!(lines(&weir(server.dir(), &read)), made);
}
