//! Listeners: addresses, certificates, trusted peers.

use super::root::LISTEN;
use super::{Fields, Resolver};
use crate::config::{Admin, ClientCertificates, Listener, Tls};
use ipnet::IpNet;
use std::net::SocketAddr;
use weir_document::draft::{Data, Node};
use weir_document::finding::codes;
use weir_document::shape::format::network;
use weir_document::shape::typed::{Defaulted, address, boolean, items, texts};
use weir_document::shape::{Key, Kind, Shape, format};

const LISTENER_TLS: Kind = Kind::Either(&[
    Kind::Enum(&["self-signed"]),
    Kind::Object(&TLS),
    Kind::List(&Kind::Object(&TLS)),
]);

const TRUST_HEADERS: Defaulted<Vec<String>> = texts("trust_headers", Kind::OneOrMany(&Kind::Format(format::HEADER)), "Headers of trusted peers that are used and forwarded: names of the form `forwarded`, `x-forwarded-…` and `weir-…`; `x-forwarded-*` and `weir-*` include all with that prefix. Other headers with such names are removed, from any peer. The host in `Forwarded` is used only if `x-forwarded-host` is listed.").default("[forwarded, x-forwarded-for, x-forwarded-proto]");

/// An item of `listen`.
pub(super) static LISTENER: Shape = Shape {
    misspellings: &[
        ("port", "write `addr: \"0.0.0.0:8080\"`"),
        ("host", "write `addr: \"0.0.0.0:8080\"`"),
        ("address", "write `addr`"),
        ("bind", "write `addr`"),
        ("client_ca", "write `client_certificates: {ca: \"file:clients.crt\"}`"),
    ],
    short: Some("addr"),
    ..Shape::new(
        "a listener",
        "A socket that accepts client connections.",
        &[
            Key::new("addr", Kind::Format(format::ADDRESS), "Address and port; with port 0 the system assigns a free port.").required(),
            Key::new("tls", LISTENER_TLS, "Certificates, selected by SNI; the first is used if no name matches. `self-signed` generates a certificate at the first start and stores it in `data`, for development.").absent("plain HTTP"),
            Key::new("client_certificates", Kind::Object(&CLIENT_CERTIFICATES), "Client certificates (mutual TLS).").absent("not requested"),
            Key::new("trust", Kind::List(&Kind::Format(format::NETWORK)), "Trusted peers: proxies whose `trust_headers` are used, because they always set these headers themselves.").absent("nobody"),
            TRUST_HEADERS.key,
            Key::new("proxy_protocol", Kind::Either(&[Kind::Bool, Kind::List(&Kind::Format(format::NETWORK))]), "Networks whose connections begin with a PROXY protocol header, version 1 or 2; other connections are closed. `true` means the networks in `trust`; `[0.0.0.0/0, \"::/0\"]` accepts all.").absent("false"),
        ],
    )
};

/// Certificate and key of a listener.
pub(super) static TLS: Shape = Shape::new(
    "a certificate",
    "A certificate with its private key, both in PEM.",
    &[
        Key::new(
            "cert",
            Kind::Text,
            "Certificate chain in PEM, the server certificate first: `file:tls.crt`.",
        )
        .required(),
        Key::new("key", Kind::Secret, "Private key in PEM: `file:tls.key`.").required(),
    ],
);

pub(super) const OPTIONAL: Defaulted<bool> = boolean(
    "optional",
    "Also accept clients without a certificate; an invalid one is always rejected.",
)
.default("false");

/// `client_certificates` of a listener.
pub(super) static CLIENT_CERTIFICATES: Shape = Shape::new(
    "mutual TLS",
    "mTLS: clients without a valid certificate are rejected during the handshake. An `auth` with `certificate` identifies the client and grants access.",
    &[
        Key::new("ca", Kind::Text, "Certificates of the trusted certificate authorities in PEM: `file:clients.crt`.").required(),
        Key::new("crl", Kind::OneOrMany(&Kind::Text), "Certificate revocation lists (CRL, RFC 5280) in PEM: `file:clients.crl`. If set, every authority of a chain needs a CRL; otherwise the certificate is rejected. The age of a CRL is not checked.").absent("no revocation check"),
        OPTIONAL.key,
    ],
);

