//! Events for scripts (`--json`, one object per line on standard output) or as text.

use super::messages::Messages;
use crate::{findings, output};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;
use weir_document::finding::Findings;
use weir_server::{DrainReport, Io};

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

    /// All sockets are bound and served; `first_token` is the path of the first admin token, if just
    /// created.
    pub(crate) fn ready(&self, listening: &Listening, io: &Io, first_token: Option<&Path>) {
        let Listening { addrs, tls, admin, admin_tls } = listening;
        let mut event = json!({"event": "ready", "listen": addrs, "admin": admin});
        event["io"] = json!(if io.is_ring() { "ring" } else { "epoll" });
        if let Io::Epoll(Some(reason)) = io {
            event["io_reason"] = json!(reason);
        }
        if let Some(path) = first_token {
            event["admin_token"] = json!(path.display().to_string());
        }
        let scheme = |tls: bool| if tls { "https" } else { "http" };
        self.event(event, |messages| {
            for (addr, tls) in addrs.iter().zip(tls) {
                messages.out(format!("listening on {}://{addr}", scheme(*tls)));
            }
            if let Io::Epoll(Some(reason)) = io {
                messages
                    .out(format!("connections by epoll: io_uring is not possible here: {reason}"));
            }
            let scheme = scheme(*admin_tls);
            messages.out(format!("console, health, metrics and admin API on {scheme}://{admin}"));
            if let Some(path) = first_token {
                messages.out(format!("the first admin token is in {}", path.display()));
            }
        });
    }

    /// A new Config was applied.
    pub(crate) fn reloaded(&self, warnings: &Findings) {
        self.event(
            json!({"event": "reloaded", "findings": findings::to_json(warnings)}),
            |messages| {
                show(messages, warnings);
                messages.out("configuration reloaded".to_owned());
            },
        );
    }

    /// A configuration is valid, but its resources cannot be used.
    pub(crate) fn reload_failed(&self, error: &str) {
        let event = json!({"event": "reload-refused", "findings": [], "error": error});
        self.event(event, |messages| previous_stays(messages, error));
    }

    /// A configuration was rejected; the previous one stays active.
    pub(crate) fn reload_refused(&self, found: &Findings) {
        self.event(
            json!({"event": "reload-refused", "findings": findings::to_json(found)}),
            |messages| {
                show(messages, found);
                previous_stays(messages, &findings::summary(found));
            },
        );
    }

    /// Draining has started.
    pub(crate) fn draining(&self) {
        self.event(json!({"event": "draining"}), |messages| messages.out("draining".to_owned()));
    }

    /// Another process serves from now on.
    pub(crate) fn handed_over(&self, pid: u32, version: &str) {
        let event = json!({"event": "handed-over", "pid": pid, "version": version});
        self.event(event, |messages| {
            messages.out(format!("process {pid} (weir {version}) has taken over; draining"));
        });
    }

    /// The process that has taken over has ended, and this one still completes requests.
    pub(crate) fn successor_ended(&self, pid: u32, status: ExitStatus, deadline: Duration) {
        let event = json!({"event": "successor-ended", "pid": pid, "status": status.to_string()});
        self.event(event, |messages| {
            messages.err(format!(
                "process {pid}, which had taken over, has ended ({status}): no connection is accepted; \
                 requests in flight have {deadline:?}, then weir can be started again"
            ));
        });
    }

    /// An upgrade has failed.
    pub(crate) fn upgrade_failed(&self, reason: &str) {
        let event = json!({"event": "upgrade-failed", "error": reason});
        self.event(event, |messages| {
            messages
                .err(format!("upgrade failed: {reason}; process {} serves", std::process::id()));
        });
    }

    /// The server has stopped.
    pub(crate) fn stopped(&self, report: &DrainReport) {
        let (failed, took) = (report.failed, report.duration.as_secs_f64());
        self.event(json!({"event": "stopped", "failed": failed, "took": took}), |messages| {
            messages.out(format!("stopped after {took:.1} s, {failed} requests aborted"));
        });
    }

    /// Another message; scripts find it on standard error, too.
    pub(crate) fn note(&self, text: &str) {
        self.messages.err(format!("weir: {text}"));
    }

    /// Prints an event as JSON, or as `text` prints it.
    fn event(&self, event: Value, text: impl FnOnce(&Messages)) {
        match self.json {
            true => self.messages.out(event.to_string()),
            false => text(&self.messages),
        }
    }
}

fn show(messages: &Messages, found: &Findings) {
    if !found.list.is_empty() {
        messages.err(found.render(output::color()).trim_end().to_owned());
    }
}

fn previous_stays(messages: &Messages, why: &str) {
    messages.err(format!("reload failed: {why}; the previous configuration stays in use"));
}
