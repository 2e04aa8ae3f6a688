//! Reverse proxy: traffic splitting, mirrors, edits of requests.

use super::upstream::HASH_KEY;
use super::{HashKey, HeaderEdits, Upgrade};
use crate::formats;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Kind, Names, format};
use weir_expr::Expr;
use weir_model::UpstreamId;

settings! {
    /// Reverse proxy: requests are forwarded to an upstream.
    #[derive(Debug)]
    pub struct Proxy is "a proxy" {
        /// Name of the upstream.
        upstream = by_hand(Kind::Format(format::NAME)).required(),
        /// Traffic splitting: other upstreams for some requests (canary releases). The first that
        /// matches a request is used.
        pub instead: Vec<Instead> =
            by_hand(Kind::List(&Kind::Object(Instead::SHAPE))).absent("none"),
        /// Mirroring: upstreams that receive copies of requests. Their responses are discarded.
        pub mirrors: Vec<Mirror> =
            by_hand(Kind::OneOrMany(&Kind::Object(Mirror::SHAPE))).name("mirror").absent("none"),
        /// Path of the upstream request: `keep`, `strip-base`, or a template (`/v2/{id}`, with
        /// `{*}` for the part matched by a wildcard).
        pub path: PathMode = by_hand(Kind::Text).default("keep"),
        /// Host header of the upstream request: `upstream` (the host of the target), `client` (that
        /// of the client's request), or this host.
        pub host: HostMode = by_hand(Kind::Text).default("upstream"),
        /// Query of the upstream request.
        pub query: QueryMode = value(QUERY_MODE, query_mode).default("keep"),
        /// Header edits.
        // After those of the route.
        pub headers: HeaderEdits = section(),
        /// Time to the first byte of the response, in place of that of the upstream.
        pub timeout: Option<Duration> = positive(),
        /// Protocols to which connections may be upgraded, such as `websocket`; a protocol is short
        /// for `{protocols: PROTOCOL}`.
        pub upgrade: Option<Upgrade> =
            by_hand(UPGRADE).absent("none: WebSocket requests are rejected"),
    } given {
        /// The upstream.
        pub upstream: UpstreamId,
    }
}

const QUERY_MODE: Kind = Kind::Either(&[Kind::Enum(&["keep", "drop"]), Kind::Object(&QUERY)]);
const UPGRADE: Kind = Kind::Either(&[Kind::Format(format::PROTOCOL), Kind::Object(Upgrade::SHAPE)]);

settings! {
    /// Traffic split: an upstream for a `share` of the requests that match `when`.
    #[derive(Debug)]
    pub struct Instead is "a traffic split" {
        /// Name of the upstream.
        upstream = by_hand(Kind::Format(format::NAME)).required(),
        /// CEL over `request`, `claims` and `consumer`: `request.headers['x-beta'] == '1'`. If the
        /// evaluation fails, the request does not match.
        pub when: Option<Expr> = by_hand(Kind::Format(formats::CEL)).absent("always"),
        /// Share of the requests, from `0.01%` to `100%`.
        pub share: Option<Share> = by_hand(Kind::Format(format::PERCENT)).absent("all"),
        /// Attribute by which requests are assigned to the share: requests with the same value have
        /// the same upstream, also after an increase of the share. Requests without the attribute
        /// are not part of the share.
        by = by_hand(HASH_KEY).default("address"),
    } given {
        /// The upstream.
        pub upstream: UpstreamId,
    },
    misspellings: &[
        ("weight", "write `share: 5%`"),
        ("percent", "write `share: 5%`"),
        ("hash", "write `by`"),
    ],
}

settings! {
    /// Mirror: an upstream that receives a copy of a `share` of the requests that match `when`,
    /// with any method. Copies have the header `weir-mirrored: 1`. The responses are read and
    /// discarded.
    #[derive(Debug)]
    pub struct Mirror is "a mirror" {
        /// Name of the upstream.
        upstream = by_hand(Kind::Format(format::NAME)).required(),
        /// CEL over `request`, `claims` and `consumer`. If the evaluation fails, the request does
        /// not match.
        pub when: Option<Expr> = by_hand(Kind::Format(formats::CEL)).absent("always"),
        /// Share of the requests, sampled at random, from `0.01%` to `100%`.
        // In hundredths of a percent.
        pub part: u32 = by_hand(Kind::Format(format::PERCENT)).name("share").absent("all"),
        /// Maximum size of a copied body, up to 1MiB; requests with a larger body are not mirrored.
        pub body: usize = size().default("64KiB"),
        /// Maximum number of copies per worker that are in preparation or in flight to this
        /// upstream; further requests are not mirrored.
        pub in_flight: usize = integer(1, 10_000).default("32"),
        /// Time from sending a copy to the last byte of its response.
        pub timeout: Duration = positive().default("5s"),
    } given {
        /// The upstream.
        pub upstream: UpstreamId,
    },
    short: Some("upstream"),
    misspellings: &[
        ("percent", "write `share: 5%`"),
        ("weight", "write `share: 5%`"),
        ("by", "mirrored requests are sampled at random: remove it"),
        ("max", "write `in_flight`"),
    ],
}

settings! {
    /// Query edits: first `remove`, then `set`.
    pub(crate) static QUERY is "query edits" {
        /// Parameters to set; each replaces those of the same name. Views of the configuration and
        /// explanations do not show the values.
        set = by_hand(Kind::Table(Names::Parameter, &Kind::Scalar)).redacted(),
        /// Parameters to remove.
        remove = by_hand(Kind::OneOrMany(&Kind::Format(format::PARAMETER))),
    }
}

fn query_mode(node: &Node) -> Option<QueryMode> {
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

/// A share of requests; requests with the same hash key are all in it or all outside.
#[derive(Debug)]
pub struct Share {
    /// In ten-thousandths.
    pub part: u32,
    /// The hash key; requests without it are outside the share.
    pub by: HashKey,
}

/// Path of an upstream request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PathMode {
    /// That of the client's request (normalized).
    #[default]
    Keep,
    /// Without the API's base.
    StripBase,
    /// Composed of parts.
    Template(Vec<PathPart>),
}

/// A part of a path template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPart {
    /// Text, already percent-encoded where it must be.
    Text(String),
    /// A path parameter by name, percent-encoded as a segment; `*` is the part matched by the
    /// wildcard, with its slashes.
    Parameter(String),
}

/// Host header of an upstream request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostMode {
    /// The host of the target.
    #[default]
    Upstream,
    /// That of the client's request.
    Client,
    /// This host.
    Fixed(String),
}

/// Query of an upstream request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryMode {
    /// Unchanged.
    Keep,
    /// None.
    Drop,
    /// Parameters removed by decoded name, then these added, percent-encoded.
    Edit {
        /// Names to remove.
        remove: Vec<String>,
        /// Parameters to set; each replaces those of the same name.
        set: Vec<(String, String)>,
    },
}
