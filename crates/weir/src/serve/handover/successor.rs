//! The successor, as the running process sees it.

use super::{FromPredecessor, FromSuccessor, Progress, receive, send};
use anyhow::{Context, anyhow, bail};
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use weir_net::channel::{Channel, MAX_DESCRIPTORS};
use weir_net::passed::PassedSockets;

/// Limit on the time until the configuration is loaded, and then until all sockets are bound.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(60);
/// Limit on the time until the successor serves: it opens journal, index and counts.
const SERVE_TIMEOUT: Duration = Duration::from_secs(600);

/// A process that takes over from this one.
#[derive(Debug)]
pub(in crate::serve) struct Successor {
    channel: Channel,
    child: Child,
    pub(in crate::serve) version: String,
    /// Sockets that its configuration does not have.
    pub(in crate::serve) left: Vec<SocketAddr>,
    /// The last progress that was sent.
    sent: Progress,
}

impl Successor {
    /// Starts a program with the arguments of this process, and waits until it needs nothing but the
    /// data folder. Blocks.
    ///
    /// # Errors
    /// It cannot be started, or has failed; it has ended then.
    pub(in crate::serve) fn prepare(
        program: &Path,
        listeners: Vec<PassedSockets>,
        data: &Path,
    ) -> anyhow::Result<Self> {
        let (own, other) = UnixStream::pair().context("cannot create a socket")?;
        let child = Command::new(program)
            .args(arguments(std::env::args_os().skip(1)))
            .stdin(OwnedFd::from(other))
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let channel = Channel::new(own);
        let (version, left, sent) = (String::new(), Vec::new(), Progress::default());
        let mut successor = Self { channel, child, version, left, sent };
        let prepared = successor.exchange(listeners, data);
        prepared.map(|()| successor)
    }

    /// Its process id.
    pub(in crate::serve) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn exchange(&mut self, listeners: Vec<PassedSockets>, data: &Path) -> anyhow::Result<()> {
        match self.next(PREPARE_TIMEOUT)? {
            FromSuccessor::Loaded { version, data: other } => {
                let real = |path: &Path| path.canonicalize().ok();
                if real(&other) != real(data) {
                    let (old, new) = (data.display(), other.display());
                    bail!("the data folder has changed from {old} to {new}; that needs a restart");
                }
                self.version = version;
            }
            other => bail!("unexpected message {other:?}"),
        }
        for listener in listeners {
            self.send_sockets(&listener).context("cannot pass the listening sockets")?;
        }
        send(&self.channel, &FromPredecessor::NoMoreSockets, &[])?;
        match self.next(PREPARE_TIMEOUT)? {
            FromSuccessor::Prepared { left } => self.left = left,
            other => bail!("unexpected message {other:?}"),
        }
        Ok(())
    }

    fn send_sockets(&self, listener: &PassedSockets) -> io::Result<()> {
        let PassedSockets { configured, addr, admin, permanent, ref sockets } = *listener;
        let mut chunks = sockets.chunks(MAX_DESCRIPTORS).peekable();
        while let Some(chunk) = chunks.next() {
            let more = chunks.peek().is_some();
            let message = FromPredecessor::Sockets { configured, addr, admin, permanent, more };
            let descriptors: Vec<BorrowedFd<'_>> = chunk.iter().map(AsFd::as_fd).collect();
            send(&self.channel, &message, &descriptors)?;
        }
        Ok(())
    }

    /// Hands over the data folder, and waits until the successor serves. Blocks.
    ///
    /// # Errors
    /// It has failed; it has ended then.
    pub(in crate::serve) fn hand_over(
        &mut self,
        progress: Progress,
        lock: Option<&OwnedFd>,
    ) -> anyhow::Result<()> {
        let lock: Vec<BorrowedFd<'_>> = lock.iter().map(|lock| lock.as_fd()).collect();
        send(&self.channel, &FromPredecessor::Folder(progress.clone()), &lock)
            .context("cannot pass the data folder")?;
        self.sent = progress;
        match self.next(SERVE_TIMEOUT)? {
            FromSuccessor::Serving => Ok(()),
            other => Err(anyhow!("unexpected message {other:?}")),
        }
    }

    /// Reports progress. Without a change nothing is sent. A successor that has ended needs none.
    pub(in crate::serve) fn report(&mut self, progress: Progress) {
        if progress != self.sent {
            let changed = progress.clone().changed(&self.sent);
            let _ = send(&self.channel, &FromPredecessor::Progress(changed), &[]);
            self.sent = progress;
        }
    }

    /// The exit status, if it has ended.
    pub(in crate::serve) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The next message, unless it is a failure.
    fn next(&mut self, timeout: Duration) -> anyhow::Result<FromSuccessor> {
        match receive(&self.channel, Some(timeout)) {
            Ok(Some((FromSuccessor::Failed { reason }, _))) => {
                let _ = self.child.wait();
                Err(anyhow!("the new process has failed: {reason}"))
            }
            Ok(Some((message, _))) => Ok(message),
            Ok(None) => {
                let status = self.child.wait().context("it cannot be waited for")?;
                Err(anyhow!("the new process has ended ({status}); its output has the reason"))
            }
            Err(error) => {
                let slow = error.kind() == io::ErrorKind::WouldBlock;
                let _ = self.child.kill();
                let _ = self.child.wait();
                Err(match slow {
                    true => anyhow!("the new process was not ready within {timeout:?}"),
                    false => anyhow::Error::from(error).context("the new process does not respond"),
                })
            }
        }
    }
}

/// The arguments of the successor: those of this process, and the flag that makes it take over.
fn arguments(own: impl Iterator<Item = OsString>) -> Vec<OsString> {
    const FLAG: &str = "--takeover";
    let mut arguments: Vec<OsString> = own.filter(|argument| argument != FLAG).collect();
    // Behind the name of the subcommand.
    arguments.insert(arguments.len().min(1), FLAG.into());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_passed_once() {
        let once = |own: &str| {
            let words = arguments(own.split_whitespace().map(OsString::from));
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(once("serve weir.yaml"), "serve --takeover weir.yaml");
        assert_eq!(once("serve --takeover --json"), "serve --takeover --json");
    }
}
