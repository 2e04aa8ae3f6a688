//! Tests of ejection and return of targets, with simulated times.

use super::*;
use weir_config::{ErrorShare, Scheme, Target};

const PAUSE: Duration = Duration::from_secs(10);

fn settings() -> weir_config::Health {
    weir_config::Health {
        failures: 3,
        errors: None,
        pause: PAUSE,
        check: None,
        max_ejected: 10_000,
    }
}

fn upstream(targets: usize, health: weir_config::Health) -> weir_config::Upstream {
    let target = |index: usize| Target {
        scheme: Scheme::Http,
        host: index.to_string(),
        port: 80,
        authority: index.to_string(),
        weight: 1,
        service: None,
        socket: None,
    };
    weir_config::Upstream {
        protocol: weir_config::Protocol::Http1,
        resolve: Duration::from_secs(30),
        resolver: None,
        name: "up".to_owned(),
        targets: (0..targets).map(target).collect(),
        balance: weir_config::Balance::RoundRobin,
        hash: None,
        connect_timeout: PAUSE,
        timeout: PAUSE,
        idle_timeout: PAUSE,
        connections: 1,
        keep_alive: 1,
        keep_alive_time: PAUSE,
        health,
        retries: None,
        tls: None,
        credential: None,
        underscores_in_headers: Vec::new(),
    }
}

fn healths(targets: usize, health: weir_config::Health) -> Vec<Arc<Health>> {
    Healths::default().configure(&upstream(targets, health))
}

fn check() -> Check {
    Check {
        path: "/".to_owned(),
        every: Duration::from_secs(5),
        timeout: Duration::from_secs(1),
        healthy: 2,
        unhealthy: 3,
        statuses: vec![],
    }
}

#[test]
fn a_target_goes_out_after_failures_in_a_row_and_one_request_tries_it_again() {
    let health = &healths(1, settings())[0];
    let start = Instant::now();
    health.failed(start);
    health.failed(start);
    health.responded(200, || start);
    health.failed(start);
    health.failed(start);
    assert!(health.admits(start), "two in a row are not three");
    health.failed(start);
    assert!(!health.is_up());
    assert!(!health.admits(start + PAUSE / 2) && !health.may_admit(start + PAUSE / 2));
    let later = start + PAUSE * 2;
    assert!(health.may_admit(later) && health.admits(later), "one request may try");
    assert!(!health.admits(later) && !health.may_admit(later), "and only one");
    health.responded(200, || later);
    assert!(health.admits(later) && health.is_up());
    assert_eq!(health.series().ejections, [0, 1, 0]);
}

#[test]
fn a_share_of_errors_takes_a_target_out_and_one_good_answer_brings_it_back() {
    let share = ErrorShare { share: 5000, requests: 10, window: Duration::from_secs(10) };
    let health = &healths(1, weir_config::Health { errors: Some(share), ..settings() })[0];
    let start = Instant::now();
    for round in 0..9 {
        health.responded(if round % 2 == 0 { 500 } else { 200 }, || start);
    }
    assert!(health.is_up(), "nine are too few to be a share");
    health.responded(503, || start);
    assert_eq!(health.series().out, Some("errors"));
    health.responded(200, || start);
    assert!(!health.admits(start), "an answer to what was sent before");
    let later = start + PAUSE;
    assert!(health.admits(later) && !health.admits(later), "one may try");
    health.responded(502, || later);
    assert!(!health.is_up(), "it has not got better");
    assert!(health.admits(later + PAUSE));
    health.responded(404, || later + PAUSE);
    assert!(health.is_up() && health.admits(later + PAUSE));
    // Errors of different windows are not added up.
    for round in 0..30 {
        health.responded(500, || later + PAUSE * 2 + share.window * round * 2);
        assert!(health.is_up());
    }
}

#[test]
fn never_more_are_out_than_may_be() {
    let all = healths(4, weir_config::Health { max_ejected: 5000, ..settings() });
    let now = Instant::now();
    for _ in 0..5 {
        all.iter().for_each(|health| health.failed(now));
    }
    assert_eq!(all.iter().filter(|health| !health.is_up()).count(), 2);
    for _ in 0..3 {
        all[3].checked(&check(), Some(false), now);
    }
    assert!(all[3].is_up(), "whatever the reason");
    // One target returns, so that another one may be ejected.
    all[0].responded(200, || now);
    all[3].failed(now);
    assert!(all[0].is_up() && !all[3].is_up());
    assert!(healths(4, weir_config::Health { max_ejected: 2499, ..settings() }).iter().all(
        |one| {
            (0..9).for_each(|_| one.failed(now));
            one.is_up()
        }
    ));
}

#[test]
fn checks_in_a_row_take_a_target_out_and_bring_it_back() {
    let health = &healths(1, weir_config::Health { check: Some(check()), ..settings() })[0];
    let now = Instant::now();
    let checked = |good| health.checked(&check(), good, now);
    for good in [Some(false), Some(false), Some(true), Some(false), None, Some(false)] {
        checked(good);
        assert!(health.is_up(), "{good:?}");
    }
    checked(Some(false));
    assert_eq!(health.series().out, Some("check"));
    health.responded(200, || now);
    assert!(!health.admits(now + PAUSE * 9), "no request tries what a check has found out");
    checked(Some(true));
    assert!(!health.is_up(), "one is not two");
    checked(Some(true));
    assert!(health.admits(now));
    assert_eq!((health.series().checks, health.series().ejections), ([3, 5], [1, 0, 0]));
}

#[test]
fn a_check_is_due_once_whoever_asks() {
    let health = &healths(1, settings())[0];
    let (start, check) = (Instant::now(), check());
    assert!(health.may_check(&check, start));
    assert!(!health.may_check(&check, start + PAUSE), "one is under way");
    health.finish_check();
    assert!(!health.may_check(&check, start + check.every / 2));
    assert!(health.may_check(&check, start + check.every * 2));
}

#[test]
fn a_reload_without_checks_brings_back_what_they_took_out() {
    let all = Healths::default();
    let with = weir_config::Health { check: Some(check()), ..settings() };
    let health = Arc::clone(&all.configure(&upstream(1, with))[0]);
    for _ in 0..3 {
        health.checked(&check(), Some(false), Instant::now());
    }
    assert!(!health.is_up());
    let same = &all.configure(&upstream(1, settings()))[0];
    assert!(Arc::ptr_eq(same, &health) && health.is_up());
}
