//! Changes that a reload cannot apply.

use crate::config::{Config, ConfigSource};
use std::collections::BTreeMap;
use weir_document::finding::{Finding, Severity, codes};

impl Config {
    /// Changes in `new`, compared with this running configuration, that a reload cannot apply: the
    /// listeners' addresses and order, their use of TLS and the PROXY protocol, the admin listener,
    /// the data folder, the place of the archive, the fleet, the number of workers, the I/O backend. Certificates, `trust` and all other settings are
    /// reloaded.
    ///
    /// Each is an error with the code `needs-restart`, because a reload applies all changes or
    /// none. The findings have no location; the caller sets `file`.
    pub fn needs_restart(&self, new: &Config) -> Vec<Finding> {
        new.needs_restart_from(&self.fixed_settings())
    }

    /// The settings that only a restart changes: key, and value for people.
    pub fn fixed_settings(&self) -> BTreeMap<String, String> {
        FIXED.iter().map(|(key, shown)| ((*key).to_owned(), shown(self))).collect()
    }

    /// Like [`Config::needs_restart`], where `running` are the fixed settings of the running
    /// configuration, and `self` is the new one.
    pub fn needs_restart_from(&self, running: &BTreeMap<String, String>) -> Vec<Finding> {
        // The running state is kept when there is nothing left to count.
        let is_kept = |key: &str| key == "monitor" && !self.counts_calls();
        let changed = FIXED.iter().filter(|(key, _)| !is_kept(key)).filter_map(|(key, shown)| {
            let (old, new) = (running.get(*key)?, shown(self));
            (*old != new).then(|| Finding {
                message: format!("`{key}` changed from {old} to {new}: needs a restart"),
                help: Some(format!("restart weir, or revert the change of `{key}`")),
                ..Finding::new(codes::NEEDS_RESTART, Severity::Error)
            })
        });
        changed.collect()
    }
}

/// The text of a setting.
type Shown = fn(&Config) -> String;

/// Keys that a reload cannot change, and their values as text.
const FIXED: [(&str, Shown); 14] = [
    ("listen", sockets),
    ("admin", admin),
    ("data", data),
    ("journal.disk", |config| format!("{} bytes", config.journal.disk)),
    ("journal.archive", archive),
    ("tracker.index", |config| format!("{:?}", config.tracker.index).to_lowercase()),
    ("journal.durability", |config| format!("{:?}", config.journal.durability).to_lowercase()),
    ("tracker.keep", keep),
    ("tracker.keys", business_keys),
    ("tracker.enabled", |config| config.tracker.enabled.to_string()),
    ("monitor", |config| if config.counts_calls() { "on" } else { "off" }.to_owned()),
    ("fleet", fleet),
    ("workers", |config| config.workers.to_string()),
    ("io", |config| format!("{:?}", config.io).to_lowercase()),
];

/// Relative to the same folder on both sides of a comparison between processes.
fn data(config: &Config) -> String {
    let path = std::path::absolute(&config.data);
    path.as_ref().unwrap_or(&config.data).display().to_string()
}

fn sockets(config: &Config) -> String {
    let sockets: Vec<String> = config
        .listen
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

/// A new password is used for the next connection, a new key for the next request.
fn fleet(config: &Config) -> String {
    let Some(fleet) = &config.fleet else { return "none".to_owned() };
    let node = fleet.node.as_deref().unwrap_or_default();
    let tls = if fleet.postgres.tls.is_some() { " with TLS" } else { "" };
    let peers = fleet.peers.as_ref().map(|peers| format!(" at {}", peers.advertise));
    let redis = fleet.redis.as_ref().map(|redis| {
        let tls = if redis.tls.is_some() { " with TLS" } else { "" };
        format!(", Redis {}{tls}", redis.shown())
    });
    let (peers, redis) = (peers.unwrap_or_default(), redis.unwrap_or_default());
    let versions = match fleet.config.source {
        ConfigSource::Files => "",
        ConfigSource::Fleet => ", versions",
    };
    format!("{} {node} {}{tls}{peers}{redis}{versions}", fleet.name, fleet.postgres.shown())
}

/// Where the archive is. Credentials and all other settings are applied by a reload.
fn archive(config: &Config) -> String {
    let archive = config.journal.archive.as_ref();
    archive.map_or("none".to_owned(), |archive| {
        let endpoint = archive.endpoint.as_ref().map(|url| format!(" at {url}"));
        format!("{}{}", archive.location, endpoint.unwrap_or_default())
    })
}

fn keep(config: &Config) -> String {
    let tracker = &config.tracker;
    format!("{:?} and {:?}", tracker.keep_completed, tracker.keep_failed)
}

fn business_keys(config: &Config) -> String {
    let keys = config.tracker.keys.as_written();
    keys.map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>().join(", ")
}
