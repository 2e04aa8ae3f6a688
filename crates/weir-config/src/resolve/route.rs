//! Routes.

use super::api::{CLIENTS_KEY, Inherited, LIMIT_KEYS};
use super::auth::AUTH_KEY;
use super::body_map::{REQUEST, RESPONSE};
use super::cache::{CACHE_KEY, cache};
use super::calls::CALLS_KEY;
use super::compression::{COMPRESS_KEY, compression};
use super::files::FILES_KEY;
use super::normalization::{NORMALIZATION_KEY, normalization};
use super::openapi::{Bound, Described, MOCK_KEY, NoOperation, VALIDATE_KEY, again};
use super::pool::POOL_HANDLER;
use super::reply::ReplyKeys;
use super::resubmit::{RESUBMIT_KEY, resubmit};
use super::script::ScriptKeys;
use super::{Fields, Resolver, reply};
use crate::config::tracker::capture;
use crate::config::{CountRule, Handler, HeaderEdits, Location, Proxy, Route};
use crate::formats;
use crate::path_pattern::{self, PathPattern, Segment};
use std::collections::HashMap;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::{Group, Kind, format};
use weir_document::source_map::Span;

const METHOD: Kind = Kind::Format(formats::PATH);

/// Keys for method and path of a route.
pub(super) const METHODS: &[&str] =
    &["get", "head", "post", "put", "patch", "delete", "options", "path"];

settings! {
    /// Methods and a path, bound to one handler.
    pub(super) static ROUTE is "a route" {
        /// Path for GET and HEAD.
        get = by_hand(METHOD),
        /// Path for HEAD.
        head = by_hand(METHOD),
        /// Path for POST.
        post = by_hand(METHOD),
        /// Path for PUT.
        put = by_hand(METHOD),
        /// Path for PATCH.
        patch = by_hand(METHOD),
        /// Path for DELETE.
        delete = by_hand(METHOD),
        /// Path for OPTIONS.
        options = by_hand(METHOD),
        /// Path below the base: `/x/{id}`; a final `/*` matches the rest of the path.
        path = by_hand(METHOD),
        /// Methods for `path`.
        methods = by_hand(Kind::OneOrMany(&Kind::Format(format::METHOD))).absent("every method"),
        /// Name of the operation in metrics and logs. In an API with `openapi`: an `operationId`,
        /// which defines method and path.
        op = by_hand(Kind::Format(format::OPERATION)).absent("METHODS path"),
        validate = same(VALIDATE_KEY),
        auth = same(AUTH_KEY),
        path_normalization = same(NORMALIZATION_KEY),
        clients = same(CLIENTS_KEY),
        limit = same(LIMIT_KEYS),
        /// Limits of the route, in place of the API's.
        limits = by_hand(Kind::Object(RouteLimits::SHAPE)),
        compress = same(COMPRESS_KEY),
        cache = same(CACHE_KEY),
        capture = same(capture("that of the API")),
        resubmit = same(RESUBMIT_KEY),
        /// Transformations of the request before the handler.
        request = by_hand(Kind::Object(&REQUEST)),
        /// Transformations of the response after the handler.
        response = by_hand(Kind::Object(&RESPONSE)),
        /// Static response.
        reply = by_hand(Kind::Object(ReplyKeys::SHAPE)),
        /// Reverse proxy: requests are forwarded to an upstream. A name is short for `{upstream:
        /// NAME, path: keep, host: upstream}`.
        proxy = by_hand(Kind::Either(&[Kind::Format(format::NAME), Kind::Object(Proxy::SHAPE)])),
        calls = same(CALLS_KEY),
        /// Process pool: requests are handled by an agent. A name is short for `{name: NAME}`.
        pool = by_hand(Kind::Either(&[Kind::Format(format::NAME), Kind::Object(&POOL_HANDLER)])),
        files = same(FILES_KEY),
        /// Script: requests are handled by a JavaScript module. A path is short for `{file: PATH}`.
        script = by_hand(Kind::Either(&[Kind::Text, Kind::Object(ScriptKeys::SHAPE)])),
        mock = same(MOCK_KEY),
    },
    later: &["tracker"],
    misspellings: &[
        ("method", "write `get: /path`, or `path: /path` with `methods: [get]`"),
        ("url", "write `get: /path`, or `path: /path` for every method"),
        ("upstream", "write `proxy: NAME`"),
        ("headers", "write `request: {headers: {set: …}}` or `response: {headers: {set: …}}`"),
        (
            "timeout",
            "write `proxy: {upstream: NAME, timeout: …}`, or `limits: {request: …}` for the whole request",
        ),
    ],
    groups: &[
        Group { keys: METHODS, required: false },
        Group { keys: &["reply", "proxy", "calls", "files", "script", "pool", "mock"], required: true },
    ],
}

