//! One side of a comparison: a file, or the configuration in force.

use crate::admin_client::AdminClient;
use std::collections::BTreeMap;
use std::path::Path;
use weir_admin::configuration::{ApiInfo, ConfigurationFile, ConfigurationState, apis};
use weir_gateway::configuration::Configuration;

/// A configuration.
pub(super) struct Side {
    /// Its texts with redacted secrets. The name is relative to the folder of the main file; that of
    /// the main file is empty.
    pub(super) files: BTreeMap<String, ConfigurationFile>,
    pub(super) apis: Vec<ApiInfo>,
    /// Settings that only a restart changes.
    pub(super) fixed: BTreeMap<String, String>,
    /// Follows the path in the header of a diff.
    pub(super) note: &'static str,
}

/// Begins the name of an override in the texts.
const OVERRIDE: &str = "--set ";

impl Side {
    /// A configuration of this machine.
    pub(super) fn of_file(loaded: &Configuration) -> Self {
        Self {
            files: named(ConfigurationFile::all(&loaded.findings)),
            apis: apis(&loaded.config),
            fixed: loaded.config.fixed_settings(),
            note: "",
        }
    }

    /// The configuration in force of a running weir.
    ///
    /// # Errors
    /// The requests fail; they require the role operator.
    pub(super) fn of_server(client: &AdminClient) -> anyhow::Result<Self> {
        let state: ConfigurationState = client.get("/v1/configuration")?;
        Ok(Self {
            files: named(state.files),
            apis: client.get("/v1/apis")?,
            fixed: state.fixed,
            note: " (in force)",
        })
    }

    /// The overrides of the command line (`--set`, and other options of `weir serve`). Those with
    /// redacted secrets are left out.
    pub(super) fn overrides(&self) -> impl Iterator<Item = (String, String)> {
        let overrides = self.files.values().filter_map(|file| {
            let key = file.path.strip_prefix(OVERRIDE)?;
            let (_, value) = file.text.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        });
        overrides.filter(|(_, value)| !value.contains('*'))
    }
}

/// The first file is the main file.
fn named(files: Vec<ConfigurationFile>) -> BTreeMap<String, ConfigurationFile> {
    let main = files.first().map(|file| file.path.clone()).unwrap_or_default();
    let folder = Path::new(&main).parent().map(Path::to_owned).unwrap_or_default();
    let name = |path: &str| match path {
        path if path == main => String::new(),
        path => match Path::new(path).strip_prefix(&folder) {
            Ok(inside) => inside.display().to_string(),
            Err(_) => path.to_owned(),
        },
    };
    files.into_iter().map(|file| (name(&file.path), file)).collect()
}
