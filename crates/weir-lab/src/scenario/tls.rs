//! Certificates of a target with TLS.

use super::fields::valid;
use crate::program::TlsIdentity;
use std::path::Path;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::shape::{Kind, format};

settings! {
    /// Certificates of connections with TLS.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TlsKeys is "the certificates" {
        /// File with the client's certificate and its chain (PEM), for mutual TLS.
        pub cert: Option<String> = text(Kind::Text),
        /// File with the client's private key (PEM).
        pub key: Option<String> = text(Kind::Text),
        /// File with the trusted authorities (PEM).
        pub ca: Option<String> = text(Kind::Text).absent("those of the system"),
        /// Name in SNI and in the server's certificate.
        pub server_name: Option<String> = text(Kind::Format(format::HOST)).absent("the host"),
    },
    misspellings: &[
        ("verify", "write `insecure: true` in the target"),
        ("insecure", "write it in the target"),
        ("certificate", "write `cert`"),
    ],
}

/// Reads the certificates. Files are relative to `folder`.
pub(super) fn identity(
    keys: &TlsKeys,
    folder: &Path,
    node: &Node,
    report: &mut Diagnostics,
) -> Option<TlsIdentity> {
    let mut identity = TlsIdentity::default();
    match (&keys.cert, &keys.key) {
        (Some(cert), Some(key)) => {
            valid(identity.present(&folder.join(cert), &folder.join(key)), node, report)?;
        }
        (None, None) => {}
        (cert, _) => {
            let missing = if cert.is_some() { "key" } else { "cert" };
            report
                .error(codes::MISSING_KEY, node.at, format!("`{missing}` is missing"))
                .help("mutual TLS needs both: `tls: {cert: client.crt, key: client.key}`");
            return None;
        }
    }
    if let Some(ca) = &keys.ca {
        valid(identity.trust(&folder.join(ca)), node, report)?;
    }
    if let Some(name) = &keys.server_name {
        valid(identity.expect_name(name), node, report)?;
    }
    Some(identity)
}
