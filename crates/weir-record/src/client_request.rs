//! A client's request as policies, handlers and observers read it.

use std::time::Instant;
use weir_auth::Principal;
use weir_config::{Api, Config, ConsumerId, Plan, Route, Segment};
use weir_expr::{RequestFacts, Scope};
use weir_http::deadline::Deadline;
use weir_http::forwarded::Client;
use weir_http::headers;
use weir_http::path;
use weir_wire::{RequestHead, ResponseHead};

/// A client's request: its head, client and, once they are known, API, route and caller.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'a> {
    /// Head of the request.
    pub head: &'a RequestHead,
    /// Requested host: lower case, without port.
    pub host: &'a str,
    /// The client, as far as trusted proxies report.
    pub client: &'a Client,
    /// The Config that the request started with.
    pub config: &'a Config,
    /// The matched API.
    pub api: Option<&'a Api>,
    /// The matched route.
    pub route: Option<&'a Route>,
    /// Number of segments of the API's base.
    pub depth: usize,
    /// The caller, once authenticated.
    pub principal: Option<&'a Principal>,
    /// The holder of an API key that was rejected because it has expired or is revoked.
    pub refused: Option<&'a Principal>,
}

impl<'a> ClientRequest<'a> {
    /// The consumer of the caller, if known.
    pub fn consumer(&self) -> Option<ConsumerId> {
        self.principal.and_then(Principal::consumer)
    }

    /// The name of the consumer.
    pub fn consumer_name(&self) -> Option<&'a str> {
        self.consumer().map(|id| self.config.consumers[id.0].name.as_str())
    }

    /// The plan of the consumer.
    pub fn plan(&self) -> Option<&'a Plan> {
        let plan = self.config.consumers[self.consumer()?.0].plan;
        plan.map(|plan| &self.config.plans[plan.0])
    }

    /// Base and pattern of the route; empty without a route.
    pub fn pattern(&self) -> String {
        let matched = self.api.zip(self.route);
        matched.map(|(api, route)| api.path_of(route)).unwrap_or_default()
    }

    /// Segments of the path below the API's base, still escaped.
    pub fn segments_below_base(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        path::segments(self.head.path()).skip(self.depth)
    }

    /// The path matched by the route's wildcard, still escaped; empty if the path has no slash
    /// there.
    pub fn below_pattern(&self) -> &'a str {
        let Some(route) = self.route else { return "" };
        let mut segments = path::segments(self.head.path());
        for _ in 0..self.depth + route.path.segments.len() {
            segments.next();
        }
        segments.rest().unwrap_or_default()
    }

    /// A path parameter, still escaped; `*` is the path matched by the wildcard.
    pub fn raw_parameter(&self, name: &str) -> String {
        let Some(route) = self.route else { return String::new() };
        let pattern = &route.path;
        if name == "*" {
            let rest: Vec<&str> = self.segments_below_base().skip(pattern.segments.len()).collect();
            return rest.join("/");
        }
        let is_it = |segment: &Segment| matches!(segment, Segment::Template(n) if n == name);
        let at = pattern.segments.iter().position(is_it);
        at.and_then(|at| self.segments_below_base().nth(at)).unwrap_or_default().to_owned()
    }

    /// Names and decoded values of the template segments in their order, then of the wildcard, `*`.
    pub fn parameters(&self) -> impl Iterator<Item = (String, String)> {
        let wildcard = self.route.filter(|route| route.path.wildcard).map(|_| "*");
        self.templates().chain(wildcard).map(|name| self.parameter(name))
    }

    fn templates(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let segments = self.route.into_iter().flat_map(|route| &route.path.segments);
        segments.filter_map(|segment| match segment {
            Segment::Template(name) => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    fn parameter(&self, name: &str) -> (String, String) {
        (name.to_owned(), path::decode(&self.raw_parameter(name)).into_owned())
    }

    /// The variables of expressions.
    pub fn scope(&self) -> Scope {
        Scope {
            request: Some(self.facts()),
            claims: self.principal.and_then(|p| p.claims().cloned()),
            consumer: self.consumer_name().map(str::to_owned),
            call: None,
        }
    }

    fn facts(&self) -> RequestFacts {
        let head = self.head;
        RequestFacts {
            method: head.method_name().to_owned(),
            target: head.path().to_owned(),
            host: self.host.to_owned(),
            address: self.client.address.to_string(),
            path: self.templates().map(|name| self.parameter(name)).collect(),
            query: path::query_pairs(head.query().unwrap_or_default())
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
            headers: headers::pairs(&head.headers).collect(),
        }
    }
}

/// Input of a stage that responds: the request (read-only) and the head of the response (writable).
#[derive(Debug)]
pub struct StageInput<'x> {
    /// The request.
    pub request: ClientRequest<'x>,
    /// Head of the response.
    pub response: &'x mut ResponseHead,
    /// Deadline of the request.
    pub deadline: &'x Deadline,
    /// When the request arrived, on the monotonic clock.
    pub started: Instant,
    /// When the request arrived, in seconds since 1970.
    pub unix: u64,
}
