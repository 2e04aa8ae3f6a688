//! A request to a collector, and the outcome of its response
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>).

use crate::otlp::messages::ExportTraceServiceResponse;
use crate::serve::post::{self, Response, Upstreams};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use prost::Message;
use std::time::Duration;
use weir_config::Telemetry;
use weir_http_client::{Connection, retry_after};

/// Longest `Retry-After` of a collector.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

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

/// Outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Accepted, except for some spans.
    Accepted { rejected: u64 },
    /// To be retried, after the time that the collector returned, if any.
    Retry { after: Option<Duration>, reason: String },
    /// Never accepted.
    Rejected { reason: String },
}

/// Sends a request to the target in use.
pub(super) async fn send(
    upstreams: Upstreams,
    signal: Signal,
    body: Bytes,
    (target, mut idle): (usize, Option<Connection>),
) -> (Outcome, Option<Connection>) {
    let Some(telemetry) = &upstreams.config.telemetry else {
        return (Outcome::Rejected { reason: "the collector was removed".to_owned() }, idle);
    };
    let id = telemetry.sink.upstream;
    let targets = &upstreams.config.upstreams[id.0].targets;
    let target = &targets[target % targets.len()];
    let request = Request::builder()
        .method(Method::POST)
        .uri(path(telemetry, signal))
        .header(header::CONTENT_TYPE, "application/x-protobuf")
        .body(Full::new(body));
    let outcome = match request {
        Err(error) => Outcome::Rejected { reason: error.to_string() },
        Ok(request) => match post::post(&upstreams, (id, target), &mut idle, request).await {
            Ok(response) => outcome(signal, &response),
            Err(error) => {
                Outcome::Retry { after: None, reason: format!("{}: {error:#}", target.authority) }
            }
        },
    };
    (outcome, idle)
}

fn path(telemetry: &Telemetry, signal: Signal) -> String {
    format!("{}/v1/{}", telemetry.sink.path.trim_end_matches('/'), signal.as_str())
}

fn outcome(signal: Signal, response: &Response) -> Outcome {
    let reason = format!("status {}", response.status.as_u16());
    match response.status.as_u16() {
        200..=299 => Outcome::Accepted { rejected: rejected(signal, &response.body) },
        429 | 502 | 503 | 504 => {
            let after = retry_after(&response.headers).map(|after| after.min(MAX_RETRY_AFTER));
            Outcome::Retry { after, reason }
        }
        _ => Outcome::Rejected { reason },
    }
}

/// Rejected spans. A response without this message reports by its status that all were accepted.
fn rejected(signal: Signal, body: &[u8]) -> u64 {
    if signal != Signal::Traces {
        return 0;
    }
    let partial = ExportTraceServiceResponse::decode(body).ok().and_then(|it| it.partial_success);
    partial.and_then(|partial| u64::try_from(partial.rejected_spans).ok()).unwrap_or(0)
}
