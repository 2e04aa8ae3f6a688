//! Routes.

use super::api::{Inherited, cache, compression};
use super::keys;
use super::normalization::normalization;
use super::openapi::{Bound, Described, NoOperation, again};
use super::resubmit::resubmit;
use super::{Fields, Resolver, headers, reply, server};
use crate::config::{
    BodyMap, CountRule, Handler, Location, PathPattern, Route, Segment, Structure,
};
use crate::draft::Node;
use crate::finding::codes;
use crate::map::JsonMap;
use crate::path_pattern;
use crate::source_map::Span;
use std::collections::HashMap;

/// Keys that say method and path at once.
const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

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
            let fields = Fields::new(node, &keys::ROUTE);
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
            let operation = if inherited.lost && says_no_path(&fields) {
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

    /// Methods in upper case (none: every method), the path, and where it stands.
    fn methods_and_path(
        &mut self,
        fields: &Fields<'_>,
    ) -> Option<(Vec<String>, PathPattern, Span)> {
        let short = METHODS.iter().find_map(|m| Some((*m, fields.get(m)?)));
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

    /// `path` of a route without a shorter form, or the finding that it says no path at all.
    fn written_path<'n>(&mut self, fields: &Fields<'n>) -> Option<&'n Node> {
        let path = fields.get("path");
        let node = fields.node();
        let known = node.members()?.iter().all(|m| keys::ROUTE.key(&m.key).is_some());
        // What was meant for one has its own finding.
        if node.get("path").is_none() && known {
            let words = crate::finding::words(keys::METHODS);
            let message = format!("{} needs one of {words}", keys::ROUTE.name);
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
        let own = fields.object("limits", &keys::ROUTE_LIMITS);
        let (request, response) =
            (fields.object("request", &keys::REQUEST), fields.object("response", &keys::RESPONSE));
        let access = match (self.access(fields), &mut bound) {
            (None, Some((operation, described))) if described.maps_schemes() => {
                Some(self.described_access(described, Some(operation)))
            }
            (written, _) => written,
        };
        let body_limit = own.and_then(|l| l.size("body")).unwrap_or(inherited.body_limit);
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
            answer_limit: own.and_then(|l| l.size("answer")).or(inherited.answer_limit),
            timeout: own.map_or(inherited.request_time, |l| {
                server::request_time(&l, inherited.request_time)
            }),
            request_headers: headers::merge(&inherited.request_headers, headers::edits(request)),
            validation,
            request_map,
            cache: cache(fields).unwrap_or_else(|| inherited.cache.clone()),
            handler: handler?,
            response_map,
            response_headers: headers::merge(&inherited.response_headers, headers::edits(response)),
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
            let reply = Fields::new(node, &keys::REPLY);
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

    /// Warns of a path that costs more than others.
    pub(super) fn needs_tree(&mut self, path: &str, node: &Node) {
        let message = format!("`{path}` needs a tree of the entire body");
        self.report
            .warning(codes::TREE_MAP, node.at, message)
            .help("paths of names and indexes (`$.a.b[0]`) need a single pass");
    }

    /// The map in `request` or `response`.
    fn body_map(&mut self, fields: &Fields<'_>, root: &str) -> Option<BodyMap> {
        for key in ["from", "as", "xml"] {
            if let (Some(node), None) = (fields.get(key), fields.raw("map")) {
                self.report
                    .error(codes::CONFLICT, node.at, format!("`{key}` needs `map`"))
                    .help("`map: \"$\"` gives the whole body");
            }
        }
        if let Some(node) = fields.get("script") {
            return self.map_script(node).map(|script| BodyMap::Script(Box::new(script)));
        }
        let map = fields.raw("map").and_then(|node| self.map(node))?;
        let (from, formats) = (self.sources(fields), self.formats(fields, 0, root));
        Some(BodyMap::Structure(Box::new(Structure { map, from, formats })))
    }

    /// Compiles a map.
    pub(super) fn map(&mut self, node: &Node) -> Option<JsonMap> {
        let json = node.to_json().ok()?;
        let template = match serde_json::from_str(&json) {
            Ok(template) => template,
            Err(error) => {
                self.report.error(codes::BAD_MAP, node.at, format!("invalid map: {error}"));
                return None;
            }
        };
        match JsonMap::compile(&template) {
            Ok(map) => {
                map.tree_paths().for_each(|path| self.needs_tree(path, node));
                Some(map)
            }
            Err(faults) => {
                for fault in faults {
                    let at = leaf(node, &fault.at).at;
                    self.report.error(codes::BAD_MAP, at, fault.message);
                }
                None
            }
        }
    }
}

/// Whether a route leaves its path to an operation.
fn says_no_path(fields: &Fields<'_>) -> bool {
    fields.get("op").is_some() && keys::METHODS.iter().all(|key| fields.get(key).is_none())
}

/// The node at a path of member names and indexes, as far as it goes.
fn leaf<'n>(node: &'n Node, path: &[String]) -> &'n Node {
    let mut node = node;
    for step in path {
        let next = match node.items() {
            Some(items) => step.parse().ok().and_then(|i: usize| items.get(i)),
            None => node.get(step),
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    node
}

fn operation(methods: &[String], path: &PathPattern) -> String {
    if methods.is_empty() {
        format!("* {}", path.text)
    } else {
        format!("{} {}", methods.join(","), path.text)
    }
}

/// A name for the limits of a route that can stand in a header as a string (RFC 9651 section
/// 3.3.3). No API has a space in its name, so it is no API's.
fn limit_name(api: &str, operation: &str) -> String {
    let plain = |c: char| if matches!(c, ' '..='~') && c != '"' && c != '\\' { c } else { '_' };
    format!("{api} {operation}").chars().map(plain).collect()
}

/// What two paths that match the same requests have in common.
pub(super) fn shape(path: &PathPattern) -> String {
    let mut shape = String::new();
    for segment in &path.segments {
        shape.push('/');
        match segment {
            Segment::Literal(text) => shape.push_str(text),
            // No literal segment holds a slash.
            Segment::Template(_) => shape.push_str("{/}"),
        }
    }
    if path.wildcard {
        shape.push_str("/*/");
    }
    shape
}
