//! APIs: what their routes have in common.

use super::keys;
use super::normalization::normalization;
use super::resubmit::resubmit;
use super::{Fields, Resolver, headers, plan, server};
use crate::config::{
    Access, Api, Cache, Capture, Clients, Compression, ContentCoding, Cors, Credentials,
    HeaderEdits, LimitKey, Limits, Location, Origins, PathNormalization, RateLimit, Resubmit,
};
use crate::draft::Member;
use crate::expr::Expr;
use crate::finding::codes;
use crate::path_pattern;
use crate::shape::network;
use crate::source_map::Span;
use ipnet::IpNet;
use std::collections::HashMap;
use std::time::Duration;

/// Most routes of all APIs together.
const ROUTES: usize = 100_000;

/// What a route inherits from its API, and an API from the server.
pub(super) struct Inherited<'n> {
    pub(super) api: &'n str,
    /// It names a description that cannot be read: what only that could tell is not judged.
    pub(super) lost: bool,
    pub(super) access: Access,
    pub(super) path_normalization: PathNormalization,
    pub(super) clients: Vec<Clients>,
    pub(super) rate_limits: Vec<RateLimit>,
    pub(super) body_limit: u64,
    pub(super) answer_limit: Option<u64>,
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
        let fields = Fields::new(&member.value, &keys::API);
        let base = fields.text("base").and_then(|t| path_pattern::base(t).ok());
        let mut hosts: Vec<String> =
            fields.texts("hosts").iter().map(|h| h.to_ascii_lowercase()).collect();
        hosts.dedup();
        let own = fields.object("limits", &keys::ROUTE_LIMITS);
        let mut described = self.described(&fields);
        let lost = described.is_none() && fields.get("openapi").is_some();
        let access = match described.as_mut().filter(|d| d.maps_schemes()) {
            Some(described) => self.described_access(described, None),
            None if lost => Access::default(),
            None => self.access(&fields).unwrap_or_default(),
        };
        let inherited = Inherited {
            api: &member.key,
            lost,
            access,
            path_normalization: normalization(&fields, PathNormalization::default()),
            clients: self.clients(&fields).into_iter().collect(),
            rate_limits: self.rate_limits(&fields, &member.key),
            body_limit: own.and_then(|l| l.size("body")).unwrap_or(limits.body),
            answer_limit: own.and_then(|l| l.size("answer")),
            request_time: own.map_or(limits.request, |l| server::request_time(&l, limits.request)),
            first_byte: fields.duration("timeout"),
            compress: compression(&fields).unwrap_or(OFF),
            cache: cache(&fields).flatten(),
            capture: self.capture(&fields).unwrap_or(capture),
            resubmit: resubmit(&fields, &Resubmit::default()),
            request_headers: headers::edits(fields.object("request", &keys::API_EDITS)),
            response_headers: headers::edits(fields.object("response", &keys::API_EDITS)),
        };
        let cors = fields.object("cors", &keys::CORS).and_then(|c| self.cors(&c));
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

    /// From where it may be called.
    pub(super) fn clients(&mut self, fields: &Fields<'_>) -> Option<Clients> {
        let fields = fields.object("clients", &keys::CLIENTS)?;
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

    /// The limits under `limit`; `name` is whose they are.
    pub(super) fn rate_limits(&mut self, fields: &Fields<'_>, name: &str) -> Vec<RateLimit> {
        let nodes = fields.many("limit");
        let many = nodes.len() > 1;
        nodes
            .iter()
            .enumerate()
            .filter_map(|(i, node)| {
                let limit = Fields::new(node, &keys::LIMIT);
                let key = match limit.object("key", &keys::LIMIT_KEY) {
                    Some(key) => LimitKey::Expr(self.limit_expression(&key)?),
                    None if limit.text("key") == Some("address") => LimitKey::Address,
                    None => LimitKey::Consumer,
                };
                let name = if many { format!("{name}#{}", i + 1) } else { name.to_owned() };
                Some(RateLimit { name, rate: plan::rate(&limit)?, key })
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
        let credentials = fields.bool("credentials").unwrap_or(false);
        if any && credentials {
            let at = fields.get("credentials")?.at;
            self.report
                .error(
                    codes::CONFLICT,
                    at,
                    "`credentials` with all origins would let any site act for the user",
                )
                .help("list the origins");
        }
        let lower = |key| fields.texts(key).iter().map(|h| h.to_ascii_lowercase()).collect();
        Some(Cors {
            origins: if any {
                Origins::Any
            } else {
                Origins::List(origins.iter().map(|o| o.to_ascii_lowercase()).collect())
            },
            methods: fields.texts("methods").iter().map(|m| m.to_ascii_uppercase()).collect(),
            headers: lower("headers"),
            expose: lower("expose"),
            credentials,
            max_age: fields.seconds("max_age", 600),
        })
    }
}

const OFF: Compression = Compression {
    enabled: false,
    min_size: 1024,
    level: 1,
    codings: [Some(ContentCoding::Zstd), Some(ContentCoding::Br), Some(ContentCoding::Gzip)],
};

/// `compress` of an API or a route.
pub(super) fn compression(fields: &Fields<'_>) -> Option<Compression> {
    fields.get("compress")?;
    Some(match fields.object("compress", &keys::COMPRESS) {
        Some(own) => Compression {
            enabled: true,
            min_size: own.size("min_size").unwrap_or(OFF.min_size),
            level: own.number("level", OFF.level),
            codings: codings(&own),
        },
        None => Compression { enabled: fields.bool("compress").unwrap_or(false), ..OFF },
    })
}

/// Those that are named, each once, in their order.
fn codings(fields: &Fields<'_>) -> [Option<ContentCoding>; 3] {
    if fields.get("codings").is_none() {
        return OFF.codings;
    }
    let mut codings = [None; 3];
    let mut free = 0;
    for name in fields.texts("codings") {
        let coding = ContentCoding::ALL.into_iter().find(|coding| coding.name() == name);
        if coding.is_some() && !codings.contains(&coding) {
            codings[free] = coding;
            free += 1;
        }
    }
    codings
}

/// `cache` of an API or a route: `None` if nothing is said, `Some(None)` if there is to be none.
pub(super) fn cache(fields: &Fields<'_>) -> Option<Option<Cache>> {
    fields.get("cache")?;
    let own = fields.object("cache", &keys::CACHE);
    if own.is_none() && fields.bool("cache") != Some(true) {
        return Some(None);
    }
    Some(Some(Cache {
        memory: own.and_then(|own| own.size("memory")).unwrap_or(16 << 20),
        entry: own.and_then(|own| own.size("entry")).unwrap_or(1 << 20),
        ttl: own.and_then(|own| own.duration("ttl")),
        credentials: match own.and_then(|own| own.text("credentials")) {
            Some("shared") => Credentials::Shared,
            Some("each") => Credentials::Each,
            _ => Credentials::None,
        },
    }))
}
