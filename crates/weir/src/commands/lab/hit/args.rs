//! Arguments of `weir lab hit`, and their program.

use super::super::load::Loops;
use crate::duration;
use anyhow::{Context, bail, ensure};
use std::path::PathBuf;
use std::time::Duration;
use weir_lab::program::{
    ArrivalRate, Body, Cookies, Executor, Group, OnError, Origin, Phase, Program, Request, Stage,
    StatusSet, Step, Text, Timeouts, Users,
};

/// Default connections of a closed model.
const CONNECTIONS: u32 = 50;

/// Default limit of connections of an open model.
const MAX_CONNECTIONS: u32 = 10_000;

/// Length of a run without `-n` and `-d`.
const LENGTH: Duration = Duration::from_secs(10);

/// Arguments of `weir lab hit`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --rate, each connection sends the next request after the previous \
        response (closed model). With --rate, requests are sent on schedule, independently of the \
        server (open model); response times count from the due time, so that a stall affects all \
        requests due meanwhile.\n\n\
    Ctrl-C ends the load and prints the result so far.\n\n\
    Exit codes: 0 PASS, 2 error, 3 INVALID (reason on standard output)\n\n\
    Examples:\n  \
    weir lab hit http://127.0.0.1:8080/\n  \
    weir lab hit -c 150 -n 20000 http://127.0.0.1:8080/api/examples-services/sayHello\n  \
    weir lab hit --rate 5000 -d 30s http://127.0.0.1:8080/\n  \
    weir lab hit -X POST -H 'Content-Type: application/json' --body order.json --json \
    http://127.0.0.1:8688/"
)]
pub(crate) struct Args {
    /// URL, with http:// or https://
    url: String,
    /// Connections [default: 50; with --rate as many as needed, at most 10000]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Option<u32>,
    /// Total number of requests
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration",
          value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Duration [default: 10s]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Requests per second, sent on schedule (open model)
    #[arg(short, long, value_name = "R", value_parser = crate::commands::lab::rate)]
    pub(super) rate: Option<f64>,
    /// Quantum of the schedule: a coarser quantum uses less CPU
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = duration::parse,
          requires = "rate")]
    pub(super) quantum: Duration,
    /// Header field, `Name: value`; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<String>,
    /// Method [default: GET, with --body POST]
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// File with the request body
    #[arg(short, long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Timeout of each response
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    timeout: Duration,
    /// Statuses that count as success, such as 2xx,304 [default: 200-399]
    #[arg(long, value_name = "STATUSES", value_parser = statuses)]
    success: Option<StatusSet>,
    /// Expected statuses, counted separately from success and error
    #[arg(long, value_name = "STATUSES", value_parser = statuses)]
    expected: Option<StatusSet>,
    /// Open a connection for each request
    #[arg(long)]
    no_keep_alive: bool,
    /// HTTP/2: by ALPN over TLS, with prior knowledge otherwise
    #[arg(long)]
    http2: bool,
    /// Verify the server's certificate
    #[arg(long)]
    verify: bool,
    /// Write a JTL file (JMeter) with a row for each request
    #[arg(short = 'l', long, value_name = "FILE")]
    pub(super) jtl: Option<PathBuf>,
    #[command(flatten)]
    pub(super) loops: Loops,
    /// Print one JSON line per second, and the result as the last line
    #[arg(long)]
    pub(super) json: bool,
}

fn statuses(text: &str) -> Result<StatusSet, String> {
    StatusSet::parse(text)
        .ok_or_else(|| format!("'{text}' is not a list of statuses, such as 2xx,304 or 500-599"))
}

impl Args {
    /// The program and its options.
    pub(super) fn program(&self) -> anyhow::Result<(Program, Origin)> {
        let (origin, target) =
            Origin::parse(&self.url).with_context(|| format!("{} is not a URL", self.url))?;
        let mut program = Program { insecure: !self.verify, ..Program::default() };
        let path = target.split('?').next().unwrap_or_default();
        let method = self.method();
        let label = program.label(&format!("{method} {path}"));
        let mut request = Request::get(label, origin.clone(), Text::fixed(target));
        request.method = method;
        request.keep_alive = !self.no_keep_alive;
        request.http2 = self.http2;
        request.timeouts = Timeouts { response: self.timeout, ..Timeouts::default() };
        request.headers = self.fields()?;
        request.success = self.success.clone().unwrap_or(request.success);
        request.expected = self.expected.clone().unwrap_or(request.expected);
        if let Some(path) = &self.body {
            let body =
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            request.body = Body::Bytes(body.into());
        }
        program.groups.push(Group {
            name: "hit".to_owned(),
            phase: Phase::Main,
            executor: self.executor(),
            delay: Duration::ZERO,
            steps: vec![Step::Request(request.into())],
            on_error: OnError::Continue,
            cookies: Cookies::Ignored,
            new_user: false,
            grace: None,
            index: None,
        });
        Ok((program, origin))
    }

    fn method(&self) -> String {
        let usual = if self.body.is_some() { "POST" } else { "GET" };
        self.method.as_deref().unwrap_or(usual).to_ascii_uppercase()
    }

    fn fields(&self) -> anyhow::Result<Vec<(Text, Text)>> {
        let field = |text: &String| {
            let Some((name, value)) = text.split_once(':') else {
                bail!("'{text}' is not a header field, such as 'Name: value'")
            };
            ensure!(!name.trim().is_empty(), "'{text}' has no name");
            Ok((Text::fixed(name.trim()), Text::fixed(value.trim())))
        };
        self.headers.iter().map(field).collect()
    }

    fn executor(&self) -> Executor {
        let Some(rate) = self.rate else {
            let vus = self.connections.unwrap_or(CONNECTIONS);
            return match self.requests {
                Some(iterations) => Executor::SharedIterations { vus, iterations, limit: None },
                None => Executor::Users(Users {
                    users: vus,
                    ramp: Duration::ZERO,
                    iterations: None,
                    duration: Some(self.duration.unwrap_or(LENGTH)),
                }),
            };
        };
        let length = match self.requests {
            // Longer than any run, if it cannot be represented.
            Some(requests) => {
                Duration::try_from_secs_f64(requests as f64 / rate).unwrap_or(Duration::MAX)
            }
            None => self.duration.unwrap_or(LENGTH),
        };
        Executor::ArrivalRate(ArrivalRate {
            start: rate,
            stages: vec![Stage { duration: length, target: rate }],
            quantum: self.quantum,
            max_in_flight: self.connections.unwrap_or(MAX_CONNECTIONS),
            // With an explicit number of connections, requests wait for them.
            backlog: if self.connections.is_some() { u64::MAX } else { 0 },
        })
    }
}
