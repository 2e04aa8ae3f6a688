//! What a reload cannot change.

use crate::config::{Config, Listener};
use crate::finding::{Finding, Severity, codes};

impl Config {
    /// What `new` changes against this running configuration and a reload cannot make: listeners'
    /// addresses and whether they speak TLS or the PROXY protocol, the admin address, the data
    /// folder, the number of workers. Certificates, `trust` and everything else is live.
    ///
    /// Each is a warning with the code `needs-restart`; what is running stays as it is.
    pub fn needs_restart(&self, new: &Config) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut changed = |key: &str, old: String, new: String| {
            if old != new {
                findings.push(Finding {
                    message: format!("`{key}` changed from {old} to {new}: it needs a restart"),
                    help: Some("everything else of the new configuration is in use".to_owned()),
                    ..Finding::new(codes::NEEDS_RESTART, Severity::Warning)
                });
            }
        };
        changed("listen", sockets(&self.listen), sockets(&new.listen));
        changed("admin.addr", self.admin.addr.to_string(), new.admin.addr.to_string());
        changed("data", self.data.display().to_string(), new.data.display().to_string());
        changed("workers", self.workers.to_string(), new.workers.to_string());
        findings
    }
}

fn sockets(listeners: &[Listener]) -> String {
    let mut sockets: Vec<String> = listeners
        .iter()
        .map(|l| {
            let tls = if l.tls.is_some() { " with TLS" } else { "" };
            let proxy = if l.proxy_protocol { " behind the PROXY protocol" } else { "" };
            format!("{}{tls}{proxy}", l.addr)
        })
        .collect();
    sockets.sort();
    sockets.join(", ")
}