settings! {
    /// Limits on requests and responses.
    pub(super) struct RouteLimits is "the limits of an API or a route" {
        /// Maximum size of a request body.
        pub(super) body: Option<u64> = size(),
        /// Maximum size of a response body, before maps and compression. If `Content-Length` is
        /// larger, the response is a 502; if the body turns out larger, the response is aborted.
        pub(super) answer: Option<u64> = size().absent("any"),
        /// Time from the end of the request head to the last byte of the response; `none` for event
        /// streams.
        pub(super) request: Option<Option<Duration>> = time_limit(),
    }
}

/// Keys for both method and path.
const SHORT: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

impl<'a> Resolver<'a> {
    pub(super) fn routes(
        &mut self,
        nodes: &[Node],
        inherited: &Inherited<'_>,
        mut described: Option<&mut Described<'a>>,
    ) -> Vec<Route> {
        let mut places: HashMap<(String, String), Span> = HashMap::new();
        let mut operations: HashMap<&str, Span> = HashMap::new();
        let mut routes = Vec::with_capacity(nodes.len());
        for node in nodes {
            let fields = Fields::new(node, &ROUTE);
            if node.members().is_none() {
                continue;
            }
            if let Some((name, at)) = fields.get("op").and_then(|n| Some((n.text()?, n.at)))
                && let Some(first) = operations.insert(name, at)
            {
                self.report
                    .error(codes::DUPLICATE_NAME, at, format!("two routes have the `op` `{name}`"))
                    .related(first, "the other route");
            }
            let operation = if inherited.lost && has_no_path(&fields) {
                Err(NoOperation)
            } else {
                self.operation_of(&fields, described.as_deref_mut())
            };
            let target = match &operation {
                Ok(Some(operation)) => self.described_path(operation, node.at),
                Ok(None) => self.methods_and_path(&fields),
                Err(NoOperation) => None,
            };
            let operation = operation.unwrap_or_default();
            if let Some((methods, pattern, at)) = &target {
                self.unique_route(methods, pattern, *at, &mut places);
            }
            let bound = operation.as_ref().zip(described.as_deref_mut());
            let route = self.route(&fields, target, inherited, bound);
            self.routes_at.extend(route.as_ref().map(|_| node.at));
            routes.extend(route);
        }
        routes
    }

    fn unique_route(
        &mut self,
        methods: &[String],
        pattern: &PathPattern,
        at: Span,
        places: &mut HashMap<(String, String), Span>,
    ) {
        let shape = shape(pattern);
        let every = [String::new()];
        for method in if methods.is_empty() { every.as_slice() } else { methods } {
            if let Some(first) = places.insert((method.clone(), shape.clone()), at) {
                let what = if method.is_empty() { "all methods of" } else { method };
                self.report
                    .error(
                        codes::DUPLICATE_ROUTE,
                        at,
                        format!("two routes match {what} `{}`", pattern.text),
                    )
                    .related(first, "the other route");
            }
        }
    }

    /// Methods in upper case (none: every method), the path, and the location of the path.
    fn methods_and_path(
        &mut self,
        fields: &Fields<'_>,
    ) -> Option<(Vec<String>, PathPattern, Span)> {
        let short = SHORT.iter().find_map(|m| Some((*m, fields.get(m)?)));
        if let (Some((method, _)), Some(node)) = (short, fields.get("methods")) {
            self.report
                .error(
                    codes::CONFLICT,
                    node.at,
                    format!("`methods` and `{method}` exclude each other"),
                )
                .help("write `path: /path` with `methods: […]`");
        }
        let (mut methods, node) = match short {
            Some((method, node)) => (vec![method.to_ascii_uppercase()], node),
            None => {
                let mut methods: Vec<String> = Vec::new();
                for method in fields.texts("methods") {
                    let method = method.to_ascii_uppercase();
                    if !methods.contains(&method) {
                        methods.push(method);
                    }
                }
                (methods, self.written_path(fields)?)
            }
        };
        if fields.get("files").is_some() {
            methods = self.methods_of_files(methods, node);
        }
        Some((methods, path_pattern::pattern(node.text()?).ok()?, node.at))
    }

