//! The fleet.

mod url;

use super::upstream::is_local;
use super::{Fields, Resolver};
use crate::config::fleet::{POSTGRES, REDIS};
use crate::config::tls::UPSTREAM_TLS;
use crate::config::{
    Admin, ClientCertificates, Fleet, FleetRateMode, FleetRates, Peers, Postgres, PostgresServer,
    Redis, TlsSource, UpstreamTls,
};
use std::time::Duration;
use url::{PostgresUrl, RedisUrl};
use weir_document::finding::{Fault, codes};

/// Minimum length of the shared secret in bytes (RFC 2104 section 3: the length of the hash).
const MIN_KEY_BYTES: usize = 32;
/// Shortest and longest validity of leased tokens: a lease survives its round trip, and the bound on
/// rates means something.
const LEASE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));
/// Longest wait of a request for tokens.
const MAX_TIMEOUT: Duration = Duration::from_secs(1);

impl Resolver<'_> {
    /// `fleet`.
    pub(super) fn fleet(&mut self, root: &Fields<'_>) -> Option<Fleet> {
        let fields = root.object("fleet", Fleet::SHAPE)?;
        let redis = match fields.object("redis", &REDIS) {
            Some(redis) => self.redis(&redis).map(Some),
            None => Some(None),
        };
        let postgres = self.postgres(&fields.object("postgres", &POSTGRES)?)?;
        let peers = self.peers(&fields)?;
        let fleet = Fleet::read(&fields, postgres, peers, redis?);
        self.check_rates(&fields, &fleet);
        Some(fleet)
    }

    fn check_rates(&mut self, fields: &Fields<'_>, fleet: &Fleet) {
        let Some(rates) = fields.object("rates", FleetRates::SHAPE) else { return };
        let FleetRates { mode, lease, timeout, .. } = fleet.rates;
        if let (FleetRateMode::Redis, None, Some(node)) = (mode, &fleet.redis, rates.get("mode")) {
            self.report
                .error(codes::MISSING_KEY, node.at, "`mode: redis` needs `fleet.redis`")
                .help("write `redis: {url: \"redis://HOST:6379\"}`");
        }
        if let (Some(node), false) = (rates.get("lease"), (LEASE.0..=LEASE.1).contains(&lease)) {
            self.report.error(codes::BAD_VALUE, node.at, "not between 50ms and 10s");
        }
        let Some(node) = rates.get("timeout").or_else(|| rates.get("lease")) else { return };
        if timeout > MAX_TIMEOUT {
            self.report.error(codes::BAD_VALUE, node.at, "longer than 1s");
        } else if timeout >= lease {
            let message = "`timeout` must be shorter than `lease`";
            self.report
                .error(codes::CONFLICT, node.at, message)
                .help("tokens that arrive after `lease` are not valid any more");
        }
    }

    /// How nodes query each other, `Some(None)` for not at all; `None` with a finding.
    fn peers(&mut self, fields: &Fields<'_>) -> Option<Option<Peers>> {
        let (key, advertise) = match (fields.get("key"), fields.get("advertise")) {
            (Some(key), Some(advertise)) => (key, advertise),
            (None, None) => return Some(None),
            (key, advertise) => {
                let node = key.or(advertise)?;
                self.report
                    .error(codes::MISSING_KEY, node.at, "`key` and `advertise` need each other")
                    .help("nodes query each other at their URLs, with requests signed by the key");
                return None;
            }
        };
        let secret = fields.line("key")?.to_owned();
        if secret.len() < MIN_KEY_BYTES {
            let message = format!("the key needs at least {MIN_KEY_BYTES} bytes");
            let help = "`openssl rand -base64 32` makes one; all nodes have the same";
            self.fault(key, Fault::value(message).help(help));
            return None;
        }
        let plain = fields.bool("plain") == Some(true);
        let url = match url::advertised(advertise.text()?.trim_end(), plain) {
            Ok(url) => url,
            Err(fault) => {
                self.fault(advertise, fault);
                return None;
            }
        };
        let tls = fields.object("tls", &UPSTREAM_TLS);
        let tls = match url.https || tls.is_some() {
            true => Some(self.upstream_tls(tls, fields.node().at)?),
            false => None,
        };
        let clients = tls.as_ref().and_then(|tls| self.node_certificates(tls));
        Some(Some(Peers { key: secret, advertise: url, tls, clients }))
    }

    /// The certificates of other nodes, if this node has one of its own and an authority. People have
    /// none, so the admin listener requests one without requiring it.
    fn node_certificates(&mut self, tls: &UpstreamTls) -> Option<ClientCertificates> {
        let (ca, identity) = (tls.ca.clone()?, tls.identity.as_ref()?);
        let clients =
            ClientCertificates { ca, revoked: Vec::new(), optional: true, at: identity.at };
        self.uncompiled.tls.push(TlsSource::Clients(clients.clone()));
        Some(clients)
    }

    /// Certificates of other nodes are verified by the TLS of the admin listener.
    pub(super) fn warn_of_node_certificates(&mut self, fleet: Option<&Fleet>, admin: &Admin) {
        let peers = fleet.and_then(|fleet| fleet.peers.as_ref());
        let Some(clients) = peers.and_then(|peers| peers.clients.as_ref()) else { return };
        if let Some(own) = &admin.clients {
            let message = "`fleet.tls` with `ca`, `cert` and `key` already sets the certificates that the admin listener verifies";
            self.report
                .error(codes::CONFLICT, own.at, message)
                .help("remove `admin.client_certificates`, or `cert` and `key` of `fleet.tls`");
        }
        if admin.tls.is_none() {
            let message =
                "the admin listener has no `tls`: certificates of other nodes are not verified";
            self.report
                .warning_if_valid(codes::ADMIN_WITHOUT_TLS, clients.at, message)
                .help("set `admin.tls`; where a proxy ends TLS, the proxy has to verify them");
        }
    }

    fn postgres(&mut self, fields: &Fields<'_>) -> Option<Postgres> {
        let mut found: Option<(Vec<PostgresServer>, String, String)> = None;
        for node in fields.many("url") {
            let parsed = PostgresUrl::parse(node.text()?.trim_end());
            let PostgresUrl { server, user, database } = match parsed {
                Ok(url) => url,
                Err(fault) => {
                    self.fault(node, fault);
                    return None;
                }
            };
            match &mut found {
                None => found = Some((vec![server], user, database)),
                Some((servers, of, at)) if (&*of, &*at) == (&user, &database) => {
                    servers.push(server)
                }
                Some(_) => {
                    let message = "all URLs must have the same user and database";
                    self.report.error(codes::CONFLICT, node.at, message);
                    return None;
                }
            }
        }
        let (servers, user, database) = found?;
        let is_near = servers.iter().all(|server| is_local(&server.host));
        let tls = self.engine_tls(fields, is_near, false)?;
        let password = fields.line("password").map(str::to_owned);
        Some(Postgres { servers, user, database, password, tls })
    }

    fn redis(&mut self, fields: &Fields<'_>) -> Option<Redis> {
        let node = fields.get("url")?;
        let RedisUrl { host, port, database, tls } = match RedisUrl::parse(node.text()?.trim_end())
        {
            Ok(url) => url,
            Err(fault) => {
                self.fault(node, fault);
                return None;
            }
        };
        let tls = self.engine_tls(fields, is_local(&host), tls)?;
        let user = fields.text("user").map(str::to_owned);
        let password = fields.line("password").map(str::to_owned);
        if let (Some(node), None) = (fields.get("user"), &password) {
            self.report.error(codes::MISSING_KEY, node.at, "`user` needs `password`");
            return None;
        }
        Some(Redis { host, port, database, user, password, tls })
    }

    /// The TLS of connections to an engine, `Some(None)` for none; `None` with a finding. It is left out
    /// on this machine (`is_near`) unless it is `requested`, and where `plain` says so.
    pub(super) fn engine_tls(
        &mut self,
        fields: &Fields<'_>,
        is_near: bool,
        requested: bool,
    ) -> Option<Option<UpstreamTls>> {
        let tls = fields.object("tls", &UPSTREAM_TLS);
        let plain = fields.bool("plain") == Some(true);
        let of_url = requested.then(|| fields.get("url")).flatten();
        if let (true, Some(own)) = (plain, tls.as_ref().map(Fields::node).or(of_url)) {
            let message = "`plain` and TLS exclude each other";
            self.report.error(codes::CONFLICT, own.at, message);
            return None;
        }
        if plain || (tls.is_none() && is_near && !requested) {
            return Some(None);
        }
        self.upstream_tls(tls, fields.node().at).map(Some)
    }
}
