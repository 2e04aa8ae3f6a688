//! Upstreams.

use super::credential::CREDENTIAL;
use super::health::HEALTH;
use super::retries::RETRIES;
use super::tls::UPSTREAM_TLS;
use super::{Fields, Resolver};
use crate::config::{Balance, HashKey, Health, Protocol, Scheme, Target, Upstream, UpstreamTls};
use crate::formats;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use weir_document::draft::{Member, Node};
use weir_document::finding::{Fault, codes};
use weir_document::shape::format::target;
use weir_document::shape::typed::{Defaulted, choice, integer, positive};
use weir_document::shape::{Group, Key, Kind, Shape, format};
use weir_document::source_map::Span;
use weir_model::{Choice, UpstreamId};

const PROTOCOL: Defaulted<Protocol> = choice("protocol", "Protocol of the targets: HTTP/1.1, or HTTP/2, which gRPC needs. HTTP/2 over `http` is h2c with prior knowledge; over `https` it is negotiated by ALPN.").default("http1");
const BALANCE: Defaulted<Balance> = choice("balance", "Load balancing method, over the healthy targets by weight: round robin, least connections of two random targets, or rendezvous hashing (`hash`).").default("round-robin");
const CONNECT_TIMEOUT: Defaulted<Duration> =
    positive("connect_timeout", "Time to connect, including the TLS handshake.").default("2s");
const TIMEOUT: Defaulted<Duration> = positive(
    "timeout",
    "Time from the last byte of the request to the first byte of the response.",
)
.default("30s");
const IDLE_TIMEOUT: Defaulted<Duration> =
    positive("idle_timeout", "Time without progress of a body in either direction.").default("60s");
const RESOLVE: Defaulted<Duration> = positive("resolve", "Interval between DNS lookups of target names; minimum 1s. The last addresses stay in use during a lookup and while lookups fail.").default("30s");
const CONNECTIONS: Defaulted<usize> = integer(
    "connections",
    (1, 1_000_000),
    "Maximum number of open connections per target, for all workers.",
)
.default("1024");
const KEEP_ALIVE: Defaulted<usize> = integer(
    "keep_alive",
    (0, 1_000_000),
    "Maximum number of idle connections per target, for all workers.",
)
.default("256");
const KEEP_ALIVE_TIME: Defaulted<Duration> =
    positive("keep_alive_time", "Time for which an idle connection is kept open.").default("50s");

/// A value of `upstreams`.
pub(super) static UPSTREAM: Shape = Shape {
    short: Some("targets"),
    misspellings: &[
        ("url", "write `targets: [\"http://…\"]`"),
        ("target", "write `targets: [\"http://…\"]`"),
        ("grpc", "write `protocol: http2`: gRPC is HTTP/2"),
        ("http2", "write `protocol: http2`"),
        ("servers", "write `targets: [\"http://…\"]`"),
        ("hosts", "write `targets: [\"http://…\"]`"),
    ],
    ..Shape::new(
        "an upstream",
        "A named set of equivalent targets.",
        &[
            Key::new("targets", Kind::List(&Kind::Either(&[Kind::Format(format::TARGET), Kind::Object(&TARGET)])), "Servers, all `http://host:port` or all `https://host:port`; with a weight `{url: …, weight: 5}`. `srv+http://_api._tcp.example.com` is a service: its SRV records (RFC 2782) contain the hosts and ports.").required(),
            PROTOCOL.key,
            BALANCE.key,
            Key::new("hash", Kind::Either(&[Kind::Enum(&["address"]), Kind::Object(&HASH)]), "Hash key of `balance: hash` (sticky sessions): requests with the same value go to the same target while the target is in service, also if other targets change. Requests without a value are balanced round robin."),
            CONNECT_TIMEOUT.key,
            TIMEOUT.key,
            IDLE_TIMEOUT.key,
            RESOLVE.key,
            Key::new("resolver", Kind::Format(format::ADDRESS), "DNS server for services and their hosts: `127.0.0.1:8600`.").absent("those of the system"),
            CONNECTIONS.key,
            KEEP_ALIVE.key,
            KEEP_ALIVE_TIME.key,
            Key::new("health", Kind::Object(&HEALTH), "Health checks and ejection of targets."),
            Key::new("retries", Kind::Object(&RETRIES), "Retries of failed requests, to another target if there is one.").absent("off"),
            Key::new("tls", Kind::Object(&UPSTREAM_TLS), "TLS to `https` targets."),
            Key::new("auth", Kind::Object(&CREDENTIAL), "Credential of weir at the upstream; it replaces that of the client."),
            Key::new("underscores_in_headers", Kind::OneOrMany(&Kind::Format(format::HEADER)), "Request headers to forward although their name has an underscore or a dot; `\"*\"` for all. CGI, WSGI and similar programs cannot distinguish `X_User` (PHP: also `X.User`) from `X-User`, which header edits may remove.").absent("none"),
        ],
    )
};

