//! Routing: from host, path and method to a route, or to what is answered without one.

use super::share;
use crate::cors;
use crate::exchange::Exchange;
use crate::path::{self, Ambiguity, Normal};
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::route::Found;
use std::borrow::Cow;
use std::rc::Rc;
use weir_wire::Method;

/// Finds the route. A preflight, and OPTIONS where no route says otherwise, are answered here.
pub(super) fn route<'a>(exchange: &mut Exchange) -> Result<Option<ResponseBody<'a>>, Rejection> {
    let method = exchange.request.method;
    if matches!(method, Method::Connect) {
        return Err(Problem::NotImplemented.into());
    }
    if method == Method::Options && exchange.request.path() == "*" {
        // About the server as a whole (RFC 9110 section 9.3.7).
        exchange.response.status = 204;
        return Ok(Some(ResponseBody::Empty));
    }
    if method == Method::Other && exchange.request.method_name().contains(char::is_lowercase) {
        // Methods are case-sensitive (RFC 9110 section 9.1), but not every server keeps to it:
        // what is no method here must not pass by a route for the method that it looks like.
        let detail = "methods are case-sensitive and have no lower-case letters";
        return Err(Rejection::new(Problem::NotImplemented).detail(detail.to_owned()));
    }
    let path = normalise(exchange)?;
    let live = Rc::clone(exchange.live());
    let request = &exchange.request;
    let found = live.site.router.find(&exchange.host, request.path(), request.method_name());
    if let Found::Route { api, .. } | Found::OtherMethods { api, .. } | Found::NoRoute { api } =
        &found
    {
        exchange.api = Some(*api);
    }
    if let Some(answer) = preflight(exchange, &found) {
        return Ok(Some(answer));
    }
    match found {
        Found::Route { api, route } => {
            let (config, request) = (&live.site.config, &exchange.request);
            let path = Normal { path: request.path().into(), ambiguity: path };
            let asked = (exchange.host.as_str(), request.method_name());
            live.site.router.admit_path(config, asked, &path, (api, route))?;
            exchange.route = Some((api, route));
            Ok(None)
        }
        Found::OtherMethods { allow, .. } if method == Method::Options => {
            exchange.response.status = 204;
            exchange.response.headers.push("allow", allow.join(", ").as_bytes());
            share(exchange);
            Ok(Some(ResponseBody::Empty))
        }
        Found::OtherMethods { allow, .. } => {
            Err(Rejection::new(Problem::MethodNotAllowed).header("allow", allow.join(", ")))
        }
        Found::NoRoute { .. } => Err(Problem::NoRoute.into()),
        Found::NoApi if live.site.router.knows_host(&exchange.host) => Err(Problem::NoRoute.into()),
        Found::NoApi => Err(Problem::UnknownHost.into()),
    }
}

/// Brings the path into its normal form, which is what is matched and what is forwarded. Gives
/// what servers read in more than one way in it.
fn normalise(exchange: &mut Exchange) -> Result<Ambiguity, Rejection> {
    let Normal { path, ambiguity } = path::normalise(exchange.request.path())?;
    if let Cow::Owned(normal) = path {
        exchange.request.set_path(&normal);
    }
    Ok(ambiguity)
}

fn preflight<'a>(exchange: &mut Exchange, found: &Found) -> Option<ResponseBody<'a>> {
    let live = Rc::clone(exchange.live());
    let index = exchange.api?;
    let api = &live.site.config.apis[index];
    let settings = api.cors.as_ref()?;
    let headers = &exchange.request.headers;
    if !cors::is_preflight(exchange.request.method_name(), headers) {
        return None;
    }
    if matches!(found, Found::NoRoute { .. } | Found::NoApi) {
        return None;
    }
    let methods = live.site.router.methods(index, exchange.request.path());
    exchange.response.status = 204;
    let methods = methods.iter().map(String::as_str);
    cors::preflight(settings, headers, methods, &mut exchange.response.headers);
    Some(ResponseBody::Empty)
}
