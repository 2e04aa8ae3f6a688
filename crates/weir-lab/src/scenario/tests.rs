use super::*;
use crate::program::{ArrivalRate, Body, Executor, Step, Url};
use std::time::Duration;

/// The complete format, as in the guide.
const WHOLE: &str = r#"
lab: 1
target: {base: "http://127.0.0.1:8080"}
server: {weir: gateway.yaml}
cases:
  factors: {tracker: [true, false], monitor: [true, false]}
  apply: {set: {tracker.enabled: "${tracker}", monitor.enabled: "${monitor}"}}
  order: randomized
matrix: {users: [100, 200], payload: [50, 1KiB], backend_delay: [0ms, 100ms]}
backend: {echo: {port: 8688, delay: "${backend_delay}"}}
feeders: {tokens: {jwt: {count: 4, algorithm: ES256, jwks: keys.json, claims: {aud: lab}}}}
requests:
  - {name: echo, post: /echo/1.0.0, body: {generate: array, size: "${payload}"},
     headers: {Authorization: "Bearer ${tokens.token}"},
     checks: [{status: 2xx}, {body_contains: "${payload.bytes}B"}]}
load:
  - {executor: constant-vus, vus: "${users}", ramp: 60s, duration: 900s}
protocol: {stabilise: {rounds: 5, margin: 5%, max_rounds: 60, idle: drained}}
observe: {every: 1s, pids: [gateway, backend, 17], gauges: [queue.depth]}
thresholds: ["error-rate<=0", "p99<500ms for echo", "rps>=1000"]
"#;

fn load(text: &str) -> Result<Scenario, Vec<String>> {
    match load_text(Path::new("folder/test.yaml"), text, &Overrides::default()) {
        Ok((scenario, findings)) => {
            assert!(findings.list.is_empty(), "{}", findings.render(false));
            Ok(scenario)
        }
        Err(findings) => Err(findings
            .list
            .iter()
            .map(|f| {
                let help = f.help.as_deref().map(|help| format!(" ({help})")).unwrap_or_default();
                format!("{}:{}: {}: {}{help}", f.line, f.column, f.code, f.message)
            })
            .collect()),
    }
}

/// A scenario with these lines for requests and load.
fn with(requests: &str, load: &str) -> String {
    format!("lab: 1\ntarget: {{base: \"http://h:1\"}}\nrequests: {requests}\nload: {load}\n")
}

const ONCE: &str = "{executor: shared-iterations, vus: 1, iterations: 1}";

#[test]
fn every_key_is_read() {
    let scenario = load(WHOLE).expect("valid");
    assert_eq!((scenario.name.as_str(), scenario.cells.len()), ("test", 32));
    assert_eq!(scenario.order, CaseOrder::Randomized);
    let Method::Stabilise(rules) = &scenario.method else { panic!("{:?}", scenario.method) };
    assert_eq!((rules.margin, rules.max_rounds, scenario.idle), (0.05, 60, Idle::Drained));
    assert_eq!(scenario.observe.processes, [Process::Server, Process::Backend, Process::Pid(17)]);
    assert_eq!(scenario.thresholds.len(), 3);
    let (file, keys) = &scenario.files[0];
    assert_eq!(file, Path::new("folder/keys.json"));
    assert!(keys.contains("\"crv\":\"P-256\""));

    let cell = &scenario.cells[31];
    assert_eq!(
        cell.name(),
        "users=200 payload=1KiB backend_delay=100ms tracker=false monitor=false"
    );
    assert_eq!(
        cell.sets,
        [
            ("tracker.enabled".to_owned(), "false".to_owned()),
            ("monitor.enabled".to_owned(), "false".to_owned())
        ]
    );
    let delay = Duration::from_millis(100);
    assert_eq!(cell.backend, Some(Backend::Echo(Echo { port: 8688, delay })));
    let group = &cell.program.groups[0];
    let Executor::Users(users) = &group.executor else { panic!("users") };
    assert_eq!((users.users, users.duration), (200, Some(Duration::from_secs(900))));
    let [Step::Feed(_), Step::Request(request)] = group.steps.as_slice() else { panic!("steps") };
    let Body::Bytes(body) = &request.body else { panic!("bytes") };
    assert_eq!(body.len(), 1024);
    assert_eq!(request.checks.len(), 2);
    let first = &scenario.cells[0].program;
    assert_eq!(first.feeders[0].rows, cell.program.feeders[0].rows, "tokens are made once");
}

