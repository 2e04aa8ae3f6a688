//! Events for scripts (`--json`, one object per line on standard output) or as text.

use super::messages::Messages;
use crate::{findings, output};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use weir_document::finding::Findings;
use weir_server::DrainReport;

/// Bound addresses.
pub(crate) struct Listening {
    /// Listeners, in the order of the configuration.
    pub(crate) addrs: Vec<SocketAddr>,
    /// Whether each of them uses TLS.
    pub(crate) tls: Vec<bool>,
    /// The admin listener.
    pub(crate) admin: SocketAddr,
    /// Whether the admin listener uses TLS.
    pub(crate) admin_tls: bool,
    /// Path of the first admin token, if just created.
    pub(crate) first_token: Option<PathBuf>,
}

/// Prints events.
pub(crate) struct Events {
    messages: Messages,
    json: bool,
}

impl Events {
    /// Prints JSON or text.
    pub(crate) fn new(messages: Messages, json: bool) -> Self {
        Self { messages, json }
    }

    /// All sockets are bound and served.
    pub(crate) fn ready(&self, listening: &Listening) {
        let Listening { addrs, tls, admin, admin_tls, first_token } = listening;
        if self.json {
            let mut event = json!({"event": "ready", "listen": addrs, "admin": admin});
            if let Some(path) = first_token {
                event["admin_token"] = json!(path);
            }
            return self.line(event);
        }
        let scheme = |tls: bool| if tls { "https" } else { "http" };
        for (addr, tls) in addrs.iter().zip(tls) {
            self.messages.out(format!("listening on {}://{addr}", scheme(*tls)));
        }
        let scheme = scheme(*admin_tls);
        self.messages.out(format!("console, health, metrics and admin API on {scheme}://{admin}"));
        if let Some(path) = first_token {
            self.messages.out(format!("the first admin token is in {}", path.display()));
        }
    }

    /// A new Config was applied.
    pub(crate) fn reloaded(&self, warnings: &Findings) {
        if self.json {
            return self
                .line(json!({"event": "reloaded", "findings": findings::to_json(warnings)}));
        }
        self.show(warnings);
        self.messages.out("configuration reloaded".to_owned());
    }

    /// A configuration is valid, but its resources cannot be used.
    pub(crate) fn reload_failed(&self, error: &str) {
        if self.json {
            return self.line(json!({"event": "reload-refused", "findings": [], "error": error}));
        }
        self.messages
            .err(format!("reload failed: {error}; the previous configuration stays in use"));
    }

    /// A configuration was rejected; the previous one stays active.
    pub(crate) fn reload_refused(&self, found: &Findings) {
        if self.json {
            return self
                .line(json!({"event": "reload-refused", "findings": findings::to_json(found)}));
        }
        self.show(found);
        let summary = findings::summary(found);
        self.messages
            .err(format!("reload failed: {summary}; the previous configuration stays in use"));
    }

    /// Draining has started.
    pub(crate) fn draining(&self) {
        if self.json {
            return self.line(json!({"event": "draining"}));
        }
        self.messages.out("draining".to_owned());
    }

    /// The server has stopped.
    pub(crate) fn stopped(&self, report: &DrainReport) {
        let (failed, took) = (report.failed, report.duration.as_secs_f64());
        if self.json {
            return self.line(json!({"event": "stopped", "failed": failed, "took": took}));
        }
        self.messages.out(format!("stopped after {took:.1} s, {failed} requests aborted"));
    }

    /// Another message; scripts find it on standard error, too.
    pub(crate) fn note(&self, text: &str) {
        self.messages.err(format!("weir: {text}"));
    }

    fn line(&self, event: Value) {
        self.messages.out(event.to_string());
    }

    fn show(&self, found: &Findings) {
        if !found.list.is_empty() {
            self.messages.err(found.render(output::color()).trim_end().to_owned());
        }
    }
}
