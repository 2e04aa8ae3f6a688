//! Measured response times against those of a server that records the times it took.
//!
//! `cargo bench -p weir-lab --bench truth` prints a row for each distribution, load model and percentile.
//! The network and the wake-ups of two threads are in every measured time: `less transport` is the error
//! without the median of a server that responds at once. The bar is 1 % from 1 ms upwards. The machine
//! has to be idle.

#![expect(clippy::unwrap_used, reason = "a bench ends with the first failure")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_lab::engine::{self, Control, Options};
use weir_lab::program::{
    ArrivalRate, Cookies, Executor, Group, OnError, Origin, Phase, Program, Request, Stage, Step,
    Text, Users,
};

const LENGTH: Duration = Duration::from_secs(4);
const USERS: u32 = 8;
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// Largest error.
const BAR: f64 = 0.01;

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
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            if { stream }.write_all(response).is_err() {
                return;
            }
            times.lock().unwrap().push(start.elapsed());
        }
        line.clear();
    }
}

/// Measured and true percentiles in milliseconds, and the number of samples.
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
    let mut times = server.times.lock().unwrap().clone();
    times.sort();
    let figures = PERCENTILES.map(|percentile| {
        let rank = (percentile / 100.0 * times.len() as f64).ceil() as usize;
        let truth = times[rank.clamp(1, times.len()) - 1].as_secs_f64() * 1e3;
        (tally.response().value_at_percentile(percentile) as f64 / 1e6, truth)
    });
    (figures.to_vec(), tally.samples())
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

/// A load model: its name and executor.
type Model = (&'static str, fn() -> Executor);

fn main() {
    // `cargo test --benches` runs benches, too.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let models: [Model; 3] = [
        ("closed, 8 users", closed),
        ("open, 200/s", || open(200.0)),
        ("open, 500/s", || open(500.0)),
    ];
    println!(
        "| distribution | load | samples | percentile | server ms | Lab ms | error | less transport |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut missed = 0;
    for (model, executor) in models {
        let (none, _) = measure(|_| 0.0, executor());
        // The median of the transport alone.
        let transport = none[0].0 - none[0].1;
        for (name, draw) in DISTRIBUTIONS {
            let (figures, samples) = measure(draw, executor());
            for (percentile, (measured, truth)) in PERCENTILES.iter().zip(figures) {
                let error = |measured: f64| (measured - truth) / truth;
                let net = error(measured - transport);
                missed += usize::from(net.abs() > BAR);
                println!(
                    "| {name} | {model} | {samples} | p{percentile} | {truth:.3} | {measured:.3} | {:+.2} % | {:+.2} % |",
                    100.0 * error(measured),
                    100.0 * net
                );
            }
        }
        println!("transport of {model}: {transport:.3} ms");
    }
    println!("{missed} percentiles miss the bar of {:.0} %", 100.0 * BAR);
}
