//! Path normalization of APIs and routes; catch-all routes that require less than the routes next
//! to them.

use super::{Fields, Resolver};
use crate::config::{Api, Handler, PathNormalization, Route};
use crate::path_pattern::{PathPattern, Segment};
use std::collections::{HashMap, HashSet};
use weir_document::finding::codes;
use weir_document::shape::settings::Settings as _;
use weir_document::shape::{Key, Kind};
use weir_document::source_map::Span;

/// `path_normalization` of an API or a route.
pub(super) const NORMALIZATION_KEY: Key = Key::new(
    "path_normalization",
    Kind::Object(PathNormalization::SHAPE),
    "Handling of ambiguous paths, which servers interpret in more than one way.",
)
.absent("ambiguous paths are rejected");

/// `path_normalization` of an API or a route; absent values are `inherited`.
pub(super) fn normalization(
    fields: &Fields<'_>,
    inherited: PathNormalization,
) -> PathNormalization {
    match fields.object("path_normalization", PathNormalization::SHAPE) {
        Some(own) => PathNormalization::read_over(inherited, &own),
        None => inherited,
    }
}

impl Resolver<'_> {
    /// Warns of catch-all routes without authentication that accept requests for paths of a
    /// stricter route. `at` is the location of the routes.
    pub(super) fn warn_of_weaker(&mut self, api: &Api, at: &[Span]) {
        let every_method = EveryMethod::of(api);
        let mut warned = HashSet::new();
        for (index, strict) in api.routes.iter().enumerate() {
            if is_open(strict) {
                continue;
            }
            let Some((found, weak)) = every_method.catch_all(api, strict) else { continue };
            let (Some(here), Some(there)) = (at.get(found), at.get(index)) else { continue };
            let kept: Vec<_> = weak.path_normalization.kept().collect();
            let other_methods = !strict.methods.is_empty() && !every_method.has(&strict.path);
            if !is_open(weak)
                || !forwards(weak)
                || (kept.is_empty() && !other_methods)
                || !warned.insert(found)
            {
                continue;
            }
            let protected = api.path_of(strict);
            let (message, help) = if other_methods {
                (
                    format!(
                        "requests for `{protected}` with methods other than {} match this route, \
                         without authentication",
                        strict.methods.join(", ")
                    ),
                    "restrict the methods of this route, or protect all methods of the other"
                        .to_owned(),
                )
            } else {
                (
                    format!(
                        "`path_normalization` keeps {} in this route without authentication, next \
                         to `{protected}` with authentication",
                        kept.join(", ")
                    ),
                    "an upstream that interprets paths differently could expose the stricter \
                     route; keep them only in routes that need them"
                        .to_owned(),
                )
            };
            self.report
                .warning(codes::WEAKER_CATCH_ALL, *here, message)
                .related(*there, "the stricter route")
                .help(help);
        }
    }
}

/// Whether requests without a credential pass.
fn is_open(route: &Route) -> bool {
    route.access.any_of.is_empty() || route.access.anonymous
}

/// Whether the handler of the route interprets the path itself.
fn forwards(route: &Route) -> bool {
    matches!(route.handler, Handler::Proxy(_) | Handler::Pool(_))
}

/// The routes of an API that accept every method.
struct EveryMethod {
    /// Routes that end in `/*`, by the literal segments before it.
    catch_alls: HashMap<String, usize>,
    /// Paths.
    paths: HashSet<String>,
}

impl EveryMethod {
    fn of(api: &Api) -> Self {
        let mut every = Self { catch_alls: HashMap::new(), paths: HashSet::new() };
        for (index, route) in api.routes.iter().enumerate().filter(|(_, r)| r.methods.is_empty()) {
            let (key, all_literal) = key(&route.path);
            if route.path.wildcard && all_literal {
                every.catch_alls.insert(key, index);
            }
            every.paths.insert(super::route::shape(&route.path));
        }
        every
    }

    fn has(&self, path: &PathPattern) -> bool {
        self.paths.contains(&super::route::shape(path))
    }

    /// The most specific catch-all for requests that a route does not take.
    fn catch_all<'a>(&self, api: &'a Api, route: &Route) -> Option<(usize, &'a Route)> {
        if self.catch_alls.is_empty() {
            return None;
        }
        let (mut key, _) = key(&route.path);
        loop {
            if let Some(&found) = self.catch_alls.get(&key)
                && !std::ptr::eq(&api.routes[found], route)
            {
                return Some((found, &api.routes[found]));
            }
            key.truncate(key.rfind('/')?);
        }
    }
}

/// The literal segments that a path begins with, and whether the path has only these.
fn key(path: &PathPattern) -> (String, bool) {
    let mut key = String::new();
    for segment in &path.segments {
        let Segment::Literal(text) = segment else { return (key, false) };
        key.push('/');
        key.push_str(text);
    }
    (key, true)
}
