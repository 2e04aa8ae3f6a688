//! Sums as metrics.

use super::*;
use weir_admin::metrics::{Family, Samples};
use weir_lab::record::{Example, FailureGroup};

/// A second with 10 requests of 2 ms, of which `failed` have the status 404.
fn second(failed: u64) -> Interval {
    let mut second = Interval::new(1, 1, true);
    let tally = &mut second.labels[0];
    (tally.ok, tally.errors[ErrorKind::Http4xx.index()]) = (10 - failed, failed);
    tally.service.record_n(2_000_000, 10).expect("it grows");
    tally.response.as_mut().expect("open").record_n(30_000_000, 10).expect("it grows");
    second.send_lag.as_mut().expect("open").record(100_000).expect("it grows");
    (second.offered, second.dropped, second.users, second.generator_cpu) = (12, 2, 5, 500_000_000);
    let example = Example { status: 404, ..Example::default() };
    second.failures.add_group(&FailureGroup {
        label: Label(0),
        kind: ErrorKind::Http4xx,
        message: "Not Found".to_owned(),
        count: failed.saturating_sub(1),
        first: 0,
        last: 0,
        example,
    });
    second
}

fn program() -> Program {
    Program { labels: ["one"].into_iter().collect(), ..Program::default() }
}

fn numbers(families: &[Family], name: &str) -> Vec<(String, f64)> {
    let family = families.iter().find(|family| family.name == name).expect(name);
    let of = |labels: &[(&'static str, String)]| {
        labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ")
    };
    match &family.samples {
        Samples::Counter(samples) | Samples::Gauge(samples) => {
            samples.iter().map(|sample| (of(&sample.labels), sample.value)).collect()
        }
        Samples::Histogram(histograms) => {
            histograms.iter().map(|one| (of(&one.labels), one.count as f64)).collect()
        }
    }
}

fn of(text: &str, value: f64) -> (String, f64) {
    (text.to_owned(), value)
}

#[test]
fn sums_grow_and_percentiles_are_of_the_last_seconds() {
    let mut sums = Sums::default();
    sums.start("", &program());
    sums.add(&second(3));
    let families = sums.families();
    let requests =
        [of("one ok", 7.0), of("one failed http_4xx", 1.0), of("one failed 404 404", 2.0)];
    assert_eq!(numbers(&families, "weir_lab_requests_total"), requests);
    assert_eq!(numbers(&families, "weir_lab_users"), [of("", 5.0)]);
    assert_eq!(numbers(&families, "weir_lab_iterations_offered_total"), [of("", 12.0)]);
    assert_eq!(numbers(&families, "weir_lab_generator_cpu_seconds_total"), [of("", 0.5)]);
    assert_eq!(numbers(&families, "weir_lab_send_lag_seconds"), [of("", 1.0)]);
    let (name, p50) = &numbers(&families, "weir_lab_response_quantile_seconds")[0];
    assert!(name == "one 0.5" && (p50 - 0.03).abs() < 0.0001, "{name} {p50}");
    sums.add(&second(0));
    sums.end_load();
    let families = sums.families();
    assert_eq!(numbers(&families, "http_client_request_duration_seconds"), [of("one", 20.0)]);
    assert_eq!(numbers(&families, "weir_lab_requests_total")[0], of("one ok", 17.0));
    assert_eq!(numbers(&families, "weir_lab_users"), [of("", 0.0)]);
    assert_eq!(numbers(&sums.families(), "weir_lab_users"), [], "nothing has changed");
}

#[test]
fn times_are_in_their_buckets() {
    let mut sums = Sums::default();
    sums.start("", &program());
    sums.add(&second(0));
    let families = sums.families();
    let family = |name: &str| families.iter().find(|family| family.name == name).expect("there");
    for (name, bound, sum) in [
        ("http_client_request_duration_seconds", 0.0025, 0.02),
        ("weir_lab_response_duration_seconds", 0.05, 0.3),
    ] {
        let Samples::Histogram(found) = &family(name).samples else { panic!("a histogram") };
        let before = found[0].buckets.iter().take_while(|(_, count)| *count == 0).count();
        assert_eq!(found[0].buckets[before], (bound, 10), "{name}");
        assert!((found[0].sum - sum).abs() < 0.001 * sum, "{name}: {}", found[0].sum);
    }
    // A time that equals a bound is not above it, as far as the histogram knows.
    let mut times = histogram();
    times.record(1_000_000).expect("it grows");
    let mut buckets = Buckets::default();
    buckets.add(&times);
    assert_eq!(buckets.counts[BOUNDS.partition_point(|bound| *bound < 0.001)], 1);
}

#[test]
fn cases_continue_their_sums() {
    let mut sums = Sums::default();
    for case in ["a", "b", "a"] {
        sums.start(case, &program());
        sums.add(&second(0));
    }
    let found = numbers(&sums.families(), "weir_lab_requests_total");
    assert_eq!(found, [of("a one ok", 20.0), of("b one ok", 10.0)]);
    sums.add(&second(0));
    let found = numbers(&sums.families(), "weir_lab_requests_total");
    assert_eq!(found, [of("a one ok", 30.0)], "only the loaded case");
}