    /// `path` of a route without a method key, or a finding that the path is missing.
    fn written_path<'n>(&mut self, fields: &Fields<'n>) -> Option<&'n Node> {
        let path = fields.get("path");
        let node = fields.node();
        let known = node.members()?.iter().all(|m| ROUTE.key(&m.key).is_some());
        // A misspelled key has a separate finding.
        if node.get("path").is_none() && known {
            let words = weir_document::finding::words(METHODS);
            let message = format!("{} needs one of {words}", ROUTE.name);
            self.report.error(codes::MISSING_KEY, node.at, message);
        }
        path
    }

    fn route(
        &mut self,
        fields: &Fields<'_>,
        target: Option<(Vec<String>, PathPattern, Span)>,
        inherited: &Inherited<'_>,
        mut bound: Option<Bound<'_, 'a>>,
    ) -> Option<Route> {
        let own = RouteLimits::read(&fields.object_or_empty("limits", RouteLimits::SHAPE));
        let (request, response) =
            (fields.object("request", &REQUEST), fields.object("response", &RESPONSE));
        let access = match (self.access(fields), &mut bound) {
            (None, Some((operation, described))) if described.maps_schemes() => {
                Some(self.described_access(described, Some(operation)))
            }
            (written, _) => written,
        };
        let body_limit = own.body.unwrap_or(inherited.body_limit);
        let validation = match inherited.lost {
            true => None,
            false => self.validation(fields, body_limit, again(&mut bound)),
        };
        let request_map = request.and_then(|r| self.body_map(&r, "request"));
        let response_map = response.and_then(|r| self.body_map(&r, reply::ROOT));
        let pattern = target.as_ref().map(|(_, p, _)| p);
        let handler = match fields.get("mock") {
            Some(_) if inherited.lost => None,
            Some(node) => self.mock(node, bound).map(Handler::Reply),
            None => self.handler(fields, pattern, inherited),
        };
        let (methods, path, at) = target?;
        let operation = fields.text("op").map_or_else(|| operation(&methods, &path), str::to_owned);
        let mut rate_limits = inherited.rate_limits.clone();
        rate_limits.extend(self.rate_limits(fields, &limit_name(inherited.api, &operation)));
        let mut clients = inherited.clients.clone();
        clients.extend(self.clients(fields));
        let file = self.draft.texts.path(at.file).to_owned();
        Some(Route {
            methods,
            path,
            access: access.unwrap_or_else(|| inherited.access.clone()),
            path_normalization: normalization(fields, inherited.path_normalization),
            clients,
            rate_limits,
            body_limit,
            response_limit: own.answer.or(inherited.response_limit),
            timeout: own.request.unwrap_or(inherited.request_time),
            request_headers: inherited.request_headers.then(edits(request)),
            validation,
            request_map,
            cache: cache(fields).unwrap_or_else(|| inherited.cache.clone()),
            handler: handler?,
            response_map,
            response_headers: inherited.response_headers.then(edits(response)),
            compress: compression(fields).unwrap_or(inherited.compress),
            capture: self.capture(fields).unwrap_or(inherited.capture),
            count: CountRule::default(),
            resubmit: resubmit(fields, &inherited.resubmit),
            location: Location { file, line: at.line as usize },
            operation,
        })
    }

    fn handler(
        &mut self,
        fields: &Fields<'_>,
        pattern: Option<&PathPattern>,
        inherited: &Inherited<'_>,
    ) -> Option<Handler> {
        if let Some(node) = fields.get("reply") {
            let reply = Fields::new(node, ReplyKeys::SHAPE);
            return node.members().and_then(|_| self.reply(&reply)).map(Handler::Reply);
        }
        if let Some(node) = fields.get("files") {
            return self.files(node, pattern).map(Handler::Files);
        }
        if let Some(node) = fields.get("script") {
            return self.script(node).map(|script| Handler::Script(Box::new(script)));
        }
        if let Some(node) = fields.get("calls") {
            return self.calls(node, pattern);
        }
        if let Some(node) = fields.get("pool") {
            return self.pool_handler(node).map(Handler::Pool);
        }
        let node = fields.get("proxy")?;
        self.proxy(node, pattern, inherited.first_byte).map(Handler::Proxy)
    }
}

/// The `headers` of a transformation.
fn edits(fields: Option<Fields<'_>>) -> HeaderEdits {
    let edits = fields.and_then(|fields| fields.object("headers", HeaderEdits::SHAPE));
    edits.map(|edits| HeaderEdits::read(&edits)).unwrap_or_default()
}

/// Whether a route gets its path from an operation.
fn has_no_path(fields: &Fields<'_>) -> bool {
    fields.get("op").is_some() && METHODS.iter().all(|key| fields.get(key).is_none())
}

fn operation(methods: &[String], path: &PathPattern) -> String {
    if methods.is_empty() {
        format!("* {}", path.text)
    } else {
        format!("{} {}", methods.join(","), path.text)
    }
}

/// A name for the limits of a route that is valid as a string of a header (RFC 9651 section 3.3.3).
/// API names have no spaces, so the name cannot be that of an API.
fn limit_name(api: &str, operation: &str) -> String {
    let plain = |c: char| if matches!(c, ' '..='~') && c != '"' && c != '\\' { c } else { '_' };
    format!("{api} {operation}").chars().map(plain).collect()
}

/// A key that is equal for two paths that match the same requests.
pub(super) fn shape(path: &PathPattern) -> String {
    let mut shape = String::new();
    for segment in &path.segments {
        shape.push('/');
        match segment {
            Segment::Literal(text) => shape.push_str(text),
            // Literal segments do not contain a slash.
            Segment::Template(_) => shape.push_str("{/}"),
        }
    }
    if path.wildcard {
        shape.push_str("/*/");
    }
    shape
}