const TARGET_WEIGHT: Defaulted<u32> =
    integer("weight", (0, 1_000_000), "Relative weight of the target; 0 takes no requests.")
        .default("1");

/// An item of `targets`.
pub(super) static TARGET: Shape = Shape {
    misspellings: &[
        ("target", "write `url`"),
        ("share", "write `weight`, relative to those of the other targets"),
    ],
    ..Shape::new(
        "a weighted target",
        "A server and its weight.",
        &[
            Key::new(
                "url",
                Kind::Format(format::TARGET),
                "`http://host:port` or `https://host:port`.",
            )
            .required(),
            TARGET_WEIGHT.key,
        ],
    )
};

/// `hash` of an upstream.
pub(super) static HASH: Shape = Shape {
    groups: &[Group { keys: &["header", "cel"], required: true }],
    ..Shape::new(
        "the hash key of an upstream",
        "Hash key (sticky sessions): exactly one of these.",
        &[
            Key::new("header", Kind::Format(format::HEADER), "Value of this request header."),
            Key::new(
                "cel",
                Kind::Format(formats::CEL),
                "Result of this expression: CEL over `request`, `claims` and `consumer`.",
            ),
        ],
    )
};

impl Choice for Protocol {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("http1", Self::Http1), ("http2", Self::Http2)];
}

impl Choice for Balance {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("round-robin", Self::RoundRobin), ("least-busy", Self::LeastBusy), ("hash", Self::Hash)];
}

/// A target as written: a URL, or a URL with a weight.
pub(super) fn weighted_target(node: &Node) -> Option<Target> {
    if let Some(url) = node.text() {
        return target(url).ok();
    }
    node.members()?;
    let fields = Fields::new(node, &TARGET);
    let target = target(fields.text("url")?).ok()?;
    Some(Target { weight: fields.read(&TARGET_WEIGHT), ..target })
}

