//! Proxies.

use super::headers::HEADERS;
use super::upgrade::UPGRADE;
use super::upstream::HASH;
use super::{Fields, Resolver, headers};
use crate::config::{
    HostMode, Instead, Mirror, PathMode, PathPart, PathPattern, Proxy, QueryMode, Segment, Share,
    UpstreamId,
};
use crate::formats;
use crate::path_pattern;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Fault, codes};
use weir_document::shape::format::target;
use weir_document::shape::typed::{Defaulted, integer, positive, size};
use weir_document::shape::{Key, Kind, Names, Shape, format};
use weir_document::units;

const PATH: Key = Key::new("path", Kind::Text, "The path it is asked for: `keep`, `strip-base`, or a template (`/v2/{id}`, with `{*}` for the rest a wildcard took).").default("keep");
const HOST: Key = Key::new(
    "host",
    Kind::Text,
    "The Host header it gets: `upstream` (the target's own), `client`, or this one.",
)
.default("upstream");
/// `proxy` written out.
pub(super) static PROXY: Shape = Shape::new(
    "a proxy",
    "An upstream answers.",
    &[
        Key::new("upstream", Kind::Format(format::NAME), "Which.").required(),
        Key::new("instead", Kind::List(&Kind::Object(&INSTEAD)), "Other upstreams that get some of the requests; the first that takes one has it.").absent("none"),
        Key::new("mirror", Kind::OneOrMany(&Kind::Object(&MIRROR)), "Upstreams that get copies of requests; nobody gets their answers.").absent("none"),
        PATH,
        HOST,
        Key::new("query", Kind::Either(&[Kind::Enum(&["keep", "drop"]), Kind::Object(&QUERY)]), "The query it gets.").default("keep"),
        HEADERS,
        Key::new("timeout", Kind::Format(format::POSITIVE_DURATION), "Time to the first byte of the answer, instead of the upstream's."),
        Key::new("upgrade", Kind::Either(&[Kind::Format(format::PROTOCOL), Kind::Object(&UPGRADE)]), "What its connections may become, such as `websocket`; a protocol alone is short for `{protocols: PROTOCOL}`.").absent("nothing: who asks for a WebSocket is refused"),
    ],
);

const SHARED_BY: Kind = Kind::Either(&[Kind::Enum(&["address"]), Kind::Object(&HASH)]);
const INSTEAD_BY: Key = Key::new("by", SHARED_BY, "What requests are in the share, or out of it, together by. Raising the share keeps in it who was in it; a request that has nothing of the kind is out.").default("address");

/// An item of `instead`.
pub(super) static INSTEAD: Shape = Shape {
    slips: &[
        ("weight", "write `share: 5%`"),
        ("percent", "write `share: 5%`"),
        ("hash", "write `by`"),
    ],
    ..Shape::new(
        "another upstream",
        "An upstream that gets those requests for which `when` holds, and of them the `share`.",
        &[
            Key::new("upstream", Kind::Format(format::NAME), "Which.").required(),
            Key::new("when", Kind::Format(formats::CEL), "CEL over `request`, `claims` and `consumer`: `request.headers['x-beta'] == '1'`. What cannot be evaluated does not hold.").absent("always"),
            Key::new("share", Kind::Format(format::PERCENT), "How much of them, from `0.01%` to `100%`.").absent("all"),
            INSTEAD_BY,
        ],
    )
};

const MIRROR_BODY: Defaulted<usize> =
    size("body", "Largest body that is copied, at most 1MiB; requests with a longer one are not.")
        .default("64KiB");
const MIRROR_IN_FLIGHT: Defaulted<usize> = integer("in_flight", (1, 10_000), "Most copies of a worker that are being made or under way to this upstream; further requests are not copied.").default("32");
const MIRROR_TIMEOUT: Defaulted<Duration> =
    positive("timeout", "Time from when a copy is sent to the last byte of its answer.")
        .default("5s");

/// An item of `mirror`.
pub(super) static MIRROR: Shape = Shape {
    short: Some("upstream"),
    slips: &[
        ("percent", "write `share: 5%`"),
        ("weight", "write `share: 5%`"),
        ("by", "a share of copies is drawn by lot, whoever asks"),
        ("max", "write `in_flight`"),
    ],
    ..Shape::new(
        "a mirror",
        "An upstream that gets a copy of those requests for which `when` holds, and of them the `share`, with `weir-mirrored: 1`, whatever their method. Its answers are read and thrown away.",
        &[
            Key::new("upstream", Kind::Format(format::NAME), "Which.").required(),
            Key::new("when", Kind::Format(formats::CEL), "CEL over `request`, `claims` and `consumer`. What cannot be evaluated does not hold.").absent("always"),
            Key::new("share", Kind::Format(format::PERCENT), "How much of them, drawn by lot, from `0.01%` to `100%`.").absent("all"),
            MIRROR_BODY.key,
            MIRROR_IN_FLIGHT.key,
            MIRROR_TIMEOUT.key,
        ],
    )
};

/// `query` of a proxy.
pub(super) static QUERY: Shape = Shape::new(
    "query edits",
    "Removed first, then set.",
    &[
        Key::new("set", Kind::Table(Names::Parameter, &Kind::Scalar), "Parameters to set; one of the same name is replaced. Views of the configuration and explanations show no values.").redacted(),
        Key::new("remove", Kind::OneOrMany(&Kind::Format(format::PARAMETER)), "Parameters to remove."),
    ],
);

/// Most bytes of a body that a mirror may copy.
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

    /// An item of `instead`; a finding says so if it is none.
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
                // A target's rules for host and port are those of the Host header.
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

fn query(fields: &Fields<'_>) -> QueryMode {
    match fields.object("query", &QUERY) {
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
