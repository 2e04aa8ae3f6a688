use super::*;
use crate::scenario::{Overrides, load};

fn read(generator: ForeignGenerator, output: &str) -> ForeignResult {
    generator.parse(output).expect("a result")
}

#[test]
fn recorded_output_of_each_generator_is_read() {
    let wrk = read(ForeignGenerator::Wrk, include_str!("recorded/wrk.txt"));
    assert_eq!((wrk.requests, wrk.errors, wrk.seconds), (14_851, 0, 1.03));
    assert_eq!((wrk.times.p50, wrk.times.p99, wrk.times.max), (0.466, 18.13, 21.61));
    let wrk2 = read(ForeignGenerator::Wrk2, include_str!("recorded/wrk2.txt"));
    assert_eq!((wrk2.requests, wrk2.seconds), (119_989, 60.0));
    assert_eq!((wrk2.times.p50, wrk2.times.p99, wrk2.times.p99_9), (1.37, 3.02, 5.72));
    let h2load = read(ForeignGenerator::H2load, include_str!("recorded/h2load.txt"));
    assert_eq!((h2load.requests, h2load.errors, h2load.seconds), (21_486, 0, 1.02));
    assert_eq!((h2load.times.mean, h2load.times.max), (0.925, 9.07));
    let ab = read(ForeignGenerator::Ab, include_str!("recorded/ab.txt"));
    assert_eq!((ab.requests, ab.errors, ab.seconds), (5_841, 0, 1.002));
    assert_eq!((ab.times.mean, ab.times.p50, ab.times.p99, ab.times.max), (3.0, 1.0, 24.0, 26.0));
    let hey = read(ForeignGenerator::Hey, include_str!("recorded/hey.txt"));
    assert!(hey.requests > 1_000 && hey.errors == 0, "{hey:?}");
    assert!(hey.seconds > 0.9 && hey.times.p50 > 0.0 && hey.times.p99 > hey.times.p50, "{hey:?}");
    let oha = read(ForeignGenerator::Oha, include_str!("recorded/oha.json"));
    assert_eq!((oha.requests, oha.errors, oha.seconds), (14_209, 11, 1.0012));
    assert_eq!((oha.times.p99, oha.times.p99_9), (9.2, 17.1));
}

#[test]
fn failures_are_counted_and_other_output_is_no_result() {
    let errors = |generator, output| read(generator, output).errors;
    assert_eq!(errors(ForeignGenerator::Wrk, include_str!("recorded/wrk-errors.txt")), 3_981);
    assert_eq!(errors(ForeignGenerator::H2load, include_str!("recorded/h2load-errors.txt")), 200);
    assert_eq!(errors(ForeignGenerator::Ab, include_str!("recorded/ab-errors.txt")), 200);
    assert_eq!(errors(ForeignGenerator::Hey, include_str!("recorded/hey-errors.txt")), 20);
    for generator in [
        ForeignGenerator::Wrk,
        ForeignGenerator::H2load,
        ForeignGenerator::Ab,
        ForeignGenerator::Hey,
        ForeignGenerator::Oha,
    ] {
        let why = generator.parse("unable to connect\n").unwrap_err();
        assert!(why.contains("printed no result") && why.contains("unable to connect"), "{why}");
        generator.parse("{\"summary\": 3}").unwrap_err();
    }
}

/// The order of a scenario with these lines.
fn order(
    generator: ForeignGenerator,
    requests: &str,
    load_line: &str,
) -> Result<Order, OrderError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    let text = format!(
        "lab: 1\ntarget: {{base: \"http://127.0.0.1:1\"}}\nrequests: {requests}\nload: {load_line}\n"
    );
    std::fs::write(&path, text).unwrap();
    let (scenario, _) = load(&path, &Overrides::default()).unwrap();
    Order::new(generator, &scenario.cells[0].program)
}

const CLOSED: &str = "{executor: constant-vus, vus: 20, duration: 2s}";
const OPEN: &str = "{executor: constant-arrival-rate, rate: 500/s, duration: 2s}";

#[test]
fn commands_have_the_request_and_the_load() {
    let get = "[{get: \"/a%20b\", headers: {x-a: \"1\"}}]";
    let command = |generator: ForeignGenerator, load| {
        generator.command(&order(generator, get, load).unwrap()).join(" ")
    };
    assert_eq!(
        command(ForeignGenerator::Wrk, CLOSED),
        "wrk -t1 -c 20 -d 2s --latency -H x-a: 1 http://127.0.0.1:1/a%20b"
    );
    assert!(command(ForeignGenerator::Wrk2, OPEN).contains("-R 500 --latency"));
    assert!(command(ForeignGenerator::H2load, CLOSED).contains("-D 2 --h1"));
    assert!(command(ForeignGenerator::Ab, CLOSED).contains("-t 2 -n 200000 -c 20"));
    assert!(command(ForeignGenerator::Hey, CLOSED).contains("-c 20 -z 2s"));
    assert!(command(ForeignGenerator::Oha, OPEN).contains("-z 2s -q 500 --latency-correction"));
}

#[test]
fn other_requests_and_loads_are_rejected() {
    use ForeignGenerator::{Wrk, Wrk2};
    let get = "[{get: /}]";
    assert_eq!(order(Wrk, "[{get: /}, {get: /b}]", CLOSED), Err(OrderError::Request));
    assert_eq!(order(Wrk, "[{post: /, body: x}]", CLOSED), Err(OrderError::Request));
    assert_eq!(order(Wrk, "[{get: \"/${uuid()}\"}]", CLOSED), Err(OrderError::Request));
    assert_eq!(order(Wrk, get, OPEN), Err(OrderError::Executor));
    assert_eq!(order(Wrk2, get, CLOSED), Err(OrderError::Executor));
    let count = "{executor: shared-iterations, vus: 1, iterations: 5}";
    assert_eq!(order(Wrk, get, count), Err(OrderError::Executor));
}
