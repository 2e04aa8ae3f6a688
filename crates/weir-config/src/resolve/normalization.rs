//! Path normalization of APIs and routes; catch-all routes that require less than the routes next
//! to them.

use super::{Fields, Resolver};
use crate::config::{AmbiguousPath, Api, Handler, PathNormalization, PathPattern, Route, Segment};
use std::collections::{HashMap, HashSet};
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, choice, choice_among};
use weir_document::shape::{Key, Kind, Shape};
use weir_document::source_map::Span;
use weir_model::Choice;

/// `path_normalization` of an API or a route.
pub(super) const NORMALIZATION_KEY: Key = Key::new(
    "path_normalization",
    Kind::Object(&NORMALIZATION),
    "Handling of ambiguous paths, which servers interpret in more than one way.",
)
.absent("ambiguous paths are rejected");

const CHOICE: Kind = Kind::Enum(&["reject", "keep"]);

const ESCAPED_SLASHES: Defaulted<AmbiguousPath> = choice_among(
    "escaped_slashes",
    CHOICE,
    "`%2F` inside a segment, as in `/projects/group%2Fname`.",
)
.default("reject");
const BACKSLASHES: Defaulted<AmbiguousPath> =
    choice_among("backslashes", CHOICE, "`\\` and `%5C`.").default("reject");
const EMPTY_SEGMENTS: Defaulted<AmbiguousPath> =
    choice_among("empty_segments", CHOICE, "`//`.").default("reject");
const PATH_PARAMETERS: Defaulted<AmbiguousPath> = choice("path_parameters", "`;name=value` after a segment, which servlet containers remove. `compare` accepts such paths if the path without them leads to a route that does not require more; with `keep` it may also lead to no route.").default("compare");

/// `path_normalization` as a mapping.
pub(super) static NORMALIZATION: Shape = Shape {
    misspellings: &[
        ("merge_slashes", "write `empty_segments: keep` to forward `//` as it is"),
        ("escaped_slash", "write `escaped_slashes`"),
        ("matrix_parameters", "write `path_parameters`"),
    ],
    ..Shape::new(
        "path normalization",
        "Ambiguous paths are rejected with 400: a route without authentication could otherwise expose paths of a protected route. `keep` forwards such a path unchanged, unless another reading leads to a route that requires more. Dot segments in an ambiguous path (`/..;/`, `/..%2f`) are always rejected.",
        &[ESCAPED_SLASHES.key, BACKSLASHES.key, EMPTY_SEGMENTS.key, PATH_PARAMETERS.key],
    )
};

/// `path_normalization` of an API or a route; absent values are `inherited`.
pub(super) fn normalization(
    fields: &Fields<'_>,
    inherited: PathNormalization,
) -> PathNormalization {
    let Some(own) = fields.object("path_normalization", &NORMALIZATION) else {
        return inherited;
    };
    let or = |key, inherited| own.written(key).unwrap_or(inherited);
    PathNormalization {
        escaped_slashes: or(&ESCAPED_SLASHES, inherited.escaped_slashes),
        backslashes: or(&BACKSLASHES, inherited.backslashes),
        empty_segments: or(&EMPTY_SEGMENTS, inherited.empty_segments),
        path_parameters: or(&PATH_PARAMETERS, inherited.path_parameters),
    }
}

impl Choice for AmbiguousPath {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("reject", Self::Reject), ("compare", Self::Compare), ("keep", Self::Keep)];
}

impl Default for PathNormalization {
    fn default() -> Self {
        Self {
            escaped_slashes: ESCAPED_SLASHES.parse(None),
            backslashes: BACKSLASHES.parse(None),
            empty_segments: EMPTY_SEGMENTS.parse(None),
            path_parameters: PATH_PARAMETERS.parse(None),
        }
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
