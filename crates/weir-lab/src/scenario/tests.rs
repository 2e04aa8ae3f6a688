use super::*;
use crate::program::{ArrivalRate, Body, Climb, Executor, Searched, Step, Url};
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
observe: {every: 1s, pids: [17], gauges: [queue.depth]}
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
    assert_eq!(scenario.observe.pids, [17]);
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
    let backend = cell.backend.as_ref().map(|backend| backend.start.clone());
    assert_eq!(backend, Some(BackendStart::Echo(Echo { port: 8688, delay })));
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

#[test]
fn searches_have_their_settings() {
    let search = |text: &str| {
        let scenario = load(&with("[{get: /}]", text)).expect("valid");
        match &scenario.cells[0].program.groups[0].executor {
            Executor::FindMax(search) => search.clone(),
            other => panic!("{other:?}"),
        }
    };
    let users = search("{executor: find-max, of: users, start: 5, slo: {p95: 1s}}");
    assert_eq!((users.of, users.start, users.max, users.repeats), (Searched::Users, 5.0, 1e4, 3));
    assert_eq!((users.climb, users.ramp), (Climb::Double, Duration::from_secs(1)));
    let rate = search("{executor: find-max, slo: {p95: 1s}}");
    assert_eq!((rate.of, rate.start, rate.repeats), (Searched::Rate, 100.0, 1));
    let steps =
        search("{executor: steps, of: users, step: 50, hold: 20s, max: 400, slo: {p95: 1s}}");
    assert_eq!((steps.climb, steps.start, steps.max), (Climb::Add(50.0), 50.0, 400.0));
    for (text, finding) in [
        ("{executor: steps, slo: {p95: 1s}}", "`steps` needs `step`"),
        (
            "{executor: find-max, of: users, quantum: 5ms, slo: {p95: 1s}}",
            "`quantum` needs `of: rate`",
        ),
        ("{executor: find-max, ramp: 5s, slo: {p95: 1s}}", "`ramp` needs `of: users`"),
        ("{executor: find-max, of: users, start: 5/s, slo: {p95: 1s}}", "a number of users"),
        ("{executor: find-max, start: 500, max: 100, slo: {p95: 1s}}", "is above `max`"),
        ("{executor: find-max, start: 30/m, slo: {p95: 1s}}", "`start` is 0.5, less than 1"),
        ("{executor: find-max, precision: 0%, slo: {p95: 1s}}", "`precision` is 0 %"),
        ("{executor: find-max, precision: 60%, slo: {p95: 1s}}", "`precision` is 60 %"),
    ] {
        let found = load(&with("[{get: /}]", text)).expect_err("wrong").join(" ");
        assert!(found.contains(finding), "{text}: {found}");
    }
}

#[test]
fn a_measured_rate_is_that_of_a_single_constant_load() {
    let rate = "{fraction: 50%, of: {load: full}}";
    let of = |loads: &str| load(&(with("[{get: /}]", loads) + "matrix: {load: [full, half]}\n"));
    let full = "{executor: constant-vus, vus: 1, duration: 1s, only: {load: full}}";
    let half = |executor: &str| format!("{{{executor}, rate: {rate}, only: {{load: half}}}}");
    let constant = half("executor: constant-arrival-rate, duration: 1s, backlog: 0");
    let scenario = of(&format!("[{full}, {constant}]")).expect("valid");
    let (cell, mut program) = (&scenario.cells[1], scenario.cells[1].program.clone());
    super::set_rate(&mut program, 100.0, cell.has_default_backlog());
    let Executor::ArrivalRate(rate) = &program.groups[0].executor else { panic!("a rate") };
    assert_eq!((rate.start, rate.backlog), (100.0, 0), "as it is written");
    let other = "{executor: constant-vus, vus: 1, duration: 1s}";
    let ramping = half("executor: ramping-arrival-rate, stages: [{duration: 1s, target: 5}]");
    for (loads, finding) in [
        (format!("[{full}, {constant}, {other}]"), "only for the single load of a cell"),
        (format!("[{full}, {ramping}]"), "only with `constant-arrival-rate`"),
    ] {
        let found = of(&loads).expect_err("wrong").join(" ");
        assert!(found.contains(finding), "{loads}: {found}");
    }
}

