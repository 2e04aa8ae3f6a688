//! Upstreams.

use super::{Fields, Resolver};
use crate::config::credential::CREDENTIAL;
use crate::config::tls::UPSTREAM_TLS;
use crate::config::upstream::{HASH, WeightedTarget};
use crate::config::{
    Balance, HashKey, Health, Protocol, Retries, Scheme, Target, Upstream, UpstreamTls,
};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use weir_document::draft::{Member, Node};
use weir_document::finding::{Fault, codes};
use weir_document::shape::format::target;
use weir_document::source_map::Span;
use weir_model::UpstreamId;

/// A target as written: a URL, or a URL with a weight.
pub(super) fn weighted_target(node: &Node) -> Option<Target> {
    if let Some(url) = node.text() {
        return target(url).ok();
    }
    node.members()?;
    let fields = Fields::new(node, WeightedTarget::SHAPE);
    let target = target(fields.text("url")?).ok()?;
    Some(Target { weight: WeightedTarget::read(&fields).weight, ..target })
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
        let name = format!("{what}:{}", parsed.authority);
        self.servers.push(Upstream {
            targets: vec![parsed],
            timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(2),
            connections: 64,
            keep_alive: 4,
            health: Health { failures: 0, pause: Duration::ZERO, ..Health::default() },
            tls,
            ..Upstream::read(&Fields::empty(Upstream::SHAPE), name)
        });
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Some((id, path))
    }

    pub(super) fn upstream(&mut self, member: &Member) -> Option<Upstream> {
        let fields = Fields::new(&member.value, Upstream::SHAPE);
        let targets = self.targets(&fields, member.at)?;
        let upstream = Upstream::read(&fields, member.key.clone());
        let tls = self.tls(&fields, &targets, member.at)?;
        if upstream.protocol == Protocol::Http2 {
            self.http2.push(member.key.clone());
        }
        let has_service = targets.iter().any(|target| target.service.is_some());
        if has_service {
            self.services.push(member.key.clone());
        }
        let resolver = self.resolver(&fields, has_service);
        let in_use = targets.iter().filter(|target| target.weight > 0).count();
        let health = self.health(&fields, in_use);
        let hash = self.hash(&fields, upstream.balance)?;
        let retries = fields
            .object("retries", Retries::SHAPE)
            .map(|fields| self.retries(&fields, upstream.timeout, in_use > 1));
        if let Some(node) =
            fields.get("resolve").filter(|_| (1..1000).contains(&upstream.resolve.as_millis()))
        {
            self.report
                .error(codes::BAD_VALUE, node.at, "`resolve` must be at least 1s")
                .help("write `1s` or more");
        }
        let credential = match fields.object("auth", &CREDENTIAL) {
            Some(auth) => Some(self.credential(&auth)?),
            None => None,
        };
        Some(Upstream { targets, hash, resolver, health, retries, tls, credential, ..upstream })
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

    /// The hash key of an upstream. The outer `None`: a finding has the reason.
    fn hash(&mut self, fields: &Fields<'_>, balance: Balance) -> Option<Option<HashKey>> {
        match (balance, fields.get("hash")) {
            (Balance::Hash, None) => {
                let node = fields.get("balance")?;
                self.report
                    .error(codes::MISSING_KEY, node.at, "`balance: hash` needs `hash`")
                    .help("add `hash: {header: x-user}`, `{cel: …}` or `address`");
                None
            }
            (Balance::Hash, Some(node)) => self.hash_key(node).map(Some),
            (_, Some(node)) => {
                self.report
                    .error(codes::CONFLICT, node.at, "`hash` needs `balance: hash`")
                    .help("write `balance: hash`, or remove `hash`");
                None
            }
            (_, None) => Some(None),
        }
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
