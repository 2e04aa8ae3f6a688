//! Prometheus, which accepts remote write.

use super::Client;
use super::daemon::{Daemon, accepts};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const PROGRAM: &str = "/usr/bin/prometheus";

/// A running Prometheus with an empty database; it ends when dropped.
pub(crate) struct Prometheus {
    _daemon: Daemon,
    addr: SocketAddr,
    _dir: TempDir,
}

impl Prometheus {
    /// Starts one; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            eprintln!("SKIPPED: {PROGRAM} is not installed");
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary folder");
        let settings = dir.path().join("prometheus.yml");
        std::fs::write(&settings, "global: {}\n").expect("a file");
        let prepare = |addr: SocketAddr| {
            let mut command = Command::new(PROGRAM);
            command
                .arg(format!("--config.file={}", settings.display()))
                .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
                .arg(format!("--web.listen-address={addr}"))
                .arg("--web.enable-remote-write-receiver");
            command
        };
        let is_up = |addr: SocketAddr| {
            accepts(addr)
                && Client::connect(addr).try_get("/-/ready").is_some_and(|it| it.status == 200)
        };
        let (daemon, addr) = Daemon::start(dir.path(), Signal::KILL, prepare, is_up);
        Some(Self { _daemon: daemon, addr, _dir: dir })
    }

    /// The URL of remote write.
    pub(crate) fn remote_write(&self) -> String {
        format!("http://{}/api/v1/write", self.addr)
    }

    /// The value of a query with one result; `None` without any.
    pub(crate) fn query(&self, query: &str) -> Option<f64> {
        let query =
            percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC);
        let response = Client::connect(self.addr).get(&format!("/api/v1/query?query={query}"));
        let found = response.json();
        let results = found["data"]["result"].as_array().unwrap_or_else(|| panic!("{found}"));
        assert!(results.len() <= 1, "{found}");
        results.first()?["value"][1].as_str()?.parse().ok()
    }
}