#[test]
fn feeders_are_fed_wherever_their_values_are() {
    let feeds = |request: &str| {
        let text = with(&format!("[{request}]"), ONCE)
            + "feeders: {users: {generate: {rows: 2, columns: {id: {kind: sequence}}}}}\n";
        let scenario = load(&text).expect("valid");
        let steps = &scenario.cells[0].program.groups[0].steps;
        steps.iter().any(|step| matches!(step, Step::Feed(_)))
    };
    assert!(feeds("{get: \"/${users.id}\"}") && feeds("{get: \"/${ users.id }\"}"));
    assert!(feeds("{post: /, json: {\"${users.id}\": 1}}"), "a key");
    assert!(!feeds("{get: \"/$${users.id}\"}"), "a literal");
}

#[test]
fn conditions_of_stop_are_read_with_their_duration() {
    let text = with("[{get: /}]", ONCE) + "stop: [\"error-rate>5% for 10s\", \"p99>2s for 30s\"]\n";
    assert_eq!(load(&text).expect("valid").stop.len(), 2);
    let wrong = with("[{get: /}]", ONCE) + "stop: [\"p99>2s\"]\n";
    assert!(load(&wrong).expect_err("wrong").join(" ").contains("ends with its duration"));
}

#[test]
fn conditions_are_about_requests_that_exist() {
    let requests = with("[{get: /, name: echo}]", ONCE);
    for key in ["thresholds: [\"p99<2s for NAME\"]\n", "stop: [\"p99>2s for NAME for 30s\"]\n"] {
        load(&(requests.clone() + &key.replace("NAME", "echo"))).expect("valid");
        let wrong = requests.clone() + &key.replace("NAME", "ecko");
        let found = load(&wrong).expect_err("an unknown name").join(" ");
        assert!(found.contains("`ecko` is not the name of a request"), "{found}");
        assert!(found.contains("names of requests: `echo`"), "{found}");
    }
}

#[test]
fn loads_that_are_not_reported_are_programs_of_their_own() {
    let side = "{requests: [{post: /fill, body: x, extract: {id: {json: $.id}}}, \
                {get: \"/${id}\", only: {users: 2}}], \
                load: {executor: shared-iterations, vus: 1, iterations: 5, only: {users: [1, 2]}}}";
    let text = with("[{get: /}]", ONCE)
        + &format!("matrix: {{users: [1, 2, 3]}}\nsetup: {side}\nbackground: {side}\n");
    let scenario = load(&text).expect("valid");
    let names = |program: &Option<Program>| program.as_ref().map(|all| all.labels.names().len());
    let found: Vec<_> =
        scenario.cells.iter().map(|cell| (names(&cell.setup), names(&cell.background))).collect();
    assert_eq!(found, [(Some(1), Some(1)), (Some(2), Some(2)), (None, None)]);
    assert_eq!(scenario.cells[0].program.labels.names(), ["GET /"]);
    assert!(scenario.needs_single_generator().is_some_and(|why| why.contains("background")));
    let wrong = load(&text.replace("only: {users: 2}}", "only: {user: 2}}")).expect_err("unknown");
    assert!(wrong.join(" ").contains("`user` is not a name of `matrix`"), "{wrong:?}");
}

#[test]
fn levels_have_values_for_other_keys() {
    let text = with(
        "[{get: \"/${load.path}\", checks: [{status: 200, only: {load: heavy}}]}]",
        "{executor: constant-vus, vus: \"${load.vus}\", duration: 1s}",
    ) + "matrix: {load: {light: {vus: 1, path: a, cores: [0]}, heavy: {vus: 9, path: b, cores: all}}}\n\
         generator: {cores: \"${load.cores}\"}\n\
         contenders: {one: {server: {command: [x], cores: \"${load.cores}\"}}, \
         two: {server: {command: [y, \"${load.vus}\"]}, only: {load: light}}}\n";
    let scenario = load(&text).expect("valid");
    let names: Vec<String> = scenario.cells.iter().map(Cell::name).collect();
    let expected =
        ["load=light contender=one", "load=light contender=two", "load=heavy contender=one"];
    assert_eq!(names, expected);
    let [light, _, heavy] = &scenario.cells[..] else { panic!("three") };
    let cores = |cell: &Cell| cell.contender.as_ref().expect("one").server.cores.clone();
    assert_eq!((&light.generator_cores[..], cores(light)), (&[0][..], vec![0]));
    assert_eq!((&heavy.generator_cores[..], cores(heavy)), (&[][..], vec![]));
    let Executor::Users(users) = &heavy.program.groups[0].executor else { panic!("users") };
    let [Step::Request(request)] = heavy.program.groups[0].steps.as_slice() else { panic!() };
    assert_eq!((users.users, request.checks.len()), (9, 1));
    let [Step::Request(request)] = light.program.groups[0].steps.as_slice() else { panic!() };
    assert_eq!(request.checks.len(), 0);
    let Start::Command(command) = &scenario.cells[1].contender.as_ref().expect("two").server.start
    else {
        panic!("a command")
    };
    assert_eq!(command[..], ["y", "1"]);

    let wrong = load(&text.replace("path: b, ", "")).expect_err("no path").join(" ");
    assert!(wrong.contains("`heavy` has no `path`"), "{wrong}");
    let wrong = load(&text.replace("only: {load: light}", "only: {lode: light}")).expect_err("?");
    assert!(wrong.join(" ").contains("`lode` is not a name of `matrix`"), "{wrong:?}");
}

