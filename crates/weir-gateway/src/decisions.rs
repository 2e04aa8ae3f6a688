//! The decisions of the stages about one request.

use std::rc::Rc;
use weir_auth::Principal;
use weir_config::{ConsumerId, Proxy};
use weir_limit::LimitStatus;
use weir_model::UpstreamId;

/// The decisions of the stages about one request, up to the current stage.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Index of the API.
    pub api: Option<usize>,
    /// Indexes of API and route.
    pub route: Option<(usize, usize)>,
    /// The caller, once authenticated.
    pub principal: Option<Rc<Principal>>,
    /// The holder of an API key that was rejected because it has expired or is revoked: for the record only.
    pub(crate) refused: Option<Rc<Principal>>,
    /// Status of the tightest limit of the caller.
    pub(crate) limit_status: Option<LimitStatus>,
    pub(crate) selection: Selection,
    /// The request has passed every policy and may have effects.
    pub admitted: bool,
}

/// The selection of a route's handler for a request.
#[derive(Debug, Default)]
pub struct Selection {
    /// The upstream selected by traffic splitting, if any.
    pub split: Option<UpstreamId>,
    /// Indexes of the mirrors of the proxy.
    pub(crate) mirrors: Vec<usize>,
}

impl Selection {
    /// The upstream that a proxy forwards the request to.
    pub(crate) fn upstream_of(&self, proxy: &Proxy) -> UpstreamId {
        self.split.unwrap_or(proxy.upstream)
    }
}

impl Decisions {
    /// The consumer of the caller, if known.
    pub(crate) fn consumer(&self) -> Option<ConsumerId> {
        self.principal.as_deref().and_then(Principal::consumer)
    }
}
