//! Commands for the control socket of a running weir.

use crate::serve::control_socket::{self, Command, Response};
use anyhow::Context;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use weir_config::{Config, Source};

/// Which running weir.
#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// Configuration with the data folder of the running weir
    #[arg(long, value_name = "PATH", default_value = "weir.yaml")]
    config: PathBuf,
    /// Data folder of the running weir [default: the configured one]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// A connection to the control socket.
pub(crate) struct Connection(UnixStream);

impl ControlArgs {
    /// The data folder.
    ///
    /// # Errors
    /// It is in a configuration that has errors.
    pub(crate) fn data(&self) -> anyhow::Result<PathBuf> {
        self.data.clone().map_or_else(|| self.load().map(|config| config.data), Ok)
    }

    /// The data folder, and the files of its configuration, if the configuration selects it.
    ///
    /// # Errors
    /// As of [`ControlArgs::data`].
    pub(crate) fn folder_and_sources(&self) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
        match &self.data {
            Some(data) => Ok((data.clone(), Vec::new())),
            None => self.load().map(|config| (config.data, config.sources)),
        }
    }

    /// A connection to the weir that uses the data folder; `None` if there is none.
    ///
    /// # Errors
    /// The socket cannot be used, or the configuration has errors.
    pub(crate) fn connect(&self) -> anyhow::Result<Option<Connection>> {
        let path = control_socket::path(&self.data()?);
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Some(Connection(stream))),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    fn load(&self) -> anyhow::Result<Config> {
        let source = Source { path: self.config.clone(), ..Default::default() };
        let loaded = weir_gateway::configuration::load(&source).map_err(|_| {
            let path = self.config.display();
            anyhow::anyhow!("{path} has errors; see `weir check`, or use --data")
        })?;
        Ok(loaded.config)
    }
}

impl Connection {
    /// Sends a command. Waits for the response as long as weir runs.
    ///
    /// # Errors
    /// weir ends before it responds.
    pub(crate) fn send(mut self, command: &Command) -> anyhow::Result<Response> {
        let mut line = serde_json::to_string(command)?;
        line.push('\n');
        let lost = "weir has ended without a response; see its output";
        self.0.write_all(line.as_bytes()).context(lost)?;
        let mut response = String::new();
        BufReader::new(self.0).read_line(&mut response).context(lost)?;
        serde_json::from_str(&response).context(lost)
    }
}
