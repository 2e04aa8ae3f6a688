//! Posts events to an upstream, one after the other on one connection.

use crate::serve::post::{self, Upstreams};
use anyhow::bail;
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use weir_config::Target;
use weir_events::delivery::{DueEvent, Outcome};
use weir_http_client::Connection;
use weir_model::UpstreamId;

/// CloudEvents 1.0, HTTP binding, structured mode.
const CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// Outcome of a batch.
pub(super) struct Sent {
    pub(super) sink: String,
    /// Attempted events: all, or all up to the first failure.
    pub(super) outcomes: Vec<(DueEvent, Outcome)>,
    /// Reason of the last failure.
    pub(super) failure: Option<String>,
}

/// Posts a batch until an event fails.
pub(super) async fn send(upstreams: Upstreams, id: UpstreamId, batch: Vec<DueEvent>) -> Sent {
    let upstream = &upstreams.config.upstreams[id.0];
    let mut sent = Sent {
        sink: upstream.name.clone(),
        outcomes: Vec::with_capacity(batch.len()),
        failure: None,
    };
    let mut idle = None;
    for due in batch {
        // Another target with each attempt.
        let target = &upstream.targets[due.attempts as usize % upstream.targets.len()];
        match post(&upstreams, (id, target), &mut idle, &due).await {
            Ok(()) => sent.outcomes.push((due, Outcome::Delivered)),
            Err(error) => {
                sent.failure = Some(format!("{}: {error:#}", target.authority));
                sent.outcomes.push((due, Outcome::Retry));
                break;
            }
        }
    }
    sent
}

/// Posts an event; a status of 2xx accepts the event.
async fn post(
    upstreams: &Upstreams,
    target: (UpstreamId, &Target),
    idle: &mut Option<Connection>,
    due: &DueEvent,
) -> anyhow::Result<()> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(&due.path)
        .header(header::CONTENT_TYPE, CONTENT_TYPE)
        .body(Full::new(Bytes::from(due.event.clone())))?;
    let response = post::post(upstreams, target, idle, request).await?;
    if !response.status.is_success() {
        bail!("status {}", response.status.as_u16());
    }
    Ok(())
}
