//! APIs and routes in force, with their policies in the order of processing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_config::{Api, BodyMap, CaptureLevel, Config, Rate, Route};

/// An API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiInfo {
    /// Name.
    pub api: String,
    /// Base path.
    pub base: String,
    /// Hosts; empty: any host.
    pub hosts: Vec<String>,
    /// File of the definition.
    pub file: String,
    /// Line of the definition.
    pub line: usize,
    /// The API has an OpenAPI document: `/v1/apis/{api}/openapi`.
    pub described: bool,
    /// Routes, in the order of the configuration.
    pub routes: Vec<RouteInfo>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteInfo {
    /// Name of the operation.
    pub operation: String,
    /// Methods; empty: any method.
    pub methods: Vec<String>,
    /// Base path and pattern.
    pub path: String,
    /// Short description of the handler: `proxy orders`.
    pub handler: String,
    /// Policies before and after the handler, in the order of processing.
    pub policies: Vec<PolicyInfo>,
    /// File of the definition.
    pub file: String,
    /// Line of the definition.
    pub line: usize,
}

/// A policy of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyInfo {
    /// Stage: `auth`, `limit`, `request-map`, `handler`, `response-map`, `compress` or `record`.
    pub stage: String,
    /// Short description of the policy.
    pub words: String,
}

/// All APIs, in the order of the configuration.
#[must_use]
pub fn apis(config: &Config) -> Vec<ApiInfo> {
    let info = |api: &Api| ApiInfo {
        api: api.name.clone(),
        base: api.base.clone(),
        hosts: api.hosts.clone(),
        described: api.openapi.is_some(),
        file: api.location.file.display().to_string(),
        line: api.location.line,
        routes: api.routes.iter().map(|one| route(config, api, one)).collect(),
    };
    config.apis.iter().map(info).collect()
}

fn route(config: &Config, api: &Api, route: &Route) -> RouteInfo {
    RouteInfo {
        operation: route.operation.clone(),
        methods: route.methods.clone(),
        path: api.path_of(route),
        handler: route.handler.summary(config),
        policies: policies(config, route),
        file: route.location.file.display().to_string(),
        line: route.location.line,
    }
}

fn policies(config: &Config, route: &Route) -> Vec<PolicyInfo> {
    let mut all = Vec::new();
    let mut add = |stage: &str, words: String| {
        all.push(PolicyInfo { stage: stage.to_owned(), words });
    };
    add("auth", access(config, route));
    for limit in &route.rate_limits {
        add("limit", format!("{} {}", limit.name, rate(&limit.rate)));
    }
    add("limit", format!("bodies up to {} bytes", route.body_limit));
    if let Some(map) = &route.request_map {
        add("request-map", mapped("body", map));
    }
    let time = route
        .timeout
        .map_or("no timeout".to_owned(), |limit| format!("timeout {} s", limit.as_secs_f64()));
    add("handler", format!("{}, {time}", route.handler.summary(config)));
    if let Some(map) = &route.response_map {
        add("response-map", mapped("response", map));
    }
    if config.tracker.enabled {
        let captured = match route.capture.level {
            CaptureLevel::None => "nothing",
            CaptureLevel::Meta => "metadata",
            CaptureLevel::Headers => "metadata and headers",
            CaptureLevel::Body => "metadata, headers and bodies",
        };
        add("record", captured.to_owned());
    }
    all
}

fn mapped(what: &str, map: &BodyMap) -> String {
    match map {
        BodyMap::Structure(_) => format!("map of the {what}"),
        BodyMap::Script(script) => format!("map of the {what} by {}", script.program.name()),
    }
}

fn access(config: &Config, route: &Route) -> String {
    let mut ways: Vec<String> = Vec::new();
    for rule in &route.access.any_of {
        let name = config.auths[rule.auth.0].name.as_str();
        ways.push(match rule.scopes.is_empty() {
            true => name.to_owned(),
            false => format!("{name} with {}", rule.scopes.join(", ")),
        });
    }
    if route.access.anonymous || ways.is_empty() {
        ways.push("anonymous".to_owned());
    }
    ways.join(" or ")
}

fn rate(rate: &Rate) -> String {
    format!("{} in {} s, burst {}", rate.requests, rate.per.as_secs_f64(), rate.burst)
}
