//! Proxies.

use super::fields::nothing;
use super::keys;
use super::{Fields, Resolver, headers};
use crate::config::{
    HashKey, HostMode, Instead, Mirror, Origins, PathMode, PathPart, PathPattern, Proxy, QueryMode,
    Segment, Share, Upgrade, UpstreamId,
};
use crate::draft::Node;
use crate::finding::{Fault, codes};
use crate::path_pattern;
use crate::shape::target;
use crate::units;
use std::time::Duration;

/// Most bytes of a body that a mirror may copy.
const MIRRORED_BODY: u64 = 1024 * 1024;

impl Resolver<'_> {
    pub(super) fn proxy(
        &mut self,
        node: &Node,
        pattern: Option<&PathPattern>,
        first_byte: Option<Duration>,
    ) -> Option<Proxy> {
        if let Some(name) = node.text() {
            return Some(Proxy {
                upstream: UpstreamId(self.upstreams.find(name, node.at, self.report)?),
                path: PathMode::Keep,
                host: HostMode::Upstream,
                query: QueryMode::Keep,
                headers: crate::config::HeaderEdits::default(),
                timeout: first_byte,
                instead: Vec::new(),
                mirrors: Vec::new(),
                upgrade: None,
            });
        }
        let fields = Fields::new(node, &keys::PROXY);
        let upstream = fields
            .get("upstream")
            .and_then(|n| self.upstreams.find(n.text()?, n.at, self.report))
            .map(UpstreamId);
        let path = match fields.get("path") {
            Some(node) => self.path_mode(node, pattern),
            None => Some(PathMode::Keep),
        };
        let host = match fields.get("host") {
            Some(node) => self.host_mode(node),
            None => Some(HostMode::Upstream),
        };
        Some(Proxy {
            upstream: upstream?,
            path: path?,
            host: host?,
            query: query(&fields),
            headers: headers::edits(Some(fields)),
            timeout: fields.duration("timeout").or(first_byte),
            instead: fields.many("instead").iter().filter_map(|n| self.instead(n)).collect(),
            mirrors: fields.many("mirror").iter().filter_map(|n| self.mirror(n)).collect(),
            upgrade: self.upgrade(&fields)?,
        })
    }

    /// An item of `mirror`; a finding says so if it is none.
    fn mirror(&mut self, node: &Node) -> Option<Mirror> {
        let fields = Fields::new(node, &keys::MIRROR);
        let to = fields.get("upstream")?;
        let upstream = UpstreamId(self.upstreams.find(to.text()?, to.at, self.report)?);
        let when = match fields.get("when") {
            Some(node) => Some(self.expression(node, &crate::expr::VARIABLES)?),
            None => None,
        };
        let part = fields.text("share").map_or(Some(10_000), |text| units::percent(text).ok())?;
        if part == 0 {
            let at = fields.get("share")?.at;
            self.report.warning(codes::UNUSED, at, "a share of 0 has no effect");
            return None;
        }
        let body = fields.size("body").unwrap_or(64 * 1024);
        if body > MIRRORED_BODY {
            let at = fields.get("body")?.at;
            self.report
                .error(
                    codes::BAD_VALUE,
                    at,
                    "`body` must be at most 1MiB: mirrored bodies are buffered",
                )
                .help("requests with a larger body are not mirrored");
            return None;
        }
        Some(Mirror {
            upstream,
            when,
            part,
            body: body as usize,
            in_flight: fields.number("in_flight", 32),
            timeout: fields.seconds("timeout", 5),
        })
    }

    /// An item of `instead`; a finding says so if it is none.
    fn instead(&mut self, node: &Node) -> Option<Instead> {
        let fields = Fields::new(node, &keys::INSTEAD);
        let to = fields.get("upstream")?;
        let upstream = UpstreamId(self.upstreams.find(to.text()?, to.at, self.report)?);
        let when = match fields.get("when") {
            Some(node) => Some(self.expression(node, &crate::expr::VARIABLES)?),
            None => None,
        };
        let part = fields.text("share").and_then(|text| units::percent(text).ok());
        let share = match (part, fields.get("by")) {
            (Some(0), _) => {
                let at = fields.get("share")?.at;
                self.report.warning(codes::UNUSED, at, "a share of 0 has no effect");
                return None;
            }
            (Some(part), None) => Some(Share { part, by: HashKey::Address }),
            (Some(part), Some(by)) => Some(Share { part, by: self.hash_key(by)? }),
            (None, Some(by)) => {
                self.report
                    .error(codes::CONFLICT, by.at, "`by` needs `share`")
                    .help("add `share: 5%`");
                return None;
            }
            (None, None) => None,
        };
        if when.is_none() && fields.get("share").is_none() {
            self.report
                .error(codes::CONFLICT, node.at, "matches every request")
                .help("set `when` or `share`");
        }
        Some(Instead { upstream, when, share })
    }

    /// None if it is not as it should be.
    #[expect(clippy::option_option, reason = "absent, and wrong, are two things")]
    fn upgrade(&mut self, proxy: &Fields<'_>) -> Option<Option<Upgrade>> {
        let Some(node) = proxy.get("upgrade") else { return Some(None) };
        let name = proxy.text("upstream").unwrap_or_default();
        if self.http2.iter().any(|one| one == name) {
            let message = format!("upgrades need HTTP/1.1, but `{name}` uses HTTP/2");
            self.report
                .error(codes::CONFLICT, node.at, message)
                .help("use an upstream without `protocol: http2`");
            return None;
        }
        let fields = proxy.object("upgrade", &keys::UPGRADE);
        let fields = fields.unwrap_or(Fields::new(nothing(), &keys::UPGRADE));
        let protocols = match node.text() {
            Some(one) => vec![one.to_ascii_lowercase()],
            None => fields.texts("protocols").iter().map(|p| p.to_ascii_lowercase()).collect(),
        };
        if protocols.is_empty() {
            return None;
        }
        let (idle, lifetime) = (fields.seconds("idle", 300), fields.duration("lifetime"));
        if let Some(node) = fields.get("idle").filter(|_| lifetime.is_some_and(|all| all < idle)) {
            let message = "`idle` has no effect: `lifetime` is shorter";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        let origins = self.upgrade_origins(node, &fields, &protocols);
        let reload = fields.seconds("reload", 600);
        Some(Some(Upgrade { protocols, origins, idle, lifetime, reload }))
    }

    /// Whose pages may open WebSockets, beside those of the same host.
    fn upgrade_origins(
        &mut self,
        node: &Node,
        fields: &Fields<'_>,
        protocols: &[String],
    ) -> Option<Origins> {
        let origins = fields.texts("origins");
        if origins.is_empty() {
            if protocols.iter().any(|protocol| protocol == "websocket") {
                let message = "WebSockets are accepted from pages of the same host only";
                self.report.warning(codes::WEBSOCKET_ORIGINS, node.at, message).help(
                    "list other origins: `upgrade: {protocols: websocket, origins: …}`; \
                        `\"*\"` permits all origins",
                );
            }
            return None;
        }
        let any = origins.iter().any(|origin| *origin == "*");
        if any && origins.len() > 1 {
            let at = fields.get("origins")?.at;
            self.report.error(codes::CONFLICT, at, "`*` cannot be combined with origins");
        }
        Some(match any {
            true => Origins::Any,
            false => Origins::List(origins.iter().map(|o| o.to_ascii_lowercase()).collect()),
        })
    }

    fn path_mode(&mut self, node: &Node, pattern: Option<&PathPattern>) -> Option<PathMode> {
        match node.text()? {
            "keep" => Some(PathMode::Keep),
            "strip-base" => Some(PathMode::StripBase),
            text => match template(text, pattern?) {
                Ok(parts) => Some(PathMode::Template(parts)),
                Err(fault) => {
                    self.fault(node, fault);
                    None
                }
            },
        }
    }

    fn host_mode(&mut self, node: &Node) -> Option<HostMode> {
        match node.text()? {
            "upstream" => Some(HostMode::Upstream),
            "client" => Some(HostMode::Client),
            host => {
                // A target's rules for host and port are those of the Host header.
                if host.contains(['/', '*']) || target(&format!("http://{host}")).is_err() {
                    let near = crate::finding::nearest(host, ["upstream", "client"].into_iter());
                    self.fault(
                        node,
                        Fault::value(format!("`{host}` is not a host")).help(match near {
                            Some(near) => format!("did you mean `{near}`?"),
                            None => {
                                "`upstream`, `client`, or a host with an optional port".to_owned()
                            }
                        }),
                    );
                    return None;
                }
                Some(HostMode::Fixed(host.to_owned()))
            }
        }
    }
}

