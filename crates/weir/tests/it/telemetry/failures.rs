//! Collectors that are down, slow, busy or mad: no request waits, and what is lost is counted.

use super::collector::Collector;
use super::{OK, before};
use crate::harness::{Server, Signal, Upstream, eventually, nobody};
use std::net::SocketAddr;

const ALL: &str = "traces: {share: 100%, most: 10000}, metrics: {every: 1s}";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn telling(upstream: &Upstream, collector: SocketAddr) -> Server {
    before(upstream.addr, collector, ALL, "{path: \"/*\", proxy: one}").start()
}

fn serve(weir: &Server, count: usize) {
    let mut client = weir.connect();
    for _ in 0..count {
        assert_eq!(client.get("/x").status, 200);
    }
}

fn posts(weir: &Server, signal: &str, result: &str) -> f64 {
    let labels = [&*format!("signal=\"{signal}\""), &*format!("result=\"{result}\"")];
    weir.metric("weir_telemetry_posts_total", &labels)
}

fn dropped(weir: &Server, reason: &str) -> f64 {
    weir.metric("weir_telemetry_spans_dropped_total", &[&format!("reason=\"{reason}\"")])
}

#[test]
fn a_busy_collector_gets_the_same_spans_again() {
    let upstream = Upstream::responding(OK);
    // Traces and metrics alike are refused at first.
    let collector =
        Collector::responding(|number| if number < 3 { BUSY } else { TAKEN }.to_owned());
    let weir = telling(&upstream, collector.upstream.addr);
    serve(&weir, 3);
    collector.spans(6);
    collector.metric("weir_workers", |_| true);
    assert!(posts(&weir, "traces", "failed") + posts(&weir, "metrics", "failed") >= 3.0);
    eventually("they are counted", || {
        weir.metric("weir_telemetry_spans_exported_total", &[]) == 6.0
    });
    assert_eq!(weir.metric("weir_telemetry_spans_dropped_total", &[]), 0.0);
    let told = weir.stderr().lines().filter(|line| line.contains("weir: telemetry:")).count();
    assert_eq!(told, 1, "once: {}", weir.stderr());
}

#[test]
fn what_a_collector_refuses_or_rejects_is_counted() {
    // An answer that says that 2 spans were not taken (field 1 of field 1).
    let partly = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\x0a\x02\x08\x02";
    let mad = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\x7f\x7f\x7f\x7f";
    let refusing = "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n";
    for (response, exported, refused) in [(partly, 4.0, 2.0), (mad, 6.0, 0.0), (refusing, 0.0, 6.0)]
    {
        let upstream = Upstream::responding(OK);
        let collector = Collector::responding(move |_| response.to_owned());
        let weir = before(
            upstream.addr,
            collector.upstream.addr,
            "traces: {share: 100%}",
            "{path: \"/*\", proxy: one}",
        );
        let weir = weir.start();
        serve(&weir, 3);
        eventually("all are counted", || {
            let taken = weir.metric("weir_telemetry_spans_exported_total", &[]);
            (taken, dropped(&weir, "refused")) == (exported, refused)
        });
        assert_eq!(weir.metric("weir_telemetry_spans_waiting", &[]), 0.0);
    }
}

#[test]
fn without_a_collector_the_oldest_spans_go_and_memory_is_bounded() {
    let upstream = Upstream::responding(OK);
    let silent = Upstream::start(|_, peer| peer.hang());
    for gone in [nobody(), silent.addr] {
        let mut weir = telling(&upstream, gone);
        serve(&weir, 6000);
        eventually("spans that find no room are counted", || dropped(&weir, "room") > 0.0);
        let waiting = weir.metric("weir_telemetry_spans_waiting", &[]);
        assert!(waiting <= 8192.0 + 512.0, "{waiting}");
        assert_eq!(weir.metric("weir_telemetry_spans_exported_total", &[]), 0.0);
        serve(&weir, 1);
        // Nor does the end wait for it for long.
        weir.signal(Signal::TERM);
        assert!(weir.wait().success());
    }
}

#[test]
fn a_collector_that_comes_back_gets_what_has_waited() {
    let upstream = Upstream::responding(OK);
    let collector = Collector::responding(|number| match number {
        // No HTTP at all.
        0 => "garbage\r\n\r\n".to_owned(),
        _ => TAKEN.to_owned(),
    });
    let weir = before(
        upstream.addr,
        collector.upstream.addr,
        "traces: {share: 100%}",
        "{path: \"/*\", proxy: one}",
    );
    let weir = weir.start();
    serve(&weir, 2);
    collector.spans(4);
    assert_eq!(posts(&weir, "traces", "failed"), 1.0);
}