#[test]
fn the_schema_accepts_placeholders() {
    let schema = schema();
    let vus = &schema["$defs"]["load"]["properties"]["vus"]["anyOf"];
    assert_eq!(vus[0]["type"], "integer");
    assert_eq!(vus[1]["pattern"], r"^\$\{.*\}$");
    assert_eq!(schema["properties"]["lab"]["anyOf"][0]["minimum"], 1);
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn every_mistake_has_its_line_and_remedy() {
    let mut wrong: Vec<String> = Vec::new();
    for (text, expected) in [
        ("", vec!["1:1: missing-key: a scenario needs `lab` (`lab` takes an integer from 1 to 1)"]),
        ("lab: [", vec!["2:1: syntax: not YAML"]),
        (
            &with("[{get: /, hedaers: {a: b}}]", ONCE),
            vec!["3:21: unknown-key: unknown key `hedaers` in a request (did you mean `headers`?)"],
        ),
        (
            &with("[{get: /x, method: POST}]", ONCE),
            vec!["3:22: unknown-key: unknown key `method` in a request (write `post: /path`)"],
        ),
        (
            &with("[{get: \"/${idd}\", extract: {id: {json: $.id}}}]", ONCE),
            vec!["3:18: unknown-name: unknown name `idd` (did you mean `${id}`?)"],
        ),
        (
            &with("[{get: \"/${nope()}\"}]", ONCE),
            vec!["3:18: bad-substitution: `${nope()}` is not a function"],
        ),
        (&with("[{get: \"/${open\"}]", ONCE), vec!["3:18: bad-substitution: `${` is not closed"]),
        (&with("[{get: x}]", ONCE), vec!["3:18: bad-path: a path starts with `/`"]),
        (&with("[{get: \"/a b\"}]", ONCE), vec!["3:18: bad-path: a path has no spaces"]),
        (
            &with("[{get: /, checks: [{body_matches: \"(\"}]}]", ONCE),
            vec!["3:45: bad-value: not a regular expression: unclosed group"],
        ),
        (
            &with("[{get: /, checks: [{status: 2yy}]}]", ONCE),
            vec!["3:39: bad-value: `2yy` is not a status (write `200`, `2xx` or `200-204`)"],
        ),
        (
            &with("[{post: /, body: {generate: array, size: 5}}]", ONCE),
            vec!["3:28: bad-value: an array body of 5 bytes is too short"],
        ),
        (
            &with("[{get: /}]", "{executor: constant-vus, vus: 1}"),
            vec!["4:7: missing-key: this load is endless (add `duration` or `iterations`)"],
        ),
        (
            &with("[{get: /}]", "{executor: find-max, vus: 1}"),
            vec![
                "4:7: missing-key: `find-max` needs `slo`",
                "4:28: conflict: `find-max` does not support `vus`",
            ],
        ),
        (
            &with("[{get: /}]", "{executor: ramp-users, users: 1, over: 5}"),
            vec!["4:46: missing-unit:"],
        ),
        (&with("[{get: /}]", "{executor: ramp}"), vec!["4:18: bad-value: `executor` takes"]),
        (
            &(with("[{get: /}]", ONCE) + "thresholds: [p99<5]\n"),
            vec!["5:14: bad-value: \"5\" is not"],
        ),
        (
            &(with("[{get: /}]", ONCE) + "feeders: {a: {csv: nowhere.csv}}\n"),
            vec!["5:14: bad-value: `folder/nowhere.csv` cannot be read"],
        ),
        (&(with("[{get: /}]", ONCE) + "matrix: {a: [[1]]}\n"), vec!["5:13: wrong-type:"]),
        (
            &(with("[{get: /}]", ONCE)
                + &format!("matrix: {{a: {0:?}, b: {0:?}, c: {0:?}}}\n", [0; 30])),
            vec!["5:9: too-many: 27000 cells exceed the limit of 2000"],
        ),
    ] {
        let found = load(text).expect_err(text);
        for expected in expected {
            if !found.iter().any(|found| found.starts_with(expected)) {
                wrong.push(format!(
                    "{expected}
{found:#?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn values_of_the_matrix_stand_alone_within_texts_and_as_sizes() {
    let text = with(
        "[{name: \"a ${n}\", get: \"/${n}/$${n}/${size.bytes}\", headers: {x: \"${n}\"}}]",
        "{executor: shared-iterations, vus: \"${n}\", iterations: 7}",
    ) + "matrix: {n: [3], size: [2kB]}\n";
    let scenario = load(&text).expect("valid");
    let program = &scenario.cells[0].program;
    let Executor::SharedIterations { vus: 3, .. } = program.groups[0].executor else { panic!() };
    let [Step::Request(request)] = program.groups[0].steps.as_slice() else { panic!("steps") };
    let Url::Parts { target, .. } = &request.url else { panic!("parts") };
    assert_eq!(target.as_fixed(), Some("/3/${n}/2000"));
    assert_eq!(program.labels.names(), ["a 3"]);
}

#[test]
fn requests_are_one_group_or_one_each() {
    let requests = "[{name: a, get: /a}, {name: b, get: /b, think: {from: 1s, to: 3s}}]";
    for (groups, names, consecutive) in [
        ("together", vec!["users"], false),
        ("consecutive", vec!["a", "b"], true),
        ("parallel", vec!["a", "b"], false),
    ] {
        let load_ = format!("{{executor: ramp-users, users: 9, over: 60s, groups: {groups}}}");
        let scenario = load(&with(requests, &load_)).expect("valid");
        let program = &scenario.cells[0].program;
        let found: Vec<&str> = program.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!((found, program.consecutive), (names, consecutive));
    }
}

#[test]
fn executors_have_their_settings() {
    let executor = |load_: &str| {
        let scenario = load(&with("[{get: /}]", load_)).expect("valid");
        scenario.cells[0].program.groups[0].executor.clone()
    };
    let Executor::ArrivalRate(ArrivalRate { start, stages, backlog, .. }) =
        executor("{executor: constant-arrival-rate, rate: 1200/m, duration: 5s}")
    else {
        panic!("a rate")
    };
    assert_eq!((start, stages[0].target, backlog), (20.0, 20.0, 200));
    let Executor::RampingVus { start: 0, stages, .. } =
        executor("{executor: ramping-vus, stages: [{duration: 5s, target: 9}]}")
    else {
        panic!("users")
    };
    assert_eq!(stages[0].target, 9.0);
    let Executor::FindMax(find) =
        executor("{executor: find-max, start: 50, slo: {errors: 0.5%, p99.9: 1s}, precision: 4%}")
    else {
        panic!("a search")
    };
    assert_eq!((find.errors, find.precision), (0.005, 0.04));
    assert_eq!(find.limits, [(99.9, Duration::from_secs(1))]);
}
