//! The highest number of users, and conditions that end a run.

use super::target::{Response, Target};
use crate::harness::weir;
use std::process::Output;
use std::sync::Mutex;
use std::time::Duration;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a scenario against the target and returns output and `summary.json`.
fn run(target: &Target, rest: &str) -> (Output, serde_json::Value, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://{}\"}}\nrequests: [{{get: /, think: 5ms}}]\n{rest}",
        target.addr
    );
    std::fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
    let output = weir(dir.path(), &["lab", "run", "scenario.yaml", "--out", "out"]);
    let summary = std::fs::read(dir.path().join("out/summary.json")).unwrap_or_default();
    let summary = serde_json::from_slice(&summary).unwrap_or_default();
    (output, summary, dir)
}

#[test]
fn the_highest_number_of_users_is_a_figure_of_its_own() {
    // One request of 10 ms at a time: users wait for each other.
    let turn = Mutex::new(());
    let target = Target::start(move |_, _| {
        let _turn = turn.lock().unwrap();
        std::thread::sleep(Duration::from_millis(10));
        Response::Text(Duration::ZERO, "served".to_owned())
    });
    let (output, summary, dir) = run(
        &target,
        "load: {executor: find-max, of: users, start: 2, max: 64, slo: {p50: 150ms}, hold: 400ms, \
         confirm: 1s, ramp: 0s, precision: 20%, repeats: 2}\n",
    );
    let text = text(&output);
    let capacity = &summary["cells"][0]["capacity"];
    let users = capacity["users"].as_u64().unwrap_or(0);
    assert!((1..=40).contains(&users), "{capacity} {text}");
    assert_eq!(
        (&capacity["confirmed"], &capacity["searches"]),
        (&true.into(), &2.into()),
        "{text}"
    );
    assert!(capacity["interval"]["low"].as_f64() <= Some(users as f64), "{capacity}");
    assert!(
        text.contains(&format!("{users} users is the highest load that meets the SLO")),
        "{text}"
    );
    let csv = std::fs::read_to_string(dir.path().join("out/summary.csv")).unwrap();
    assert!(csv.contains("Highest Load") && csv.contains(&format!(",{users}.00,users,")), "{csv}");
    let report = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    assert!(report.contains("Highest load") && report.contains(&format!("{users} users")));
}

#[test]
fn steps_end_where_no_step_meets_the_objective() {
    let target = Target::start(|_, _| Response::Status(500, Duration::ZERO, "broken".to_owned()));
    let (output, _, _) = run(
        &target,
        "load: {executor: steps, of: users, step: 2, slo: {errors: 0}, hold: 300ms, ramp: 0s}\n",
    );
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("no number of users met the objective, not even 2 users"), "{text}");
}

#[test]
fn a_condition_of_stop_ends_a_run_with_its_reason() {
    let target = Target::start(|_, _| Response::Status(503, Duration::ZERO, "busy".to_owned()));
    let (output, summary, _) = run(
        &target,
        "matrix: {users: [2, 3]}\nstop: [\"error-rate>50% for 2s\"]\n\
         load: {executor: constant-vus, vus: \"${users}\", duration: 600s}\n",
    );
    let text = text(&output);
    let reasons = summary["reasons"].to_string();
    // Figures of a busy machine are INVALID, also those of a run that was stopped.
    let busy = reasons.contains("took the cores") || reasons.contains("was stalled");
    let (code, verdict) = if busy { (3, "INVALID") } else { (1, "FAIL") };
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(reasons.contains("the run was stopped: error-rate>50% for 2s"), "{text}");
    assert!(reasons.contains("not measured"), "the second case: {text}");
    assert_eq!(summary["verdict"], verdict);
}
