//! Measured response times against those of a server that records the times it took.
//!
//! `cargo bench -p weir-lab --bench truth` prints a row for each distribution, load model and percentile.
//! The network and the wake-ups of two threads are in every measured time. How long these take is what plain
//! clients measure, each a thread that writes a request and waits for the response. The bar: from 1 ms upwards
//! the error of the Lab is at most 1 % of the response time more than theirs. The machine has to be idle.

#![expect(clippy::unwrap_used, reason = "a bench ends with the first failure")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_lab::engine::{self, Control, Options};
use weir_lab::program::{
    ArrivalRate, Cookies, Executor, Group, OnError, Origin, Phase, Program, Request, Stage, Step,
    Text, Users,
};

const LENGTH: Duration = Duration::from_secs(8);
const USERS: u32 = 8;
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// Plain clients of an open model: enough that none is late.
const CLIENTS: u32 = 64;
/// Largest error beyond that of plain clients.
const BAR: f64 = 0.01;
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A distribution of times in milliseconds.
type Draw = fn(&mut fastrand::Rng) -> f64;

const DISTRIBUTIONS: [(&str, Draw); 6] = [
    ("constant 1 ms", |_| 1.0),
    ("constant 5 ms", |_| 5.0),
    ("constant 20 ms", |_| 20.0),
    ("exponential, mean 5 ms", |random| (-5.0 * (1.0 - random.f64()).ln()).max(1.0)),
    ("lognormal, median 5 ms", |random| 5.0 * (0.8 * normal(random)).exp()),
    ("bimodal, 2 and 30 ms", |random| if random.f64() < 0.9 { 2.0 } else { 30.0 }),
];

/// Box and Muller.
fn normal(random: &mut fastrand::Rng) -> f64 {
    let (u, v) = (1.0 - random.f64(), random.f64());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A server with a thread for each connection, which takes a drawn time for each response.
struct Server {
    addr: SocketAddr,
    times: Arc<Mutex<Vec<Duration>>>,
}

impl Server {
    fn start(draw: Draw) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let times = Arc::<Mutex<Vec<Duration>>>::default();
        let all = times.clone();
        std::thread::spawn(move || {
            for (seed, stream) in (1..).zip(listener.incoming().map_while(Result::ok)) {
                let times = all.clone();
                std::thread::spawn(move || serve(&stream, draw, seed, &times));
            }
        });
        Self { addr, times }
    }

    /// The recorded times in ascending order.
    fn times(&self) -> Vec<Duration> {
        sorted(self.times.lock().unwrap().clone())
    }
}

fn sorted(mut times: Vec<Duration>) -> Vec<Duration> {
    times.sort();
    times
}

/// A percentile in milliseconds.
fn percentile(times: &[Duration], percentile: f64) -> f64 {
    let rank = (percentile / 100.0 * times.len() as f64).ceil() as usize;
    times[rank.clamp(1, times.len()) - 1].as_secs_f64() * 1e3
}

fn serve(stream: &TcpStream, draw: Draw, seed: u64, times: &Mutex<Vec<Duration>>) {
    let _ = stream.set_nodelay(true);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while matches!(reader.read_line(&mut line), Ok(1..)) {
        if line == "\r\n" {
            let start = Instant::now();
            std::thread::sleep(Duration::from_secs_f64(draw(&mut random) / 1e3));
            if { stream }.write_all(RESPONSE).is_err() {
                return;
            }
            times.lock().unwrap().push(start.elapsed());
        }
        line.clear();
    }
}

