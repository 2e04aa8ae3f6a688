//! Data source of commands: a running server, or a data folder.

use crate::admin_client::{AdminClient, Trusted};
use crate::{data_folder, output};
use anyhow::{Context, ensure};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_config::{Config, Source, Tls, secret_file};
use weir_net::listen;
use weir_net::tls::self_signed_certificate;
use weir_tracker::Tracker;

/// Arguments of a running server.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// Admin listener of the weir to query, http[s]://HOST:PORT [default: the configured one]
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// File with the admin token [default: $WEIR_TOKEN, else `admin.token` in the data folder]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// CA certificates (PEM) for the admin listener's certificate [default: the system's, and
    /// weir's own for `tls: self-signed`]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Configuration with the admin listener and the data folder
    #[arg(long, value_name = "PATH", default_value = "weir.yaml")]
    config: PathBuf,
}

/// Arguments that select a server or data folder.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DataSourceArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Data folder to read; no weir may be using it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["admin", "token_file"])]
    data: Option<PathBuf>,
}

/// Where data are read from.
pub(crate) enum DataSource {
    /// A running server.
    Server(AdminClient),
    /// A data folder.
    Folder(Arc<Tracker>),
}

impl DataSourceArgs {
    /// Selects the data source, and opens a data folder.
    ///
    /// # Errors
    /// No token, or the folder cannot be opened.
    pub(crate) fn open(&self) -> anyhow::Result<DataSource> {
        match &self.data {
            Some(data) => Ok(DataSource::Folder(self.read(data)?)),
            None => self.server().map(DataSource::Server),
        }
    }

    /// The data folder, if selected.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// Whether a running server was selected explicitly.
    pub(crate) fn names_server(&self) -> bool {
        self.server.admin.is_some()
    }

    /// The data folder of the configuration.
    ///
    /// # Errors
    /// The configuration has errors.
    pub(crate) fn configured_data(&self) -> anyhow::Result<PathBuf> {
        Ok(self.server.load()?.data)
    }

    /// Opens a data folder. The configuration sets its index, if it belongs to this folder.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub(crate) fn read(&self, data: &Path) -> anyhow::Result<Arc<Tracker>> {
        data_folder::tracker(data, self.config_of(data).as_ref())
    }

    /// The configuration, if it belongs to a data folder.
    pub(crate) fn config_of(&self, data: &Path) -> Option<Config> {
        let loaded = self.server.config.exists().then(|| self.server.load());
        let config = loaded.and_then(|loaded| {
            // Probably it belongs to another folder; otherwise the index has its settings.
            let note = |error: &anyhow::Error| {
                output::note(&format!("weir: configuration not used: {error}"))
            };
            loaded.inspect_err(note).ok()
        });
        let real = |path: &Path| path.canonicalize().ok();
        config.filter(|config| real(&config.data) == real(data))
    }

    /// A client of the running server.
    ///
    /// # Errors
    /// No token for this server.
    pub(crate) fn server(&self) -> anyhow::Result<AdminClient> {
        self.server.client()
    }
}

impl ServerArgs {
    /// The path of the configuration.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }

    /// A client of the server.
    ///
    /// # Errors
    /// No token for this server.
    pub(crate) fn client(&self) -> anyhow::Result<AdminClient> {
        let config = self.load()?;
        let url = match &self.admin {
            Some(url) => url.clone(),
            None => {
                let scheme = if config.admin.tls.is_some() { "https" } else { "http" };
                format!("{scheme}://{}", listen::reachable(config.admin.addr))
            }
        };
        let own = self_signed_certificate(&config.data);
        let trusted = match (&self.ca, &config.admin.tls) {
            (Some(ca), _) => Trusted::Only(ca.clone()),
            (None, Some(Tls::SelfSigned)) if is_local(&url) => Trusted::Only(own),
            (None, _) => Trusted::System,
        };
        AdminClient::new(&url, self.token(&url, &config.data)?, &trusted)
    }

    fn load(&self) -> anyhow::Result<Config> {
        let loaded = if self.config.exists() {
            weir_gateway::configuration::load(&Source {
                path: self.config.clone(),
                overrides: Vec::new(),
            })
        } else {
            weir_gateway::configuration::load_text("weir.yaml", "{}")
        };
        let at = || format!("{} has errors; see `weir check`", self.config.display());
        loaded.map(|loaded| loaded.config).map_err(|_| anyhow::anyhow!(at()))
    }

    /// The token. It is never an argument, because other users of the machine could see it.
    fn token(&self, url: &str, data: &Path) -> anyhow::Result<String> {
        let (path, read) = match (&self.token_file, std::env::var("WEIR_TOKEN")) {
            (Some(path), _) => (path.clone(), std::fs::read(path)),
            (None, Ok(token)) if !token.is_empty() => return Ok(token),
            // The token in the data folder is for this machine; it is sent nowhere else.
            _ if is_local(url) => {
                let path = weir_admin::first_token(data);
                let read = secret_file::read(&path);
                (path, read)
            }
            _ => anyhow::bail!("no token for {url}: set WEIR_TOKEN or --token-file"),
        };
        let cannot = || format!("cannot read the admin token in {}", path.display());
        let text = String::from_utf8(read.with_context(cannot)?).with_context(cannot)?;
        let token = text.trim();
        ensure!(!token.is_empty(), "there is no admin token in {}", path.display());
        Ok(token.to_owned())
    }
}

/// Whether a URL certainly belongs to this machine.
fn is_local(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.rsplit_once(':'));
    let host = host.map_or("", |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_s_token_stays_on_this_machine() {
        for url in ["http://127.0.0.1:9080", "https://[::1]:1", "http://localhost:1/"] {
            assert!(is_local(url), "{url}");
        }
        for url in ["http://10.0.0.1:9080", "http://a:1", "http://localhost.a.com:1", "x"] {
            assert!(!is_local(url), "{url}");
        }
    }
}
