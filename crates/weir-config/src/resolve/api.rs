//! APIs: settings that their routes share.

use super::auth::AUTH_KEY;
use super::cache::{CACHE_KEY, cache};
use super::compression::{COMPRESS_KEY, compression, off};
use super::normalization::{NORMALIZATION_KEY, normalization};
use super::openapi::{OPENAPI_KEY, VALIDATE_KEY};
use super::resubmit::{RESUBMIT_KEY, resubmit};
use super::route::{ROUTE, RouteLimits};
use super::{Fields, Resolver};
use crate::config::headers::ApiEdits;
use crate::config::tracker::capture;
use crate::config::{
    Access, Api, Cache, Capture, Clients, Compression, Cors, HeaderEdits, LimitKey, Limits,
    Location, Origins, PathNormalization, Rate, RateLimit, RateScope, Resubmit,
};
use crate::formats;
use crate::path_pattern;
use ipnet::IpNet;
use std::collections::HashMap;
use std::time::Duration;
use strum::VariantNames;
use weir_document::draft::Member;
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::format::network;
use weir_document::shape::{Key, Kind, format};
use weir_document::source_map::Span;
use weir_expr::Expr;

const LATER: &[&str] = &["explain", "tracker"];

settings! {
    /// A named set of routes under one base path.
    pub(super) static API is "an API" {
        /// Base path. If several match a request, the longest takes it.
        base = by_hand(Kind::Format(formats::BASE)).required(),
        /// Host names of the API; `*.example.com` matches one or more labels in front of
        /// `example.com`.
        hosts = by_hand(Kind::OneOrMany(&Kind::Format(format::HOST))).absent("all hosts"),
        openapi = same(OPENAPI_KEY),
        validate = same(VALIDATE_KEY),
        auth = same(AUTH_KEY),
        path_normalization = same(NORMALIZATION_KEY),
        clients = same(CLIENTS_KEY),
        /// CORS: cross-origin requests of browsers.
        cors = by_hand(Kind::Object(Cors::SHAPE)).absent("no CORS headers"),
        limit = same(LIMIT_KEYS),
        /// Limits of its routes, in place of the server's.
        limits = by_hand(Kind::Object(RouteLimits::SHAPE)),
        compress = same(COMPRESS_KEY),
        cache = same(CACHE_KEY),
        capture = same(capture("that of the Tracker")),
        resubmit = same(RESUBMIT_KEY),
        /// Time to the first byte of a proxied response, in place of the upstream's.
        timeout = by_hand(Kind::Format(format::POSITIVE_DURATION)),
        /// Transformations of requests before the handler.
        request = by_hand(Kind::Object(ApiEdits::SHAPE)),
        /// Transformations of responses after the handler.
        response = by_hand(Kind::Object(ApiEdits::SHAPE)),
        /// The routes.
        routes = by_hand(Kind::List(&Kind::Object(&ROUTE))).required(),
    },
    later: LATER,
    misspellings: &[
        ("host", "write `hosts`"),
        ("path", "the path of an API is its `base`"),
        ("prefix", "write `base`"),
        ("headers", "write `request: {headers: {set: …}}` or `response: {headers: {set: …}}`"),
    ],
}

const LIMIT_LIST: Kind = Kind::OneOrMany(&Kind::Object(&LIMIT));

pub(super) const LIMIT_KEYS: Key = Key::new(
    "limit",
    LIMIT_LIST,
    "Rate limits in addition to the consumer's plan. A request must meet those of the API and those of the route.",
);

pub(super) const CLIENTS_KEY: Key = Key::new(
    "clients",
    Kind::Object(&CLIENTS),
    "IP allow and deny lists. A request must pass those of the API and those of the route.",
);

settings! {
    /// Networks that may and may not send requests. The client address is that reported by trusted
    /// proxies. Other requests get a 403.
    pub(super) static CLIENTS is "the IP lists" {
        /// Networks that may send requests; all others are rejected.
        allow = by_hand(Kind::OneOrMany(&Kind::Format(format::NETWORK))).absent("all"),
        /// Networks that are rejected, also within `allow`.
        deny = by_hand(Kind::OneOrMany(&Kind::Format(format::NETWORK))),
    },
    misspellings: &[
        ("block", "write `deny`"),
        ("whitelist", "write `allow`"),
        ("blacklist", "write `deny`"),
    ],
}

const BUCKET_KEYS: Kind =
    Kind::Either(&[Kind::Enum(&["consumer", "address"]), Kind::Object(&LIMIT_KEY)]);

