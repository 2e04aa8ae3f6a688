//! `weir serve`: serves a configuration.

use crate::exit::Exit;
use crate::serve;
use crate::source::SourceArgs;
use anyhow::Context;
use serde_json::json;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use weir_config::Source;

/// Arguments of `weir serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
SIGHUP and any change of a configuration file trigger a hot reload: the new configuration is applied
completely or not at all. SIGTERM and SIGINT drain and stop; a second SIGINT stops immediately. SIGUSR1
reopens log files. SIGUSR2 starts the program anew, which takes over without a lost request, as `weir
upgrade` does. Sockets passed by systemd (LISTEN_FDS) are used for the listeners with their addresses.

Exit codes:
  0  stopped; every received request was completed
  1  start failed, or requests were aborted
  2  error in the configuration

Examples:
  weir serve
  weir serve /etc/weir --workers 2
  weir serve --json --listen 127.0.0.1:0 --admin 127.0.0.1:0 weir.yaml
  weir serve --set limits.body=1MiB --set listen.0.addr=127.0.0.1:8443")]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Listen on this address without TLS, overriding the file; port 0 selects a free port; may be
    /// repeated
    #[arg(long, value_name = "ADDR")]
    listen: Vec<SocketAddr>,
    /// Address of the admin listener
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Data folder
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Number of worker threads
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// Print events as JSON lines:
    /// {"event":"ready","listen":["127.0.0.1:8080"],"admin":"127.0.0.1:9080"}
    #[arg(long)]
    json: bool,
    /// Take over from the process at standard input
    #[arg(long, hide = true)]
    takeover: bool,
}

/// Serves until stopped.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    serve::run(source(args)?, args.json, args.takeover)
}

/// The flags as settings, overridden by `--set`.
fn source(args: &Args) -> anyhow::Result<Source> {
    let mut source = args.source.source();
    let mut settings = Vec::new();
    let mut set = |path: &str, value: serde_json::Value| {
        // JSON is YAML.
        settings.push((path.to_owned(), value.to_string()));
    };
    if !args.listen.is_empty() {
        let addrs: Vec<_> = args.listen.iter().map(|addr| json!({"addr": addr})).collect();
        set("listen", json!(addrs));
    }
    if let Some(addr) = args.admin {
        set("admin.addr", json!(addr));
    }
    if let Some(data) = &args.data {
        // A path on the command line is relative to the working directory, not to the
        // configuration.
        let data = std::path::absolute(data).context("--data")?;
        set("data", json!(data.to_str().context("--data is not UTF-8")?));
    }
    if let Some(workers) = args.workers {
        set("workers", json!(workers));
    }
    settings.append(&mut source.overrides);
    Ok(Source { overrides: settings, ..source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn flags_become_settings_under_set() {
        let line = "serve w.yaml --set workers=3 --listen 127.0.0.1:0 --listen [::1]:80 \
            --admin 127.0.0.1:1 --data /d --workers 2";
        let source = source(&Line::parse_from(line.split_whitespace()).args).unwrap();
        let settings: Vec<(&str, &str)> =
            source.overrides.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
        assert_eq!(
            settings,
            [
                ("listen", r#"[{"addr":"127.0.0.1:0"},{"addr":"[::1]:80"}]"#),
                ("admin.addr", "\"127.0.0.1:1\""),
                ("data", "\"/d\""),
                ("workers", "2"),
                ("workers", "3"),
            ]
        );
    }
}