/// Percentiles of the Lab and of the server in milliseconds, and the number of samples.
fn measure(draw: Draw, executor: Executor) -> (Vec<(f64, f64)>, u64) {
    let server = Server::start(draw);
    let mut program = Program::default();
    let label = program.label("truth");
    let host = server.addr.ip().to_string();
    let origin = Origin { tls: false, host, port: server.addr.port() };
    let request = Request::get(label, origin, Text::fixed("/"));
    program.groups.push(Group {
        name: "users".to_owned(),
        phase: Phase::Main,
        executor,
        delay: Duration::ZERO,
        steps: vec![Step::Request(request.into())],
        on_error: OnError::Continue,
        index: None,
        cookies: Cookies::Ignored,
        new_user: false,
        grace: None,
    });
    let options = Options { loops: 1, ..Options::default() };
    let summary = engine::run(program, &options, &Control::default(), &mut |_| {}).unwrap();
    let tally = &summary.total.labels[0];
    assert_eq!(tally.failed(), 0);
    let times = server.times();
    let figures = PERCENTILES.map(|wanted| {
        let measured = tally.response().value_at_percentile(wanted) as f64 / 1e6;
        (measured, percentile(&times, wanted))
    });
    (figures.to_vec(), tally.samples())
}

/// Percentiles of plain clients and of the server, likewise. `rate` is that of an open model; its clients
/// measure from the time they really send.
fn measure_plain(draw: Draw, rate: Option<f64>) -> Vec<(f64, f64)> {
    let server = Server::start(draw);
    let start = Instant::now() + Duration::from_millis(50);
    let clients = if rate.is_some() { CLIENTS } else { USERS };
    let threads: Vec<_> = (0..clients)
        .map(|client| {
            let stream = TcpStream::connect(server.addr).unwrap();
            let due = move |turn: u32| match rate {
                None => start,
                Some(rate) => {
                    start + Duration::from_secs_f64(f64::from(client + turn * clients) / rate)
                }
            };
            std::thread::spawn(move || plain_client(stream, start + LENGTH, due))
        })
        .collect();
    let times = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let (measured, truth) = (sorted(times), server.times());
    PERCENTILES.map(|wanted| (percentile(&measured, wanted), percentile(&truth, wanted))).to_vec()
}

/// Requests one after the other until `end`, each not before it is due.
fn plain_client(
    mut stream: TcpStream,
    end: Instant,
    due: impl Fn(u32) -> Instant,
) -> Vec<Duration> {
    stream.set_nodelay(true).unwrap();
    let (mut times, mut response) = (Vec::new(), [0; RESPONSE.len()]);
    for turn in 0.. {
        std::thread::sleep(due(turn).saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        if sent >= end {
            break;
        }
        stream.write_all(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").unwrap();
        stream.read_exact(&mut response).unwrap();
        times.push(sent.elapsed());
    }
    times
}

fn closed() -> Executor {
    let ramp = Duration::ZERO;
    Executor::Users(Users { users: USERS, ramp, iterations: None, duration: Some(LENGTH) })
}

fn open(rate: f64) -> Executor {
    Executor::ArrivalRate(ArrivalRate {
        start: rate,
        stages: vec![Stage { duration: LENGTH, target: rate }],
        quantum: Duration::from_millis(1),
        max_in_flight: 200,
        backlog: 0,
    })
}

fn main() {
    // `cargo test --benches` runs benches, too.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!(
        "| distribution | load | samples | percentile | server ms | Lab ms | error | plain clients | difference |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut missed = 0;
    for rate in [None, Some(200.0), Some(500.0)] {
        let model = rate.map_or(format!("closed, {USERS} users"), |rate| format!("open, {rate}/s"));
        for (name, draw) in DISTRIBUTIONS {
            let (figures, samples) = measure(draw, rate.map_or_else(closed, open));
            let plain = measure_plain(draw, rate);
            for ((percentile, lab), plain) in PERCENTILES.iter().zip(figures).zip(plain) {
                let error = |(measured, truth): (f64, f64)| 100.0 * (measured - truth) / truth;
                let difference = error(lab) - error(plain);
                missed += usize::from(difference.abs() > 100.0 * BAR);
                println!(
                    "| {name} | {model} | {samples} | p{percentile} | {:.3} | {:.3} | {:+.2} % | {:+.2} % | {difference:+.2} % |",
                    lab.1,
                    lab.0,
                    error(lab),
                    error(plain),
                );
            }
        }
    }
    println!("{missed} percentiles miss the bar of {:.0} %", 100.0 * BAR);
}
