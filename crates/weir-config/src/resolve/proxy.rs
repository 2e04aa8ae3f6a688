//! Reverse proxy.

use super::headers::HEADERS;
use super::upgrade::UPGRADE;
use super::upstream::HASH;
use super::{Fields, Resolver, headers};
use crate::config::{
    HostMode, Instead, Mirror, PathMode, PathPart, PathPattern, Proxy, QueryMode, Segment, Share,
};
use crate::formats;
use crate::path_pattern;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Fault, codes};
use weir_document::shape::format::target;
use weir_document::shape::typed::{Defaulted, Typed, integer, positive, size};
use weir_document::shape::{Key, Kind, Names, Shape, format};
use weir_document::units;
use weir_model::UpstreamId;

const PATH: Key = Key::new("path", Kind::Text, "Path of the upstream request: `keep`, `strip-base`, or a template (`/v2/{id}`, with `{*}` for the part matched by a wildcard).").default("keep");
const HOST: Key = Key::new(
    "host",
    Kind::Text,
    "Host header of the upstream request: `upstream` (the host of the target), `client` (that of the client's request), or this host.",
)
.default("upstream");
const QUERY_MODES: Kind = Kind::Either(&[Kind::Enum(&["keep", "drop"]), Kind::Object(&QUERY)]);
const QUERY_MODE: Defaulted<QueryMode> =
    Typed::new(Key::new("query", QUERY_MODES, "Query of the upstream request."), query_mode_of)
        .default("keep");

/// `proxy` as a mapping.
pub(super) static PROXY: Shape = Shape::new(
    "a proxy",
    "Reverse proxy: requests are forwarded to an upstream.",
    &[
        Key::new("upstream", Kind::Format(format::NAME), "Name of the upstream.").required(),
        Key::new("instead", Kind::List(&Kind::Object(&INSTEAD)), "Traffic splitting: other upstreams for some requests (canary releases). The first that matches a request is used.").absent("none"),
        Key::new("mirror", Kind::OneOrMany(&Kind::Object(&MIRROR)), "Mirroring: upstreams that receive copies of requests. Their responses are discarded.").absent("none"),
        PATH,
        HOST,
        QUERY_MODE.key,
        HEADERS,
        Key::new("timeout", Kind::Format(format::POSITIVE_DURATION), "Time to the first byte of the response, in place of that of the upstream."),
        Key::new("upgrade", Kind::Either(&[Kind::Format(format::PROTOCOL), Kind::Object(&UPGRADE)]), "Protocols to which connections may be upgraded, such as `websocket`; a protocol is short for `{protocols: PROTOCOL}`.").absent("none: WebSocket requests are rejected"),
    ],
);

const SHARED_BY: Kind = Kind::Either(&[Kind::Enum(&["address"]), Kind::Object(&HASH)]);
const INSTEAD_BY: Key = Key::new("by", SHARED_BY, "Attribute by which requests are assigned to the share: requests with the same value have the same upstream, also after an increase of the share. Requests without the attribute are not part of the share.").default("address");

/// An item of `instead`.
pub(super) static INSTEAD: Shape = Shape {
    misspellings: &[
        ("weight", "write `share: 5%`"),
        ("percent", "write `share: 5%`"),
        ("hash", "write `by`"),
    ],
    ..Shape::new(
        "a traffic split",
        "Traffic split: an upstream for a `share` of the requests that match `when`.",
        &[
            Key::new("upstream", Kind::Format(format::NAME), "Name of the upstream.").required(),
            Key::new("when", Kind::Format(formats::CEL), "CEL over `request`, `claims` and `consumer`: `request.headers['x-beta'] == '1'`. If the evaluation fails, the request does not match.").absent("always"),
            Key::new("share", Kind::Format(format::PERCENT), "Share of the requests, from `0.01%` to `100%`.").absent("all"),
            INSTEAD_BY,
        ],
    )
};

