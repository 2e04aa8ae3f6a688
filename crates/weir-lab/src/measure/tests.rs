use super::*;
use crate::record::Tally;
use crate::results::{Factor, Traits};
use crate::sample::ErrorKind;
use crate::validity::Flaw;
use crate::verdict::Verdict;

fn case(name: &str, extent: Extent) -> Case {
    Case {
        name: name.to_owned(),
        factors: vec![Factor { name: "of".to_owned(), value: name.to_owned() }],
        traits: Traits::default(),
        published: Vec::new(),
        labels: vec!["hello".to_owned()],
        transactions: Vec::new(),
        rate: None,
        offered: None,
        lateness: Duration::ZERO,
        open: false,
        extent,
        block: 0,
    }
}

fn settings(method: Method) -> Settings {
    Settings {
        method,
        arrangement: Arrangement::Interleaved,
        seed: 1,
        thresholds: Vec::new(),
        quick: false,
    }
}

/// A second with `count` samples, of which `failed` fail; it is `part` of a second long.
fn second(at: u64, count: u64, failed: u64, part: f64) -> Interval {
    let mut tally = Tally::new(false);
    (tally.started, tally.ok) = (count, count - failed);
    tally.errors[ErrorKind::Http500.index()] = failed;
    tally.service.record_n(2_000_000, count).expect("in range");
    tally.service_sum = 2_000_000 * u128::from(count);
    tally.first_start = at * 1_000_000_000;
    tally.last_end = at * 1_000_000_000 + (part * 1e9) as u64;
    let busiest_loop = 0.4;
    Interval { second: at, labels: vec![tally], busiest_loop, ..Interval::default() }
}

/// Runs all rounds; `rate` is that of a case in a round.
fn run(measurement: &mut Measurement, rate: impl Fn(usize, usize) -> u64) -> usize {
    let mut rounds = 0;
    let mut now = 0.0;
    while let Some(turn) = measurement.turn() {
        rounds += 1;
        let rate = rate(turn.cell, turn.order.number);
        let seconds = match turn.order.extent {
            Extent::Seconds(seconds) => seconds,
            Extent::Iterations(n) => n as f64 / rate as f64,
        };
        measurement.begin(turn, now).expect("no folder");
        let mut left = seconds;
        for at in 0.. {
            let part = f64::min(left, 1.0);
            measurement
                .second(&second(at, (rate as f64 * part) as u64, 0, part))
                .expect("no folder");
            left -= part;
            if left < 1e-9 {
                break;
            }
        }
        measurement.end(Circumstances::default()).expect("no folder");
        now += seconds;
    }
    rounds
}

fn finish(measurement: Measurement) -> Summary {
    measurement.finish(&Run::default(), None).expect("no folder").0
}

#[test]
fn cases_are_interleaved_until_each_is_stable() {
    let cases = ["a", "b"].map(|name| case(name, Extent::Seconds(3.0))).to_vec();
    let mut measurement =
        Measurement::new(settings(Method::Stabilise(Rules::default())), cases, None);
    let first: Vec<usize> = (0..2).filter_map(|_| Some(measurement.turn()?.cell)).collect();
    assert_eq!(first, [0, 1]);
    let wobble = |number: usize| (number * 7 % 5) as u64;
    run(&mut measurement, |cell, number| if cell == 0 { 1_000 } else { 800 } + wobble(number));
    let summary = finish(measurement);
    assert_eq!(summary.verdict, Verdict::Pass, "{:?}", summary.reasons);
    for (cell, level) in summary.cells.iter().zip([1_000.0, 800.0]) {
        let mean = cell.throughput.expect("stable").mean;
        assert!((mean / level - 1.0).abs() < 0.01, "{mean}");
        assert_eq!((cell.recorded.len(), cell.window), (5, 15.0));
        let samples = cell.total().expect("figures").samples as f64;
        assert!((samples / 15.0 - mean).abs() < 0.5, "of the recorded rounds only");
    }
}

#[test]
fn a_server_that_drifts_has_figures_but_no_number() {
    let cases = vec![case("", Extent::Seconds(3.0))];
    let mut measurement =
        Measurement::new(settings(Method::Stabilise(Rules::default())), cases, None);
    let rounds = run(&mut measurement, |_, number| 100_000 + 1_000 * number as u64);
    assert_eq!(rounds, 60);
    let summary = finish(measurement);
    let cell = &summary.cells[0];
    assert_eq!((summary.verdict, cell.throughput), (Verdict::Unstable, None));
    assert!(cell.labels[0].samples > 0 && cell.recorded.is_empty());
    assert!(summary.reasons[0].contains("still rises"), "{:?}", summary.reasons);
}

