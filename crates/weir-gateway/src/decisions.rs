//! The decisions of the stages about one request.

use std::rc::Rc;
use weir_auth::Principal;
use weir_config::{ConsumerId, Proxy};
use weir_limit::LimitStatus;
use weir_model::UpstreamId;

/// The decisions of the stages about one request, as far as it has come.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Index of its API.
    pub api: Option<usize>,
    /// Indexes of API and route.
    pub route: Option<(usize, usize)>,
    /// The caller, once authenticated.
    pub principal: Option<Rc<Principal>>,
    /// Status of the tightest limit of the caller.
    pub(crate) limit_status: Option<LimitStatus>,
    pub(crate) selection: Selection,
    /// It has passed every policy: it may have effects.
    pub admitted: bool,
}

/// What the handler of a route has selected for a request.
#[derive(Debug, Default)]
pub struct Selection {
    /// The upstream of traffic splitting, if one.
    pub split: Option<UpstreamId>,
    /// Mirrors of the proxy, by their indexes.
    pub(crate) mirrors: Vec<usize>,
}

impl Selection {
    /// The upstream that a proxy forwards the request to.
    pub(crate) fn upstream_of(&self, proxy: &Proxy) -> UpstreamId {
        self.split.unwrap_or(proxy.upstream)
    }
}

impl Decisions {
    /// The consumer who calls, if that is known.
    pub(crate) fn consumer(&self) -> Option<ConsumerId> {
        self.principal.as_deref().and_then(Principal::consumer)
    }
}