settings! {
    /// Token bucket: at most burst + rate·t requests are admitted in any interval t.
    pub(super) static LIMIT is "a rate limit" {
        /// Requests per unit of time.
        rate = by_hand(Kind::Format(format::RATE)).required(),
        /// Requests admitted at once.
        burst = by_hand(Kind::Integer(1, 1_000_000_000)).absent("the requests of `rate`"),
        /// Key of the bucket: the consumer (without one, the client address), the client address,
        /// or the string result of a CEL expression.
        key = by_hand(BUCKET_KEYS).default("consumer"),
        /// The rate limits all nodes of a fleet together, or each node by itself.
        scope = by_hand(Kind::Enum(RateScope::VARIANTS)).default("fleet"),
    },
    short: Some("rate"),
}

settings! {
    /// A key computed by an expression.
    pub(super) static LIMIT_KEY is "the key of a rate limit" {
        /// CEL over `request`, `claims` and `consumer`; without a result the key is the client
        /// address.
        cel = by_hand(Kind::Format(formats::CEL)).required(),
    }
}

/// Maximum number of routes of all APIs.
const ROUTES: usize = 100_000;

/// Settings that a route inherits from its API, and an API from the server.
pub(super) struct Inherited<'n> {
    pub(super) api: &'n str,
    /// The API names an OpenAPI document that cannot be read: what depends on the document is not
    /// checked.
    pub(super) lost: bool,
    pub(super) access: Access,
    pub(super) path_normalization: PathNormalization,
    pub(super) clients: Vec<Clients>,
    pub(super) rate_limits: Vec<RateLimit>,
    pub(super) body_limit: u64,
    pub(super) response_limit: Option<u64>,
    pub(super) request_time: Option<Duration>,
    pub(super) first_byte: Option<Duration>,
    pub(super) compress: Compression,
    pub(super) cache: Option<Cache>,
    pub(super) capture: Capture,
    pub(super) resubmit: Resubmit,
    pub(super) request_headers: HeaderEdits,
    pub(super) response_headers: HeaderEdits,
}

