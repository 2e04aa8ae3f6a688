//! Numbers that must be exact, or nearly.

use crate::plan::{closed, get, open, program, run, samples, step};
use crate::server::Server;
use std::time::Duration;
use weir_lab::program::{ArrivalRate, Body, Executor, Origin, Text};

#[test]
fn requests_bytes_and_connections_are_what_the_server_counted() {
    let server = Server::start();
    let mut post = get(&server.origin(), "/echo");
    post.method = "POST".to_owned();
    post.body = Body::Text(Text::fixed("x".repeat(3000)));
    let chunked = get(&server.origin(), "/chunked/5000");
    let large = get(&server.origin(), "/size/300000");
    let summary = run(program(closed(8, 50), vec![step(post), step(chunked), step(large)]));
    let tally = samples(&summary);
    assert_eq!((tally.samples(), tally.ok, tally.started), (1200, 1200, 1200));
    assert_eq!(server.requests(), 1200);
    assert_eq!((server.connections(), tally.connects), (8, 8));
    assert_eq!(tally.sent, server.received());
    assert_eq!(tally.received, server.sent());
    assert_eq!(tally.body, 400 * (3000 + 5000 + 300_000));
    assert_eq!(tally.service.len(), 1200);
    assert_eq!((summary.interrupted, summary.total.in_flight), (0, 0));
}

#[test]
fn shared_iterations_are_exact_over_several_loops() {
    let server = Server::start();
    let executor = Executor::SharedIterations { vus: 7, iterations: 1003, limit: None };
    let options = weir_lab::engine::Options { loops: 3, ..Default::default() };
    let one = program(executor, vec![step(get(&server.origin(), "/"))]);
    let summary = crate::plan::run_with(one, &options);
    assert_eq!((samples(&summary).ok, server.requests(), server.connections()), (1003, 1003, 7));
}

/// Measures until the figures are right, at most ten times: a busy machine delays some responses,
/// whereas a wrong measurement fails each time.
fn once_of_ten(mut measure: impl FnMut() -> Result<(), String>) {
    let mut wrong = Vec::new();
    while wrong.len() < 10 {
        match measure() {
            Ok(()) => return,
            Err(why) => wrong.push(why),
        }
    }
    panic!("{}", wrong.join("\n"));
}

fn within(name: &str, measured: f64, range: std::ops::Range<f64>) -> Result<(), String> {
    let right = range.contains(&measured);
    if right { Ok(()) } else { Err(format!("{name}: {measured}, not in {range:?}")) }
}

/// The reference is the log of the server, without the time on the network.
#[test]
fn percentiles_are_those_of_the_server() {
    once_of_ten(|| {
        let server = Server::start();
        let summary = run(program(closed(50, 20), vec![step(get(&server.origin(), "/delay"))]));
        let (times, tally) = (server.times(1000), samples(&summary));
        assert_eq!((times.len(), tally.ok), (1000, 1000));
        for percentile in [25.0, 50.0, 75.0, 90.0, 95.0, 99.0] {
            let rank = (percentile / 100.0 * times.len() as f64) as usize;
            let truth = times[rank - 1].as_secs_f64();
            let measured = tally.service.value_at_percentile(percentile) as f64 / 1e9;
            within(&format!("p{percentile}"), measured, truth * 0.99..truth * 1.01 + 0.001)?;
        }
        let truth = times.iter().sum::<Duration>().as_secs_f64();
        let measured = tally.service_sum as f64 / 1e9;
        within("the sum", measured, truth..truth * 1.01 + 0.001 * times.len() as f64)
    });
}