impl Resolver<'_> {
    /// A URL that weir itself requests: its server as a separate upstream, and path and query.
    /// `what` distinguishes the upstream in metrics.
    pub(super) fn url(
        &mut self,
        url: &str,
        node: &Node,
        what: &str,
    ) -> Option<(UpstreamId, String)> {
        let after = url.find("://").map_or(0, |at| at + 3);
        let path = url[after..].find(['/', '?']).map_or(url.len(), |at| after + at);
        let (server, path) = url.split_at(path);
        let fits = |b: u8| b.is_ascii_graphic() && b != b'#';
        let parsed = match target(server) {
            Ok(parsed) if parsed.service.is_some() => {
                self.fault(node, Fault::value("a URL needs a server, not a service"));
                return None;
            }
            Ok(parsed) if path.bytes().all(fits) => parsed,
            Ok(_) => {
                let fault = Fault::value("the URL has a fragment or invalid characters");
                self.fault(node, fault);
                return None;
            }
            Err(fault) => {
                self.fault(node, fault);
                return None;
            }
        };
        if parsed.scheme == Scheme::Http && !is_local(&parsed.host) {
            let fault =
                Fault::value("the response is trusted: `http` is allowed for this machine only")
                    .help("write `https://…`");
            self.fault(node, fault);
            return None;
        }
        let tls = match parsed.scheme {
            Scheme::Https => Some(self.upstream_tls(None, node.at)?),
            Scheme::Http => None,
        };
        // After the configured upstreams, whether they could be resolved or not.
        let id = UpstreamId(self.upstreams.len() + self.servers.len());
        self.servers.push(Upstream {
            name: format!("{what}:{}", parsed.authority),
            protocol: Protocol::Http1,
            targets: vec![parsed],
            balance: Balance::RoundRobin,
            hash: None,
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(2),
            resolve: Duration::from_secs(30),
            resolver: None,
            connections: 64,
            keep_alive: 4,
            keep_alive_time: Duration::from_secs(50),
            health: Health {
                failures: 0,
                errors: None,
                pause: Duration::ZERO,
                check: None,
                max_ejected: 10_000,
            },
            retries: None,
            tls,
            credential: None,
            underscores_in_headers: Vec::new(),
        });
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Some((id, path))
    }

    pub(super) fn upstream(&mut self, member: &Member) -> Option<Upstream> {
        let fields = Fields::new(&member.value, &UPSTREAM);
        let targets = self.targets(&fields, member.at)?;
        let protocol = fields.read(&PROTOCOL);
        let tls = self.tls(&fields, &targets, member.at)?;
        if protocol == Protocol::Http2 {
            self.http2.push(member.key.clone());
        }
        let has_service = targets.iter().any(|target| target.service.is_some());
        if has_service {
            self.services.push(member.key.clone());
        }
        let resolver = self.resolver(&fields, has_service);
        let health =
            self.health(&fields, targets.iter().filter(|target| target.weight > 0).count());
        let (balance, hash) = self.balance(&fields)?;
        let timeout = fields.read(&TIMEOUT);
        let several = targets.iter().filter(|target| target.weight > 0).count() > 1;
        let retries = fields
            .object("retries", &RETRIES)
            .map(|fields| self.retries(&fields, timeout, several));
        let resolve = fields.read(&RESOLVE);
        if let Some(node) =
            fields.get("resolve").filter(|_| (1..1000).contains(&resolve.as_millis()))
        {
            self.report
                .error(codes::BAD_VALUE, node.at, "`resolve` must be at least 1s")
                .help("write `1s` or more");
        }
        Some(Upstream {
            resolve,
            resolver,
            name: member.key.clone(),
            protocol,
            targets,
            balance,
            hash,
            connect_timeout: fields.read(&CONNECT_TIMEOUT),
            timeout,
            idle_timeout: fields.read(&IDLE_TIMEOUT),
            connections: fields.read(&CONNECTIONS),
            keep_alive: fields.read(&KEEP_ALIVE),
            keep_alive_time: fields.read(&KEEP_ALIVE_TIME),
            health,
            retries,
            tls,
            credential: match fields.object("auth", &CREDENTIAL) {
                Some(auth) => Some(self.credential(&auth)?),
                None => None,
            },
            underscores_in_headers: {
                let names = fields.texts("underscores_in_headers");
                names.iter().map(|name| name.to_ascii_lowercase()).collect()
            },
        })
    }

    /// The targets: all of one scheme, and at least one receives requests.
    fn targets(&mut self, fields: &Fields<'_>, at: Span) -> Option<Vec<Target>> {
        let targets: Vec<Target> =
            fields.many("targets").iter().filter_map(weighted_target).collect();
        let at = fields.get("targets").map_or(at, |n| n.at);
        if !targets.is_empty() && targets.iter().all(|target| target.weight == 0) {
            self.report
                .error(codes::CONFLICT, at, "all targets have weight 0: none receives requests")
                .help("remove `weight` of the targets in use");
            return None;
        }
        let first = targets.first()?;
        if targets.iter().any(|t| t.scheme != first.scheme) {
            self.report
                .error(codes::CONFLICT, at, "targets must be all `http` or all `https`")
                .help("use two upstreams");
            return None;
        }
        Some(targets)
    }

    /// TLS of `https` targets. The outer `None`: a finding has the reason.
    fn tls(
        &mut self,
        fields: &Fields<'_>,
        targets: &[Target],
        at: Span,
    ) -> Option<Option<UpstreamTls>> {
        let tls = fields.object("tls", &UPSTREAM_TLS);
        if targets.first()?.scheme == Scheme::Http {
            if let Some(tls) = tls {
                self.report
                    .error(codes::CONFLICT, tls.node().at, "`tls` needs `https` targets")
                    .help("write `https://…`, or remove `tls`");
            }
            return Some(None);
        }
        Some(Some(self.upstream_tls(tls, at)?))
    }

    /// The DNS server of an upstream with services.
    fn resolver(&mut self, fields: &Fields<'_>, has_service: bool) -> Option<SocketAddr> {
        let node = fields.get("resolver")?;
        let address: SocketAddr = node.text()?.parse().ok()?;
        if address.port() == 0 {
            self.fault(
                node,
                Fault::value("port 0 is not allowed").help("the standard port is `53`"),
            );
            return None;
        }
        if !has_service {
            self.report
                .error(codes::CONFLICT, node.at, "`resolver` needs a target with a service")
                .help("write `srv+http://…`, or remove `resolver`");
            return None;
        }
        Some(address)
    }

    fn balance(&mut self, fields: &Fields<'_>) -> Option<(Balance, Option<HashKey>)> {
        let balance = fields.read(&BALANCE);
        let node = match (balance, fields.get("hash")) {
            (Balance::Hash, None) => {
                let node = fields.get("balance")?;
                self.report
                    .error(codes::MISSING_KEY, node.at, "`balance: hash` needs `hash`")
                    .help("add `hash: {header: x-user}`, `{cel: …}` or `address`");
                return None;
            }
            (Balance::Hash, Some(node)) => node,
            (_, Some(node)) => {
                self.report
                    .error(codes::CONFLICT, node.at, "`hash` needs `balance: hash`")
                    .help("write `balance: hash`, or remove `hash`");
                return None;
            }
            (_, None) => return Some((balance, None)),
        };
        Some((balance, Some(self.hash_key(node)?)))
    }

    /// The hash key of requests.
    pub(super) fn hash_key(&mut self, node: &Node) -> Option<HashKey> {
        if node.members().is_none() {
            return (node.text() == Some("address")).then_some(HashKey::Address);
        }
        let by = Fields::new(node, &HASH);
        Some(match by.text("header") {
            Some(name) => HashKey::Header(name.to_ascii_lowercase()),
            None => HashKey::Expr(self.expression(by.get("cel")?, &weir_expr::VARIABLES)?),
        })
    }
}

/// Whether a host is this machine, so that traffic cannot be intercepted.
pub(super) fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