const MIRROR_BODY: Defaulted<usize> = size(
    "body",
    "Maximum size of a copied body, up to 1MiB; requests with a larger body are not mirrored.",
)
.default("64KiB");
const MIRROR_IN_FLIGHT: Defaulted<usize> = integer("in_flight", (1, 10_000), "Maximum number of copies per worker that are in preparation or in flight to this upstream; further requests are not mirrored.").default("32");
const MIRROR_TIMEOUT: Defaulted<Duration> =
    positive("timeout", "Time from sending a copy to the last byte of its response.").default("5s");

/// An item of `mirror`.
pub(super) static MIRROR: Shape = Shape {
    short: Some("upstream"),
    misspellings: &[
        ("percent", "write `share: 5%`"),
        ("weight", "write `share: 5%`"),
        ("by", "mirrored requests are sampled at random: remove it"),
        ("max", "write `in_flight`"),
    ],
    ..Shape::new(
        "a mirror",
        "Mirror: an upstream that receives a copy of a `share` of the requests that match `when`, with any method. Copies have the header `weir-mirrored: 1`. The responses are read and discarded.",
        &[
            Key::new("upstream", Kind::Format(format::NAME), "Name of the upstream.").required(),
            Key::new("when", Kind::Format(formats::CEL), "CEL over `request`, `claims` and `consumer`. If the evaluation fails, the request does not match.").absent("always"),
            Key::new("share", Kind::Format(format::PERCENT), "Share of the requests, sampled at random, from `0.01%` to `100%`.").absent("all"),
            MIRROR_BODY.key,
            MIRROR_IN_FLIGHT.key,
            MIRROR_TIMEOUT.key,
        ],
    )
};

/// `query` of a proxy.
pub(super) static QUERY: Shape = Shape::new(
    "query edits",
    "Query edits: first `remove`, then `set`.",
    &[
        Key::new("set", Kind::Table(Names::Parameter, &Kind::Scalar), "Parameters to set; each replaces those of the same name. Views of the configuration and explanations do not show the values.").redacted(),
        Key::new("remove", Kind::OneOrMany(&Kind::Format(format::PARAMETER)), "Parameters to remove."),
    ],
);

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
            (Fields::empty(&PROXY), Some(node))
        } else {
            let fields = Fields::new(node, &PROXY);
            (fields, fields.get("upstream"))
        };
        let upstream =
            to.and_then(|n| self.upstreams.find(n.text()?, n.at, self.report)).map(UpstreamId);
        let path = self.path_mode(&fields.or_default(&PATH), pattern);
        let host = self.host_mode(&fields.or_default(&HOST));
        Some(Proxy {
            upstream: upstream?,
            path: path?,
            host: host?,
            query: fields.read(&QUERY_MODE),
            headers: headers::edits(Some(fields)),
            timeout: fields.duration("timeout").or(first_byte),
            instead: fields.many("instead").iter().filter_map(|n| self.instead(n)).collect(),
            mirrors: fields.many("mirror").iter().filter_map(|n| self.mirror(n)).collect(),
            upgrade: self.upgrade(&fields)?,
        })
    }

    /// An item of `mirror`; `None` with a finding.
    fn mirror(&mut self, node: &Node) -> Option<Mirror> {
        let fields = Fields::new(node, &MIRROR);
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
        let body = fields.read(&MIRROR_BODY);
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
            body,
            in_flight: fields.read(&MIRROR_IN_FLIGHT),
            timeout: fields.read(&MIRROR_TIMEOUT),
        })
    }

    /// An item of `instead`; `None` with a finding.
    fn instead(&mut self, node: &Node) -> Option<Instead> {
        let fields = Fields::new(node, &INSTEAD);
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
            (Some(part), _) => {
                Some(Share { part, by: self.hash_key(&fields.or_default(&INSTEAD_BY))? })
            }
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

fn query_mode_of(node: &Node) -> Option<QueryMode> {
    if node.members().is_some() {
        let edits = Fields::new(node, &QUERY);
        let set = edits.members("set").iter();
        let set = set.filter_map(|m| Some((m.key.clone(), m.value.text()?.to_owned())));
        return Some(QueryMode::Edit { remove: edits.texts("remove"), set: set.collect() });
    }
    match node.text()? {
        "keep" => Some(QueryMode::Keep),
        "drop" => Some(QueryMode::Drop),
        _ => None,
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
