//! Other load generators, as a cross-check of the Lab and as contenders: wrk, wrk2, h2load, ab, oha
//! and hey.
//!
//! Each has a command for the request of a scenario, and a parser of its output.

mod parse;

use crate::figures::Times;
use crate::program::{Body, Executor, Phase, Program, Request, Step, Url};
use std::time::Duration;

/// Requests per second of the largest number that `ab` is started for: it reserves memory for each.
const MAX_AB_RATE: f64 = 100_000.0;

/// A load generator.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, strum::Display,
)]
#[strum(serialize_all = "lowercase")]
pub enum ForeignGenerator {
    /// wrk 4.
    Wrk,
    /// wrk2, at a constant rate.
    Wrk2,
    /// h2load of nghttp2, by HTTP/1.1 or HTTP/2.
    H2load,
    /// ApacheBench, which has one thread and HTTP/1.0 with keep-alive.
    Ab,
    /// oha 1.9 or later.
    Oha,
    /// hey.
    Hey,
}

/// The load of a generator.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The URL.
    pub url: String,
    /// Fields of the request.
    pub headers: Vec<(String, String)>,
    /// HTTP/2.
    pub http2: bool,
    /// Connections, each with one request at a time.
    pub connections: u32,
    /// Requests per second; as many as possible without.
    pub rate: Option<f64>,
    /// Length of the load.
    pub time: Duration,
}

/// Output of a generator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForeignResult {
    /// Responses.
    pub requests: u64,
    /// Failed requests, and statuses of 400 and above.
    pub errors: u64,
    /// Length of the load, in seconds.
    pub seconds: f64,
    /// Response times in milliseconds; those that the generator does not report are 0.
    pub times: Times,
}

/// Why a program cannot be sent by another generator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Not a single request.
    #[error(
        "other generators send a single GET request, without variables, body, `think` and `pacing`"
    )]
    Request,
    /// Another executor.
    #[error(
        "other generators take `constant-vus` with `duration`, without `ramp` and `iterations`; wrk2 and oha \
         `constant-arrival-rate`, wrk2 nothing else"
    )]
    Executor,
}

impl Order {
    /// The load of a program.
    ///
    /// # Errors
    /// The program has more than other generators can send.
    pub fn new(generator: ForeignGenerator, program: &Program) -> Result<Self, OrderError> {
        let mut main = program.groups.iter().filter(|group| group.phase == Phase::Main);
        let (Some(group), None) = (main.next(), main.next()) else {
            return Err(OrderError::Request);
        };
        let [Step::Request(request)] = &group.steps[..] else { return Err(OrderError::Request) };
        let (connections, rate, time) = match &group.executor {
            Executor::Users(users) if users.ramp.is_zero() && users.iterations.is_none() => {
                (users.users, None, users.duration.ok_or(OrderError::Executor)?)
            }
            Executor::ArrivalRate(arrivals)
                if matches!(generator, ForeignGenerator::Wrk2 | ForeignGenerator::Oha) =>
            {
                let [stage] = &arrivals.stages[..] else { return Err(OrderError::Executor) };
                (arrivals.max_in_flight, Some(arrivals.start), stage.duration)
            }
            _ => return Err(OrderError::Executor),
        };
        // wrk2 has a rate only.
        if rate.is_none() && generator == ForeignGenerator::Wrk2 {
            return Err(OrderError::Executor);
        }
        let (url, headers) = fixed(request).ok_or(OrderError::Request)?;
        Ok(Self { url, headers, http2: request.http2, connections, rate, time })
    }
}

/// URL and fields of a GET request without variables.
fn fixed(request: &Request) -> Option<(String, Vec<(String, String)>)> {
    if request.method != "GET" || !matches!(request.body, Body::None) {
        return None;
    }
    let Url::Parts { origin, target } = &request.url else { return None };
    let scheme = if origin.tls { "https" } else { "http" };
    let target = crate::program::target(target.as_fixed()?);
    let url = format!("{scheme}://{}{target}", origin.authority());
    let field = |(name, value): &(crate::program::Text, crate::program::Text)| {
        Some((name.as_fixed()?.to_owned(), value.as_fixed()?.to_owned()))
    };
    Some((url, request.headers.iter().map(field).collect::<Option<_>>()?))
}

impl ForeignGenerator {
    /// The command with its arguments.
    #[must_use]
    pub fn command(self, order: &Order) -> Vec<String> {
        let seconds = order.time.as_secs_f64().ceil().max(1.0);
        let connections = order.connections;
        let rate = order.rate.unwrap_or_default().round();
        let when =
            |is_set: bool, words: &str| if is_set { words.to_owned() } else { String::new() };
        let words = match self {
            Self::Wrk => format!("wrk -t1 -c {connections} -d {seconds}s --latency"),
            Self::Wrk2 => format!("wrk2 -t1 -c {connections} -d {seconds}s -R {rate} --latency"),
            Self::H2load => {
                let protocol = when(!order.http2, "--h1");
                format!("h2load -t1 -c {connections} -D {seconds} {protocol}")
            }
            Self::Ab => {
                let most = seconds * MAX_AB_RATE;
                format!("ab -k -q -t {seconds} -n {most} -c {connections}")
            }
            Self::Oha => {
                let rate = when(order.rate.is_some(), &format!("-q {rate} --latency-correction"));
                let protocol = when(order.http2, "--http2");
                format!(
                    "oha --no-tui --output-format json -c {connections} -z {seconds}s {rate} {protocol}"
                )
            }
            Self::Hey => {
                let protocol = when(order.http2, "-h2");
                format!("hey -c {connections} -z {seconds}s {protocol}")
            }
        };
        let fields = order.headers.iter();
        let fields = fields.flat_map(|(name, value)| ["-H".to_owned(), format!("{name}: {value}")]);
        let url = std::iter::once(order.url.clone());
        words.split_whitespace().map(str::to_owned).chain(fields).chain(url).collect()
    }

    /// Reads the output.
    ///
    /// # Errors
    /// The output has no result; the text is the end of the output.
    pub fn parse(self, output: &str) -> Result<ForeignResult, String> {
        let found = match self {
            Self::Wrk | Self::Wrk2 => parse::wrk(output),
            Self::H2load => parse::h2load(output),
            Self::Ab => parse::ab(output),
            Self::Oha => parse::oha(output),
            Self::Hey => parse::hey(output),
        };
        let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(3)..].join(" | ");
        found
            .filter(|found| found.seconds > 0.0)
            .ok_or_else(|| format!("{self} printed no result; its output ends with: {last}"))
    }
}

#[cfg(test)]
mod tests;
