//! Whether a route may serve a path that servers interpret in more than one way.
//!
//! The route must accept such paths, and no other interpretation may match a route with stricter
//! requirements: the server behind weir could use that interpretation.

use super::{Found, Router};
use weir_config::{AmbiguousPath, Config, PathNormalization, Route};
use weir_http::path::{AmbiguityKind, Normal, PathError};

impl Router {
    /// Checks whether the matched route (API, route) may serve a path.
    ///
    /// # Errors
    /// The path is ambiguous, and the route must not serve it.
    pub fn admit_path(
        &self,
        config: &Config,
        (host, method): (&str, &str),
        path: &Normal<'_>,
        (api, index): (usize, usize),
    ) -> Result<(), PathError> {
        if path.ambiguity.is_empty() {
            return Ok(());
        }
        let route = &config.apis[api].routes[index];
        let settings = route.path_normalization;
        for kind in path.ambiguity.kinds() {
            if setting(settings, kind) == AmbiguousPath::Reject {
                return Err(PathError::Ambiguous(kind.words()));
            }
        }
        let compares = settings.path_parameters == AmbiguousPath::Compare;
        for reading in path.ambiguity.readings(&path.path) {
            let fits = match self.find(host, &reading.path, method) {
                Found::Route { api, route: other } => {
                    demands_no_more(&config.apis[api].routes[other], route)
                }
                Found::OtherMethods { .. } => false,
                Found::NoRoute { .. } | Found::NoApi => !(compares && reading.only_parameters),
            };
            if !fits {
                return Err(PathError::StricterReading);
            }
        }
        Ok(())
    }

    /// Checks whether a route (API, route) may serve a resource under another name: a script before
    /// the rest of the path, the index of a folder.
    ///
    /// # Errors
    /// That name matches a route with stricter requirements.
    pub(crate) fn admit_name(
        &self,
        config: &Config,
        (host, method): (&str, &str),
        name: &str,
        (api, index): (usize, usize),
    ) -> Result<(), PathError> {
        let route = &config.apis[api].routes[index];
        match self.find(host, name, method) {
            Found::Route { api, route: other }
                if !demands_no_more(&config.apis[api].routes[other], route) =>
            {
                Err(PathError::StricterReading)
            }
            _ => Ok(()),
        }
    }
}

fn setting(settings: PathNormalization, kind: AmbiguityKind) -> AmbiguousPath {
    match kind {
        AmbiguityKind::EscapedSlash => settings.escaped_slashes,
        AmbiguityKind::Backslash => settings.backslashes,
        AmbiguityKind::EmptySegment => settings.empty_segments,
        AmbiguityKind::PathParameter => settings.path_parameters,
    }
}

/// Whether `other` admits every request that `route` admits, by credentials and addresses.
fn demands_no_more(other: &Route, route: &Route) -> bool {
    let (theirs, ours) = (&other.access, &route.access);
    let access = theirs.any_of.is_empty()
        || (theirs.any_of == ours.any_of && (theirs.anonymous || !ours.anonymous));
    access && other.clients.iter().all(|clients| route.clients.contains(clients))
}
