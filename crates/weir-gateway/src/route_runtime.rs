//! A compiled route and a compiled API of a Config, shared by all workers.

use crate::script_engine::RouteScripts;
use bytes::Bytes;
use std::sync::Arc;
use weir_cache::Store;
use weir_config::{Handler, ReplyBody, Representation, Route};
use weir_limit::RouteLimits;

/// A compiled route.
#[derive(Debug)]
pub struct RouteRuntime {
    pub(crate) limits: RouteLimits,
    /// Content types and bytes of a static response, buffered so that sending copies nothing.
    pub(crate) representations: Vec<(String, Bytes)>,
    /// The response cache, if configured.
    pub cache: Option<Arc<Store>>,
    /// Placement of its scripts.
    pub(crate) scripts: RouteScripts,
}

impl RouteRuntime {
    pub(crate) fn new(route: &Route, scripts: RouteScripts, limits: RouteLimits) -> Self {
        let buffer = |r: &Representation| (r.content_type.clone(), Bytes::from(r.body.clone()));
        let representations = match &route.handler {
            Handler::Reply(reply) => match &reply.body {
                ReplyBody::Empty | ReplyBody::Mapped(_) => Vec::new(),
                ReplyBody::Fixed(one) => vec![buffer(one)],
                ReplyBody::Negotiated(all) => all.iter().map(buffer).collect(),
            },
            _ => Vec::new(),
        };
        let cache = route.cache.as_ref().map(|cache| Arc::new(Store::new(cache.memory)));
        Self { limits, representations, cache, scripts }
    }
}

/// A compiled API.
#[derive(Debug)]
pub struct ApiRuntime {
    /// Index of its first route in the list of all routes.
    pub(crate) first_route: usize,
    /// The caches of its routes.
    pub(crate) caches: Vec<Arc<Store>>,
}
