//! Reverse proxy.

use super::{Fields, Resolver};
use crate::config::{HostMode, Instead, Mirror, PathMode, PathPart, Proxy, Share};
use crate::path_pattern::{self, PathPattern, Segment};
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Fault, codes};
use weir_document::shape::format::target;
use weir_document::units;
use weir_model::UpstreamId;

/// Maximum size of a mirrored body in bytes.
const MIRRORED_BODY: usize = 1024 * 1024;

impl Resolver<'_> {
    pub(super) fn proxy(
        &mut self,
        node: &Node,
        pattern: Option<&PathPattern>,
        first_byte: Option<Duration>,
    ) -> Option<Proxy> {
        let (fields, to) = if node.text().is_some() {
            (Fields::empty(Proxy::SHAPE), Some(node))
        } else {
            let fields = Fields::new(node, Proxy::SHAPE);
            (fields, fields.get("upstream"))
        };
        let upstream =
            to.and_then(|n| self.upstreams.find(n.text()?, n.at, self.report)).map(UpstreamId);
        let path = self.path_mode(&fields.or_default("path"), pattern);
        let host = self.host_mode(&fields.or_default("host"));
        let proxy = Proxy::read(&fields, upstream?);
        Some(Proxy {
            path: path?,
            host: host?,
            timeout: proxy.timeout.or(first_byte),
            instead: fields.many("instead").iter().filter_map(|n| self.instead(n)).collect(),
            mirrors: fields.many("mirror").iter().filter_map(|n| self.mirror(n)).collect(),
            upgrade: self.upgrade(&fields)?,
            ..proxy
        })
    }

    /// An item of `mirror`; `None` with a finding.
    fn mirror(&mut self, node: &Node) -> Option<Mirror> {
        let fields = Fields::new(node, Mirror::SHAPE);
        let to = fields.get("upstream")?;
        let upstream = UpstreamId(self.upstreams.find(to.text()?, to.at, self.report)?);
        let when = match fields.get("when") {
            Some(node) => Some(self.expression(node, &weir_expr::VARIABLES)?),
            None => None,
        };
        let part = fields.text("share").map_or(Some(10_000), |text| units::percent(text).ok())?;
        if part == 0 {
            let at = fields.get("share")?.at;
            self.report.warning(codes::UNUSED, at, "a share of 0 has no effect");
            return None;
        }
        let mirror = Mirror { when, part, ..Mirror::read(&fields, upstream) };
        if mirror.body > MIRRORED_BODY {
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
        Some(mirror)
    }

    /// An item of `instead`; `None` with a finding.
    fn instead(&mut self, node: &Node) -> Option<Instead> {
        let fields = Fields::new(node, Instead::SHAPE);
        let to = fields.get("upstream")?;
        let upstream = UpstreamId(self.upstreams.find(to.text()?, to.at, self.report)?);
        let when = match fields.get("when") {
            Some(node) => Some(self.expression(node, &weir_expr::VARIABLES)?),
            None => None,
        };
        let part = fields.text("share").and_then(|text| units::percent(text).ok());
        let share = match (part, fields.get("by")) {
            (Some(0), _) => {
                let at = fields.get("share")?.at;
                self.report.warning(codes::UNUSED, at, "a share of 0 has no effect");
                return None;
            }
            (Some(part), _) => Some(Share { part, by: self.hash_key(&fields.or_default("by"))? }),
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
                // Host and port follow the rules of a Host header.
                if host.contains(['/', '*']) || target(&format!("http://{host}")).is_err() {
                    let near =
                        weir_document::finding::nearest(host, ["upstream", "client"].into_iter());
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

/// Parts of `/v2/{id}/{*}`; every parameter must be one of the route's path.
pub(super) fn template(text: &str, pattern: &PathPattern) -> Result<Vec<PathPart>, Fault> {
    let fault = |message: String| Fault::value(message).code(codes::BAD_PATH);
    if !text.starts_with('/') {
        let near = weir_document::finding::nearest(text, ["keep", "strip-base"].into_iter());
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
