//! A request to a collector, and the outcome of its response
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>).

use crate::serve::post::{self, Response, Upstreams};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use std::time::Duration;
use weir_config::Telemetry;
use weir_http_client::Connection;

/// Longest wait that a collector may ask for.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// An OTLP signal.
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
    /// It may be retried, after this time if the collector gives one.
    Again { after: Option<Duration>, why: String },
    /// It will never be taken.
    Refused { why: String },
}

/// Sends a request to the target whose turn it is.
pub(super) async fn send(
    upstreams: Upstreams,
    signal: Signal,
    body: Bytes,
    (turn, mut idle): (usize, Option<Connection>),
) -> (Outcome, Option<Connection>) {
    let Some(telemetry) = &upstreams.config.telemetry else {
        return (Outcome::Refused { why: "the collector was removed".to_owned() }, idle);
    };
    let id = telemetry.sink.upstream;
    let targets = &upstreams.config.upstreams[id.0].targets;
    let target = &targets[turn % targets.len()];
    let request = Request::builder()
        .method(Method::POST)
        .uri(path(telemetry, signal))
        .header(header::CONTENT_TYPE, "application/x-protobuf")
        .body(Full::new(body));
    let outcome = match request {
        Err(error) => Outcome::Refused { why: error.to_string() },
        Ok(request) => match post::post(&upstreams, (id, target), &mut idle, request).await {
            Ok(response) => meaning(signal, &response),
            Err(error) => {
                Outcome::Again { after: None, why: format!("{}: {error:#}", target.authority) }
            }
        },
    };
    (outcome, idle)
}

fn path(telemetry: &Telemetry, signal: Signal) -> String {
    format!("{}/v1/{}", telemetry.sink.path.trim_end_matches('/'), signal.as_str())
}

fn meaning(signal: Signal, response: &Response) -> Outcome {
    let why = format!("status {}", response.status.as_u16());
    match response.status.as_u16() {
        200..=299 => Outcome::Taken { rejected: rejected(signal, &response.body) },
        429 | 502 | 503 | 504 => Outcome::Again { after: retry_after(response), why },
        _ => Outcome::Refused { why },
    }
}

/// Rejected spans. A response without this message reports by its status that all were accepted.
fn rejected(signal: Signal, body: &[u8]) -> u64 {
    if signal != Signal::Traces {
        return 0;
    }
    let partly = ExportTraceServiceResponse::decode(body).ok().and_then(|it| it.partial_success);
    partly.and_then(|partly| u64::try_from(partly.rejected_spans).ok()).unwrap_or(0)
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_WAIT))
}