impl Resolver<'_> {
    pub(super) fn apis(
        &mut self,
        members: &[&Member],
        limits: &Limits,
        capture: Capture,
    ) -> Vec<Api> {
        let mut apis = Vec::new();
        let mut places: HashMap<(String, String), Span> = HashMap::new();
        let mut routes = 0;
        for member in members {
            routes += member.value.get("routes").and_then(|n| n.items()).map_or(0, <[_]>::len);
            if routes > ROUTES {
                self.report.error(codes::TOO_MANY, member.at, format!("more than {ROUTES} routes"));
                break;
            }
            let api = self.api(member, limits, capture);
            let at = std::mem::take(&mut self.routes_at);
            let Some(api) = api else { continue };
            self.unique(&api, member.at, &mut places);
            self.warn_of_weaker(&api, &at);
            apis.push(api);
        }
        apis
    }

    fn unique(&mut self, api: &Api, at: Span, places: &mut HashMap<(String, String), Span>) {
        let every = [String::new()];
        let hosts = if api.hosts.is_empty() { &every } else { api.hosts.as_slice() };
        for host in hosts {
            if let Some(first) = places.insert((host.clone(), api.base.clone()), at)
                && first != at
            {
                let whose =
                    if host.is_empty() { "all hosts".to_owned() } else { format!("`{host}`") };
                self.report
                    .error(
                        codes::DUPLICATE_API,
                        at,
                        format!("two APIs have {whose} and the base path `{}`", api.base),
                    )
                    .related(first, "the other API")
                    .help("use different `base` paths or `hosts`, or combine the APIs");
            }
        }
    }

    fn api(&mut self, member: &Member, limits: &Limits, capture: Capture) -> Option<Api> {
        let fields = Fields::new(&member.value, &API);
        let base = fields.text("base").and_then(|t| path_pattern::base(t).ok());
        let mut hosts: Vec<String> =
            fields.texts("hosts").iter().map(|h| h.to_ascii_lowercase()).collect();
        hosts.dedup();
        let own = RouteLimits::read(&fields.object_or_empty("limits", RouteLimits::SHAPE));
        let mut described = self.described(&fields);
        let lost = described.is_none() && fields.get("openapi").is_some();
        let access = match described.as_mut().filter(|d| d.maps_schemes()) {
            Some(described) => self.described_access(described, None),
            None if lost => Access::default(),
            None => self.access(&fields).unwrap_or_default(),
        };
        let edits = |key| ApiEdits::read(&fields.object_or_empty(key, ApiEdits::SHAPE)).headers;
        let inherited = Inherited {
            api: &member.key,
            lost,
            access,
            path_normalization: normalization(&fields, PathNormalization::default()),
            clients: self.clients(&fields).into_iter().collect(),
            rate_limits: self.rate_limits(&fields, &member.key),
            body_limit: own.body.unwrap_or(limits.body),
            response_limit: own.answer,
            request_time: own.request.unwrap_or(limits.request),
            first_byte: fields.duration("timeout"),
            compress: compression(&fields).unwrap_or_else(off),
            cache: cache(&fields).flatten(),
            capture: self.capture(&fields).unwrap_or(capture),
            resubmit: resubmit(&fields, &Resubmit::default()),
            request_headers: edits("request"),
            response_headers: edits("response"),
        };
        let cors = fields.object("cors", Cors::SHAPE).and_then(|c| self.cors(&c));
        self.resubmit_targets(&fields, fields.many("routes"));
        let mut routes = self.routes(fields.many("routes"), &inherited, described.as_mut());
        let mut openapi = None;
        if let (Some(described), Some(base)) = (described, &base) {
            openapi = self.finish_description(&described, base);
            let serve = described.serve.as_deref().zip(openapi.as_deref());
            routes.extend(
                serve.and_then(|(path, text)| self.serving(&described, (path, text), &inherited)),
            );
        }
        let file = self.draft.texts.path(member.at.file).to_owned();
        Some(Api {
            name: member.key.clone(),
            hosts,
            base: base?,
            cors,
            routes,
            openapi: openapi.map(String::into_boxed_str),
            location: Location { file, line: member.at.line as usize },
        })
    }

    /// IP lists of an API or a route.
    pub(super) fn clients(&mut self, fields: &Fields<'_>) -> Option<Clients> {
        let fields = fields.object("clients", &CLIENTS)?;
        let networks = |key| -> Vec<IpNet> {
            fields.texts(key).iter().filter_map(|text| network(text)).collect()
        };
        let clients = Clients { allow: networks("allow"), deny: networks("deny") };
        for (node, net) in fields.many("allow").iter().zip(&clients.allow) {
            if clients.deny.iter().any(|denied| denied.contains(net)) {
                let message = format!("`allow: {net}` has no effect: `deny` covers it");
                self.report.warning(codes::UNUSED, node.at, message);
            }
        }
        Some(clients)
    }

    /// The limits under `limit`; `name` is their owner.
    pub(super) fn rate_limits(&mut self, fields: &Fields<'_>, name: &str) -> Vec<RateLimit> {
        let nodes = fields.many("limit");
        let many = nodes.len() > 1;
        nodes
            .iter()
            .enumerate()
            .filter_map(|(i, node)| {
                let limit = Fields::new(node, &LIMIT);
                let key = match limit.object("key", &LIMIT_KEY) {
                    Some(key) => LimitKey::Expr(self.limit_expression(&key)?),
                    None if limit.text("key") == Some("address") => LimitKey::Address,
                    None => LimitKey::Consumer,
                };
                let name = if many { format!("{name}#{}", i + 1) } else { name.to_owned() };
                Some(RateLimit { name, rate: Rate::read_scoped(&limit)?, key })
            })
            .collect()
    }

    fn limit_expression(&mut self, key: &Fields<'_>) -> Option<Expr> {
        self.expression(key.get("cel")?, &["request", "claims", "consumer"])
    }

    fn cors(&mut self, fields: &Fields<'_>) -> Option<Cors> {
        let origins = fields.texts("origins");
        let any = origins.iter().any(|o| o == "*");
        if any && origins.len() > 1 {
            let at = fields.get("origins")?.at;
            self.report.error(codes::CONFLICT, at, "`*` cannot be combined with origins");
        }
        let any_or_list = if any {
            Origins::Any
        } else {
            Origins::List(origins.iter().map(|o| o.to_ascii_lowercase()).collect())
        };
        let cors = Cors::read(fields, any_or_list);
        if any && cors.credentials {
            let at = fields.get("credentials")?.at;
            self.report
                .error(
                    codes::CONFLICT,
                    at,
                    "`credentials` with all origins would let any site act as the user",
                )
                .help("list the origins");
        }
        Some(cors)
    }
}
