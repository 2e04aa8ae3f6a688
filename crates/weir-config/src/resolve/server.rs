//! Listeners, admin, limits, drain, log.

use super::keys;
use super::{Fields, Resolver, place, plan};
use crate::config::{
    AccessLog, Admin, ClientCertificates, Drain, Limits, Listener, LogFormat, LogTarget, Rate, Tls,
};
use crate::draft::{Data, Node};
use crate::finding::codes;
use crate::shape::network;
use ipnet::IpNet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Threads that serve requests: as written, or one a core.
pub(super) fn workers(root: &Fields<'_>) -> usize {
    root.integer("workers").and_then(|n| usize::try_from(n).ok()).unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
    })
}

/// `none` is no limit; absent is `default`.
pub(super) fn request_time(fields: &Fields<'_>, default: Option<Duration>) -> Option<Duration> {
    match fields.text("request") {
        Some("none") => None,
        _ => fields.duration("request").or(default),
    }
}

/// Headers of trusted peers that are believed unless the listener lists others.
fn believed() -> Vec<String> {
    ["forwarded", "x-forwarded-for", "x-forwarded-proto"].map(str::to_owned).to_vec()
}

fn networks(texts: &[String]) -> Vec<IpNet> {
    texts.iter().filter_map(|text| network(text)).collect()
}

/// A listener without TLS that trusts nobody.
fn plain(addr: SocketAddr) -> Listener {
    Listener {
        addr,
        tls: None,
        clients: None,
        trust: Vec::new(),
        trust_headers: believed(),
        proxy_protocol: None,
    }
}

