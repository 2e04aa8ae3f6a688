//! Controllers, by samples without requests: their order, and what users share.

use crate::plan::{closed, get, group, open, step};
use crate::server::Server;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_lab::engine::{self, Control, Options, Summary};
use weir_lab::program::{
    ArrivalStage, ArrivalTimes, CacheOptions, ChoiceOrder, Controller, ControllerKind,
    Distribution, Dummy, Executor, FlowAction, ForEach, Gate, GateId, LocalKind, LocalSample,
    LoopCount, OTHER_LABELS, Pause, Phase, Program, SharedTimer, Step, Text, TextPart, TimerId,
    Url, Users,
};

/// Label, start and end of each sample, in the order of their ends.
type Seen = Vec<(String, u64, u64)>;

fn run(mut program: Program, loops: u32) -> (Summary, Seen) {
    // Any group ends by itself.
    program.groups.iter().for_each(|group| assert_eq!(group.phase, Phase::Main));
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let (all, labels) = (seen.clone(), program.labels.clone());
    let options = Options {
        loops,
        sinks: Some(Box::new(move || {
            let (all, labels) = (all.clone(), labels.clone());
            Box::new(move |sample| {
                let name = labels.name(sample.label, str::to_owned);
                all.lock().unwrap().push((name, sample.start, sample.end));
            })
        })),
        ..Options::default()
    };
    program.insecure = true;
    let summary = engine::run(program, &options, &Control::default(), &mut |_| ()).unwrap();
    let seen = seen.lock().unwrap().clone();
    (summary, seen)
}

fn names(seen: &Seen) -> String {
    seen.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>().join(" ")
}

fn program(users: u32, iterations: u64, make: impl FnOnce(&mut Program) -> Vec<Step>) -> Program {
    let mut program = Program::default();
    let steps = make(&mut program);
    program.groups.push(group(closed(users, iterations), steps));
    program
}

fn sample(program: &mut Program, label: &str, success: Text, millis: u32) -> Step {
    let dummy = Dummy {
        success,
        status: Text::fixed("200"),
        reason: Text::default(),
        body: Text::default(),
        request: Text::default(),
        url: Text::default(),
        elapsed: Text::fixed(millis.to_string()),
        latency: Text::default(),
        connect: Text::default(),
        waits: true,
    };
    let label = program.label(label);
    let kind = LocalKind::Dummy(Box::new(dummy));
    let sample = LocalSample {
        label,
        name: None,
        kind,
        checks: Vec::new(),
        post_processors: Vec::new(),
        scripts: None,
    };
    Step::Local(sample.into())
}

fn say(program: &mut Program, label: &str) -> Step {
    sample(program, label, Text::fixed("true"), 0)
}

fn fails(program: &mut Program, label: &str) -> Step {
    sample(program, label, Text::fixed("false"), 0)
}

fn value(program: &mut Program, name: &str) -> Text {
    let variable = program.variable(name);
    Text::from_parts([TextPart::Variable(variable)])
}

fn set(program: &mut Program, name: &str, value: &str) -> Step {
    let variable = program.variable(name);
    Step::Set(vec![(variable, Text::fixed(value))])
}

fn looped(times: &str, steps: Vec<Step>) -> Step {
    Step::Loop { times: LoopCount::Count(Text::fixed(times)), steps }
}

fn choose(order: ChoiceOrder, by_sample: bool, branches: Vec<Vec<Step>>) -> Step {
    Controller { kind: ControllerKind::Choose { order, by_sample }, scripts: Vec::new(), branches }
        .into()
}

