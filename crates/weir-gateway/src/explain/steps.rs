//! All policies of a request in order: setting, decision and reason.

use super::Explained;
use crate::explanation::{Outcome, Part, Stage, Step};
use crate::flow::Authentication;
use crate::handler;
use std::rc::Rc;
use weir_auth::{FailureKind, MethodOutcome, Principal};
use weir_config::validation::Enforcement;
use weir_config::{
    AccessRule, AuthKind, BodyMap, Config, Credentials, Handler, LimitKey, Origins, Rate, Route,
};
use weir_http::rejection::Rejection;
use weir_limit::{LimitKind, Peek};
use weir_model::{UpstreamId, duration_in_words};
use weir_upstream::Target;

/// The reason of a rejection.
pub(super) struct Refused {
    pub(super) why: String,
    violations: Vec<Part>,
}

impl Refused {
    pub(super) fn of(rejection: &Rejection) -> Self {
        let violations = rejection.details().violations.iter().map(|v| {
            let place = format!("{} {}{}", v.place.as_str(), v.name, v.pointer);
            Part::new(place.trim_end(), "invalid", &*v.detail)
        });
        Self { why: rejection.summary(), violations: violations.collect() }
    }
}

/// The policies of an explained request.
struct Policies<'a> {
    of: &'a Explained<'a>,
    refused: Option<&'a Refused>,
}

/// Every policy in order.
pub(super) fn all(of: &Explained<'_>, refused: Option<&Refused>) -> Vec<Step> {
    let policies = Policies { of, refused };
    let mut steps =
        vec![policies.step("head", Stage::Head, "limits of head size, field count and URL length")];
    steps.push(policies.routing());
    let Some((api, route)) = of.matched() else { return steps };
    steps.push(policies.clients(route));
    steps.push(policies.auth(route));
    steps.push(policies.limits(route));
    let longest = format!("at most {} bytes", route.body_limit);
    steps.push(policies.step("body-size", Stage::BodySize, &longest));
    steps.push(policies.validation(route));
    steps.push(policies.request_map(route));
    steps.push(policies.cache(route));
    steps.push(policies.handler(route));
    steps.push(policies.response_map(route));
    let checked = route.validation.as_ref().map(|v| v.responses).unwrap_or_default();
    let setting = format!("responses: {}", <&str>::from(checked));
    let on = checked != Enforcement::Off;
    steps.push(policies.later("response-validation", on, Stage::ResponseValidation, &setting));
    let edits = &route.response_headers;
    let names: Vec<&str> = edits.set.iter().map(|(name, _)| name.as_str()).collect();
    let setting = format!("sets {}; removes {}", list(&names), list(&edits.remove));
    steps.push(policies.later("response-headers", !edits.is_empty(), Stage::Over, &setting));
    let codings = route.compress.codings.iter().flatten().map(|coding| coding.as_ref());
    let codings = list(&codings.collect::<Vec<_>>());
    let setting = format!("{codings}, from {} bytes on", route.compress.min_size);
    steps.push(policies.later("compress", route.compress.enabled, Stage::Over, &setting));
    let setting = api.cors.as_ref().map(|cors| match &cors.origins {
        Origins::Any => "all origins".to_owned(),
        Origins::List(origins) => format!("origins: {}", origins.join(", ")),
    });
    let on = setting.is_some();
    steps.push(policies.later("cors", on, Stage::Over, &setting.unwrap_or_default()));
    steps
}

