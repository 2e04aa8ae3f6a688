//! What a reload cannot change.

use std::path::Path;
use weir_config::finding::{Finding, Severity};
use weir_config::{Config, Listener, Tls};

/// A finding for every change between two Configs that needs a restart.
pub(crate) fn findings(old: &Config, new: &Config, file: &Path) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut check = |same: bool, key: &str| {
        if !same {
            found.push(Finding {
                file: file.to_owned(),
                message: format!("a change of `{key}` needs a restart"),
                help: Some(format!("restart weir, or take back the change of `{key}`")),
                ..Finding::new("needs-restart", Severity::Error)
            });
        }
    };
    check(listeners(old) == listeners(new), "listen");
    check((old.admin.addr, &old.admin.hosts) == (new.admin.addr, &new.admin.hosts), "admin");
    check(old.data == new.data, "data");
    check(old.workers == new.workers, "workers");
    found
}

/// What of each listener is fixed with its socket: address, PROXY protocol, kind of TLS. Its
/// certificates and whom it trusts are not.
fn listeners(config: &Config) -> Vec<(std::net::SocketAddr, bool, TlsKind)> {
    config.listen.iter().map(|l| (l.addr, l.proxy_protocol, TlsKind::of(l))).collect()
}

#[derive(PartialEq, Eq)]
enum TlsKind {
    Plain,
    SelfSigned,
    Certificates,
}

impl TlsKind {
    fn of(listener: &Listener) -> Self {
        match listener.tls {
            None => Self::Plain,
            Some(Tls::SelfSigned) => Self::SelfSigned,
            Some(Tls::Certificates(_)) => Self::Certificates,
        }
    }
}
