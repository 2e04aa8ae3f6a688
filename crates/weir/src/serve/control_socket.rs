//! The control socket in the data folder: commands of local users with the rights of weir's own user.
//!
//! A client writes one line of JSON and receives one. The socket has mode 0600, and the peer must be
//! weir's user or root.

use super::events::Events;
use crate::backup::Manifest;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Name of the socket.
const NAME: &str = "control.sock";
/// Limits on a command: its bytes, and the time until it has arrived.
const MAX_BYTES: u64 = 64 * 1024;
const TIMEOUT: Duration = Duration::from_secs(10);

/// The path of the socket of a data folder.
pub(crate) fn path(data: &Path) -> PathBuf {
    data.join(NAME)
}

/// A command.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    /// Replace the running process by this program, or by its own.
    Upgrade {
        /// Its absolute path.
        program: Option<PathBuf>,
    },
    /// Write a backup.
    Backup {
        /// The absolute path of its folder.
        folder: PathBuf,
    },
}

/// The response.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Response {
    /// Another process serves.
    Upgraded {
        /// Its process id.
        pid: u32,
        /// Its version.
        version: String,
        /// The process that has served until now, and ends when its requests have.
        old_pid: u32,
    },
    /// The backup is complete.
    BackedUp {
        /// Number of its files.
        files: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// Nothing has changed.
    Failed {
        /// Why.
        reason: String,
    },
}

impl Response {
    pub(crate) fn backed_up(manifest: &Manifest) -> Self {
        let (files, bytes) = manifest.size();
        Self::BackedUp { files, bytes }
    }
}

/// A command, and where its response goes.
pub(super) type Received = (Command, oneshot::Sender<Response>);

/// The socket, removed when it is dropped.
#[derive(Debug)]
pub(super) struct ControlSocket {
    path: PathBuf,
    task: Option<JoinHandle<()>>,
    pub(super) commands: mpsc::Receiver<Received>,
}

impl ControlSocket {
    /// Opens the socket of a data folder. If this fails, commands are unavailable.
    pub(super) fn open(data: &Path, events: &Events) -> Self {
        let path = path(data);
        let (sender, commands) = mpsc::channel(1);
        let listener = bind(&path).inspect_err(|error| {
            events.note(&format!("`weir upgrade` is unavailable: {}: {error}", path.display()));
        });
        let task = listener.ok().map(|listener| tokio::spawn(accept(listener, sender)));
        Self { path, task, commands }
    }

    /// Leaves the path to another process, which has its own socket there.
    pub(super) fn leave(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.leave();
            // Of a process that was killed it stays, and the next one replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    // Under another name first: nobody connects before the mode is set, and that of a predecessor is
    // replaced in one step.
    let new = path.with_extension("new");
    for stale in [&new] {
        match fs::remove_file(stale) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
    fs::rename(&new, path)?;
    Ok(listener)
}

async fn accept(listener: UnixListener, commands: mpsc::Sender<Received>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, commands.clone()))),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Serves one command. What fails concerns the client only.
async fn serve(stream: UnixStream, commands: mpsc::Sender<Received>) {
    let own = rustix::process::geteuid().as_raw();
    let allowed = stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0);
    if !allowed {
        return;
    }
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    let mut limited = (&mut stream).take(MAX_BYTES);
    let Ok(Ok(_)) = tokio::time::timeout(TIMEOUT, limited.read_line(&mut line)).await else {
        return;
    };
    let response = match serde_json::from_str(&line) {
        Ok(command) => run(command, &commands).await,
        Err(error) => Response::Failed { reason: format!("invalid command: {error}") },
    };
    let Ok(mut text) = serde_json::to_string(&response) else { return };
    text.push('\n');
    let _ = stream.write_all(text.as_bytes()).await;
}

async fn run(command: Command, commands: &mpsc::Sender<Received>) -> Response {
    let (sender, response) = oneshot::channel();
    let busy = || Response::Failed { reason: "another command is being run".to_owned() };
    if commands.try_send((command, sender)).is_err() {
        return busy();
    }
    let stopped = |_| Response::Failed { reason: "weir is stopping".to_owned() };
    response.await.unwrap_or_else(stopped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_responses_have_one_form() {
        let text = |value: &Response| serde_json::to_string(value).unwrap();
        let response = Response::Upgraded { pid: 2, version: "0.1.0".to_owned(), old_pid: 1 };
        let expected = r#"{"upgraded":{"pid":2,"version":"0.1.0","old_pid":1}}"#;
        assert_eq!(text(&response), expected);
        let command: Command = serde_json::from_str(r#"{"upgrade":{"program":null}}"#).unwrap();
        assert_eq!(command, Command::Upgrade { program: None });
    }
}