fn list<T: AsRef<str>>(names: &[T]) -> String {
    if names.is_empty() {
        return "nothing".to_owned();
    }
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

impl Policies<'_> {
    /// The outcome of a stage that every request passes.
    fn step(&self, name: &str, stage: Stage, setting: &str) -> Step {
        let outcome = self.outcome(stage);
        let why = match outcome {
            Outcome::Refused => self.refused.map(|refused| refused.why.clone()).unwrap_or_default(),
            Outcome::Passed => "within the limits".to_owned(),
            _ => String::new(),
        };
        Step { name: name.to_owned(), setting: setting.to_owned(), outcome, why, parts: vec![] }
    }

    fn outcome(&self, stage: Stage) -> Outcome {
        match (self.of.trace.stage.cmp(&stage), self.refused) {
            (std::cmp::Ordering::Less, _) => Outcome::NotReached,
            (std::cmp::Ordering::Equal, Some(_)) => Outcome::Refused,
            _ => Outcome::Passed,
        }
    }

    fn off(name: &str) -> Step {
        Step { name: name.to_owned(), outcome: Outcome::Off, ..Step::default() }
    }

    fn routing(&self) -> Step {
        let mut step = self.step("route", Stage::Route, "host, longest base, path, method");
        if step.outcome != Outcome::Passed {
            return step;
        }
        step.why = match self.of.matched() {
            Some((api, route)) => format!("best match: {} {}", api.name, api.path_of(route)),
            None => {
                step.outcome = Outcome::Answered;
                "preflight, or OPTIONS without a route".to_owned()
            }
        };
        step
    }

    /// The IP allow and deny lists.
    fn clients(&self, route: &Route) -> Step {
        if route.clients.is_empty() {
            return Self::off("clients");
        }
        let nets = |nets: &[_]| list(&nets.iter().map(ToString::to_string).collect::<Vec<_>>());
        let each = route.clients.iter().map(|clients| {
            let allowed = match clients.allow.as_slice() {
                [] => "all".to_owned(),
                some => nets(some),
            };
            format!("allows {allowed}, denies {}", nets(&clients.deny))
        });
        let mut step = self.step("clients", Stage::Clients, &each.collect::<Vec<_>>().join("; "));
        if step.outcome != Outcome::NotReached {
            let outcome = if step.outcome == Outcome::Refused { "refused" } else { "admitted" };
            step.parts = vec![Part::new(self.of.request.client.address.to_string(), outcome, "")];
        }
        step
    }

    /// A policy that applies to responses.
    fn later(&self, name: &str, on: bool, stage: Stage, setting: &str) -> Step {
        if !on {
            return Self::off(name);
        }
        let mut step = self.step(name, stage, setting);
        if self.of.trace.stage == Stage::Handler && self.refused.is_none() {
            step.outcome = Outcome::Later;
            step.why = "the response is unknown".to_owned();
        } else if step.outcome == Outcome::Passed {
            step.why = "applied to the response where applicable".to_owned();
        }
        step
    }

    fn auth(&self, route: &Route) -> Step {
        let config = self.of.request.config;
        let access = &route.access;
        let names: Vec<&str> =
            access.any_of.iter().map(|rule| config.auths[rule.auth.0].name.as_str()).collect();
        if names.is_empty() {
            let mut step = Self::off("auth");
            step.why = "no authentication required".to_owned();
            return step;
        }
        let anonymous = if access.anonymous { ", or anonymous" } else { "" };
        let setting = format!("any of {}{anonymous}", names.join(", "));
        let mut step = self.step("auth", Stage::Auth, &setting);
        if step.outcome == Outcome::NotReached {
            return step;
        }
        let Explained { request, live, started, now, .. } = *self.of;
        let authentication = Authentication {
            live,
            route,
            request: request.head,
            certificate: None,
            address: request.client.address,
            started,
            now,
        };
        let tried = access.any_of.iter();
        step.parts = tried.map(|rule| method(config, rule, &authentication)).collect();
        if step.outcome == Outcome::Passed {
            let auth = request.principal.and_then(Principal::auth);
            let auth = auth.map(|id| &config.auths[id.0].name);
            step.why = auth.map_or_else(
                || "anonymous: no credential".to_owned(),
                |auth| format!("credential accepted by {auth}"),
            );
        }
        step
    }

    fn limits(&self, route: &Route) -> Step {
        let mut step = self.step("limit", Stage::Limit, "");
        let mut number = 0;
        for &Peek { kind, outcome } in &self.of.trace.limits {
            let (name, setting) = self.named(kind, route, &mut number);
            let (word, why) = match outcome {
                Ok(limit_status) => {
                    ("room", format!("{} remaining after the request", limit_status.remaining))
                }
                Err(rejection) => {
                    let wait = rejection.limit_status.retry_after.unwrap_or_default();
                    ("exhausted", format!("exhausted; retry in {}", duration_in_words(wait)))
                }
            };
            step.parts.push(Part::new(name, word, format!("{setting}: {why}")));
        }
        if step.outcome == Outcome::Passed && step.parts.is_empty() {
            step.outcome = Outcome::Off;
            step.why = "no limit applies to the caller".to_owned();
        } else if step.outcome == Outcome::Passed {
            step.why = "within every limit; nothing is charged".to_owned();
        }
        step.setting = "rate of the plan, limits of API and route, quota of the plan".to_owned();
        step
    }

    /// The name and the setting of a limit.
    fn named(&self, kind: LimitKind, route: &Route, number: &mut usize) -> (String, String) {
        let plan = self.of.request.plan();
        let plan_name = plan.map(|plan| plan.name.clone()).unwrap_or_default();
        match kind {
            LimitKind::PlanRate => {
                let rate = plan.and_then(|plan| plan.rate).map(rate).unwrap_or_default();
                (plan_name, format!("rate of the plan, {rate}"))
            }
            LimitKind::Quota => {
                let quota = plan.and_then(|plan| plan.quota.as_ref());
                let quota = quota.map(|q| format!("{} calls per {:?}", q.calls, q.per));
                let quota = quota.unwrap_or_default().to_lowercase();
                (plan_name, format!("quota of the plan, {quota}"))
            }
            LimitKind::Limit => {
                let limit = route.rate_limits.get(*number);
                *number += 1;
                let Some(limit) = limit else { return (String::new(), String::new()) };
                let key = match &limit.key {
                    LimitKey::Address => "address",
                    LimitKey::Consumer => "consumer",
                    LimitKey::Expr(_) => "an expression",
                };
                (limit.name.clone(), format!("{} by {key}", rate(limit.rate)))
            }
        }
    }

    fn validation(&self, route: &Route) -> Step {
        let Some(validation) = &route.validation else { return Self::off("validation") };
        if validation.requests == Enforcement::Off {
            return Self::off("validation");
        }
        let setting = format!("requests: {}", <&str>::from(validation.requests));
        let mut step = self.step("validation", Stage::Validation, &setting);
        match step.outcome {
            Outcome::Refused => {
                step.parts = self.refused.map(|r| r.violations.clone()).unwrap_or_default();
            }
            Outcome::Passed => {
                let logs = self.of.logs;
                step.why = match logs.is_empty() {
                    true => "matches the OpenAPI document".to_owned(),
                    false => "violates the OpenAPI document; only logged".to_owned(),
                };
                step.parts = logs.iter().map(|line| Part::new("noted", "invalid", line)).collect();
            }
            _ => {}
        }
        step
    }

    fn request_map(&self, route: &Route) -> Step {
        let Some(map) = &route.request_map else { return Self::off("request-map") };
        let mut step = self.step("request-map", Stage::RequestMap, &mapping("request", map));
        if step.outcome == Outcome::Passed && matches!(map, BodyMap::Script(_)) {
            step.outcome = Outcome::Later;
            step.why = "not run by explain; shown as if it changed nothing".to_owned();
        } else if step.outcome == Outcome::Passed {
            let body = &self.of.trace.body;
            step.why = format!("mapped body: {} bytes", body.len());
            let text = super::text_of(body).text.unwrap_or_default();
            step.parts.push(Part::new("body", "mapped", text));
        }
        step
    }

    /// The cache is not used by explained requests.
    fn cache(&self, route: &Route) -> Step {
        let Some(cache) = &route.cache else { return Self::off("cache") };
        let credentials = match cache.credentials {
            Credentials::None => "not for requests with credentials",
            Credentials::Shared => "shared by all callers",
            Credentials::Each => "separate for each caller",
        };
        let setting = format!("bodies up to {} bytes; {credentials}", cache.entry);
        let mut step = self.step("cache", Stage::Handler, &setting);
        if step.outcome != Outcome::NotReached {
            step.outcome = Outcome::Later;
            step.why = "a live request may get a cached response".to_owned();
        }
        step
    }

    fn response_map(&self, route: &Route) -> Step {
        let Some(map) = &route.response_map else { return Self::off("response-map") };
        let setting = mapping("response", map);
        let mut step = self.later("response-map", true, Stage::ResponseMap, &setting);
        if step.outcome == Outcome::Passed && matches!(map, BodyMap::Script(_)) {
            step.outcome = Outcome::Later;
            step.why = "not run by explain; the response is shown without this map".to_owned();
        }
        step
    }

    fn handler(&self, route: &Route) -> Step {
        let config = self.of.request.config;
        let Explained { upstream, mirrors, .. } = *self.of;
        let setting = handler::describe(&route.handler, config, upstream, mirrors);
        let mut step = self.step("handler", Stage::Handler, &setting);
        if step.outcome == Outcome::Passed {
            let own = route.handler.is_local();
            step.outcome = if own { Outcome::Answered } else { Outcome::Later };
            let answers = format!("weir responds with {}", self.of.response.status);
            step.why = if own { answers } else { "not called by explain".to_owned() };
            if let Handler::Proxy(proxy) = &route.handler {
                let id = upstream.unwrap_or(proxy.upstream);
                step.parts = targets(self.of, id);
            }
            if let Handler::Calls(_) = &route.handler {
                step.parts.clone_from(&self.of.trace.calls);
            }
        }
        step
    }
}

