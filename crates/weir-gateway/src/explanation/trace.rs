//! The trace of an explained request: decisions of the stages.

use super::{Part, Sent};
use weir_limit::Peek;

/// A stage of [`crate::flow`], in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Reading the head.
    #[default]
    Head,
    /// Finding the route; responding to preflights.
    Route,
    /// Allowed and denied client addresses.
    Clients,
    /// Authentication.
    Auth,
    /// Rates and quotas.
    Limit,
    /// The declared length of the body.
    BodySize,
    /// Validation of the request by the OpenAPI document.
    Validation,
    /// The transformation of the request.
    RequestMap,
    /// The handler.
    Handler,
    /// The transformation of the response.
    ResponseMap,
    /// Validation of the response by the OpenAPI document.
    ResponseValidation,
    /// The response is complete.
    Over,
}

/// The trace of an explained request: decisions of the stages.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// The last stage reached.
    pub(crate) stage: Stage,
    /// The decision of each limit, up to the first that rejects.
    pub limits: Vec<Peek>,
    /// The body for the handler, after the transformation.
    pub body: Vec<u8>,
    /// Header lines of the request as recorded.
    pub(crate) recorded: Vec<u8>,
    /// The requests of a `calls` handler.
    pub calls: Vec<Part>,
    /// The request to an upstream, an agent or a script.
    pub sent: Option<Sent>,
}