impl Resolver<'_> {
    pub(super) fn listeners(&mut self, root: &Fields<'_>) -> Vec<Listener> {
        let mut listeners: Vec<Listener> = Vec::new();
        let mut places = Vec::new();
        for node in root.many("listen") {
            let Some(listener) = self.listener(node) else { continue };
            let twice =
                listeners.iter().position(|l| l.addr == listener.addr && l.addr.port() != 0);
            if let Some(first) = twice {
                self.report
                    .error(
                        codes::DUPLICATE_NAME,
                        node.at,
                        format!("duplicate listener `{}`", listener.addr),
                    )
                    .related(places[first], "first here");
            }
            places.push(node.at);
            listeners.push(listener);
        }
        if root.get("listen").is_none() {
            let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
            listeners.push(plain(addr));
        }
        listeners
    }

    fn listener(&mut self, node: &Node) -> Option<Listener> {
        if node.members().is_none() {
            let addr = node.text()?.parse().ok()?;
            return Some(plain(addr));
        }
        let fields = Fields::new(node, &keys::LISTENER);
        let tls = match fields.get("tls") {
            None => None,
            Some(node) => Some(self.listener_tls(node)?),
        };
        let clients = match fields.object("client_certificates", &keys::CLIENT_CERTIFICATES) {
            None => None,
            Some(clients) => Some(self.client_certificates(&clients, tls.is_some())?),
        };
        Some(Listener {
            addr: fields.text("addr")?.parse().ok()?,
            tls,
            clients,
            trust: networks(&fields.texts("trust")),
            trust_headers: self.trust_headers(&fields),
            proxy_protocol: self.proxy_protocol(&fields),
        })
    }

    /// The headers that trusted peers may set.
    fn trust_headers(&mut self, fields: &Fields<'_>) -> Vec<String> {
        let Some(node) = fields.get("trust_headers") else {
            if let Some(node) =
                fields.get("trust").filter(|_| !networks(&fields.texts("trust")).is_empty())
            {
                let message = "only `Forwarded`, `X-Forwarded-For` and `X-Forwarded-Proto` of \
                    these peers are trusted";
                self.report.warning(codes::TRUSTED_HEADERS, node.at, message).help(
                    "list the headers that the peers always set themselves: `trust_headers: \
                     [x-forwarded-for, x-forwarded-proto, x-forwarded-host]`",
                );
            }
            return believed();
        };
        let names = fields.texts("trust_headers");
        let names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let is_one = |name: &String| {
            name == "forwarded" || name.starts_with("x-forwarded-") || name.starts_with("weir-")
        };
        for other in names.iter().filter(|name| !is_one(name)) {
            let message = format!("`{other}` is always forwarded");
            self.report
                .error(codes::BAD_VALUE, node.at, message)
                .help("`forwarded`, `x-forwarded-…`, `weir-…`, or `x-forwarded-*` and `weir-*`");
        }
        names
    }

    /// Who may send PROXY protocol headers, if they are read at all.
    fn proxy_protocol(&mut self, fields: &Fields<'_>) -> Option<Vec<IpNet>> {
        let node = fields.get("proxy_protocol")?;
        let listed = fields.texts("proxy_protocol");
        match fields.bool("proxy_protocol") {
            Some(false) => None,
            Some(true) => {
                let trusted = networks(&fields.texts("trust"));
                if trusted.is_empty() {
                    let message = "`proxy_protocol: true` needs addresses in `trust`, which is \
                        empty: every connection would be closed";
                    self.report.error(codes::PROXY_PROTOCOL_SENDERS, node.at, message).help(
                        "list the load balancers: `proxy_protocol: [10.0.0.0/8]`; `[0.0.0.0/0, \
                         \"::/0\"]` trusts every peer",
                    );
                }
                Some(trusted)
            }
            None => Some(networks(&listed)),
        }
    }

    fn client_certificates(
        &mut self,
        fields: &Fields<'_>,
        tls: bool,
    ) -> Option<ClientCertificates> {
        if !tls {
            let at = fields.node().at;
            let message = "client certificates need `tls`";
            self.report.error(codes::CONFLICT, at, message);
            return None;
        }
        self.client_verifier(fields)
    }

    /// An auth by certificates needs a listener that asks for them.
    pub(super) fn warn_of_certificates(&mut self, root: &Fields<'_>) {
        let asks = |listener: &Node| listener.get("client_certificates").is_some();
        if root.many("listen").iter().any(asks) {
            return;
        }
        for member in self.draft.table("auth") {
            if let Some(node) = member.value.get("certificate") {
                self.report
                    .error(codes::CONFLICT, node.at, "no listener requests client certificates")
                    .help("set `client_certificates: {ca: \"file:clients.crt\"}` of a listener");
            }
        }
    }

    fn listener_tls(&mut self, node: &Node) -> Option<Tls> {
        match &node.data {
            Data::Scalar(_) => (node.text() == Some("self-signed")).then_some(Tls::SelfSigned),
            Data::List(items) => {
                let keys: Vec<_> = items
                    .iter()
                    .map(|item| self.certified_key(&Fields::new(item, &keys::TLS)))
                    .collect();
                Some(Tls::Certificates(keys.into_iter().collect::<Option<Vec<_>>>()?))
            }
            Data::Map(_) => {
                let key: Arc<_> = self.certified_key(&Fields::new(node, &keys::TLS))?;
                Some(Tls::Certificates(vec![key]))
            }
        }
    }

    pub(super) fn admin(&mut self, root: &Fields<'_>) -> Admin {
        let fields = root.object("admin", &keys::ADMIN);
        let addr = fields.and_then(|f| f.text("addr")?.parse().ok());
        let tls = fields.and_then(|f| f.get("tls")).and_then(|node| self.listener_tls(node));
        Admin {
            tls,
            addr: addr.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 9080))),
            hosts: fields
                .map(|f| f.texts("hosts"))
                .unwrap_or_default()
                .iter()
                .map(|h| h.to_ascii_lowercase())
                .collect(),
        }
    }

    pub(super) fn limits(&mut self, root: &Fields<'_>) -> Limits {
        let empty = super::fields::nothing();
        let fields = root
            .object("limits", &keys::LIMITS)
            .unwrap_or_else(|| Fields::new(empty, &keys::LIMITS));
        let bytes = |key, default: usize| {
            fields.size(key).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
        };
        let limits = Limits {
            header_bytes: bytes("header_bytes", 32 * 1024),
            headers: fields.number("headers", 100),
            url: bytes("url", 8 * 1024),
            body: fields.size("body").unwrap_or(10 * 1024 * 1024),
            connections: fields.number("connections", 20_000),
            header_time: fields.seconds("header_time", 10),
            idle: fields.seconds("idle", 60),
            request: request_time(&fields, Some(Duration::from_secs(300))),
            http2_streams: fields.number("http2_streams", 100),
            failed_authentication: failed_authentication(&fields),
        };
        for (key, value, least, most) in [
            ("header_bytes", limits.header_bytes, 1024, 1024 * 1024),
            ("url", limits.url, 256, limits.header_bytes),
        ] {
            if !(least..=most).contains(&value)
                && let Some(node) = fields.get(key)
            {
                self.report
                    .error(codes::BAD_VALUE, node.at, format!("`{key}` is out of range"))
                    .help(match key {
                        "url" => "at least 256B and at most `header_bytes`",
                        _ => "from 1KiB to 1MiB",
                    });
            }
        }
        limits
    }

    pub(super) fn drain(&mut self, root: &Fields<'_>) -> Drain {
        let fields = root.object("drain", &keys::DRAIN);
        let time = |key, default| {
            fields.and_then(|f| f.duration(key)).unwrap_or(Duration::from_secs(default))
        };
        Drain { delay: time("delay", 0), deadline: time("deadline", 30) }
    }

    pub(super) fn access_log(&mut self, root: &Fields<'_>) -> AccessLog {
        let fields = root.object("log", &keys::LOG);
        let format = match fields.and_then(|f| f.text("access")) {
            Some("text") => Some(LogFormat::Text),
            Some("json") => Some(LogFormat::Json),
            _ => None,
        };
        let target = match fields.and_then(|f| f.get("to")) {
            Some(node) if node.text() != Some("stderr") => {
                LogTarget::File(self.place_of(&self.path_of(node)))
            }
            _ => LogTarget::Stderr,
        };
        AccessLog { format, target }
    }

    pub(super) fn data(&mut self, root: &Fields<'_>) -> PathBuf {
        self.place_of(&match root.get("data") {
            Some(node) => self.path_of(node),
            None => self.draft.texts.resolve(root.node().at.file, "data"),
        })
    }

    /// A path as the rest of weir and programs get it; without a look at the file system if that
    /// is not to be touched.
    pub(super) fn place_of(&self, path: &Path) -> PathBuf {
        if self.draft.sealed { place::lexical(path) } else { place::absolute(path) }
    }

    /// The path a node says, from the folder of the file it is written in.
    pub(super) fn path_of(&self, node: &Node) -> PathBuf {
        self.draft.texts.resolve(node.at.file, node.text().unwrap_or_default())
    }
}

/// How many authentications from one address may fail.
fn failed_authentication(limits: &Fields<'_>) -> Option<Rate> {
    let usual = Rate { requests: 10, per: Duration::from_secs(1), burst: 100 };
    if let Some(own) = limits.object("failed_authentication", &keys::FAILED_AUTHENTICATION) {
        return plan::rate(&own).or(Some(usual));
    }
    match limits.text("failed_authentication") {
        None => Some(usual),
        Some("none") => None,
        Some(text) => {
            let rate = crate::units::rate(text).ok();
            Some(rate.map_or(usual, |(requests, per)| Rate { requests, per, burst: requests }))
        }
    }
}
