//! Configs for unit tests.

use std::path::PathBuf;
use std::time::Duration;
use weir_config::config::Config;
use weir_config::{AccessLog, Admin, Drain, JournalSettings, Limits, LogTarget, Tracker};

/// A Config with nothing in it.
pub(crate) fn config() -> Config {
    Config {
        listen: vec![],
        admin: Admin { addr: ([127, 0, 0, 1], 0).into(), hosts: vec![], tls: None },
        data: PathBuf::new(),
        workers: 1,
        limits: Limits {
            header_bytes: 32 * 1024,
            headers: 100,
            url: 8 * 1024,
            body: 10 * 1024 * 1024,
            connections: 20_000,
            header_time: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            request: None,
            http2_streams: 100,
            failed_authentication: None,
        },
        drain: Drain { delay: Duration::ZERO, deadline: Duration::from_secs(30) },
        access_log: AccessLog { format: None, target: LogTarget::Stderr },
        journal: JournalSettings::default(),
        tracker: Tracker::default(),
        monitor: weir_config::Monitor::default(),
        telemetry: None,
        scripts: weir_config::Scripts { memory: 32 << 20 },
        upstreams: vec![],
        pools: vec![],
        auths: vec![],
        plans: vec![],
        consumers: vec![],
        apis: vec![],
        sources: vec![],
    }
}
