//! Data source of commands: a running server, or a data folder.

use super::archive;
use super::server_args::ServerArgs;
use crate::admin_client::AdminClient;
use crate::{data_folder, output};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_config::Config;
use weir_tracker::Tracker;

/// Arguments that select a server or data folder.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DataSourceArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Data folder to read, which no weir may be using; or `s3://BUCKET/PREFIX`, an archive, with
    /// credentials and server of the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["admin", "context", "token_file"])]
    pub(crate) data: Option<PathBuf>,
    /// URL of the server of an archive [default: `AWS_ENDPOINT_URL`, or that of AWS]
    #[arg(long, value_name = "URL", requires = "data")]
    pub(crate) endpoint: Option<String>,
    /// Folder for files that are fetched from an archive [default: `weir` in the user's cache folder]
    #[arg(long, value_name = "DIR", requires = "data")]
    pub(crate) cache: Option<PathBuf>,
}

/// Where data are read from.
pub(crate) enum DataSource {
    /// A running server.
    Server(AdminClient),
    /// A data folder, or an archive.
    Folder(Arc<Tracker>),
}

impl DataSourceArgs {
    /// Selects the data source, and opens a data folder.
    ///
    /// # Errors
    /// No token, or the folder cannot be opened.
    pub(crate) fn open(&self) -> anyhow::Result<DataSource> {
        match &self.data {
            Some(data) if data_folder::is_archive(data) => {
                let from = (self.endpoint.as_deref(), self.cache.as_deref());
                archive::open(data, from).map(DataSource::Folder)
            }
            Some(data) => Ok(DataSource::Folder(self.read(data)?)),
            None => self.server.client().map(DataSource::Server),
        }
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
        let loaded = self.server.config().exists().then(|| self.server.load());
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
}
