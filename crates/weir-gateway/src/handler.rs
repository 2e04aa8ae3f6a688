//! Handlers respond to requests that have passed every policy. Each handler has a module, which
//! defines its selection, its outgoing request and its response.

mod calls;
mod files;
mod head;
mod pool;
mod proxy;
mod reply;
pub(crate) mod script;

use crate::context::Context;
use crate::decisions::Selection;
use crate::response_body::ResponseBody;
use weir_config::{Config, Handler};
use weir_http::body::RequestBody;
use weir_http::rejection::Rejection;
use weir_model::UpstreamId;
use weir_model::{Annotation, Annotations};
use weir_record::capture::Recording;
use weir_record::client_request::{ClientRequest, StageInput};
use weir_script::Fetch;
use weir_upstream::{SendReport, Upgraded};
use weir_wire::{RequestHead, ResponseHead};

/// The input of a handler.
pub struct HandlerInput<'x> {
    /// Facts about the request.
    pub context: Context<'x>,
    /// Head of the request.
    pub request: &'x mut RequestHead,
    /// Head of the response, to be written.
    pub response: &'x mut ResponseHead,
    /// The record of the request.
    pub recording: &'x mut Recording,
    /// Statistics of the attempts at an upstream.
    pub(crate) report: &'x mut SendReport,
    /// Annotations of the transaction.
    pub notes: &'x mut Option<Box<Annotations>>,
}

impl<'x> HandlerInput<'x> {
    /// A read-only view of the request.
    pub(crate) fn view(&self) -> ClientRequest<'_> {
        self.context.view(self.request)
    }

    /// The input of code that needs only the request and the head of the response.
    pub(crate) fn stage(&mut self) -> StageInput<'_> {
        let Context { deadline, arrival, .. } = self.context;
        let (started, unix) = (arrival.started, arrival.unix);
        let (request, response) = (self.context.view(self.request), &mut *self.response);
        StageInput { request, response, deadline, started, unix }
    }

    /// Adds a line to the log of the transaction.
    fn note(&mut self, line: &str) {
        self.notes.get_or_insert_default().add(Annotation::Log, "", line);
    }
}

/// The result of a handler.
pub enum Served<'a> {
    /// The body of a response; its head is in [`HandlerInput::response`].
    Response(ResponseBody<'a>),
    /// The upstream has switched to another protocol; the head for the client is in
    /// [`HandlerInput::response`].
    Upgraded(Box<Upgraded>),
}

/// The outgoing request of a handler.
pub(crate) enum Outline {
    /// None: weir itself responds.
    Local,
    /// A request to this upstream: its head as HTTP/1.1, and the name of the target of the first
    /// attempt; both are empty without a target.
    Upstream(UpstreamId, Vec<u8>, String),
    /// The request with its prepared headers, to the `pool` or `script` of this name.
    Whole(&'static str, String),
    /// The requests of composed calls.
    Calls(Vec<Fetch>),
}

/// Selects by the request as received from the client.
pub fn select<'r>(
    handler: &Handler,
    request: impl FnOnce() -> ClientRequest<'r>,
    is_replay: bool,
) -> Selection {
    match handler {
        Handler::Proxy(proxy) if proxy::selects(proxy) => {
            proxy::select(proxy, &request(), is_replay)
        }
        _ => Selection::default(),
    }
}

/// The name of the upstream or pool of a handler; empty for other handlers.
pub fn destination<'c>(
    handler: &Handler,
    config: &'c Config,
    split: Option<UpstreamId>,
) -> &'c str {
    match handler {
        Handler::Proxy(proxy) => &config.upstreams[split.unwrap_or(proxy.upstream).0].name,
        Handler::Pool(pool) => &config.pools[pool.pool.0].name,
        Handler::Reply(_) | Handler::Files(_) | Handler::Calls(_) | Handler::Script(_) => "",
    }
}

/// The settings of a handler for this request in one line: the upstream selected by traffic
/// splitting, if any, and the mirrors.
pub(crate) fn describe(
    handler: &Handler,
    config: &Config,
    split: Option<UpstreamId>,
    mirrors: &[usize],
) -> String {
    match handler {
        Handler::Reply(reply) => format!("reply with {}", reply.status),
        Handler::Files(files) => format!("files from {}", files.root.display()),
        Handler::Proxy(proxy) => proxy::describe(proxy, config, split, mirrors),
        Handler::Calls(calls) => match calls.len() {
            1 => "one call".to_owned(),
            several => format!("{several} concurrent calls"),
        },
        Handler::Pool(pool) => format!("pool {}", config.pools[pool.pool.0].name),
        Handler::Script(script) => format!("script {}", script.program.name()),
    }
}

/// Calls the handler of the route.
pub async fn serve<'a>(
    input: &mut HandlerInput<'_>,
    body: RequestBody<'a>,
) -> Result<Served<'a>, Rejection> {
    let response = match &input.context.route.handler {
        Handler::Reply(reply) => reply::serve(input, reply, body).await?,
        Handler::Files(_) => files::serve(input, body).await?,
        Handler::Proxy(proxy) => return proxy::serve(input, proxy, body).await,
        Handler::Pool(pool) => Box::pin(pool::serve(input, pool, body)).await?,
        Handler::Calls(calls) => Box::pin(calls::serve(input, calls, body)).await?,
        Handler::Script(script) => script::serve(input, script, body).await?,
    };
    Ok(Served::Response(response))
}

/// Builds the outgoing request of the route's handler; nothing is sent.
///
/// # Errors
/// The handler rejects the request before it sends anything.
pub(crate) async fn outline(
    input: &mut HandlerInput<'_>,
    body: RequestBody<'_>,
) -> Result<Outline, Rejection> {
    match &input.context.route.handler {
        Handler::Reply(_) | Handler::Files(_) => Ok(Outline::Local),
        Handler::Proxy(proxy) => proxy::outline(input, proxy, body.framing()),
        Handler::Pool(pool) => Ok(pool::outline(input, pool)),
        Handler::Calls(calls) => calls::prepare(input, calls, body).await.map(Outline::Calls),
        Handler::Script(script) => script::outline(input, script),
    }
}
