//! Changes that a reload cannot apply.

use crate::config::{Config, Listener};
use weir_document::finding::{Finding, Severity, codes};

impl Config {
    /// Changes in `new`, compared with this running configuration, that a reload cannot apply: the
    /// listeners' addresses and order, their use of TLS and the PROXY protocol, the admin listener,
    /// the data folder, the number of workers. Certificates, `trust` and all other settings are
    /// reloaded.
    ///
    /// Each is an error with the code `needs-restart`, because a reload applies all changes or
    /// none. The findings have no location; the caller sets `file`.
    pub fn needs_restart(&self, new: &Config) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut changed = |key: &str, old: String, new: String| {
            if old != new {
                findings.push(Finding {
                    message: format!("`{key}` changed from {old} to {new}: needs a restart"),
                    help: Some(format!("restart weir, or revert the change of `{key}`")),
                    ..Finding::new(codes::NEEDS_RESTART, Severity::Error)
                });
            }
        };
        changed("listen", sockets(&self.listen), sockets(&new.listen));
        changed("admin", admin(self), admin(new));
        changed("data", self.data.display().to_string(), new.data.display().to_string());
        let disk = |config: &Self| format!("{} bytes", config.journal.disk);
        changed("journal.disk", disk(self), disk(new));
        let index = |config: &Self| format!("{:?}", config.tracker.index).to_lowercase();
        changed("tracker.index", index(self), index(new));
        changed("journal.durability", durability(self), durability(new));
        changed("tracker.keep", keep(self), keep(new));
        changed("tracker.keys", business_keys(self), business_keys(new));
        let enabled = |config: &Self| config.tracker.enabled.to_string();
        changed("tracker.enabled", enabled(self), enabled(new));
        let on = |config: &Self| if config.counts_calls() { "on" } else { "off" }.to_owned();
        // The running state is kept when there is nothing left to count.
        if new.counts_calls() {
            changed("monitor", on(self), on(new));
        }
        changed("workers", self.workers.to_string(), new.workers.to_string());
        findings
    }
}

fn sockets(listeners: &[Listener]) -> String {
    let sockets: Vec<String> = listeners
        .iter()
        .map(|l| {
            let tls = if l.tls.is_some() { " with TLS" } else { "" };
            let proxy = if l.proxy_protocol.is_some() { " behind the PROXY protocol" } else { "" };
            format!("{}{tls}{proxy}", l.addr)
        })
        .collect();
    sockets.join(", ")
}

fn admin(config: &Config) -> String {
    let hosts: Vec<&str> = config.admin.hosts.iter().map(String::as_str).collect();
    let tls = if config.admin.tls.is_some() { " with TLS" } else { "" };
    format!("{}{tls} {}", config.admin.addr, hosts.join(" ")).trim_end().to_owned()
}

fn durability(config: &Config) -> String {
    format!("{:?}", config.journal.durability).to_lowercase()
}

fn keep(config: &Config) -> String {
    let tracker = &config.tracker;
    format!("{:?} and {:?}", tracker.keep_completed, tracker.keep_failed)
}

fn business_keys(config: &Config) -> String {
    let keys = config.tracker.keys.as_written();
    keys.map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>().join(", ")
}
