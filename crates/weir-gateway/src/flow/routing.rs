//! Routing: from host, path and method to a route, or to what is answered without one.

use super::allow_origin;
use crate::route::Found;
use crate::site::Site;
use std::borrow::Cow;
use weir_http::cors;
use weir_http::path::{self, Ambiguity, Normal};
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_wire::{Method, RequestHead, ResponseHead};

/// Where a request goes.
pub(super) enum Destination {
    /// The indexes of its API and of its route.
    Route((usize, usize)),
    /// Nowhere: it is a preflight, or OPTIONS where no route says otherwise. The head of the response
    /// is written.
    Options,
}

/// Finds the API, which is there for some rejected requests, too, and where the request goes. The path
/// of the request is in its normal form then: that is matched, and forwarded.
pub(super) fn find(
    site: &Site,
    host: &str,
    request: &mut RequestHead,
    response: &mut ResponseHead,
) -> (Option<usize>, Result<Destination, Rejection>) {
    if request.method == Method::Options && request.path() == "*" {
        // About the server as a whole (RFC 9110 section 9.3.7).
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

/// 501 for methods that no route has.
fn check_method(request: &RequestHead) -> Result<(), Rejection> {
    let method = request.method;
    if matches!(method, Method::Connect) {
        return Err(Problem::NotImplemented.into());
    }
    if method == Method::Other && request.method_name().contains(char::is_lowercase) {
        // Methods are case-sensitive (RFC 9110 section 9.1), but not every server keeps to it:
        // what is no method here must not pass by a route for the method that it looks like.
        let detail = "methods are case-sensitive and have no lower-case letters";
        return Err(Rejection::new(Problem::NotImplemented).detail(detail));
    }
    Ok(())
}

/// Brings the path into its normal form. Gives what servers read in more than one way in it.
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