#[test]
fn conditions_loops_and_lists_decide_in_the_order_of_jmeter() {
    let program = program(1, 2, |p| {
        let on = value(p, "on");
        let if_on = |each_sample| ControllerKind::If { condition: on.clone(), each_sample };
        let list = ForEach {
            input: Text::fixed("i"),
            separator: true,
            output: p.variable("each"),
            start: Text::default(),
            end: None,
            index: None,
        };
        let until = |condition: &str| ControllerKind::While {
            condition: Text::fixed(condition),
            index: None,
        };
        vec![
            set(p, "on", "TRUE"),
            if_on(false).around(vec![say(p, "a"), set(p, "on", "no"), say(p, "b")]),
            if_on(false).around(vec![say(p, "never")]),
            set(p, "on", "true"),
            if_on(true).around(vec![say(p, "c"), set(p, "on", "no"), say(p, "d"), say(p, "never")]),
            set(p, "i_1", "x"),
            set(p, "i_2", "y"),
            ControllerKind::ForEach(list)
                .around(vec![say(p, "each"), Step::Once(vec![say(p, "once")])]),
            looped("2", vec![Step::Once(vec![say(p, "loop-once")]), say(p, "l")]),
            until("").around(vec![say(p, "w"), fails(p, "w-fails")]),
            until("last").around(vec![say(p, "never")]),
            looped("3", vec![say(p, "n"), Step::Flow(FlowAction::NextOfLoop), say(p, "never")]),
            looped("3", vec![say(p, "break"), Step::Flow(FlowAction::BreakLoop)]),
        ]
    });
    let (summary, seen) = run(program, 1);
    let first = "a b c d each once each loop-once l l w w-fails n n n break";
    let second = first.replace(" once", "");
    assert_eq!(names(&seen), format!("{first} {second}"));
    assert_eq!(summary.interrupted, 0);
}

#[test]
fn branches_are_chosen_in_turn_by_name_and_by_sample() {
    let program = program(1, 3, |p| {
        let turn = ChoiceOrder::InTurn;
        let pair = |p: &mut Program, a: &str, b: &str| vec![say(p, a), say(p, b)];
        let switch = ControllerKind::Switch {
            selection: value(p, "n"),
            names: vec![Text::fixed("zero"), Text::fixed("Default")],
        };
        let none = ControllerKind::If { condition: Text::fixed("false"), each_sample: false };
        let none = none.around(vec![say(p, "never")]);
        vec![
            choose(turn, false, vec![pair(p, "a", "b"), vec![none], vec![say(p, "c")]]),
            choose(turn, true, vec![pair(p, "d", "e"), vec![say(p, "f")]]),
            set(p, "n", "other"),
            Controller {
                kind: switch,
                scripts: Vec::new(),
                branches: vec![vec![say(p, "never")], vec![say(p, "g")]],
            }
            .into(),
        ]
    });
    let (_, seen) = run(program, 1);
    assert_eq!(names(&seen), "a b d g c f g a b e g");
}

fn transaction(p: &mut Program, parent_only: bool, steps: Vec<Step>) -> Step {
    Step::Transaction {
        scripts: None,
        label: p.label("all"),
        name: None,
        with_pauses: true,
        parent_only,
        checks: Arc::default(),
        steps,
    }
}

#[test]
fn a_transaction_goes_on_with_the_next_turn_of_its_branch() {
    let turns = |parent_only, order| {
        let program = program(1, 7, |p| {
            let steps = vec![say(p, "a"), say(p, "b")];
            let branch = vec![transaction(p, parent_only, steps)];
            vec![choose(order, true, vec![branch, vec![say(p, "c")]])]
        });
        run(program, 1)
    };
    // What follows its last sample is part of the next turn.
    let (_, seen) = turns(false, ChoiceOrder::InTurn);
    assert_eq!(names(&seen), "a c b c all a c b");
    let (start, end) =
        seen.iter().find(|(name, ..)| name == "all").map(|(_, a, b)| (a, b)).unwrap();
    assert!(*start <= seen[0].1 && *end >= seen[3].2, "it spans the other turns: {seen:?}");
    // The end of one that replaces its samples is a turn of its own.
    assert_eq!(names(&turns(true, ChoiceOrder::InTurn).1), "c c all c");
    for parent_only in [false, true] {
        let (summary, seen) = turns(parent_only, ChoiceOrder::Random);
        let count = |label: &str| seen.iter().filter(|(name, ..)| name == label).count();
        assert!(count("all") * 3 <= 7 - count("c"), "{seen:?}");
        assert_eq!(summary.interrupted, 0);
    }
}

