//! Steps of users: loops, transactions, variables, cookies, behaviour after errors.

use crate::plan::{closed, get, group, program, run, samples, step};
use crate::server::Server;
use regex::bytes::Regex;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_lab::engine::Options;
use weir_lab::program::{
    Body, Cookies, Executor, Extraction, Extractor, Feeder, FeederId, Field, Label, LoopCount,
    OnError, Origin, Pause, Phase, Program, Request, Share, Step, Text, TextCheck, TextPart, Url,
    Variable,
};
use weir_lab::sample::{ErrorKind, Outcome};

fn variable(variable: Variable) -> TextPart {
    TextPart::Variable(variable)
}

fn literal(text: &str) -> TextPart {
    TextPart::Literal(text.into())
}

fn get_text(origin: &Origin, target: Text) -> Request {
    Request::get(Label(0), origin.clone(), target)
}

#[test]
fn loops_go_round_and_once_is_once() {
    let server = Server::start();
    let get = |target: &str| step(get(&server.origin(), target));
    let steps = vec![
        Step::Once(vec![get("/login")]),
        Step::Loop {
            times: LoopCount::Count(Text::fixed("2")),
            steps: vec![
                get("/"),
                Step::Loop { times: LoopCount::Count(Text::fixed("3")), steps: vec![get("/json")] },
            ],
        },
        Step::Loop { times: LoopCount::Count(Text::fixed("0")), steps: vec![get("/gzip")] },
        get("/early"),
    ];
    run(program(closed(1, 2), steps));
    let round = ["/", "/json", "/json", "/json"];
    let iteration = [&round[..], &round[..], &["/early"]].concat();
    assert_eq!(server.targets(), [vec!["/login"], iteration.clone(), iteration].concat());
}

