//! Tests of the protocol with simulated servers of known throughput.

use super::{MeasuredRound, Outcome, ProtocolResult, RoundSize, RoundUse, Rules, Stabilise, Stage};
use crate::stats::spread;
use crate::validity::Violation;
use std::time::Duration;

/// A normal number (Box and Muller).
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// Runs the protocol to its end against a server whose true throughput after `requests` requests
/// is `truth(requests / 20,000)`; each round is off by `noise`.
fn simulate(seed: u64, noise: f64, truth: impl Fn(f64) -> f64) -> (Outcome, Stabilise) {
    let mut random = fastrand::Rng::with_seed(seed);
    let rules = Rules { exact: true, ..Rules::default() };
    let mut protocol = Stabilise::new(rules, RoundSize::Iterations(20_000));
    let mut rounds = 0.0;
    while let Some(order) = protocol.next_round() {
        let RoundSize::Iterations(n) = order.size else { panic!("iterations") };
        let throughput = truth(rounds) * (1.0 + noise * normal(&mut random));
        rounds += n as f64 / 20_000.0;
        let took = Duration::from_secs_f64(n as f64 / throughput);
        protocol.observe(MeasuredRound { duration: took, throughput, violations: Vec::new() });
    }
    (protocol.outcome().expect("ended").clone(), protocol)
}

#[test]
fn a_server_that_drifts_is_unstable_every_time() {
    for (name, factor) in [("slower", 0.99_f64), ("faster", 1.01)] {
        for noise in [0.0, 0.005, 0.01, 0.02] {
            for seed in 0..50 {
                let (outcome, _) = simulate(seed, noise, |round| 10_000.0 * factor.powf(round));
                assert_eq!(
                    outcome.result,
                    ProtocolResult::Unstable,
                    "{name} {noise} {seed}: {outcome:?}"
                );
                assert_eq!(outcome.throughput, None, "no headline number");
            }
        }
    }
    let (outcome, _) = simulate(1, 0.005, |round| 10_000.0 * 0.99_f64.powf(round));
    assert!(outcome.reason.contains("still falls"), "{}", outcome.reason);
}

#[test]
fn a_warming_server_is_decided_late_and_without_bias() {
    for time_constant in [2.0, 5.0, 10.0] {
        let level = 10_000.0;
        let truth = |round: f64| level * (1.0 - 0.5 * (-round / time_constant).exp());
        let mut biases = Vec::new();
        for seed in 0..100 {
            let (outcome, protocol) = simulate(seed, 0.01, truth);
            let Some(found) = outcome.throughput else { continue };
            biases.push(found.mean / level - 1.0);
            let decided_at = outcome.decided_at.expect("stable");
            assert!(truth(decided_at as f64) > 0.9 * level, "too early: {decided_at}");
            let recorded = protocol.log().iter().filter(|entry| entry.used == RoundUse::Recorded);
            assert!(recorded.clone().all(|entry| entry.number > decided_at));
            assert_eq!(recorded.count(), 5);
        }
        let bias = spread(&biases).expect("decided");
        assert!(biases.len() >= 95, "{time_constant}: only {} decided", biases.len());
        assert!((-0.033..0.005).contains(&bias.mean), "{time_constant}: {bias:?}");
        assert!(bias.min > -0.06, "{time_constant}: {bias:?}");
    }
}

#[test]
fn a_steady_server_is_found_and_its_interval_holds_the_truth() {
    let mut held = 0;
    for seed in 0..200 {
        let (outcome, _) = simulate(seed, 0.01, |_| 10_000.0);
        assert_eq!(outcome.result, ProtocolResult::Stable, "{outcome:?}");
        let interval = outcome.interval.expect("five rounds");
        held += usize::from((interval.low..=interval.high).contains(&10_000.0));
    }
    // 95 %, within the uncertainty of 200 runs.
    assert!((180..=199).contains(&held), "{held} of 200");
}

#[test]
fn much_noise_is_reported_as_unstable() {
    let (outcome, _) = simulate(5, 0.15, |_| 10_000.0);
    assert_eq!(outcome.result, ProtocolResult::Unstable);
    assert!(outcome.reason.contains("vary by"), "{}", outcome.reason);
}

