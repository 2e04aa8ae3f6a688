//! What a call costs the engine: a value, and a JSON map of an upstream's answer with nothing on the
//! wire. `cargo bench -p weir-script --bench call`, with `-- NAME` only those whose name begins so.

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Duration;
use weir_module::{Program, Settings};
use weir_script::{DEFAULT_MEMORY, End, Engine, FetchedResponse, Outcome, Request};

const HELLO: &str = r#"export default () => ({ result: "OK", message: "Hello World" });"#;
const MAP: &str = r#"
export async function POST(request) {
  const answer = await fetch("http://backend/echo", { method: "POST", body: request.text() });
  const { payload, size } = answer.json();
  return { payload, size };
}"#;
const CALLS: u32 = 20_000;
const ROUNDS: usize = 7;

fn engine(text: &str) -> Engine {
    let settings = Settings {
        shared: false,
        config: "null".to_owned(),
        cpu: Duration::from_millis(20),
        indent: 0,
    };
    let program = Program::load("a.js", settings, &mut |_| Ok(text.to_owned())).expect("a program");
    Engine::new(&[Arc::new(program)], DEFAULT_MEMORY).expect("an engine")
}

/// A kibibyte of `{"size":"1024B","payload":["0123456789",…]}`.
fn body() -> Vec<u8> {
    let items = vec![r#""0123456789""#; 76].join(",");
    format!(r#"{{"size":"1024B","payload":[{items}]}}"#).into_bytes()
}

fn request(body: &[u8]) -> Request {
    Request {
        id: "01a2016834397241a68c2a019b771a91".to_owned(),
        method: "POST".to_owned(),
        path: "/open/script".to_owned(),
        host: "127.0.0.1:8080".to_owned(),
        client: "127.0.0.1".parse().ok(),
        head: b"host: 127.0.0.1:8080\r\naccept: */*\r\nuser-agent: bench\r\n".to_vec(),
        body: body.to_vec(),
        ..Request::default()
    }
}

fn answered(end: Option<End>) {
    assert!(matches!(end, Some(End::Response(_))), "{end:?}");
}

/// CPU time of this thread: a machine has other things to do, too.
fn now() -> u128 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u128::from(time.tv_sec.unsigned_abs()) * 1_000_000_000 + u128::from(time.tv_nsec.unsigned_abs())
}

/// Prints the median over the rounds of nanoseconds of CPU time a call.
fn report(name: &str, mut call: impl FnMut()) {
    let asked = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    if asked.is_some_and(|asked| !name.starts_with(&asked)) {
        return;
    }
    let mut rounds: Vec<u128> = (0..ROUNDS)
        .map(|_| {
            let start = now();
            (0..CALLS).for_each(|_| call());
            (now() - start) / u128::from(CALLS)
        })
        .collect();
    rounds.sort_unstable();
    println!("{name}: {} ns a call ({} to {})", rounds[ROUNDS / 2], rounds[0], rounds[ROUNDS - 1]);
}

fn main() {
    let mut hello = engine(HELLO);
    report("hello", || answered(hello.start(0, 0, request(b"")).end));
    let (mut map, body) = (engine(MAP), body());
    report("map of 1 KiB", || {
        let step = map.start(0, 0, request(&body));
        let headers = [
            ("content-type", "application/json"),
            ("content-length", "1024"),
            ("date", "Sun, 22 Nov 2026 05:00:00 GMT"),
            ("server", "echo"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let fetched = FetchedResponse { status: 200, headers, body: body.clone() };
        let op = step.ops[0].id;
        let step = map.resume(step.call, op, Outcome::Fetched(fetched));
        answered(step.and_then(|step| step.end));
    });
}
