//! Counts are what the journal says, whenever weir is killed and whatever panics.

use super::config;
use super::load::Load;
use crate::admin_api::{command, first_token};
use crate::harness::{
    self, KILL_AT, PANIC_AT, Server, Signal, Weir, each_transaction, eventually, kills, weir,
};
use crate::monitor::{calls, usage};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use weir_journal::counted;

const COUNT: &str = "monitor: {count: all}\n";

/// Calls by class of status, as the journal has them.
fn recorded(data: &Path) -> BTreeMap<u16, u64> {
    let mut found = BTreeMap::new();
    each_transaction(data, |one| {
        if one.counted & counted::RULE != 0 && one.counted & counted::REJECTED == 0 {
            *found.entry(one.status / 100).or_default() += 1;
        }
    });
    found
}

/// The same, as they were counted.
fn told(rows: &[Value]) -> BTreeMap<u16, u64> {
    let class = |row: &Value| row["status"].as_str().and_then(|s| s[..1].parse().ok()).unwrap_or(0);
    rows.iter().map(|row| (class(row), row["calls"].as_u64().unwrap())).collect()
}

/// Ends it, and compares.
fn compare(weir: &mut Server, what: &str) {
    let rows = usage(weir, "by=status");
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().code(), Some(0), "{what}");
    assert_eq!(told(&rows), recorded(&weir.data()), "{what}");
    assert_eq!(in_folder(weir), calls(&rows), "{what}: by hours and days");
}

fn in_folder(server: &Server) -> u64 {
    let args = ["usage", "--json", "--data", "data", "--by", "api", "--step", "day"];
    let output = weir(server.dir(), &args);
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    calls(&rows)
}

#[test]
fn after_kills_at_any_moment_totals_are_the_journal_s() {
    let echo = harness::echo(&[]);
    for (tracker, full) in [("", "refuse"), (", capture: none", "shed")] {
        let more = format!("{COUNT}journal: {{when_full: {full}}}\n");
        let mut weir = Weir::new(&config(&echo, 2, tracker, &more)).start();
        let mut answered = 0;
        for _ in 0..kills() {
            let load = Load::start(weir.listen[0]);
            eventually("some answers", || load.answered() > 20);
            std::thread::sleep(Duration::from_millis(fastrand::u64(..500)));
            weir.kill();
            answered += load.end().len() as u64;
            weir.restart(&[]);
        }
        let counted = calls(&usage(&weir, ""));
        // Where there is no room, calls are served that are not counted.
        let all = full == "shed" || counted >= answered;
        assert!(all && answered > 100, "{counted} of {answered}");
        compare(&mut weir, tracker);
    }
}

#[test]
fn a_kill_anywhere_in_counting_counts_nothing_twice() {
    let echo = harness::echo(&[]);
    for point in ["monitor.buckets:1", "monitor.noted:1", "monitor.written:1", "monitor.written:2"]
    {
        let mut weir = Weir::new(&config(&echo, 1, "", COUNT)).env(KILL_AT, point).start();
        let load = Load::start(weir.listen[0]);
        weir.wait();
        assert!(!load.end().is_empty(), "{point}");
        weir.restart(&[]);
        compare(&mut weir, point);
    }
}

#[test]
fn counting_goes_on_after_a_panic() {
    let echo = harness::echo(&[]);
    for point in ["monitor.buckets:1", "monitor.noted:1", "monitor.written:1"] {
        let mut weir = Weir::new(&config(&echo, 1, "", COUNT)).env(PANIC_AT, point).start();
        let load = Load::start(weir.listen[0]);
        eventually("it begins again", || weir.metric("weir_monitor_restarts_total", &[]) == 1.0);
        load.end();
        assert!(weir.stderr().contains("metering panicked"), "{}", weir.stderr());
        compare(&mut weir, point);
    }
}

#[test]
fn a_kill_in_counting_again_changes_nothing() {
    let echo = harness::echo(&[]);
    for point in ["monitor.staged", "monitor.rebuilt"] {
        let mut weir = Weir::new(&config(&echo, 1, "", COUNT)).env(KILL_AT, point).start();
        let load = Load::start(weir.listen[0]);
        eventually("some answers", || load.answered() > 200);
        load.end();
        let before = told(&usage(&weir, "by=status"));
        let token = first_token(&weir);
        let (done, ..) = command(&weir, &token, &["monitor", "rebuild"]);
        assert!(!done, "{point}: it was killed");
        weir.restart(&[]);
        assert_eq!(told(&usage(&weir, "by=status")), before, "{point}");
        let (done, said, error) = command(&weir, &token, &["monitor", "rebuild"]);
        assert!(done && said.starts_with("rebuilt: "), "{said}{error}");
        assert_eq!(told(&usage(&weir, "by=status")), before, "{point}");
        compare(&mut weir, point);
    }
}