fn query(fields: &Fields<'_>) -> QueryMode {
    match fields.object("query", &keys::QUERY) {
        Some(edits) => QueryMode::Edit {
            remove: edits.texts("remove"),
            set: edits
                .members("set")
                .iter()
                .filter_map(|m| Some((m.key.clone(), m.value.text()?.to_owned())))
                .collect(),
        },
        None if fields.text("query") == Some("drop") => QueryMode::Drop,
        None => QueryMode::Keep,
    }
}

/// `/v2/{id}/{*}` in parts; every parameter must be one of the route's.
pub(super) fn template(text: &str, pattern: &PathPattern) -> Result<Vec<PathPart>, Fault> {
    let fault = |message: String| Fault::value(message).code(codes::BAD_PATH);
    if !text.starts_with('/') {
        let near = crate::finding::nearest(text, ["keep", "strip-base"].into_iter());
        return Err(fault(format!("`{text}` is not a path")).help(match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`keep`, `strip-base`, or a template that begins with a slash".to_owned(),
        }));
    }
    if text.contains(['?', '#']) || text.contains(|c: char| c.is_control() || c == ' ') {
        return Err(fault(
            "a path template must not have a query, spaces or control characters".to_owned(),
        )
        .help("set parameters with `query`"));
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let close = rest[open..]
            .find('}')
            .ok_or_else(|| fault("unclosed `{` in the template".to_owned()))?;
        if open > 0 {
            parts.push(PathPart::Text(path_pattern::encode(&rest[..open])));
        }
        let name = &rest[open + 1..open + close];
        let known = match name {
            "*" => pattern.wildcard,
            name => pattern.segments.iter().any(|s| matches!(s, Segment::Template(n) if n == name)),
        };
        if !known {
            return Err(fault(format!("the route's path has no `{name}`"))
                .code(codes::UNKNOWN_NAME)
                .help(parameters(pattern)));
        }
        parts.push(PathPart::Parameter(name.to_owned()));
        rest = &rest[open + close + 1..];
    }
    if rest.contains('}') {
        return Err(fault("unmatched `}` in the template".to_owned()));
    }
    if !rest.is_empty() {
        parts.push(PathPart::Text(path_pattern::encode(rest)));
    }
    Ok(parts)
}

fn parameters(pattern: &PathPattern) -> String {
    let mut names: Vec<String> = pattern
        .segments
        .iter()
        .filter_map(|s| match s {
            Segment::Template(name) => Some(format!("`{{{name}}}`")),
            Segment::Literal(_) => None,
        })
        .collect();
    if pattern.wildcard {
        names.push("`{*}`".to_owned());
    }
    if names.is_empty() {
        "the path has no parameters".to_owned()
    } else {
        format!("parameters: {}", names.join(", "))
    }
}
