//! Requests to the targets of a sink, on connections that are reused.

use crate::serve::post::{self, Upstreams};
use http::header;
use http_body_util::Full;
use std::future::Future;
use weir_http_client::Connection;
use weir_kafka::Producer;
use weir_model::UpstreamId;
use weir_ship::{ItemVerdict, MAX_RESPONSE_BYTES, Request, Response, Ticket};

/// Something that was sent to a sink.
pub(super) struct Sent {
    /// Index of the sink.
    pub(super) sink: usize,
    pub(super) ticket: Ticket,
    pub(super) outcome: Outcome,
}

/// What has become of it.
pub(super) enum Outcome {
    /// A request to OpenSearch, with its response or the reason why there is none.
    Response {
        response: Result<Response, String>,
        /// A connection to be reused, and the number of its target.
        connection: Option<Connection>,
        target: usize,
    },
    /// Messages to Kafka, with a verdict for each.
    Messages {
        verdicts: Vec<ItemVerdict>,
        /// To be reused.
        producer: Option<Producer>,
    },
}

/// The connections to a sink.
pub(super) struct Sender {
    upstream: UpstreamId,
    /// Number of the target in use; another one after a failure.
    target: usize,
    /// Idle connections to that target: one for each request in flight.
    idle: Vec<Connection>,
}

impl Sender {
    pub(super) fn new(upstream: UpstreamId) -> Self {
        Self { upstream, target: 0, idle: Vec::new() }
    }

    /// Sends a request to the target in use.
    pub(super) fn send(
        &mut self,
        upstreams: Upstreams,
        sink: usize,
        ticket: Ticket,
        request: Request,
    ) -> impl Future<Output = Sent> + Send + use<> {
        let (upstream, target, mut connection) = (self.upstream, self.target, self.idle.pop());
        async move {
            let targets = &upstreams.config.upstreams[upstream.0].targets;
            let to = &targets[target % targets.len()];
            let sent = send(&upstreams, (upstream, to), &mut connection, request).await;
            let response = sent.map_err(|error| format!("{}: {error:#}", to.authority));
            Sent { sink, ticket, outcome: Outcome::Response { response, connection, target } }
        }
    }

    /// A request to a target has ended.
    pub(super) fn done(&mut self, target: usize, connection: Option<Connection>, failed: bool) {
        if target != self.target {
            return;
        }
        if failed {
            self.target = self.target.wrapping_add(1);
            self.idle.clear();
        } else {
            self.idle.extend(connection);
        }
    }
}

async fn send(
    upstreams: &Upstreams,
    target: (UpstreamId, &weir_config::Target),
    idle: &mut Option<Connection>,
    Request { method, path, content_type, body }: Request,
) -> anyhow::Result<Response> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::ACCEPT, "application/json")
        .body(Full::new(body))?;
    let response = post::send(upstreams, target, idle, request, MAX_RESPONSE_BYTES).await?;
    Ok(Response { status: response.status.as_u16(), body: response.body })
}
