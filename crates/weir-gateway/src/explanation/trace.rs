//! The decisions about a request that is explained.

use super::{Part, Sent};
use weir_limit::Peek;

/// A stage of [`crate::flow`], in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Reading the head.
    #[default]
    Head,
    /// Finding the route; preflights are answered here.
    Route,
    /// Allowed and denied client addresses.
    Clients,
    /// Authentication.
    Auth,
    /// Rates and quotas.
    Limit,
    /// The declared length of the body.
    BodySize,
    /// The request against the description of the API.
    Validation,
    /// The map of the request.
    RequestMap,
    /// The handler.
    Handler,
    /// The map of the response.
    ResponseMap,
    /// The response against the description of the API.
    ResponseValidation,
    /// There is a response.
    Over,
}

/// The decisions about a request that is explained.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// The stage that it has reached.
    pub(crate) stage: Stage,
    /// The decision of each limit, up to the first that rejects.
    pub limits: Vec<Peek>,
    /// The body that goes to the handler, after the map.
    pub body: Vec<u8>,
    /// Header lines of the request as they would be recorded.
    pub(crate) recorded: Vec<u8>,
    /// The requests of a `calls` handler.
    pub calls: Vec<Part>,
    /// The request to an upstream, an agent or a script.
    pub sent: Option<Sent>,
}
