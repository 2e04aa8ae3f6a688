//! Routing: host, then the longest base, then segment by segment, literal before template
//! before wildcard.
//!
//! A pure function of host, path and method. Every segment is found by hash, so the cost does not
//! depend on the number of routes.

mod ambiguous;
mod tree;

use foldhash::fast::FixedState;
use std::collections::HashMap;
use tree::{Bases, Routes, Under};
use weir_config::{Api, Config, Route};
use weir_http::path;

type Map<K, V> = HashMap<K, V, FixedState>;

/// Finds the route of a request.
#[derive(Debug)]
pub struct Router {
    exact: Map<String, Bases>,
    /// Suffixes with their leading dot, longest first.
    wildcards: Vec<(String, Bases)>,
    any: Option<Bases>,
    apis: Vec<ApiRoutes>,
}

#[derive(Debug)]
struct ApiRoutes {
    routes: Routes,
    /// Number of segments in the base.
    depth: usize,
}

/// Result of routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A matching route, by its indexes.
    Route {
        /// Index in [`Config::apis`].
        api: usize,
        /// Index in the API's routes.
        route: usize,
    },
    /// The path matches, the method does not.
    OtherMethods {
        /// Index in [`Config::apis`].
        api: usize,
        /// Allowed methods, for `Allow`: sorted, including `HEAD` and `OPTIONS`.
        allow: Vec<String>,
    },
    /// An API has this base, but no route matches the path.
    NoRoute {
        /// Index in [`Config::apis`].
        api: usize,
    },
    /// No API has this host and path.
    NoApi,
}

impl Router {
    /// Builds the tree of all APIs and routes.
    pub fn new(config: &Config) -> Self {
        let mut router = Self::empty();
        for api in &config.apis {
            router.add(api, api.routes.iter());
        }
        router.wildcards.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        router
    }

    /// Builds the tree of one route only, to find the reason for a mismatch.
    pub(crate) fn of_one(api: &Api, route: &Route) -> Self {
        let mut router = Self::empty();
        router.add(api, std::iter::once(route));
        router
    }

    fn empty() -> Self {
        Self { exact: Map::default(), wildcards: Vec::new(), any: None, apis: Vec::new() }
    }

    fn add<'r>(&mut self, api: &Api, all: impl Iterator<Item = &'r Route>) {
        let index = self.apis.len();
        let mut routes = Routes::default();
        for (route, settings) in all.enumerate() {
            routes.add(&settings.path, &settings.methods, route);
        }
        let depth = path::segments(&api.base).count();
        self.apis.push(ApiRoutes { routes, depth });
        if api.hosts.is_empty() {
            self.any.get_or_insert_default().add(&api.base, index);
        }
        for host in &api.hosts {
            self.bases_of(host).add(&api.base, index);
        }
    }

    fn bases_of(&mut self, host: &str) -> &mut Bases {
        let Some(suffix) = host.strip_prefix('*') else {
            return self.exact.entry(host.to_owned()).or_default();
        };
        let at = self.wildcards.iter().position(|(known, _)| known == suffix);
        let at = at.unwrap_or_else(|| {
            self.wildcards.push((suffix.to_owned(), Bases::default()));
            self.wildcards.len() - 1
        });
        &mut self.wildcards[at].1
    }

    /// Finds the route of a request with this normalized path. `host` is lower case, without port.
    pub fn find(&self, host: &str, path: &str, method: &str) -> Found {
        let Some(Under { api, below, .. }) = self.api(host, path) else { return Found::NoApi };
        if let Some(route) = self.apis[api].routes.find(below, method) {
            return Found::Route { api, route };
        }
        let allow = self.methods(api, path);
        if allow.is_empty() { Found::NoRoute { api } } else { Found::OtherMethods { api, allow } }
    }

    /// Segments of a path below the base of its API, percent-encoded.
    pub(crate) fn below<'p>(&self, host: &str, path: &'p str) -> Option<Vec<&'p str>> {
        self.api(host, path).map(|under| under.below.collect())
    }

    /// Methods of the routes with this path, sorted, including `HEAD` and `OPTIONS`; empty if no
    /// route matches, or only routes for every method.
    pub fn methods(&self, api: usize, path: &str) -> Vec<String> {
        let ApiRoutes { routes, depth } = &self.apis[api];
        routes.methods(path::segments(path).skip(*depth))
    }

    /// Whether an API is configured for this host.
    pub fn knows_host(&self, host: &str) -> bool {
        self.any.is_some() || self.exact.contains_key(host) || self.wild(host).next().is_some()
    }

    fn wild(&self, host: &str) -> impl Iterator<Item = &Bases> {
        self.wildcards
            .iter()
            .filter(move |(suffix, _)| host.len() > suffix.len() && host.ends_with(suffix.as_str()))
            .map(|(_, bases)| bases)
    }

    /// Number of segments in the base of an API.
    pub fn depth(&self, api: usize) -> usize {
        self.apis[api].depth
    }

    /// The API of this host with the longest base; of equal bases the one with the more specific
    /// host.
    fn api<'p>(&self, host: &str, path: &'p str) -> Option<Under<'p>> {
        let exact = if self.exact.is_empty() { None } else { self.exact.get(host) };
        let mut best: Option<Under<'p>> = None;
        for bases in exact.into_iter().chain(self.wild(host)).chain(&self.any) {
            if let Some(under) = bases.longest(path)
                && best.as_ref().is_none_or(|best| under.depth > best.depth)
            {
                best = Some(under);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests;
