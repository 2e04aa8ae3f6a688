//! A request to a collector, and what its answer means
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>).

use crate::serve::post::{self, Answer, Kept};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use weir_config::{Config, Telemetry};

/// Longest wait that a collector may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Taken, but for so many spans.
    Taken { rejected: u64 },
    /// It may be sent again, after this time if the collector says so.
    Again { after: Option<Duration>, why: String },
    /// It will never be taken.
    Refused { why: String },
}

/// Sends a request to the target whose turn it is.
pub(super) async fn send(
    config: Arc<Config>,
    signal: Signal,
    body: Bytes,
    (turn, mut kept): (usize, Kept),
) -> (Outcome, Kept) {
    let Some(telemetry) = &config.telemetry else {
        return (Outcome::Refused { why: "the collector was removed".to_owned() }, kept);
    };
    let upstream = &config.upstreams[telemetry.sink.upstream.0];
    let target = &upstream.targets[turn % upstream.targets.len()];
    let request = Request::builder()
        .method(Method::POST)
        .uri(path(telemetry, signal))
        .header(header::CONTENT_TYPE, "application/x-protobuf")
        .body(Full::new(body));
    let outcome = match request {
        Err(error) => Outcome::Refused { why: error.to_string() },
        Ok(request) => match post::post(upstream, target, &mut kept, request).await {
            Ok(answer) => meaning(signal, &answer),
            Err(error) => {
                Outcome::Again { after: None, why: format!("{}: {error:#}", target.authority) }
            }
        },
    };
    (outcome, kept)
}

fn path(telemetry: &Telemetry, signal: Signal) -> String {
    format!("{}/v1/{}", telemetry.sink.path.trim_end_matches('/'), signal.as_str())
}

fn meaning(signal: Signal, answer: &Answer) -> Outcome {
    let why = format!("status {}", answer.status.as_u16());
    match answer.status.as_u16() {
        200..=299 => Outcome::Taken { rejected: rejected(signal, &answer.body) },
        429 | 502 | 503 | 504 => Outcome::Again { after: retry_after(answer), why },
        _ => Outcome::Refused { why },
    }
}

/// Spans that were not taken of those that were sent. An answer that is no such message has told by
/// its status that all were.
fn rejected(signal: Signal, body: &[u8]) -> u64 {
    if signal != Signal::Traces {
        return 0;
    }
    let partly = ExportTraceServiceResponse::decode(body).ok().and_then(|it| it.partial_success);
    partly.and_then(|partly| u64::try_from(partly.rejected_spans).ok()).unwrap_or(0)
}

fn retry_after(answer: &Answer) -> Option<Duration> {
    let seconds = answer.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}
