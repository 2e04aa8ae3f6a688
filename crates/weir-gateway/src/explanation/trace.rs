//! What a request that is explained has been through.

use super::{Part, Sent};
use crate::limit::Peek;
use std::cell::RefCell;

/// A stage of [`crate::flow`], in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Reading the head.
    #[default]
    Head,
    /// Finding the route; preflights are answered here.
    Route,
    /// From where it comes.
    Clients,
    /// Finding out who calls.
    Auth,
    /// Rates and quotas.
    Limit,
    /// The declared length of the body.
    BodySize,
    /// Against the API's description.
    Validation,
    /// The map of the request.
    RequestMap,
    /// Whoever answers.
    Handler,
    /// The map of the answer.
    ResponseMap,
    /// The answer against the API's description.
    ResponseValidation,
    /// There is an answer.
    Over,
}

/// What a request that is explained has been through.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Where it is.
    pub(crate) stage: Stage,
    /// What each limit says, up to the first that refuses.
    pub(crate) peeked: RefCell<Vec<Peek>>,
    /// The body that goes to the handler, after the map.
    pub(crate) body: Option<Vec<u8>>,
    /// Header lines of the request as they would be recorded.
    pub(crate) recorded: Vec<u8>,
    /// What each of several upstreams would be asked.
    pub(crate) calls: Vec<Part>,
    /// What another would get.
    pub(crate) sent: Option<Box<Sent>>,
}
