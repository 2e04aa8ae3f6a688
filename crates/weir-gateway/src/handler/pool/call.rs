//! The request for a program: the client's, or that of a local redirect.

use crate::context::Context;
use crate::route::Found;
use weir_http::path;
use weir_record::client_request::ClientRequest;
use weir_wire::{Method, RequestHead};

/// The request for a program.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// Set by a local redirect (RFC 3875 section 6.2.2), which is a GET without a body.
    redirected: Option<Redirected>,
}

#[derive(Debug)]
struct Redirected {
    /// Normalized path, and query.
    target: String,
    /// Length of the path.
    path: usize,
    /// Length of the part before the wildcard.
    led: usize,
}

impl Call {
    /// A local redirect within the route of the request. Other routes may have other policies: for
    /// them the client is redirected.
    pub(super) fn to(context: &Context<'_>, request: &RequestHead, location: &str) -> Option<Self> {
        let location = location.split('#').next().unwrap_or_default();
        let (path, query) = location.split_once('?').unwrap_or((location, ""));
        let path = path::normalise(path).ok()?;
        if location.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return None;
        }
        let router = &context.live.site.router;
        if !path.ambiguity.is_empty() {
            // The client requests the path, and receives the reason.
            return None;
        }
        let path = path.path;
        let found = router.find(&context.arrival.host, &path, "GET");
        let Found::Route { api, route } = found else { return None };
        if context.at != (api, route) {
            return None;
        }
        let rest = context.view(request).raw_parameter("*").len();
        let before = request.path().len().saturating_sub(rest);
        // The same route has the same number of segments before its wildcard.
        let slashes = request.path()[..before].matches('/').count();
        let led = path.match_indices('/').nth(slashes.saturating_sub(1)).map(|(at, _)| at + 1);
        let led = led.filter(|_| context.route.path.wildcard).unwrap_or(path.len());
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

    /// HEAD stays HEAD: its response has no body.
    pub(super) fn verb(&self, request: &RequestHead) -> Method {
        match request.method {
            method if !self.is_redirected() || method == Method::Head => method,
            _ => Method::Get,
        }
    }

    pub(super) fn method<'e>(&self, request: &'e RequestHead) -> &'e str {
        match self.verb(request) {
            Method::Get if self.is_redirected() => "GET",
            _ => request.method_name(),
        }
    }

    pub(super) fn target<'e>(&'e self, request: &'e RequestHead) -> &'e str {
        self.redirected.as_ref().map_or(request.target(), |to| &to.target)
    }

    pub(super) fn path<'e>(&'e self, request: &'e RequestHead) -> &'e str {
        self.redirected.as_ref().map_or(request.path(), |to| &to.target[..to.path])
    }

    pub(super) fn query<'e>(&'e self, request: &'e RequestHead) -> &'e str {
        let of = |to: &'e Redirected| to.target.get(to.path + 1..);
        self.redirected.as_ref().map_or(request.query(), of).unwrap_or_default()
    }

    /// Length of the part of the path before the wildcard.
    pub(super) fn led(&self, request: &ClientRequest<'_>) -> usize {
        let path = request.head.path();
        let of_request = || path.len().saturating_sub(request.raw_parameter("*").len());
        self.redirected.as_ref().map_or_else(of_request, |to| to.led)
    }
}