#[test]
fn an_interrupted_branch_has_had_its_turn_and_starts_again() {
    let ended = |parent_only| {
        let program = program(1, 6, |p| {
            let steps = vec![say(p, "a"), say(p, "b"), Step::Flow(FlowAction::NextIteration)];
            let branch = vec![transaction(p, parent_only, steps)];
            vec![choose(ChoiceOrder::InTurn, true, vec![branch, vec![say(p, "c")]])]
        });
        names(&run(program, 1).1)
    };
    assert_eq!(ended(false), "a c b c all c");
    assert_eq!(ended(true), "c c all c");
}

#[test]
fn a_transaction_that_a_condition_resets_is_not_counted() {
    let program = program(1, 4, |p| {
        let on = p.variable("on");
        let steps = vec![say(p, "a"), say(p, "b")];
        let branch = vec![transaction(p, false, steps)];
        let choice = choose(ChoiceOrder::InTurn, true, vec![branch, vec![say(p, "c")]]);
        let condition = ControllerKind::If { condition: value(p, "on"), each_sample: false };
        let off = vec![Step::Set(vec![(on, Text::fixed("false"))])];
        let set_on = Step::Set(vec![(on, Text::fixed("true"))]);
        // Off in the third iteration.
        let turns = [vec![set_on.clone()], vec![set_on.clone()], off, vec![set_on]];
        let turns = turns.map(|mut steps| {
            steps.push(say(p, "t"));
            vec![ControllerKind::Simple.around(steps)]
        });
        vec![choose(ChoiceOrder::InTurn, false, turns.to_vec()), condition.around(vec![choice])]
    });
    assert_eq!(names(&run(program, 1).1), "t a t c t t a");
}

#[test]
fn a_user_that_ends_completes_the_transactions_of_its_last_sample() {
    let ended = |parent_only, last: bool| {
        let program = program(1, 3, |p| {
            let mut steps = vec![say(p, "a"), Step::Flow(FlowAction::StopUser)];
            if !last {
                steps.push(say(p, "never"));
            }
            vec![transaction(p, parent_only, steps)]
        });
        let (summary, seen) = run(program, 1);
        assert_eq!(summary.interrupted, 0);
        names(&seen)
    };
    assert_eq!(ended(false, true), "a all");
    assert_eq!(ended(false, false), "a");
    assert_eq!(ended(true, false), "all", "it stands for its samples");
}

#[test]
fn users_of_all_loops_share_gates_locks_and_meetings() {
    let program = program(4, 5, |p| {
        let limit = Text::fixed("25");
        p.gates.push(Gate { percent: true, limit, per_user: false });
        p.timers
            .push(SharedTimer::Rendezvous { users: Text::fixed("4"), timeout: Text::default() });
        let locked = sample(p, "locked", Text::fixed("true"), 3);
        vec![
            Step::Decide(GateId(0)),
            ControllerKind::Gate(GateId(0)).around(vec![say(p, "some")]),
            ControllerKind::Locked(Text::fixed("one"))
                .around(vec![ControllerKind::Locked(Text::fixed("one")).around(vec![locked])]),
            Step::Shared(TimerId(0)),
            say(p, "met"),
        ]
    });
    let (_, seen) = run(program, 2);
    let of = |name: &str| seen.iter().filter(|(known, ..)| known == name).collect::<Vec<_>>();
    assert_eq!((of("some").len(), of("met").len()), (5, 20));
    let mut locked = of("locked");
    locked.sort_by_key(|(_, start, _)| *start);
    assert!(locked.windows(2).all(|two| two[0].2 <= two[1].1), "one at a time: {locked:?}");
    // Each meeting lets four go, after the last of them was ready.
    let mut met: Vec<u64> = of("met").iter().map(|(_, start, _)| *start).collect();
    met.sort_unstable();
    for (round, four) in met.chunks(4).enumerate() {
        let ready = locked[round * 4 + 3].2;
        assert!(four.iter().all(|start| *start >= ready), "round {round}");
    }
}