#[test]
fn one_long_run_is_cut_and_divided() {
    let cases = vec![case("", Extent::Seconds(45.0))];
    let method = Method::Fixed { cut: Duration::from_secs(5) };
    let mut measurement = Measurement::new(settings(method), cases, None);
    let turn = measurement.turn().expect("one");
    measurement.begin(turn, 0.0).expect("no folder");
    for at in 0..45 {
        let count = if at < 5 { 100 } else { 1_000 };
        measurement.second(&second(at, count, 0, 1.0)).expect("no folder");
    }
    measurement.end(Circumstances::default()).expect("no folder");
    assert_eq!(measurement.turn(), None);
    let summary = finish(measurement);
    let cell = &summary.cells[0];
    assert_eq!((cell.window, cell.labels[0].samples), (40.0, 40_000), "without the beginning");
    assert_eq!(cell.throughput.map(|spread| spread.mean), Some(1_000.0));
    let fixed = cell.fixed.as_ref().expect("fixed");
    assert_eq!(fixed.cut, 5);
    assert!((10..=20).contains(&cell.recorded.len()), "{}", cell.recorded.len());
    assert!(cell.recorded.iter().all(|round| round.throughput == 1_000.0), "{:?}", cell.recorded);
}

#[test]
fn a_run_shorter_than_a_second_has_its_own_rate() {
    let mut measurement =
        Measurement::new(settings(Method::Once), vec![case("", Extent::Iterations(20_000))], None);
    run(&mut measurement, |_, _| 100_000);
    let summary = finish(measurement);
    let found = summary.cells[0].throughput.expect("a number");
    assert!((found.mean - 100_000.0).abs() < 1.0 && found.n == 1, "{found:?}");
    assert_eq!(summary.cells[0].interval, None);
}

#[test]
fn errors_make_it_invalid_and_are_shown() {
    let mut measurement = Measurement::new(
        settings(Method::Stabilise(Rules::default())),
        vec![case("", Extent::Seconds(3.0))],
        None,
    );
    while let Some(turn) = measurement.turn() {
        measurement.begin(turn, 0.0).expect("no folder");
        measurement.second(&second(0, 100, 60, 1.0)).expect("no folder");
        measurement.end(Circumstances::default()).expect("no folder");
    }
    let summary = finish(measurement);
    let cell = &summary.cells[0];
    assert_eq!((summary.verdict, cell.rounds.len()), (Verdict::Invalid, 5));
    assert!(
        matches!(cell.flaws[..], [Flaw::Errors { errors: 60, requests: 100, .. }]),
        "{:?}",
        cell.flaws
    );
    assert_eq!(cell.labels[0].failed(), 60);
}

#[test]
fn what_was_seen_of_the_server_excuses_the_generator() {
    let busy = |busiest| {
        let mut measurement =
            Measurement::new(settings(Method::Once), vec![case("", Extent::Seconds(3.0))], None);
        let turn = measurement.turn().expect("one");
        measurement.begin(turn, 0.0).expect("no folder");
        for at in 0..3 {
            let interval = Interval { busiest_loop: 0.99, ..second(at, 100, 0, 1.0) };
            measurement.second(&interval).expect("no folder");
            let row = ServerRow {
                time: at as f64 + 1.0,
                subject: SERVER.to_owned(),
                cpu: Some(1.5),
                busiest_thread: Some(busiest),
                ..ServerRow::default()
            };
            measurement.observe(vec![row]).expect("no folder");
        }
        measurement.end(Circumstances::default()).expect("no folder");
        finish(measurement).cells.remove(0)
    };
    let saturated = busy(0.99);
    assert_eq!(saturated.verdict, Verdict::Pass, "{:?}", saturated.reasons);
    assert_eq!(saturated.server.map(|server| server.cpu_us), Some(15_000.0));
    assert_eq!(busy(0.5).verdict, Verdict::Invalid);
}

#[test]
fn a_case_given_up_says_why_and_others_go_on() {
    let cases = ["a", "b"].map(|name| case(name, Extent::Iterations(10))).to_vec();
    let mut measurement = Measurement::new(settings(Method::Once), cases, None);
    measurement.give_up(0, "the server did not start");
    assert_eq!(run(&mut measurement, |_, _| 100), 1);
    let summary = finish(measurement);
    let verdicts: Vec<Verdict> = summary.cells.iter().map(|cell| cell.verdict).collect();
    assert_eq!(verdicts, [Verdict::Invalid, Verdict::Pass]);
    assert_eq!(summary.reasons, ["a: the server did not start"]);
}