/// A server that stops for S of T seconds: S/T of the requests have a response time that is
/// uniform on 0..S.
#[test]
fn a_stall_counts_for_all_requests_due_meanwhile() {
    once_of_ten(|| {
        let server = Server::start();
        let (stop, whole) = (Duration::from_millis(1000), Duration::from_millis(4000));
        server.stop_after(Duration::from_millis(1500), stop);
        let executor = open(500.0, whole, 2000);
        let summary = run(program(executor, vec![step(get(&server.origin(), "/"))]));
        let tally = samples(&summary);
        assert_eq!((tally.ok, server.requests(), summary.total.offered), (2000, 2000, 2000));
        assert_eq!(summary.total.dropped, 0);
        let p99 = tally.response().value_at_percentile(99.0) as f64 / 1e9;
        within("p99, which is 0.96", p99, 0.92..1.02)?;
        // Of the quarter that is late, half is later than half of the stop.
        let late = tally.response().count_between(500_000_000, 10_000_000_000) as f64 / 2000.0;
        within("the share that is later than half of the stop", late, 0.115..0.14)
    });
}

/// With few connections, the wait for a connection counts in the response time only.
#[test]
fn waiting_for_a_connection_is_response_time_and_no_service_time() {
    let server = Server::start();
    server.stop_after(Duration::from_millis(500), Duration::from_millis(1000));
    let executor = match open(400.0, Duration::from_millis(3000), 4) {
        Executor::ArrivalRate(rate) => {
            Executor::ArrivalRate(ArrivalRate { backlog: 10_000, ..rate })
        }
        other => other,
    };
    let summary = run(program(executor, vec![step(get(&server.origin(), "/"))]));
    let tally = samples(&summary);
    assert_eq!((tally.ok, summary.total.dropped, server.connections()), (1200, 0, 4));
    let at = |histogram: &hdrhistogram::Histogram<u64>, p| {
        Duration::from_nanos(histogram.value_at_percentile(p))
    };
    assert!(at(tally.response(), 90.0) > Duration::from_millis(500));
    assert!(at(&tally.service, 90.0) < Duration::from_millis(400));
    // The server's stop is no lateness of the generator.
    let lag = summary.total.send_lag.as_ref().unwrap();
    assert!(at(lag, 90.0) < Duration::from_millis(200), "{:?}", at(lag, 90.0));
}

#[test]
fn iterations_that_find_no_room_are_dropped_and_counted() {
    let server = Server::start();
    let executor = open(200.0, Duration::from_millis(1000), 2);
    let summary = run(program(executor, vec![step(get(&server.origin(), "/delay/300"))]));
    let total = &summary.total;
    assert_eq!(total.offered, 200);
    assert_eq!(total.dropped + samples(&summary).samples(), 200);
    assert!(total.dropped > 150, "{}", total.dropped);
    assert_eq!(server.requests(), samples(&summary).samples());
}

#[test]
fn seconds_add_up_to_the_total() {
    let server = Server::start();
    let mut seconds = Vec::new();
    let mut one = program(closed(3, 12), vec![step(get(&server.origin(), "/delay/100"))]);
    one.label("requests");
    let options = weir_lab::engine::Options { loops: 2, ..Default::default() };
    let control = weir_lab::engine::Control::default();
    let summary = weir_lab::engine::run(one, &options, &control, &mut |event| {
        if let weir_lab::engine::Event::Second(interval) = event {
            seconds.push((interval.second, interval.labels[0].samples(), interval.users));
        }
    })
    .unwrap();
    assert_eq!(samples(&summary).ok, 36);
    assert_eq!(seconds.iter().map(|(_, samples, _)| samples).sum::<u64>(), 36);
    assert!(seconds.is_sorted_by_key(|(second, ..)| *second), "{seconds:?}");
    assert_eq!(seconds[0].2, 3, "the users at the end of the first second");
}

#[test]
fn a_closed_port_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let origin = Origin { tls: false, host: "127.0.0.1".to_owned(), port };
    let summary = run(program(closed(2, 3), vec![step(get(&origin, "/"))]));
    let refused = weir_lab::sample::ErrorKind::Refused;
    assert_eq!(samples(&summary).errors[refused.index()], 6);
    let [failures] = summary.total.failures.groups() else { panic!("one message") };
    assert_eq!((failures.count, failures.example.status), (6, 0));
    assert!(failures.example.request.starts_with("GET / HTTP/1.1\n"), "{failures:?}");
    assert_eq!(failures.example.response, "");
}
