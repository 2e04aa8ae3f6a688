//! `run.json`: command, scenario, version and host of a run.

use procfs::{CpuInfo, Current, Meminfo};
use serde::{Deserialize, Serialize};
use std::fs;

/// Description of a run, written at its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the folder's format: 1.
    pub lab: u32,
    /// Identifies the run in exported metrics.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Name of the scenario, suite or plan.
    pub name: String,
    /// Start, RFC 3339.
    pub started: String,
    /// End; empty until then.
    #[serde(default)]
    pub ended: String,
    /// Command that reproduces the run, without secrets.
    pub command: Vec<String>,
    /// Version of weir.
    pub version: String,
    /// SHA-256 of the scenario file or plan, in hexadecimal.
    #[serde(default)]
    pub scenario_sha256: String,
    /// The resolved scenario.
    #[serde(default)]
    pub scenario: serde_json::Value,
    /// Base URL of the target.
    pub target: String,
    /// Server: program and version, if known.
    #[serde(default)]
    pub server: String,
    /// A reduced run.
    #[serde(default)]
    pub quick: bool,
    /// The machine of the generator.
    pub host: Host,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// System and kernel, such as `Linux 6.1.0 x86_64`.
    pub kernel: String,
    /// Model of its processor.
    pub processor: String,
    /// Cores available to the process.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
}

impl Host {
    /// This machine; unknown fields are empty.
    #[must_use]
    pub fn here() -> Self {
        let kernel = |name: &str| {
            let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
            text.trim().to_owned()
        };
        let processors = CpuInfo::current().ok();
        let model = processors.as_ref().and_then(|processors| processors.model_name(0));
        Self {
            name: kernel("hostname"),
            kernel: format!(
                "{} {} {}",
                kernel("ostype"),
                kernel("osrelease"),
                std::env::consts::ARCH
            ),
            processor: model.unwrap_or_default().to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory: Meminfo::current().map_or(0, |memory| memory.mem_total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known() {
        let host = Host::here();
        assert!(host.cores > 0 && host.memory > 1 << 20, "{host:?}");
        assert!(host.kernel.starts_with("Linux "), "{host:?}");
    }

    #[test]
    fn an_older_file_without_later_fields_can_be_read() {
        let text = r#"{"lab":1,"name":"x","started":"","command":[],"version":"","target":"",
            "host":{"name":"","kernel":"","processor":"","cores":2,"memory":0}}"#;
        assert_eq!(serde_json::from_str::<Run>(text).expect("run").host.cores, 2);
    }
}