/// The state of each target.
fn targets(of: &Explained<'_>, upstream: UpstreamId) -> Vec<Part> {
    let upstream = &of.live.upstreams[upstream.0];
    let part = |target: &Rc<Target>| {
        let state = if target.health.is_up() { "in service" } else { "out of service" };
        Part::new(&target.name, state, "")
    };
    upstream.targets.iter().map(part).collect()
}

/// Tries one auth, as for a served request.
fn method(config: &Config, rule: &AccessRule, authentication: &Authentication<'_>) -> Part {
    let auth = &config.auths[rule.auth.0];
    let tried = authentication.try_method(rule);
    let required: Vec<&str> = rule.required_scopes(&auth.kind).map(String::as_str).collect();
    let scopes = match required.is_empty() {
        true => String::new(),
        false => format!("; required scopes: {}", required.join(" ")),
    };
    let (outcome, why) = match tried {
        MethodOutcome::Absent if matches!(auth.kind, AuthKind::Certificate(_)) => {
            ("absent", "no TLS handshake, so no client certificate".to_owned())
        }
        MethodOutcome::Absent => ("absent", "no credential of this kind".to_owned()),
        MethodOutcome::Refused(FailureKind::NotIntrospected) => {
            ("refused", "a live request introspects the token first".to_owned())
        }
        MethodOutcome::Granted(principal) => {
            let consumer = principal.consumer().map(|id| config.consumers[id.0].name.as_str());
            ("granted", format!("consumer: {}", consumer.unwrap_or("none")))
        }
        MethodOutcome::Refused(kind) => {
            let title = weir_auth::AuthFailure::of(kind, rule.auth).problem().title();
            let fetched = match &auth.kind {
                AuthKind::Jwt(jwt) if jwt.remote.is_some() => {
                    "; a live request may fetch the key set first"
                }
                _ => "",
            };
            ("refused", format!("{title}{fetched}"))
        }
    };
    Part::new(&auth.name, outcome, format!("{why}{scopes}"))
}

fn mapping(what: &str, map: &BodyMap) -> String {
    match map {
        BodyMap::Structure(_) => format!("maps the {what}"),
        BodyMap::Script(script) => format!("maps the {what} with {}", script.program.name()),
    }
}

fn rate(rate: Rate) -> String {
    format!("{} per {:?}, burst {}", rate.requests, rate.per, rate.burst)
}
