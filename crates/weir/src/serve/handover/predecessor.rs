//! The predecessor, as its successor sees it.

use super::{FromPredecessor, FromSuccessor, Progress, receive, send};
use crate::serve::messages::Messages;
use crate::serve::thread::{Running, Thread, ThreadContext};
use anyhow::{Context, anyhow, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_journal::{Journal, RecoveryReport};
use weir_limit::QuotaCount;
use weir_net::channel::Channel;
use weir_net::passed::{Passed, PassedSockets};
use weir_server::Gateway;
use weir_store::revoked_keys::RevokedKeys;

/// The thread that follows the predecessor.
const THREAD: Thread = Thread { name: "predecessor", task: "predecessor", nice: 0 };
/// Limit on the wait for a message of the predecessor.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Interval of checks for a stop.
const INTERVAL: Duration = Duration::from_millis(100);
/// Pause after a failure of the disk.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The process that this one takes over from.
#[derive(Debug)]
pub(in crate::serve) struct Predecessor {
    channel: Channel,
    /// To wait for its end, where the system has such descriptors.
    process: Option<OwnedFd>,
}

/// What the predecessor hands over with the data folder.
#[derive(Debug, Default)]
pub(in crate::serve) struct Folder {
    /// The lock of the journal.
    pub(in crate::serve) lock: Option<OwnedFd>,
    pub(in crate::serve) progress: Progress,
}

impl Predecessor {
    /// Connects by standard input, which is empty afterwards.
    ///
    /// # Errors
    /// Standard input is no connection to a running weir.
    pub(in crate::serve) fn connect() -> anyhow::Result<Self> {
        let what = "--takeover is for `weir upgrade`, which passes a socket as standard input";
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().context(what)?);
        stream.peer_addr().context(what)?;
        let peer = rustix::net::sockopt::socket_peercred(&stream).context(what)?;
        let empty = File::open("/dev/null").context("/dev/null")?;
        rustix::stdio::dup2_stdin(&empty).context("standard input")?;
        let process = pidfd_open(peer.pid, PidfdFlags::empty()).ok();
        Ok(Self { channel: Channel::new(stream), process })
    }

    /// Reports a failed start.
    pub(in crate::serve) fn failed(&self, reason: &str) {
        // The predecessor notices the end of this process, too.
        let _ = send(&self.channel, &FromSuccessor::Failed { reason: reason.to_owned() }, &[]);
    }

    /// Reports that the configuration is valid, and receives the sockets.
    pub(in crate::serve) fn sockets(&self, data: &Path) -> anyhow::Result<Passed> {
        let data = std::path::absolute(data)?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        send(&self.channel, &FromSuccessor::Loaded { version, data }, &[])?;
        let (mut passed, mut sockets): (_, Vec<TcpListener>) = (Vec::new(), Vec::new());
        loop {
            let (message, descriptors) = self.next()?;
            match message {
                FromPredecessor::Sockets { configured, addr, admin, permanent, more } => {
                    sockets.extend(descriptors.into_iter().map(TcpListener::from));
                    if !more {
                        let sockets = std::mem::take(&mut sockets);
                        passed.push(PassedSockets { configured, addr, admin, sockets, permanent });
                    }
                }
                FromPredecessor::NoMoreSockets => return Ok(Passed::by_predecessor(passed)),
                other => bail!("unexpected message {other:?}"),
            }
        }
    }

    /// Reports that everything else is ready, and receives the data folder.
    pub(in crate::serve) fn folder(&self, unclaimed: &Passed) -> anyhow::Result<Folder> {
        send(&self.channel, &FromSuccessor::Prepared { left: unclaimed.addrs() }, &[])?;
        match self.next()? {
            (FromPredecessor::Folder(progress), mut descriptors) => {
                ensure!(descriptors.len() <= 1, "unexpected descriptors");
                Ok(Folder { lock: descriptors.pop(), progress })
            }
            (other, _) => Err(anyhow!("unexpected message {other:?}")),
        }
    }

    /// Reports that connections are accepted.
    pub(in crate::serve) fn serving(&self) -> anyhow::Result<()> {
        send(&self.channel, &FromSuccessor::Serving, &[]).context("the old process has ended")
    }

    fn next(&self) -> anyhow::Result<(FromPredecessor, Vec<OwnedFd>)> {
        let received = receive(&self.channel, Some(TIMEOUT)).context("the old process")?;
        received.context("the old process has ended")
    }

    /// Starts the thread that follows the predecessor until it has ended, and adopts its lanes then.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(in crate::serve) fn follow(
        self: Arc<Self>,
        progress: &Progress,
        (journal, gateway, revoked_keys): (Option<Arc<Journal>>, &Arc<Gateway>, &Arc<RevokedKeys>),
        messages: &Messages,
        ended: &Ended,
    ) -> io::Result<Running> {
        let context = ThreadContext::new(messages);
        let mut worker = Follow {
            predecessor: self,
            journal,
            gateway: Arc::clone(gateway),
            revoked_keys: Arc::clone(revoked_keys),
            admitted: HashMap::new(),
            context: context.clone(),
            ended: ended.clone(),
        };
        worker.more_admitted(progress.quotas());
        THREAD.start(&context, || {}, worker, Follow::run, |_| {})
    }
}