/// A protocol with default rules against a fast server; `throughput` by round number.
fn calibrated(throughput: impl Fn(usize) -> f64) -> Stabilise {
    let mut protocol = Stabilise::new(Rules::default(), RoundSize::Iterations(20_000));
    while let Some(order) = protocol.next_round() {
        let RoundSize::Iterations(n) = order.size else { panic!("iterations") };
        let throughput = throughput(order.number);
        let took = Duration::from_secs_f64(n as f64 / throughput);
        protocol.observe(MeasuredRound { duration: took, throughput, violations: Vec::new() });
    }
    protocol
}

#[test]
fn rounds_grow_until_they_last() {
    let wobble = |number: usize| 100_000.0 * (1.0 + 0.003 * (number % 3) as f64);
    let protocol = calibrated(wobble);
    let outcome = protocol.outcome().expect("ended");
    assert_eq!(outcome.result, ProtocolResult::Stable, "{outcome:?}");
    assert_eq!(protocol.log()[0].used, RoundUse::Calibration);
    let recorded: Vec<_> = protocol.log().iter().filter(|e| e.used == RoundUse::Recorded).collect();
    assert!(recorded.iter().all(|entry| (2.0..=4.0).contains(&entry.seconds)), "{recorded:?}");
    assert!(outcome.remarks.is_empty(), "{outcome:?}");
}

#[test]
fn noisy_rounds_grow_up_to_the_maximum() {
    let wobble = |number: usize| if number.is_multiple_of(2) { 100_000.0 } else { 104_500.0 };
    let protocol = calibrated(wobble);
    let last = protocol.log().last().expect("some");
    assert!((5.0..=10.0).contains(&last.seconds), "{last:?}");
    let outcome = protocol.outcome().expect("ended");
    assert_eq!(outcome.result, ProtocolResult::Stable, "{outcome:?}");
    assert!(outcome.remarks[0].contains("vary by"), "{outcome:?}");
}

#[test]
fn short_exact_rounds_have_a_remark() {
    let (outcome, protocol) = simulate(2, 0.005, |_| 100_000.0);
    assert!(protocol.log().iter().all(|entry| entry.size == RoundSize::Iterations(20_000)));
    assert!(outcome.remarks[0].contains("lasts 0.20 s"), "{outcome:?}");
}

#[test]
fn flawed_rounds_do_not_count_and_too_many_end_it() {
    let mut protocol = Stabilise::new(Rules::default(), RoundSize::Seconds(3.0));
    let violation = Violation::Errors { errors: 7, requests: 100, first: "503".to_owned() };
    let round = |violations: &[Violation]| MeasuredRound {
        duration: Duration::from_secs(3),
        throughput: 1000.0,
        violations: violations.to_vec(),
    };
    for number in 0..30 {
        let violations = if number % 5 == 4 { vec![violation.clone()] } else { Vec::new() };
        protocol.observe(round(&violations));
    }
    let outcome = protocol.outcome().expect("ended");
    assert_eq!(outcome.result, ProtocolResult::Stable);
    assert_eq!(protocol.log().len(), 18, "fifteen that count, three that do not");

    let mut protocol = Stabilise::new(Rules::default(), RoundSize::Seconds(3.0));
    while let Some(order) = protocol.next_round() {
        assert_eq!(order.stage, Stage::Calibrating);
        protocol.observe(round(std::slice::from_ref(&violation)));
    }
    let outcome = protocol.outcome().expect("ended");
    assert_eq!((outcome.result, protocol.log().len()), (ProtocolResult::Invalid, 5));
    assert!(outcome.reason.contains("7 of 100"), "{}", outcome.reason);
}

#[test]
fn recorded_rounds_that_change_are_not_reported() {
    // One level for ten rounds, then another: found stable, rejected, found stable again.
    let (outcome, protocol) =
        simulate(4, 0.002, |round| if round < 10.0 { 9_000.0 } else { 10_000.0 });
    assert_eq!(outcome.result, ProtocolResult::Stable);
    assert!(outcome.decided_at.expect("stable") >= 20, "{outcome:?}");
    assert!(protocol.log().len() > 20);
}