#[test]
fn an_extracted_value_is_sent_in_the_next_request() {
    let server = Server::start();
    let mut program = program(closed(1, 1), Vec::new());
    let (id, word) = (program.variable("id"), program.variable("word"));
    let mut first = get(&server.origin(), "/json");
    let by_regex =
        Extraction::Regex { field: Field::Body, regex: Regex::new(r#""id":(\d+)"#).unwrap() };
    let extractor = |variable, rule| Extractor { variable, rule, number: 1, default: None };
    first.extractors = vec![
        extractor(id, by_regex),
        extractor(word, Extraction::Json(serde_json_path::JsonPath::parse("$.list[1]").unwrap())),
    ];
    let mut second = get_text(
        &server.origin(),
        Text::from_parts([literal("/echo?id="), variable(id), literal("&w=a b")]),
    );
    second.method = "POST".to_owned();
    second.body = Body::Text(Text::from_parts([literal("word "), variable(word)]));
    let patterns = vec![Text::fixed("word b")];
    let check = TextCheck::new(Field::Body, weir_lab::program::Comparison::Equals, patterns);
    second.checks = vec![weir_lab::program::CheckKind::Text(check).into()];
    program.groups[0].steps = vec![step(first), step(second)];
    let summary = run(program);
    assert_eq!((samples(&summary).ok, samples(&summary).failed()), (2, 0));
    assert_eq!(server.targets(), ["/json", "/echo?id=17&w=a%20b"]);
}

#[test]
fn rows_are_handed_out_once_and_end_the_users() {
    let server = Server::start();
    let mut program = program(
        Executor::Users(weir_lab::program::Users {
            users: 3,
            ramp: Duration::ZERO,
            iterations: None,
            duration: None,
        }),
        Vec::new(),
    );
    let row = program.variable("row");
    program.feeders = vec![Arc::new(Feeder {
        variables: vec![row],
        rows: (0..10).map(|n| vec![format!("{n}").into()]).collect(),
        stop_user: true,
        share: Share::All,
        ..Feeder::default()
    })];
    let target = Text::from_parts([literal("/?"), variable(row)]);
    program.groups[0].steps =
        vec![Step::Feed(FeederId(0)), step(get_text(&server.origin(), target))];
    let summary = run(program);
    assert_eq!(samples(&summary).ok, 10);
    let mut targets = server.targets();
    targets.sort();
    assert_eq!(targets, (0..10).map(|n| format!("/?{n}")).collect::<Vec<_>>());
}

#[test]
fn an_absolute_url_may_be_a_variable() {
    let server = Server::start();
    let mut program = program(closed(2, 3), Vec::new());
    let base = program.variable("base");
    program.initial = vec![(base, Text::fixed(format!("http://{}", server.origin().authority())))];
    let mut request = get(&server.origin(), "/");
    request.url = Url::Absolute(Text::from_parts([variable(base), literal("/json")]));
    let mut wrong = get(&server.origin(), "/");
    wrong.url = Url::Absolute(Text::from_parts([literal("ftp:"), variable(base)]));
    program.groups[0].steps = vec![step(request), step(wrong)];
    let summary = run(program);
    let tally = samples(&summary);
    assert_eq!((tally.ok, tally.errors[ErrorKind::Request.index()]), (6, 6));
    assert_eq!((server.requests(), server.connections()), (6, 2));
}

#[test]
fn cookies_have_the_lifetime_of_their_setting() {
    let server = Server::start();
    let login = || step(get(&server.origin(), "/login"));
    let private = || step(get(&server.origin(), "/private"));
    let denied = |cookies, new_user, steps| {
        let mut program = program(closed(2, 2), steps);
        program.groups[0].cookies = cookies;
        program.groups[0].new_user = new_user;
        let summary = run(program);
        samples(&summary).errors[ErrorKind::Http4xx.index()]
    };
    let once = || vec![Step::Once(vec![login()]), private()];
    assert_eq!(denied(Cookies::Kept, false, once()), 0);
    assert_eq!(denied(Cookies::Ignored, false, once()), 4);
    assert_eq!(denied(Cookies::KeptForIteration, false, once()), 2);
    assert_eq!(denied(Cookies::KeptForIteration, false, vec![login(), private()]), 0);
    let before = server.connections();
    assert_eq!(denied(Cookies::Kept, true, once()), 0, "cookies have a setting of their own");
    assert_eq!(server.connections() - before, 4, "each iteration is a new user's");
}

#[test]
fn on_error_is_followed() {
    let server = Server::start();
    let seen_with = |on_error, teardown_after_stop| {
        let before = server.targets().len();
        let steps = vec![
            step(get(&server.origin(), "/")),
            step(get(&server.origin(), "/status/500")),
            step(get(&server.origin(), "/json")),
        ];
        let mut first = group(closed(1, 2), steps);
        first.on_error = on_error;
        let mut last = group(closed(1, 1), vec![step(get(&server.origin(), "/early"))]);
        last.phase = Phase::Teardown;
        let groups = vec![first, last];
        let program = Program { groups, teardown_after_stop, ..Program::default() };
        let summary = run(program);
        (server.targets()[before..].join(" "), summary.stopped)
    };
    let seen = |on_error| seen_with(on_error, true);
    let whole = "/ /status/500 /json";
    assert_eq!(seen(OnError::Continue), (format!("{whole} {whole} /early"), false));
    let cut = "/ /status/500";
    assert_eq!(seen(OnError::NextIteration), (format!("{cut} {cut} /early"), false));
    assert_eq!(seen(OnError::StopUser), (format!("{cut} /early"), false));
    assert_eq!(seen(OnError::StopRun), (format!("{cut} /early"), true));
    assert_eq!(seen_with(OnError::StopRun, false), (cut.to_owned(), true));
}

#[test]
fn groups_run_in_their_order() {
    let server = Server::start();
    let of = |phase, target: &str| {
        let mut group = group(closed(1, 2), vec![step(get(&server.origin(), target))]);
        group.phase = phase;
        group
    };
    let program = Program {
        groups: vec![
            of(Phase::Teardown, "/?last"),
            of(Phase::Main, "/?a"),
            of(Phase::Main, "/?b"),
            of(Phase::Setup, "/?first"),
        ],
        consecutive: true,
        ..Program::default()
    };
    run(program);
    let order = ["/?first", "/?a", "/?b", "/?last"].map(|target| [target; 2]);
    assert_eq!(server.targets(), order.as_flattened());
}

/// A sample as the sink saw it: label, time, idle time, whether it succeeded, bytes received.
type Seen = (u32, Duration, Duration, bool, u64);

fn sunk(program: Program) -> Vec<Seen> {
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let all = seen.clone();
    let options = Options {
        sinks: Some(Box::new(move || {
            let all = all.clone();
            Box::new(move |sample| {
                assert!(sample.transaction || sample.url.starts_with("http://127.0.0.1:"));
                assert!(sample.transaction || sample.content_type == "text/plain");
                assert!(sample.transaction || sample.message == "Said So");
                all.lock().unwrap().push((
                    sample.label.0,
                    Duration::from_nanos(sample.service()),
                    Duration::from_nanos(sample.idle),
                    sample.outcome == Outcome::Ok,
                    sample.received,
                ));
            })
        })),
        ..Options::default()
    };
    crate::plan::run_with(program, &options);
    seen.lock().unwrap().clone()
}

#[test]
fn a_transaction_is_its_samples_together() {
    let server = Server::start();
    let transaction = |with_pauses, parent_only| {
        let mut program = program(closed(1, 1), Vec::new());
        program.label("requests");
        let label = program.label("all");
        program.groups[0].steps = vec![Step::Transaction {
            scripts: None,
            label,
            name: None,
            with_pauses,
            parent_only,
            checks: Arc::default(),
            steps: vec![
                step(get(&server.origin(), "/delay/30")),
                Step::Pause(Pause::constant(Text::fixed("100"))),
                step(get(&server.origin(), "/status/500")),
            ],
        }];
        sunk(program)
    };
    let seen = transaction(false, false);
    let [first, second, all] = seen[..] else { panic!("{seen:?}") };
    assert_eq!(all.1, first.1 + second.1, "without the pause");
    assert_eq!((all.0, all.3, all.4), (1, false, first.4 + second.4));
    assert!(all.2 >= Duration::from_millis(100));
    let seen = transaction(true, true);
    let [all] = seen[..] else { panic!("{seen:?}") };
    assert!(all.1 >= Duration::from_millis(130), "{all:?}");
}

#[test]
fn pauses_pacing_and_rates_take_their_time() {
    let server = Server::start();
    let time = |step_before: Step, each: u64| {
        let steps = vec![step_before, step(get(&server.origin(), "/"))];
        let began = Instant::now();
        let summary = run(program(closed(1, each), steps));
        assert_eq!(samples(&summary).ok, each);
        began.elapsed()
    };
    let millis = Duration::from_millis;
    let uniform = Pause {
        offset: Text::fixed("50"),
        distribution: weir_lab::program::Distribution::Uniform,
        spread: Text::fixed("10"),
    };
    assert!(time(Step::Pause(uniform), 4) >= millis(200));
    assert!(time(Step::Pacing(millis(100)), 4) >= millis(300));
    let throughput = Step::Throughput {
        per_minute: Text::fixed("600"),
        of: weir_lab::program::ThroughputOf::AllUsersShared,
    };
    assert!(time(throughput, 4) >= millis(300));
    assert!(time(Step::Pause(Pause::constant(Text::fixed("no number"))), 4) < millis(5000));
}