/// Whether the predecessor has ended; true without one.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Ended(Arc<AtomicBool>);

impl Ended {
    /// With a predecessor, it has not ended yet.
    pub(in crate::serve) fn new(predecessor: bool) -> Self {
        Self(Arc::new(AtomicBool::new(!predecessor)))
    }

    pub(in crate::serve) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Plan, consumer, window and length of a rolling quota.
type QuotaKey = (String, String, u64, Option<weir_config::QuotaPeriod>);

/// State of the thread.
struct Follow {
    predecessor: Arc<Predecessor>,
    journal: Option<Arc<Journal>>,
    gateway: Arc<Gateway>,
    revoked_keys: Arc<RevokedKeys>,
    /// Calls that the predecessor has admitted, as far as they are counted here.
    admitted: HashMap<QuotaKey, u64>,
    context: ThreadContext,
    ended: Ended,
}

impl Follow {
    fn run(&mut self) {
        while !self.context.stopped() {
            match receive(&self.predecessor.channel, Some(INTERVAL)) {
                Ok(Some((FromPredecessor::Progress(progress), _))) => self.progress(&progress),
                Ok(Some(_)) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(None) | Err(_) => break,
            }
        }
        while !self.context.stopped() && !self.predecessor.has_ended() {}
        self.read_revoked_keys();
        while !self.context.stopped() {
            match self.journal.as_ref().map_or(Ok(RecoveryReport::default()), |one| one.adopt()) {
                Ok(report) => {
                    self.ended.0.store(true, Ordering::Release);
                    let RecoveryReport { interrupted, .. } = report;
                    let left = match interrupted {
                        0 => String::new(),
                        _ => format!("; {interrupted} transactions were interrupted"),
                    };
                    self.context.note(&format!("the old process has ended{left}"));
                    return;
                }
                Err(error) => {
                    self.context.failed(&format!("cannot adopt the journal: {error}"));
                    std::thread::sleep(RETRY_INTERVAL);
                }
            }
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if let Some(journal) = &self.journal
            && let Err(error) = journal.follow_predecessor(&progress.lanes())
        {
            // The lanes are read completely when they are adopted.
            self.context.failed(&format!("cannot read the journal of the old process: {error}"));
        }
        self.read_revoked_keys();
        let more = self.more_admitted(progress.quotas());
        self.gateway.limiter().add_quota_counts(&more);
    }

    /// Its admin listener may have revoked keys after this process had read them.
    fn read_revoked_keys(&mut self) {
        if let Err(error) = self.revoked_keys.reload() {
            self.context.failed(&format!("cannot read the revoked API keys: {error}"));
        }
    }

    /// Calls that the predecessor has admitted since its last report.
    fn more_admitted(&mut self, counts: Vec<QuotaCount>) -> Vec<QuotaCount> {
        let more = counts.into_iter().filter_map(|mut count| {
            let QuotaCount { plan, consumer, window_start, rolling, .. } = count.clone();
            let key = (plan, consumer, window_start, rolling);
            let before = self.admitted.insert(key, count.calls).unwrap_or(0);
            count.calls = count.calls.saturating_sub(before);
            (count.calls > 0).then_some(count)
        });
        more.collect()
    }
}

impl Predecessor {
    /// Waits for a short time for the end of the process: its threads write to the journal until
    /// then.
    fn has_ended(&self) -> bool {
        let Some(process) = &self.process else {
            std::thread::sleep(INTERVAL);
            return true;
        };
        let wait = Timespec { tv_sec: 0, tv_nsec: INTERVAL.as_nanos() as i64 };
        let mut polled = [PollFd::new(process, PollFlags::IN)];
        !matches!(poll(&mut polled, Some(&wait)), Ok(0) | Err(rustix::io::Errno::INTR))
    }
}