#[test]
fn probes_and_preparations_are_read() {
    let text = with("[{get: /}]", ONCE)
        + "prepare: [[make, it], {command: [sleep, 1], timeout: 2s}]\n\
           probes: [{get: /secret, checks: [{status: 401}]}, {get: /open, checks: [{bytes: 3}]}]\n";
    let scenario = load(&text).expect("valid");
    let times: Vec<u64> = scenario.prepare.iter().map(|one| one.timeout.as_secs()).collect();
    assert_eq!(
        (&scenario.prepare[0].command[..], times),
        (&["make", "it"].map(String::from)[..], vec![60, 2])
    );
    let cell = &scenario.cells[0];
    let probes = cell.probes.as_ref().expect("probes");
    let [Step::Request(secret), Step::Request(open)] = probes.groups[0].steps.as_slice() else {
        panic!("two requests")
    };
    assert!(secret.success.contains(401) && !open.success.contains(401));
    assert_eq!(cell.program.labels.names(), ["GET /"], "probes are not reported");
}

/// The findings of a scenario in a folder with a schema.
fn calls(requests: &str, schema: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("shop.proto"), crate::grpc::tests::SCHEMA).expect("written");
    let text = with(requests, ONCE) + schema;
    let path = folder.path().join("test.yaml");
    let found = load_text(&path, &text, &Overrides::default()).expect_err("findings");
    let found = found.list.iter().map(|f| {
        let help = f.help.as_deref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}:{}: {}{help}", f.line, f.column, f.message)
    });
    found.collect()
}

#[test]
fn errors_of_calls_have_line_and_remedy() {
    let proto = "grpc: {proto: shop.proto}\n";
    for (request, expected) in [
        (
            "grpc: shop.Orders",
            "3:19: `shop.Orders` is not a method (write `grpc: package.Service/Method`)",
        ),
        (
            "grpc: shop.Order/Get",
            "3:19: the schema has no service `shop.Order` (did you mean `shop.Orders`?)",
        ),
        ("grpc: shop.Orders/Gat", "3:19: `shop.Orders` has no method `Gat` (did you mean `Get`?)"),
        (
            "grpc: shop.Orders/Get, message: {items: [{nam: tea}]}",
            "3:60: `shop.Item` has no field `nam` (did you mean `name`?)",
        ),
        (
            "grpc: shop.Orders/Put, message: [{cents: 1}, {state: PAYD}]",
            "3:66: `state` of `shop.Order` is shop.State: ",
        ),
        (
            "grpc: shop.Orders/Get, message: [{}, {}]",
            "3:19: `shop.Orders/Get` takes a single message",
        ),
        ("grpc: shop.Orders/Get, message: {order_id: \"${ID}\"}", "3:56: unknown name `ID`"),
        (
            "grpc: shop.Orders/Get, headers: {a: b}",
            "3:45: `headers` does not belong to `grpc` (write `metadata`)",
        ),
        (
            "grpc: shop.Orders/Get, json: {}",
            "3:42: `json` does not belong to `grpc` (write `message`)",
        ),
        (
            "grpc: shop.Orders/Get, metadata: {grpc-timeout: 1S}",
            "3:47: `grpc-timeout` is set by the protocol (write `deadline`)",
        ),
        (
            "grpc: shop.Orders/Watch, until: {events: 1}",
            "3:54: `events` belongs to `sse` (write `messages` or `time`)",
        ),
        ("get: /, message: {}", "3:30: `message` belongs to `grpc`"),
        (
            "grpc: shop.Orders/Get, checks: [{grpc_status: FINE}]",
            "3:59: `FINE` is not a status of gRPC (write names such as `NOT_FOUND`, or numbers from 0 to 16)",
        ),
    ] {
        let found = calls(&format!("[{{{request}}}]"), proto);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{request}: {found:#?}");
    }
    let missing = calls("[{grpc: shop.Orders/Get}]", "grpc: {proto: shop.protos}\n");
    assert_eq!(
        missing,
        [
            "5:15: `shop.protos` does not exist (paths are relative to the folder of the scenario, or to one of `import_paths`)"
        ]
    );
}

#[test]
fn calls_are_encoded_when_the_scenario_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("shop.proto"), crate::grpc::tests::SCHEMA).expect("written");
    let requests =
        "[{grpc: shop.Orders/Get, message: {order_id: \"7\"}}, {grpc: shop.Orders/Talk}]";
    let text = with(requests, ONCE) + "grpc: {proto: [shop.proto]}\n";
    let (scenario, _) = load_text(&folder.path().join("a.yaml"), &text, &Overrides::default())
        .unwrap_or_else(|findings| panic!("{}", findings.render(false)));
    let program = &scenario.cells[0].program;
    let names = ["shop.Orders/Get", "shop.Orders/Talk", "shop.Orders/Talk message"];
    assert_eq!(program.labels.names(), names);
    let [Step::Request(get), Step::Request(_)] = program.groups[0].steps.as_slice() else {
        panic!("steps")
    };
    let Some(crate::program::StreamKind::Grpc(call)) = get.stream.as_deref().map(|s| &s.kind)
    else {
        panic!("a call")
    };
    assert_eq!((call.fixed_json(), get.http2), (Some("{\"order_id\":\"7\"}"), true));
}

