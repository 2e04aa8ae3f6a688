//! Responses: errors, checks, redirects, codings.

use crate::plan::{closed, get, program, run, samples, step};
use crate::server::Server;
use std::time::Duration;
use weir_lab::program::{
    Check, CheckKind, Comparison, Field, Redirects, Request, StatusSet, Text, TextCheck,
};
use weir_lab::record::Tally;
use weir_lab::sample::ErrorKind;

/// Sends a request three times. Returns the samples and the number of connections.
fn send(target: &str, change: impl FnOnce(&mut Request)) -> (Tally, u64) {
    let server = Server::start();
    let mut request = get(&server.origin(), target);
    request.timeouts.response = Duration::from_millis(300);
    change(&mut request);
    let summary = run(program(closed(1, 3), vec![step(request)]));
    (samples(&summary).clone(), server.connections())
}

fn kinds(tally: &Tally) -> Vec<(ErrorKind, u64)> {
    let kinds = ErrorKind::ALL.iter().map(|kind| (*kind, tally.errors[kind.index()]));
    kinds.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn every_fault_has_its_kind_and_costs_the_connection() {
    for (target, kind) in [
        ("/close", ErrorKind::Closed),
        ("/half", ErrorKind::Closed),
        ("/garbage", ErrorKind::Protocol),
        ("/hang", ErrorKind::Timeout),
    ] {
        let (tally, connections) = send(target, |_| {});
        assert_eq!(kinds(&tally), [(kind, 3)], "{target}");
        assert_eq!((tally.ok, connections), (0, 3), "{target}");
    }
}

#[test]
fn a_status_is_an_error_a_success_or_expected() {
    let (tally, connections) = send("/status/503", |_| {});
    assert_eq!((kinds(&tally), connections), (vec![(ErrorKind::Http503, 3)], 1));
    let (tally, _) = send("/status/503", |request| {
        request.expected = StatusSet::parse("503").unwrap();
    });
    assert_eq!((tally.expected, tally.failed(), tally.ok), (3, 0, 0));
    let (tally, _) = send("/status/404", |request| {
        request.checks = vec![Check {
            message: None,
            kind: CheckKind::Status(StatusSet::parse("404").unwrap()),
        }];
    });
    assert_eq!((tally.ok, tally.failed()), (3, 0));
    let (tally, _) = send("/", |request| {
        request.checks = vec![Check {
            message: None,
            kind: CheckKind::Status(StatusSet::parse("404").unwrap()),
        }];
    });
    assert_eq!(kinds(&tally), [(ErrorKind::Http2xx, 3)]);
}

#[test]
fn responses_of_every_framing_are_read_completely() {
    for (target, body, connections) in [
        ("/size/0", 0, 1),
        ("/size/400000", 400_000, 1),
        ("/chunked/400000", 400_000, 1),
        ("/until-close/400000", 400_000, 3),
        ("/last", 4, 3),
        ("/early", 5, 1),
    ] {
        let (tally, opened) = send(target, |_| {});
        assert_eq!((tally.ok, tally.body), (3, 3 * body), "{target}");
        assert_eq!(opened, connections, "{target}");
    }
    let (tally, _) = send("/size/1000", |request| request.method = "HEAD".to_owned());
    // The server sends a body all the same: the body is not part of the response, and the connection is closed.
    assert_eq!((tally.ok, tally.body), (3, 0));
}

#[test]
fn connections_are_used_once_without_keep_alive() {
    let (tally, connections) = send("/", |request| request.keep_alive = false);
    assert_eq!((tally.ok, connections, tally.connects), (3, 3, 3));
}

fn body_has(text: &str) -> Vec<Check> {
    let check = TextCheck::new(Field::Body, Comparison::Substring, vec![Text::fixed(text)]);
    vec![CheckKind::Text(check).into()]
}

#[test]
fn bodies_are_checked_decoded() {
    let (tally, _) = send("/gzip", |request| request.checks = body_has("hello"));
    assert_eq!(tally.ok, 3);
    assert_eq!(tally.decoded, 15);
    assert!(tally.body > tally.decoded, "five bytes do not become fewer");
    let (tally, _) = send("/gzip", |request| request.checks = body_has("bye"));
    assert_eq!(kinds(&tally), [(ErrorKind::Check, 3)]);
}

#[test]
fn redirects_are_followed_within_one_sample() {
    let (tally, connections) = send("/redirect/3", |r| r.redirects = Redirects::Follow);
    assert_eq!((tally.ok, connections), (3, 1));
    assert_eq!(tally.body, 3 * (3 * "moved".len() + "arrived".len()) as u64);
    let (tally, _) = send("/redirect/25", |request| request.redirects = Redirects::Follow);
    assert_eq!(kinds(&tally), [(ErrorKind::Protocol, 3)]);
    let (tally, _) = send("/redirect/3", |_| {});
    assert_eq!((tally.ok, tally.body), (3, 3 * "moved".len() as u64));
}

#[test]
fn failures_have_an_example_even_if_nothing_is_checked() {
    let server = Server::start();
    let mut request = get(&server.origin(), "/status/503?token=t0p");
    let (name, value) = (Text::fixed("Authorization"), Text::fixed("Bearer abc"));
    request.headers.push((name, value));
    let summary = run(program(closed(1, 3), vec![step(request), step(get(&server.origin(), "/"))]));
    let [failures] = summary.total.failures.groups() else { panic!("one message") };
    assert_eq!((failures.count, failures.kind), (3, ErrorKind::Http503));
    let example = weir_lab::results::Failure::new(failures, &[]);
    assert_eq!(example.status, 503);
    assert!(example.url.ends_with("/status/503?token=***"), "{example:?}");
    assert!(example.request.starts_with("GET /status/503?token=*** HTTP/1.1\n"), "{example:?}");
    assert!(example.request.contains("\nAuthorization: Bearer ***"), "{example:?}");
    assert!(example.response.starts_with("HTTP/1.1 503 "), "{example:?}");
}

#[test]
fn an_example_has_the_response_of_its_own_request() {
    let server = Server::start();
    let mut expected = get(&server.origin(), "/status/503");
    expected.expected = StatusSet::parse("503").unwrap();
    let mut failing = get(&server.origin(), "/status/299");
    failing.success = StatusSet::parse("200").unwrap();
    let summary = run(program(closed(1, 2), vec![step(expected), step(failing)]));
    let [failures] = summary.total.failures.groups() else { panic!("one message") };
    assert_eq!((failures.count, failures.kind), (2, ErrorKind::Http2xx));
    assert!(!failures.example.response.contains("503"), "{failures:?}");
    assert!(!failures.message.contains("Unavailable"), "{failures:?}");
}
