//! Listeners: addresses, certificates, trusted peers.

use super::oidc::Oidc;
use super::tls::{CERTIFICATE, CLIENT_CERTIFICATES, ClientCertificates, Tls};
use ipnet::IpNet;
use std::net::SocketAddr;
use weir_document::draft::Node;
use weir_document::settings;
use weir_document::shape::format::{self, network};
use weir_document::shape::settings::items;
use weir_document::shape::{Key, Kind};

/// `listen`.
pub(crate) const LISTEN: Key = Key::new(
    "listen",
    Kind::OneOrMany(&Kind::Either(&[Kind::Format(format::ADDRESS), Kind::Object(Listener::SHAPE)])),
    "Sockets that accept client connections.",
)
.default("127.0.0.1:8080");

const TLS: Kind = Kind::Either(&[
    Kind::Enum(&["self-signed"]),
    Kind::Object(&CERTIFICATE),
    Kind::List(&Kind::Object(&CERTIFICATE)),
]);

const PROXY_PROTOCOL: Kind = Kind::Either(&[Kind::Bool, Kind::List(&NETWORK)]);
const NETWORK: Kind = Kind::Format(format::NETWORK);

settings! {
    /// A socket that accepts client connections.
    #[derive(Debug)]
    pub struct Listener is "a listener" {
        /// Address and port; with port 0 the system assigns a free port.
        addr = by_hand(Kind::Format(format::ADDRESS)).required(),
        /// Certificates, selected by SNI; the first is used if no name matches. `self-signed`
        /// generates a certificate at the first start and stores it in `data`, for development.
        pub tls: Option<Tls> = by_hand(TLS).absent("plain HTTP"),
        /// Client certificates (mutual TLS).
        pub clients: Option<ClientCertificates> = by_hand(Kind::Object(&CLIENT_CERTIFICATES))
            .name("client_certificates")
            .absent("not requested"),
        /// Trusted peers: proxies whose `trust_headers` are used, because they always set these
        /// headers themselves.
        pub trust: Vec<IpNet> = value(Kind::List(&NETWORK), networks).absent("nobody"),
        /// Headers of trusted peers that are used and forwarded: names of the form `forwarded`,
        /// `x-forwarded-…` and `weir-…`; `x-forwarded-*` and `weir-*` include all with that prefix.
        /// Other headers with such names are removed, from any peer. The host in `Forwarded` is
        /// used only if `x-forwarded-host` is listed.
        // Names in lower case.
        pub trust_headers: Vec<String> = names(Kind::OneOrMany(&Kind::Format(format::HEADER)))
            .default("[forwarded, x-forwarded-for, x-forwarded-proto]"),
        /// Networks whose connections begin with a PROXY protocol header, version 1 or 2; other
        /// connections are closed. `true` means the networks in `trust`; `[0.0.0.0/0, "::/0"]`
        /// accepts all.
        pub proxy_protocol: Option<Vec<IpNet>> = by_hand(PROXY_PROTOCOL).absent("false"),
    } given {
        /// Address; with port 0 the system assigns a free port.
        pub addr: SocketAddr,
    },
    misspellings: &[
        ("port", "write `addr: \"0.0.0.0:8080\"`"),
        ("host", "write `addr: \"0.0.0.0:8080\"`"),
        ("address", "write `addr`"),
        ("bind", "write `addr`"),
        ("client_ca", "write `client_certificates: {ca: \"file:clients.crt\"}`"),
    ],
    short: Some("addr"),
}

/// Networks, or a single one.
pub(crate) fn networks(node: &Node) -> Option<Vec<IpNet>> {
    Some(items(node).iter().filter_map(|node| network(node.text()?)).collect())
}

settings! {
    /// The listener for administration: health, readiness and metrics.
    #[derive(Clone, Debug)]
    pub struct Admin is "the admin listener" {
        /// Address and port.
        pub addr: SocketAddr = address().default("127.0.0.1:9080"),
        /// Accepted Host names in addition to loopback names, the address itself and the host of
        /// `fleet.advertise`.
        // Against DNS rebinding. Lower case, without port.
        pub hosts: Vec<String> = names(Kind::OneOrMany(&Kind::Format(format::HOST))),
        /// Certificates, as for a listener. Commands verify them by `--ca`, or read a `self-signed`
        /// one from the data folder.
        pub tls: Option<Tls> = by_hand(TLS).absent("plain HTTP"),
        /// Client certificates (mutual TLS), as for a listener: in addition to tokens and accounts,
        /// which are required all the same. Commands and other nodes have none: with
        /// `optional: true` they are accepted without.
        pub clients: Option<ClientCertificates> = by_hand(Kind::Object(&CLIENT_CERTIFICATES))
            .name("client_certificates")
            .absent("not requested"),
        /// Sign-in with the accounts of an identity provider (OpenID Connect).
        pub oidc: Option<Box<Oidc>> = by_hand(Kind::Object(Oidc::SHAPE)).absent("tokens only"),
    },
    short: Some("addr"),
    misspellings: &[
        ("port", "write `addr: \"127.0.0.1:9080\"`"),
        ("client_ca", "write `client_certificates: {ca: \"file:clients.crt\"}`"),
    ],
}
