//! Measurements that are spoilt have a verdict that says so.

use super::busy::Busy;
use super::target::{Response, Target};
use crate::harness::weir;
use std::net::TcpListener;
use std::process::Output;
use std::time::{Duration, Instant};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_generator_whose_cores_are_taken_is_starved() {
    let target = Target::start(|_, _| Response::Text(Duration::ZERO, "well".to_owned()));
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}/", target.addr);
    let busy = Busy::start();
    let output = weir(dir.path(), &["lab", "hit", "-c", "4", "-d", "3s", &url]);
    drop(busy);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("INVALID") && text.contains("took the cores"), "{text}");
}

#[test]
fn a_throughput_that_rises_throughout_is_unstable() {
    let begun = Instant::now();
    let target = Target::start(move |_, _| {
        // From 40 ms to 10 ms in the time of the run.
        let passed = begun.elapsed().as_secs_f64().min(22.0);
        Response::Text(Duration::from_secs_f64(0.04 - 0.03 * passed / 22.0), "well".to_owned())
    });
    let dir = tempfile::tempdir().unwrap();
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://{}\"}}\nrequests: [{{get: /}}]\n\
         load: {{executor: constant-vus, vus: 4, duration: 21s}}\n\
         protocol: {{fixed: {{cut: 1s}}}}\n",
        target.addr
    );
    std::fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
    let output = weir(dir.path(), &["lab", "run", "scenario.yaml", "--out", "out"]);
    let text = text(&output);
    // On a busy machine the generator may be disturbed as well.
    assert!(matches!(output.status.code(), Some(3 | 4)), "{text}");
    assert!(text.contains("rises throughout") || text.contains("INVALID"), "{text}");
}

#[test]
fn a_server_that_does_not_complete_the_tls_handshake_times_out() {
    // Accepts connections, in the backlog of the system, and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let output =
        weir(dir.path(), &["lab", "hit", "-n", "2", "-c", "1", "--timeout", "300ms", &url]);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let text = text(&output);
    assert!(text.contains("no TLS handshake within 300ms"), "{text}");
    assert_eq!(output.status.code(), Some(3), "{text}");
}
