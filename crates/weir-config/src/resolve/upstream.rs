//! Upstreams.

use super::keys;
use super::{Fields, Resolver};
use crate::config::{
    Balance, Credential, HashKey, Health, Protocol, RetriedMethods, Retries, Scheme, Target,
    Upstream, UpstreamId,
};
use crate::draft::{Member, Node};
use crate::finding::{Fault, codes};
use crate::shape::{Form, target};
use crate::units;
use base64::prelude::{BASE64_STANDARD, Engine};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A target as it is written: its URL, or that with a weight.
pub(super) fn weighted_target(node: &Node) -> Option<Target> {
    if let Some(url) = node.text() {
        return target(url).ok();
    }
    node.members()?;
    let fields = Fields::new(node, &keys::TARGET);
    let target = target(fields.text("url")?).ok()?;
    Some(Target { weight: fields.number("weight", 1), ..target })
}

impl Resolver<'_> {
    /// A URL that weir itself asks: the server as an upstream of its own, and path and query.
    /// `what` tells it apart in metrics.
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
        // Behind those that are written, whether they could be resolved or not.
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
                most_out: 10_000,
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
        let fields = Fields::new(&member.value, &keys::UPSTREAM);
        let targets: Vec<Target> =
            fields.many("targets").iter().filter_map(weighted_target).collect();
        if !targets.is_empty() && targets.iter().all(|target| target.weight == 0) {
            let at = fields.get("targets").map_or(member.at, |n| n.at);
            self.report
                .error(codes::CONFLICT, at, "all targets have weight 0: none receives requests")
                .help("remove `weight` of the targets in use");
            return None;
        }
        let first = targets.first()?;
        if targets.iter().any(|t| t.scheme != first.scheme) {
            let at = fields.get("targets").map_or(member.at, |n| n.at);
            self.report
                .error(codes::CONFLICT, at, "targets must be all `http` or all `https`")
                .help("use two upstreams");
            return None;
        }
        let https = first.scheme == Scheme::Https;
        let tls = fields.object("tls", &keys::UPSTREAM_TLS);
        if let (Some(tls), false) = (tls, https) {
            self.report
                .error(codes::CONFLICT, tls.node().at, "`tls` needs `https` targets")
                .help("write `https://…`, or remove `tls`");
        }
        let mut tls = if https { Some(self.upstream_tls(tls, member.at)?) } else { None };
        let protocol = match fields.text("protocol") {
            Some("http2") => Protocol::Http2,
            _ => Protocol::Http1,
        };
        if protocol == Protocol::Http2 {
            self.http2.push(member.key.clone());
            if let Some(tls) = &mut tls {
                Arc::make_mut(&mut tls.client).alpn_protocols = vec![b"h2".to_vec()];
            }
        }
        let has_service = targets.iter().any(|target| target.service.is_some());
        if has_service {
            self.services.push(member.key.clone());
        }
        let resolver = self.resolver(&fields, has_service);
        let health =
            self.health(&fields, targets.iter().filter(|target| target.weight > 0).count());
        let (balance, hash) = self.balance(&fields)?;
        let timeout = fields.seconds("timeout", 30);
        let several = targets.iter().filter(|target| target.weight > 0).count() > 1;
        let retries = fields
            .object("retries", &keys::RETRIES)
            .map(|fields| self.retries(&fields, timeout, several));
        let resolve = fields.seconds("resolve", 30);
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
            connect_timeout: fields.seconds("connect_timeout", 2),
            timeout,
            idle_timeout: fields.seconds("idle_timeout", 60),
            connections: fields.number("connections", 1024),
            keep_alive: fields.number("keep_alive", 256),
            keep_alive_time: fields.seconds("keep_alive_time", 50),
            health,
            retries,
            tls,
            credential: match fields.object("auth", &keys::CREDENTIAL) {
                Some(auth) => Some(self.credential(&auth)?),
                None => None,
            },
            underscores_in_headers: {
                let names = fields.texts("underscores_in_headers");
                names.iter().map(|name| name.to_ascii_lowercase()).collect()
            },
        })
    }

    /// The DNS server that the services of an upstream are asked of.
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
        let balance = match fields.text("balance") {
            Some("least-busy") => Balance::LeastBusy,
            Some("hash") => Balance::Hash,
            _ => Balance::RoundRobin,
        };
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

    /// What requests are kept together by.
    pub(super) fn hash_key(&mut self, node: &Node) -> Option<HashKey> {
        if node.members().is_none() {
            return (node.text() == Some("address")).then_some(HashKey::Address);
        }
        let by = Fields::new(node, &keys::HASH);
        Some(match by.text("header") {
            Some(name) => HashKey::Header(name.to_ascii_lowercase()),
            None => HashKey::Expr(self.expression(by.get("cel")?, &crate::expr::VARIABLES)?),
        })
    }

    /// `timeout` is that of the upstream, which has `several` targets or not.
    fn retries(&mut self, fields: &Fields<'_>, timeout: Duration, several: bool) -> Retries {
        let own = fields.get("timeout").zip(fields.duration("timeout"));
        if let Some((node, _)) = own.filter(|(_, own)| *own > timeout) {
            let message = "`timeout` has no effect: the `timeout` of the upstream is shorter";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        let hedge = fields.get("hedge").zip(fields.duration("hedge"));
        let longest = own.map_or(timeout, |(_, own)| own.min(timeout));
        if let Some((node, _)) = hedge.filter(|_| !several) {
            let message = "`hedge` has no effect: the upstream has one target";
            self.report.warning(codes::UNUSED, node.at, message);
        } else if let Some((node, _)) = hedge.filter(|(_, hedge)| *hedge >= longest) {
            let message = "`hedge` has no effect: the timeout of an attempt is not longer";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        let budget = fields.text("budget").and_then(|text| units::percent(text).ok());
        let (budget, minimum) = (budget.unwrap_or(2000), fields.number("minimum", 3));
        if budget == 0 && minimum == 0 {
            let message = "retries are off: the retry budget is 0";
            let at = fields.node().at;
            self.report.warning(codes::UNUSED, at, message).help("remove `retries`");
        }
        let statuses = match fields.text("statuses") {
            Some("none") => Vec::new(),
            _ => fields.numbers("statuses").unwrap_or_else(|| vec![502, 503, 504]),
        };
        Retries {
            tries: fields.number("tries", 3),
            statuses,
            timeout: own.map(|(_, own)| own),
            budget,
            minimum,
            hedge: hedge.map(|(_, hedge)| hedge),
            backoff: fields.duration("backoff").unwrap_or(Duration::from_millis(25)),
            methods: match fields.text("methods") {
                Some("any") => RetriedMethods::Any,
                _ => RetriedMethods::Idempotent,
            },
        }
    }

    pub(super) fn credential(&mut self, fields: &Fields<'_>) -> Option<Credential> {
        let (header, value, node) = if let Some(basic) = fields.object("basic", &keys::BASIC) {
            let (user, password) = (basic.line("user")?, basic.line("password")?);
            if user.contains(':') {
                let node = basic.get("user")?;
                self.fault(node, Fault::value("a user name must not contain a colon (RFC 7617)"));
                return None;
            }
            let pair = BASE64_STANDARD.encode(format!("{user}:{password}"));
            ("authorization".to_owned(), format!("Basic {pair}"), basic.node())
        } else if let Some(token) = fields.line("bearer") {
            ("authorization".to_owned(), format!("Bearer {token}"), fields.get("bearer")?)
        } else {
            let header = fields.object("header", &keys::CREDENTIAL_HEADER)?;
            let (name, value) = (header.line("name")?, header.line("value")?);
            (name.to_ascii_lowercase(), value.to_owned(), header.get("value")?)
        };
        if let Err(fault) = Form::HeaderValue.check(&value) {
            self.fault(node, fault);
            return None;
        }
        Some(Credential { header, value })
    }
}

/// Whether a host is this machine, so that nobody reads what is sent there.
pub(super) fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