#[test]
fn pauses_may_be_log_normal() {
    let scenario = load(&with("[{get: /, think: {median: 2s, p95: 8s}}]", ONCE)).expect("valid");
    let Step::Pause(pause) = &scenario.cells[0].program.groups[0].steps[1] else {
        panic!("a pause")
    };
    let sigma: f64 = pause.spread.as_fixed().and_then(|text| text.parse().ok()).expect("a number");
    assert_eq!(pause.offset.as_fixed(), Some("2000"));
    // The 95th percentile is exp(1.645 σ) times the median.
    assert!((2000.0 * (1.644_853_627 * sigma).exp() - 8000.0).abs() < 1.0, "{sigma}");
}

#[test]
fn variables_in_the_path_of_an_absolute_url_leave_its_origin_known() {
    let text =
        with("[{get: \"http://other:9/a/${uuid()}?x=1\"}, {get: \"http://${uuid()}/\"}]", ONCE);
    let scenario = load(&text).expect("valid");
    let [Step::Request(first), Step::Request(second)] =
        scenario.cells[0].program.groups[0].steps.as_slice()
    else {
        panic!("two requests")
    };
    let Url::Parts { origin, target } = &first.url else { panic!("{:?}", first.url) };
    assert_eq!((origin.host.as_str(), origin.port, target.start()), ("other", 9, "/a/"));
    assert!(matches!(second.url, Url::Absolute(_)), "{:?}", second.url);
}

/// A scenario of one request to a target of this scheme, with further lines.
fn compared(scheme: &str, lines: &str) -> Result<Scenario, Vec<String>> {
    let users = "{executor: constant-vus, vus: 1, duration: 9s}";
    load(&format!("{}{lines}", with("[{get: /}]", users).replace("http:", scheme)))
}

#[test]
fn nothing_of_another_generator_can_be_cut_off() {
    let lines = |cut: &str| {
        format!(
            "contenders: {{a: {{server: {{command: [x]}}}}, b: {{server: a, generator: h2load}}}}\n\
             protocol: {{rounds: {{cut: {cut}}}}}\n"
        )
    };
    compared("http:", &lines("0s")).expect("valid");
    let wrong = compared("http:", &lines("2s")).expect_err("nothing is left").join(" ");
    assert!(wrong.contains("`cut` is not possible with h2load") && wrong.contains("6:"), "{wrong}");
}

#[test]
fn the_page_of_a_ready_server_is_plain_http() {
    let server = "server: {command: [x], ready: /health}\n";
    compared("http:", server).expect("valid");
    let contender = "contenders: {a: {server: {command: [x], ready: /health}}}\n";
    let backend = "backend: {command: [x], ready: \"https://127.0.0.1:${port}/\"}\n";
    for (scheme, lines) in [("https:", server), ("https:", contender), ("http:", backend)] {
        let wrong = compared(scheme, lines).expect_err("with TLS").join(" ");
        assert!(wrong.contains("`ready` is not possible with https"), "{wrong}");
    }
}
