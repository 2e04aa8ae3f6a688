//! What a program is asked: what the client asked for, or where another program has sent weir.

use crate::exchange::Exchange;
use crate::path;
use crate::route::Found;
use weir_wire::Method;

/// A request as programs are told of it.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// Of a local redirect (RFC 3875 section 6.2.2): it is a GET without a body.
    redirected: Option<Redirected>,
}

#[derive(Debug)]
struct Redirected {
    /// Path in its normal form, and query.
    target: String,
    /// Length of the path.
    path: usize,
    /// Length of what led to the route.
    led: usize,
}

impl Call {
    /// A redirect that is answered at once: one to the route that the request has come by. Elsewhere
    /// others may be let in, and other limits hold: there the client is sent.
    pub(super) fn to(exchange: &Exchange, location: &str) -> Option<Self> {
        let location = location.split('#').next().unwrap_or_default();
        let (path, query) = location.split_once('?').unwrap_or((location, ""));
        let path = path::normalise(path).ok()?;
        if location.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return None;
        }
        let router = &exchange.live().site.router;
        if !path.ambiguity.is_empty() {
            // The client comes back with it, and is told what is wrong with it.
            return None;
        }
        let path = path.path;
        let found = router.find(&exchange.host, &path, "GET");
        let Found::Route { api, route } = found else { return None };
        if exchange.route != Some((api, route)) {
            return None;
        }
        let rest = exchange.view().raw_parameter("*").len();
        let before = exchange.request.path().len().saturating_sub(rest);
        // The same route has as many segments before what its wildcard takes.
        let slashes = exchange.request.path()[..before].matches('/').count();
        let led = path.match_indices('/').nth(slashes.saturating_sub(1)).map(|(at, _)| at + 1);
        let wildcard = exchange.matched().is_some_and(|(_, route)| route.path.wildcard);
        let led = led.filter(|_| wildcard).unwrap_or(path.len());
        let mut target = path.clone().into_owned();
        if !query.is_empty() {
            target.push('?');
            target.push_str(query);
        }
        Some(Self { redirected: Some(Redirected { target, path: path.len(), led }) })
    }

    pub(super) fn is_redirected(&self) -> bool {
        self.redirected.is_some()
    }

    /// HEAD stays HEAD: its answer has no body.
    pub(super) fn verb(&self, exchange: &Exchange) -> Method {
        match exchange.request.method {
            method if !self.is_redirected() || method == Method::Head => method,
            _ => Method::Get,
        }
    }

    pub(super) fn method<'e>(&self, exchange: &'e Exchange) -> &'e str {
        match self.verb(exchange) {
            Method::Get if self.is_redirected() => "GET",
            _ => exchange.request.method_name(),
        }
    }

    pub(super) fn target<'e>(&'e self, exchange: &'e Exchange) -> &'e str {
        self.redirected.as_ref().map_or(exchange.request.target(), |to| &to.target)
    }

    pub(super) fn path<'e>(&'e self, exchange: &'e Exchange) -> &'e str {
        self.redirected.as_ref().map_or(exchange.request.path(), |to| &to.target[..to.path])
    }

    pub(super) fn query<'e>(&'e self, exchange: &'e Exchange) -> &'e str {
        let of = |to: &'e Redirected| to.target.get(to.path + 1..);
        self.redirected.as_ref().map_or(exchange.request.query(), of).unwrap_or_default()
    }

    /// Length of the part of the path that led to the route: where what its wildcard took begins.
    pub(super) fn led(&self, exchange: &Exchange) -> usize {
        let path = exchange.request.path();
        let of_request = || path.len().saturating_sub(exchange.view().raw_parameter("*").len());
        self.redirected.as_ref().map_or_else(of_request, |to| to.led)
    }
}
