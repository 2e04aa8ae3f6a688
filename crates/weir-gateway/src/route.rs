//! Routing: host, then the longest base, then segment by segment, literal before template
//! before wildcard.
//!
//! Pure: a host, a path and a method in, the best match out. Look-ups are by hash at every
//! segment, so ten thousand routes cost what ten cost.

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

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This route, by its place in the API.
    Route {
        /// Index in [`Config::apis`].
        api: usize,
        /// Index in the API's routes.
        route: usize,
    },
    /// The path is there, the method is not.
    OtherMethods {
        /// Index in [`Config::apis`].
        api: usize,
        /// Methods that would do, for `Allow`: sorted, `HEAD` and `OPTIONS` included.
        allow: Vec<String>,
    },
    /// An API answers under this base, but has no such path.
    NoRoute {
        /// Index in [`Config::apis`].
        api: usize,
    },
    /// No API answers to this host and path.
    NoApi,
}

impl Router {
    /// Builds the look-up of every API and route.
    pub fn new(config: &Config) -> Self {
        let mut router = Self::empty();
        for api in &config.apis {
            router.add(api, api.routes.iter());
        }
        router.wildcards.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        router
    }

    /// The look-up of one route only, to tell why it does not match.
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

    /// Finds where a request for this normalised path goes. `host` is lower case, without port.
    pub fn find(&self, host: &str, path: &str, method: &str) -> Found {
        let Some(Under { api, below, .. }) = self.api(host, path) else { return Found::NoApi };
        if let Some(route) = self.apis[api].routes.find(below, method) {
            return Found::Route { api, route };
        }
        let allow = self.methods(api, path);
        if allow.is_empty() { Found::NoRoute { api } } else { Found::OtherMethods { api, allow } }
    }

    /// Segments of a path below the base of the API that answers to it, still escaped.
    pub(crate) fn below<'p>(&self, host: &str, path: &'p str) -> Option<Vec<&'p str>> {
        self.api(host, path).map(|under| under.below.collect())
    }

    /// Methods that the routes of this path name, sorted, `HEAD` and `OPTIONS` included; none
    /// when no route matches, or only such as take every method.
    pub fn methods(&self, api: usize, path: &str) -> Vec<String> {
        let ApiRoutes { routes, depth } = &self.apis[api];
        routes.methods(path::segments(path).skip(*depth))
    }

    /// Whether any API answers to this host.
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

    /// The API with the longest base among those that answer to the host; of equal ones that
    /// with the more specific host.
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
