//! Routing: from host, path and method to a route, or to a response without a route.

use super::allow_origin;
use crate::route::Found;
use crate::site::Site;
use std::borrow::Cow;
use weir_http::cors;
use weir_http::path::{self, Ambiguity, Normal};
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_wire::{Method, RequestHead, ResponseHead};

/// The destination of a request.
pub(super) enum Destination {
    /// The indexes of API and route.
    Route((usize, usize)),
    /// No route: a preflight, or OPTIONS without a matching route. The head of the response is
    /// written.
    Options,
}

/// Finds the destination, and the API, also for some rejected requests. Normalizes the path of the
/// request: the normal form is matched and forwarded.
pub(super) fn find(
    site: &Site,
    host: &str,
    request: &mut RequestHead,
    response: &mut ResponseHead,
) -> (Option<usize>, Result<Destination, Rejection>) {
    if request.method == Method::Options && request.path() == "*" {
        // OPTIONS for the server as a whole (RFC 9110 section 9.3.7).
        response.status = 204;
        return (None, Ok(Destination::Options));
    }
    let path = match check_method(request).and_then(|()| normalise(request)) {
        Ok(path) => path,
        Err(rejection) => return (None, Err(rejection)),
    };
    let found = site.router.find(host, request.path(), request.method_name());
    let api = match found {
        Found::Route { api, .. } | Found::OtherMethods { api, .. } | Found::NoRoute { api } => {
            Some(api)
        }
        Found::NoApi => None,
    };
    (api, destination(site, host, (request, path), response, found))
}

/// Rejects unsupported methods with 501.
fn check_method(request: &RequestHead) -> Result<(), Rejection> {
    let method = request.method;
    if matches!(method, Method::Connect) {
        return Err(Problem::NotImplemented.into());
    }
    if method == Method::Other && request.method_name().contains(char::is_lowercase) {
        // Methods are case-sensitive (RFC 9110 section 9.1), but not for every server: a method in
        // lower case must not bypass the route of its upper-case form.
        let detail = "methods are case-sensitive and have no lower-case letters";
        return Err(Rejection::new(Problem::NotImplemented).detail(detail));
    }
    Ok(())
}

/// Normalizes the path; returns its ambiguities.
fn normalise(request: &mut RequestHead) -> Result<Ambiguity, Rejection> {
    let Normal { path, ambiguity } = path::normalise(request.path())?;
    if let Cow::Owned(normal) = path {
        request.set_path(&normal);
    }
    Ok(ambiguity)
}

fn destination(
    site: &Site,
    host: &str,
    (request, ambiguity): (&RequestHead, Ambiguity),
    response: &mut ResponseHead,
    found: Found,
) -> Result<Destination, Rejection> {
    let (method, router) = (request.method_name(), &site.router);
    if let Found::Route { api, .. } | Found::OtherMethods { api, .. } = found
        && let Some(settings) = &site.config.apis[api].cors
        && cors::is_preflight(method, &request.headers)
    {
        let methods = router.methods(api, request.path());
        let methods = methods.iter().map(String::as_str);
        response.status = 204;
        cors::preflight(settings, &request.headers, methods, &mut response.headers);
        return Ok(Destination::Options);
    }
    match found {
        Found::Route { api, route } => {
            let path = Normal { path: request.path().into(), ambiguity };
            router.admit_path(&site.config, (host, method), &path, (api, route))?;
            Ok(Destination::Route((api, route)))
        }
        Found::OtherMethods { api, allow } if request.method == Method::Options => {
            response.status = 204;
            response.headers.push("allow", allow.join(", ").as_bytes());
            allow_origin(site, Some(api), &request.headers, &mut response.headers);
            Ok(Destination::Options)
        }
        Found::OtherMethods { allow, .. } => {
            Err(Rejection::new(Problem::MethodNotAllowed).header("allow", allow.join(", ")))
        }
        Found::NoApi if !router.knows_host(host) => Err(Problem::UnknownHost.into()),
        Found::NoRoute { .. } | Found::NoApi => Err(Problem::NoRoute.into()),
    }
}
