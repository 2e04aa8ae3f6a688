use super::*;
use crate::engine;
use crate::record::Tally;
use crate::results::{Cell, Factor};
use crate::sample::ErrorKind;
use crate::stop::StopCondition;
use crate::validity::Violation;
use crate::verdict::Verdict;
use std::time::SystemTime;

pub(super) fn case(name: &str, size: RoundSize) -> Case {
    Case {
        cell: Cell {
            name: name.to_owned(),
            factors: vec![Factor { name: "of".to_owned(), value: name.to_owned() }],
            ..Cell::default()
        },
        labels: ["hello"].into_iter().collect(),
        transactions: Vec::new(),
        rate: None,
        allowed_lag: Duration::ZERO,
        open: false,
        requests: Some(1.0),
        constant: true,
        size,
        block: 0,
        contender: String::new(),
        load: String::new(),
        values: Vec::new(),
    }
}

pub(super) fn settings(method: Method) -> Settings {
    Settings {
        method,
        case_order: CaseOrder::Interleaved,
        seed: 1,
        thresholds: Vec::new(),
        stop: Vec::new(),
        bars: Vec::new(),
        quick: false,
    }
}

/// A second with `count` samples, of which `failed` fail; it is `part` of a second long.
pub(super) fn second(at: u64, count: u64, failed: u64, part: f64) -> Interval {
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

/// A measurement in a new folder.
pub(super) fn start(settings: Settings, cases: Vec<Case>) -> (Measurement, tempfile::TempDir) {
    let path = tempfile::tempdir().expect("a folder");
    let folder = Folder::create(path.path(), &Run::default(), SystemTime::now()).expect("created");
    (Measurement::new(settings, cases, folder), path)
}

/// Runs all rounds; `rate` is that of a case in a round.
fn run(measurement: &mut Measurement, rate: impl Fn(usize, usize) -> u64) -> usize {
    let mut rounds = 0;
    let mut now = 0.0;
    while let Some(turn) = measurement.next_round() {
        rounds += 1;
        let rate = rate(turn.cell, turn.round.number);
        let seconds = match turn.round.size {
            RoundSize::Seconds(seconds) => seconds,
            RoundSize::Iterations(n) => n as f64 / rate as f64,
        };
        measurement.start_round(turn, now).expect("written");
        let mut left = seconds;
        for at in 0.. {
            let part = f64::min(left, 1.0);
            measurement.second(&second(at, (rate as f64 * part) as u64, 0, part)).expect("written");
            left -= part;
            if left < 1e-9 {
                break;
            }
        }
        measurement.end_round(RoundConditions::default()).expect("written");
        now += seconds;
    }
    rounds
}

pub(super) fn finish(measurement: Measurement) -> Summary {
    measurement.finish(&Run::default(), None).expect("written").0
}

#[test]
fn cases_are_interleaved_until_each_is_stable() {
    let cases = ["a", "b"].map(|name| case(name, RoundSize::Seconds(3.0))).to_vec();
    let (mut measurement, _folder) = start(settings(Method::Stabilise(Rules::default())), cases);
    let first: Vec<usize> = (0..2).filter_map(|_| Some(measurement.next_round()?.cell)).collect();
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
    let cases = vec![case("", RoundSize::Seconds(3.0))];
    let (mut measurement, _folder) = start(settings(Method::Stabilise(Rules::default())), cases);
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
    let cases = vec![case("", RoundSize::Seconds(45.0))];
    let method = Method::Fixed { cut: Duration::from_secs(5) };
    let (mut measurement, _folder) = start(settings(method), cases);
    let turn = measurement.next_round().expect("one");
    measurement.start_round(turn, 0.0).expect("written");
    for at in 0..45 {
        let count = if at < 5 { 100 } else { 1_000 };
        measurement.second(&second(at, count, 0, 1.0)).expect("written");
    }
    measurement.end_round(RoundConditions::default()).expect("written");
    assert_eq!(measurement.next_round(), None);
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
fn what_is_offered_is_in_requests_if_their_number_is_known() {
    let measured = |requests: Option<f64>, rate: Option<f64>| {
        let quantum = Duration::from_millis(1);
        let rate = rate.map(|rate| (rate, quantum));
        let case = Case { open: true, requests, rate, ..case("", RoundSize::Seconds(4.0)) };
        let (mut measurement, _folder) = start(settings(Method::Once), vec![case]);
        let turn = measurement.next_round().expect("one");
        measurement.start_round(turn, 0.0).expect("written");
        for at in 0..4 {
            let second = Interval { offered: 100, ..second(at, 300, 0, 1.0) };
            measurement.second(&second).expect("written");
        }
        measurement.end_round(RoundConditions::default()).expect("written");
        let cell = finish(measurement).cells.remove(0);
        let open = cell.open.expect("open");
        (cell.offered, open.offered, open.requests)
    };
    assert_eq!(measured(Some(3.0), None), (Some(300.0), 300.0, Some(3.0)));
    assert_eq!(measured(None, None), (None, 100.0, None), "iterations");
    assert_eq!(measured(None, Some(300.0)), (Some(300.0), 300.0, None), "groups that differ");
}

#[test]
fn a_run_shorter_than_a_second_has_its_own_rate() {
    let (mut measurement, _folder) =
        start(settings(Method::Once), vec![case("", RoundSize::Iterations(20_000))]);
    run(&mut measurement, |_, _| 100_000);
    let summary = finish(measurement);
    let found = summary.cells[0].throughput.expect("a number");
    assert!((found.mean - 100_000.0).abs() < 1.0 && found.n == 1, "{found:?}");
    assert_eq!(summary.cells[0].interval, None);
}

#[test]
fn errors_make_it_invalid_and_are_shown() {
    let (mut measurement, _folder) = start(
        settings(Method::Stabilise(Rules::default())),
        vec![case("", RoundSize::Seconds(3.0))],
    );
    while let Some(turn) = measurement.next_round() {
        measurement.start_round(turn, 0.0).expect("written");
        measurement.second(&second(0, 100, 60, 1.0)).expect("written");
        measurement.end_round(RoundConditions::default()).expect("written");
    }
    let summary = finish(measurement);
    let cell = &summary.cells[0];
    assert_eq!((summary.verdict, cell.rounds.len()), (Verdict::Invalid, 5));
    assert!(
        matches!(cell.violations[..], [Violation::Errors { errors: 60, requests: 100, .. }]),
        "{:?}",
        cell.violations
    );
    assert_eq!(cell.labels[0].failed(), 60);
}

#[test]
fn a_saturated_server_excuses_the_generator() {
    let busy = |busiest| {
        let (mut measurement, _folder) =
            start(settings(Method::Once), vec![case("", RoundSize::Seconds(3.0))]);
        let turn = measurement.next_round().expect("one");
        measurement.start_round(turn, 0.0).expect("written");
        for at in 0..3 {
            let interval = Interval { busiest_loop: 0.99, ..second(at, 100, 0, 1.0) };
            measurement.second(&interval).expect("written");
            let row = ServerRow {
                time: at as f64 + 1.0,
                subject: SERVER.to_owned(),
                cpu: Some(1.5),
                busiest_thread: Some(busiest),
                ..ServerRow::default()
            };
            measurement.observe(vec![row]).expect("written");
        }
        measurement.end_round(RoundConditions::default()).expect("written");
        finish(measurement).cells.remove(0)
    };
    let saturated = busy(0.99);
    assert_eq!(saturated.verdict, Verdict::Pass, "{:?}", saturated.reasons);
    assert_eq!(saturated.server.map(|server| server.cpu_us), Some(15_000.0));
    assert_eq!(busy(0.5).verdict, Verdict::Invalid);
}

#[test]
fn a_failed_case_does_not_end_the_others() {
    let cases = ["a", "b"].map(|name| case(name, RoundSize::Iterations(10))).to_vec();
    let (mut measurement, _folder) = start(settings(Method::Once), cases);
    measurement.fail_case(0, "the server did not start");
    assert_eq!(run(&mut measurement, |_, _| 100), 1);
    let summary = finish(measurement);
    let verdicts: Vec<Verdict> = summary.cells.iter().map(|cell| cell.verdict).collect();
    assert_eq!(verdicts, [Verdict::Invalid, Verdict::Pass]);
    assert_eq!(summary.reasons, ["a: the server did not start"]);
}

#[test]
fn blocks_follow_each_other_and_cases_of_one_take_turns() {
    let mut cases: Vec<Case> =
        ["a", "b", "c", "d"].map(|name| case(name, RoundSize::Seconds(3.0))).to_vec();
    (cases[2].block, cases[3].block) = (1, 1);
    let rules = Rules { rounds: 3, max_rounds: 9, exact: true, ..Rules::default() };
    let (mut measurement, _folder) = start(settings(Method::Stabilise(rules)), cases);
    let mut turns = Vec::new();
    while let Some(turn) = measurement.next_round() {
        turns.push(turn.cell);
        measurement.start_round(turn, 0.0).expect("written");
        measurement.second(&second(0, 1_000, 0, 1.0)).expect("written");
        measurement.end_round(RoundConditions::default()).expect("written");
    }
    let (first, rest) = turns.split_at(turns.len() / 2);
    assert!(first.chunks(2).all(|pair| pair == [0, 1]), "{turns:?}");
    assert!(rest.chunks(2).all(|pair| pair == [2, 3]), "{turns:?}");
}

fn hold(rate: f64, verdict: engine::StepVerdict, confirms: bool) -> LoadStep {
    let met = verdict == engine::StepVerdict::Met;
    let load = engine::SearchedLoad::Rate(rate);
    LoadStep { load, achieved: rate, errors: 0.0, dropped: 0, search: 1, confirms, met, verdict }
}

/// Rate steps in sequence, one second each.
fn search(holds: &[LoadStep]) -> Cell {
    let (mut measurement, _folder) =
        start(settings(Method::Once), vec![case("", RoundSize::Iterations(1))]);
    let turn = measurement.next_round().expect("one");
    measurement.start_round(turn, 0.0).expect("written");
    for (at, hold) in (0..).zip(holds) {
        let rate = hold.load.value() as u64;
        let failed = if hold.verdict == engine::StepVerdict::Met { 0 } else { rate / 2 };
        measurement.second(&second(at, rate, failed, 1.0)).expect("written");
        measurement.load_step(hold, at as f64 + 1.0).expect("written");
    }
    measurement.end_round(RoundConditions::default()).expect("written");
    finish(measurement).cells.remove(0)
}

#[test]
fn the_last_rate_that_met_the_objective_is_reported() {
    use engine::StepVerdict::{Errors, Met};
    let found = search(&[
        hold(100.0, Met, false),
        hold(200.0, Errors, false),
        hold(150.0, Met, false),
        hold(175.0, Errors, false),
        hold(150.0, Met, true),
    ]);
    assert_eq!((found.verdict, found.load_steps.len()), (Verdict::Pass, 5), "{:?}", found.reasons);
    assert_eq!(found.throughput.map(|spread| spread.mean), Some(150.0));
    assert_eq!(found.labels[0].samples, 150, "what was not kept is not in the figures");
    let vain = search(&[hold(100.0, Errors, false), hold(50.0, Errors, false)]);
    assert_eq!((vain.verdict, vain.throughput), (Verdict::Fail, None));
    assert_eq!(vain.reasons[0], "no rate met the objective, not even 50/s");
}

#[test]
fn an_interrupted_run_keeps_complete_cases() {
    let cases = ["a", "b"].map(|name| case(name, RoundSize::Seconds(3.0))).to_vec();
    let (mut measurement, _folder) = start(settings(Method::Once), cases);
    let turn = measurement.next_round().expect("one");
    measurement.start_round(turn, 0.0).expect("written");
    measurement.second(&second(0, 100, 0, 1.0)).expect("written");
    measurement.end_round(RoundConditions::default()).expect("written");
    measurement.interrupt(1.0, "interrupted").expect("written");
    assert_eq!(measurement.next_round(), None);
    let summary = finish(measurement);
    assert_eq!(summary.interrupted.as_deref(), Some("interrupted"));
    let verdicts: Vec<Verdict> = summary.cells.iter().map(|cell| cell.verdict).collect();
    assert_eq!(verdicts, [Verdict::Pass, Verdict::Invalid]);
    assert_eq!(summary.line()["interrupted"], true);
    assert_eq!(summary.cells[0].labels[0].samples, 100);
}

#[test]
fn gc_pauses_and_other_processes_are_reported() {
    let (mut measurement, _folder) =
        start(settings(Method::Once), vec![case("", RoundSize::Seconds(4.0))]);
    // Of each round.
    (0..2).for_each(|_| measurement.remark(0, "no log".to_owned()));
    let turn = measurement.next_round().expect("one");
    measurement.start_round(turn, 0.0).expect("written");
    for at in 0..4 {
        measurement.second(&second(at, 100, 0, 1.0)).expect("written");
        let row = |subject: &str| ServerRow {
            time: at as f64 + 1.0,
            subject: subject.to_owned(),
            ..ServerRow::default()
        };
        let rows = vec![
            ServerRow { cpu: Some(0.5), ..row(SERVER) },
            ServerRow { cpu: Some(0.25), ..row("backend") },
            ServerRow { cpu: Some(1.75), steal: Some(0.0), ..row("host") },
            ServerRow { gauge: Some(10.0), ..row(PAUSES) },
        ];
        measurement.observe(rows).expect("written");
    }
    measurement.end_round(RoundConditions::default()).expect("written");
    let cell = finish(measurement).cells.remove(0);
    assert_eq!(cell.attributes.gc_throughput, Some(99.0));
    let remark = "other processes of this machine used 1.0 cores besides generator and server";
    assert_eq!(cell.remarks, ["no log", remark], "each once");
}

/// A case whose load another generator has, of a hundred responses a second. `waiting` threads of its server wait for
/// a core, two thirds of it because of the server itself.
fn by_another_generator(waiting: f64) -> Cell {
    let threshold = |text| Threshold::parse(text).expect("a threshold");
    let thresholds = ["p50<5ms", "p99<5ms", "p99.9<5ms"].map(threshold).to_vec();
    let settings = Settings { thresholds, ..settings(Method::Once) };
    let (mut measurement, _folder) = start(settings, vec![case("", RoundSize::Seconds(4.0))]);
    let turn = measurement.next_round().expect("one");
    measurement.start_round(turn, 0.0).expect("written");
    let mut load = second(0, 400, 0, 4.0);
    load.labels[0].service.reset();
    load.labels[0].service_sum = 0;
    measurement.second(&load).expect("written");
    let row = |subject: &str| ServerRow {
        time: 4.0,
        subject: subject.to_owned(),
        ..ServerRow::default()
    };
    let rows = vec![
        ServerRow { cpu: Some(1.0), waiting_threads: Some(waiting), ..row(SERVER) },
        ServerRow { cpu: Some(1.5), steal: Some(0.0), ..row("host") },
    ];
    measurement.observe(rows).expect("written");
    let foreign_times = Some(Times { mean: 4.0, p50: 3.0, p99: 9.0, ..Times::default() });
    let conditions = RoundConditions { foreign_times, ..RoundConditions::default() };
    measurement.end_round(conditions).expect("written");
    finish(measurement).cells.remove(0)
}

#[test]
fn response_times_of_another_generator_are_those_of_its_case() {
    let cell = by_another_generator(0.0);
    let times = &cell.labels[0].response;
    assert_eq!((times.mean, times.p50, times.p99), (4.0, 3.0, 9.0));
    assert_eq!(cell.labels[1].service, *times, "a closed model");
    let found = cell.thresholds.iter().map(|found| (found.met, found.found.as_str()));
    let expected = [(true, "3.00 ms"), (false, "9.00 ms"), (false, "not measured")];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn a_delay_is_a_share_of_the_mean_of_another_generator() {
    assert_eq!(by_another_generator(0.06).violations, [], "0.2 ms of 4 ms");
    let found = by_another_generator(0.18).violations;
    assert!(matches!(found[..], [Violation::StarvedServer { .. }]), "0.6 ms: {found:?}");
}

#[test]
fn a_condition_of_stop_ends_the_run_with_fail() {
    let stop = vec![StopCondition::parse("error-rate>5% for 3s").expect("a condition")];
    let settings = Settings { stop, ..settings(Method::Once) };
    let cases = ["a", "b"].map(|name| case(name, RoundSize::Seconds(60.0))).to_vec();
    let (mut measurement, _folder) = start(settings, cases);
    let turn = measurement.next_round().expect("one");
    measurement.start_round(turn, 0.0).expect("written");
    for at in 0..5 {
        let ended = measurement.stop_reason(turn.cell).is_some();
        assert_eq!(ended, at >= 4, "second {at}: the condition is true from the second one on");
        measurement.second(&second(at, 100, if at == 0 { 0 } else { 10 }, 1.0)).expect("written");
    }
    measurement.end_round(RoundConditions::default()).expect("written");
    let why = measurement.stop_reason(turn.cell).expect("stopped").to_owned();
    measurement.stop_run(5.0, &why).expect("written");
    assert_eq!(measurement.next_round(), None, "no further case");
    let summary = finish(measurement);
    assert_eq!(summary.verdict, Verdict::Fail, "{:?}", summary.reasons);
    assert!(summary.reasons[0].contains("error-rate>5% for 3s (in the last second: 10.000 %)"));
    assert_eq!(summary.cells[0].labels[0].samples, 500, "the partial figures are kept");
    assert!(summary.cells[1].reasons[0].contains("not measured: the run was stopped"));
}
