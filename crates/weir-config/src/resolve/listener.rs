//! Listeners: addresses, certificates, trusted peers.

use super::{Fields, Resolver};
use crate::config::listener::{LISTEN, networks};
use crate::config::tls::{CERTIFICATE, CLIENT_CERTIFICATES};
use crate::config::{Admin, Api, ClientCertificates, Listener, Oidc, Tls};
use ipnet::IpNet;
use weir_document::draft::{Data, Node};
use weir_document::finding::codes;
use weir_document::shape::settings::items;

impl Resolver<'_> {
    pub(super) fn listeners(&mut self, root: &Fields<'_>) -> Vec<Listener> {
        let mut listeners: Vec<Listener> = Vec::new();
        let mut places = Vec::new();
        for node in items(&root.or_default(LISTEN.name)) {
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
        listeners
    }

    fn listener(&mut self, node: &Node) -> Option<Listener> {
        if node.members().is_none() {
            let addr = node.text()?.parse().ok()?;
            return Some(Listener::read(&Fields::empty(Listener::SHAPE), addr));
        }
        let fields = Fields::new(node, Listener::SHAPE);
        let tls = match fields.get("tls") {
            None => None,
            Some(node) => Some(self.listener_tls(node)?),
        };
        let clients = match fields.object("client_certificates", &CLIENT_CERTIFICATES) {
            None => None,
            Some(clients) => Some(self.client_certificates(&clients, tls.is_some())?),
        };
        let listener = Listener::read(&fields, fields.text("addr")?.parse().ok()?);
        self.check_trust(&fields, &listener);
        let proxy_protocol = self.proxy_protocol(&fields, &listener.trust);
        Some(Listener { tls, clients, proxy_protocol, ..listener })
    }

    /// Checks the headers that trusted peers may set.
    fn check_trust(&mut self, fields: &Fields<'_>, listener: &Listener) {
        let Some(node) = fields.get("trust_headers") else {
            if let Some(node) = fields.get("trust").filter(|_| !listener.trust.is_empty()) {
                let message = "only `Forwarded`, `X-Forwarded-For` and `X-Forwarded-Proto` of these peers are trusted";
                self.report.warning(codes::TRUSTED_HEADERS, node.at, message).help(
                    "list the headers that the peers always set themselves: `trust_headers: [x-forwarded-for, x-forwarded-proto, x-forwarded-host]`",
                );
            }
            return;
        };
        let is_one = |name: &String| {
            name == "forwarded" || name.starts_with("x-forwarded-") || name.starts_with("weir-")
        };
        for other in listener.trust_headers.iter().filter(|name| !is_one(name)) {
            let message = format!("`{other}` is always forwarded");
            self.report
                .error(codes::BAD_VALUE, node.at, message)
                .help("`forwarded`, `x-forwarded-…`, `weir-…`, or `x-forwarded-*` and `weir-*`");
        }
    }

    /// Networks that may send PROXY protocol headers, if enabled.
    fn proxy_protocol(&mut self, fields: &Fields<'_>, trust: &[IpNet]) -> Option<Vec<IpNet>> {
        let node = fields.get("proxy_protocol")?;
        match fields.bool("proxy_protocol") {
            Some(false) => None,
            Some(true) => {
                if trust.is_empty() {
                    let message = "`proxy_protocol: true` needs addresses in `trust`, which is empty: every connection would be closed";
                    self.report.error(codes::PROXY_PROTOCOL_SENDERS, node.at, message).help(
                        "list the load balancers: `proxy_protocol: [10.0.0.0/8]`; `[0.0.0.0/0, \"::/0\"]` trusts every peer",
                    );
                }
                Some(trust.to_vec())
            }
            None => networks(node),
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

    /// An auth by certificates needs a listener that requests them.
    pub(super) fn warn_of_certificates(&mut self, root: &Fields<'_>) {
        let requests = |listener: &Node| listener.get("client_certificates").is_some();
        if root.many("listen").iter().any(requests) {
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
                    .map(|item| self.identity(&Fields::new(item, &CERTIFICATE)))
                    .collect();
                Some(Tls::Certificates(keys.into_iter().collect::<Option<Vec<_>>>()?))
            }
            Data::Map(_) => {
                Some(Tls::Certificates(vec![self.identity(&Fields::new(node, &CERTIFICATE))?]))
            }
        }
    }

    pub(super) fn admin(&mut self, root: &Fields<'_>, apis: &[Api]) -> Admin {
        let fields = root.object_or_empty("admin", Admin::SHAPE);
        let tls = fields.get("tls").and_then(|node| self.listener_tls(node));
        let clients = fields.object("client_certificates", &CLIENT_CERTIFICATES);
        let is_tls = fields.get("tls").is_some();
        let clients = clients.and_then(|clients| self.client_certificates(&clients, is_tls));
        let oidc = fields.object("oidc", Oidc::SHAPE).and_then(|oidc| self.oidc(&oidc, apis));
        Admin { tls, clients, oidc: oidc.map(Box::new), ..Admin::read(&fields) }
    }
}