#[test]
fn labels_of_a_run_are_counted_and_bounded() {
    let program = program(1, 700, |p| {
        let number = p.variable("number");
        let index = Text::from_parts(["item ".into(), TextPart::Variable(number)]);
        p.labels.allow_runtime(false);
        let Step::Local(local) = say(p, "fixed") else { panic!("a sample") };
        let local = LocalSample { name: Some(index), ..(*local).clone() };
        vec![Step::Local(local.into())]
    });
    let mut program = program;
    program.groups[0].index = Some(weir_lab::program::Variable(0));
    let labels = program.labels.clone();
    let (summary, seen) = run(program, 1);
    assert_eq!(seen.iter().filter(|(name, ..)| name == OTHER_LABELS).count(), 700 - 511);
    let names = labels.names();
    let counts = summary.total.labels.iter().map(|tally| tally.samples());
    let counts: Vec<_> = names.iter().zip(counts).filter(|(_, count)| *count > 0).collect();
    assert_eq!(counts.first().map(|(name, n)| (name.as_str(), *n)), Some(("item 0", 1)));
    assert_eq!(counts.last().map(|(name, n)| (name.as_str(), *n)), Some((OTHER_LABELS, 189)));
}

#[test]
fn each_arrival_of_an_open_model_is_a_new_user() {
    let mut program = program(1, 1, |p| vec![Step::Once(vec![say(p, "once")]), say(p, "each")]);
    let stage = |random| ArrivalStage {
        duration: Duration::from_millis(500),
        from: 40.0,
        to: 40.0,
        random,
    };
    program.groups[0].executor = Executor::Arrivals(ArrivalTimes {
        stages: vec![stage(false), stage(true)],
        quantum: Duration::from_millis(1),
        max_in_flight: 100,
    });
    let (summary, seen) = run(program, 2);
    let count = |name: &str| seen.iter().filter(|(known, ..)| known == name).count();
    assert_eq!((count("once"), count("each"), summary.total.offered), (40, 40, 40));
}

#[test]
fn users_whose_samples_never_wait_end_and_share_their_loop() {
    let server = Server::start();
    let mut program = Program::default();
    let mut dummy = say(&mut program, "dummy");
    if let Step::Local(local) = &mut dummy {
        let mut quick = (**local).clone();
        if let LocalKind::Dummy(dummy) = &mut quick.kind {
            dummy.waits = false;
        }
        *local = quick.into();
    }
    let mut cached = get(&server.origin(), "/fresh");
    cached.client.cache = Some(CacheOptions { expires: true, each_iteration: false });
    let mut invalid = get(&server.origin(), "/");
    invalid.url = Url::Absolute(value(&mut program, "nothing"));
    let limited = Users {
        users: 2,
        ramp: Duration::ZERO,
        iterations: None,
        duration: Some(Duration::from_millis(200)),
    };
    for steps in [vec![dummy], vec![step(cached)], vec![step(invalid)]] {
        let steps = vec![Step::Loop { times: LoopCount::Forever, steps }];
        program.groups.push(group(Executor::Users(limited.clone()), steps));
    }
    let (summary, _) = run(program, 1);
    // Both users of the second group had their turn, beside four that never wait.
    assert_eq!(server.requests(), 2);
    assert!(!summary.stopped);
}

#[test]
fn a_first_sample_without_a_request_has_a_send_lag() {
    let mut program = Program::default();
    let steps = vec![say(&mut program, "local"), say(&mut program, "second")];
    program.groups.push(group(open(100.0, Duration::from_millis(300), 10), steps));
    let (summary, seen) = run(program, 1);
    let lags = summary.total.send_lag.map(|lags| lags.len());
    assert_eq!((seen.len(), lags), (60, Some(30)), "one for each iteration");
}

#[test]
fn a_pause_before_the_first_sample_is_no_delay() {
    let mut program = Program::default();
    let pause = Pause {
        offset: Text::fixed("2000"),
        distribution: Distribution::None,
        spread: Text::default(),
    };
    let steps = vec![Step::Pause(pause), say(&mut program, "late")];
    program.groups.push(group(open(10.0, Duration::from_millis(200), 10), steps));
    let (summary, _) = run(program, 1);
    let lags = summary.total.send_lag.expect("an open model");
    assert!(lags.len() == 2 && lags.min() < 1_000_000_000, "{} ns", lags.min());
}