const ADMIN_ADDR: Defaulted<SocketAddr> =
    address("addr", "Address and port.").default("127.0.0.1:9080");

/// `admin`.
pub(super) static ADMIN: Shape = Shape {
    short: Some("addr"),
    misspellings: &[("port", "write `addr: \"127.0.0.1:9080\"`")],
    ..Shape::new(
        "the admin listener",
        "The listener for administration: health, readiness and metrics.",
        &[
            ADMIN_ADDR.key,
            Key::new("hosts", Kind::OneOrMany(&Kind::Format(format::HOST)), "Accepted Host names in addition to loopback names and the address itself."),
            Key::new("tls", LISTENER_TLS, "Certificates, as for a listener. Commands verify them by `--ca`, or read a `self-signed` one from the data folder.").absent("plain HTTP"),
        ],
    )
};

fn networks(texts: &[String]) -> Vec<IpNet> {
    texts.iter().filter_map(|text| network(text)).collect()
}

/// A listener without TLS and without trusted peers.
fn plain(addr: SocketAddr) -> Listener {
    Listener {
        addr,
        tls: None,
        clients: None,
        trust: Vec::new(),
        trust_headers: TRUST_HEADERS.parse(None),
        proxy_protocol: None,
    }
}

impl Resolver<'_> {
    pub(super) fn listeners(&mut self, root: &Fields<'_>) -> Vec<Listener> {
        let mut listeners: Vec<Listener> = Vec::new();
        let mut places = Vec::new();
        for node in items(&root.or_default(&LISTEN)) {
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
            return Some(plain(addr));
        }
        let fields = Fields::new(node, &LISTENER);
        let tls = match fields.get("tls") {
            None => None,
            Some(node) => Some(self.listener_tls(node)?),
        };
        let clients = match fields.object("client_certificates", &CLIENT_CERTIFICATES) {
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
                let message = "only `Forwarded`, `X-Forwarded-For` and `X-Forwarded-Proto` of these peers are trusted";
                self.report.warning(codes::TRUSTED_HEADERS, node.at, message).help(
                    "list the headers that the peers always set themselves: `trust_headers: [x-forwarded-for, x-forwarded-proto, x-forwarded-host]`",
                );
            }
            return fields.read(&TRUST_HEADERS);
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

    /// Networks that may send PROXY protocol headers, if enabled.
    fn proxy_protocol(&mut self, fields: &Fields<'_>) -> Option<Vec<IpNet>> {
        let node = fields.get("proxy_protocol")?;
        let listed = fields.texts("proxy_protocol");
        match fields.bool("proxy_protocol") {
            Some(false) => None,
            Some(true) => {
                let trusted = networks(&fields.texts("trust"));
                if trusted.is_empty() {
                    let message = "`proxy_protocol: true` needs addresses in `trust`, which is empty: every connection would be closed";
                    self.report.error(codes::PROXY_PROTOCOL_SENDERS, node.at, message).help(
                        "list the load balancers: `proxy_protocol: [10.0.0.0/8]`; `[0.0.0.0/0, \"::/0\"]` trusts every peer",
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
                let keys: Vec<_> =
                    items.iter().map(|item| self.identity(&Fields::new(item, &TLS))).collect();
                Some(Tls::Certificates(keys.into_iter().collect::<Option<Vec<_>>>()?))
            }
            Data::Map(_) => Some(Tls::Certificates(vec![self.identity(&Fields::new(node, &TLS))?])),
        }
    }

    pub(super) fn admin(&mut self, root: &Fields<'_>) -> Admin {
        let fields = root.object_or_empty("admin", &ADMIN);
        let tls = fields.get("tls").and_then(|node| self.listener_tls(node));
        Admin {
            tls,
            addr: fields.read(&ADMIN_ADDR),
            hosts: fields.texts("hosts").iter().map(|h| h.to_ascii_lowercase()).collect(),
        }
    }
}
