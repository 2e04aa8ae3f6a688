//! `weir upgrade`: another process takes over, and this one completes its requests.

use super::control::Control;
use super::control_socket::{ControlSocket, Response};
use super::handover::Progress;
use super::handover::successor::Successor;
use super::recording::Recording;
use super::service_manager;
use crate::exit::Exit;
use crate::output;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use weir_net::passed::PassedSockets;

/// Program of this process, also after its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// Interval of reports to the successor.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Time for WebSockets to be closed at the end.
const CLOSE_TIME: Duration = Duration::from_secs(1);
/// Pause before another successor is started.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// What an upgrade needs of the parts of a server.
pub(super) struct Upgrades {
    /// The program of this process, by its path at the start.
    pub(super) program: PathBuf,
    pub(super) socket: ControlSocket,
    pub(super) admin: AdminListener,
    /// Whether a predecessor still runs.
    pub(super) predecessor_ended: super::handover::predecessor::Ended,
}

/// The admin listener in service.
pub(super) struct AdminListener {
    pub(super) socket: PassedSockets,
    pub(super) task: JoinHandle<()>,
    pub(super) closing: watch::Sender<bool>,
}

/// What the successor needs of the journal.
struct Released {
    lock: Option<OwnedFd>,
}

impl Control {
    /// Replaces this process by a successor. Returns the result once the requests of this process
    /// have ended; `None` if nothing has changed.
    pub(super) async fn upgrade(
        &mut self,
        upgrades: &mut Upgrades,
        recording: &mut Recording,
        program: Option<PathBuf>,
        respond: Option<oneshot::Sender<Response>>,
    ) -> Option<Exit> {
        let respond = |response| {
            if let Some(respond) = respond {
                // The client may have disconnected.
                let _ = respond.send(response);
            }
        };
        let program = program.unwrap_or_else(|| upgrades.program.clone());
        let prepared = match upgrades.predecessor_ended.get() {
            true => self.prepare(upgrades, &program).await,
            false => Err("the process before this one still completes requests; try again later \
                          (`drain.upgrade` limits the time)"
                .to_owned()),
        };
        let mut successor = match prepared {
            Ok(successor) => successor,
            Err(reason) => {
                self.upgrade_failed(&reason);
                respond(Response::Failed { reason });
                return None;
            }
        };
        let released = release(recording).await;
        let mut failure = None;
        loop {
            let (handed, reason) = self.hand_over(successor, recording, &released).await;
            let Some(reason) = reason else {
                successor = handed;
                break;
            };
            self.upgrade_failed(&reason);
            failure.get_or_insert(reason);
            // The data folder is released: this program takes it over again, as another process.
            successor = loop {
                match self.prepare(upgrades, Path::new(OWN_PROGRAM)).await {
                    Ok(successor) => break successor,
                    Err(reason) => self.upgrade_failed(&reason),
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            };
        }
        let (pid, old_pid) = (successor.pid(), std::process::id());
        service_manager::main_process(pid);
        respond(match failure {
            None => Response::Upgraded { pid, version: successor.version.clone(), old_pid },
            Some(reason) => Response::Failed {
                reason: format!("{reason}; process {pid} of the old version has taken over"),
            },
        });
        self.events.handed_over(pid, &successor.version);
        Some(self.leave(upgrades, recording, successor).await)
    }

    /// Starts a successor, which needs nothing but the data folder then.
    async fn prepare(&self, upgrades: &Upgrades, program: &Path) -> Result<Successor, String> {
        let sockets = self.gateway.duplicate_listeners().and_then(|mut listeners| {
            let AdminListener { socket, .. } = &upgrades.admin;
            let sockets = socket.sockets.iter().map(std::net::TcpListener::try_clone);
            let PassedSockets { configured, addr, admin, permanent, .. } = *socket;
            let sockets = sockets.collect::<Result<_, _>>()?;
            listeners.push(PassedSockets { configured, addr, admin, sockets, permanent });
            Ok(listeners)
        });
        let sockets = sockets.map_err(|error| format!("cannot pass the sockets: {error}"))?;
        let (program, data) = (program.to_owned(), self.upstreams.config.data.clone());
        let prepared =
            tokio::task::spawn_blocking(move || Successor::prepare(&program, sockets, &data));
        match prepared.await {
            Ok(prepared) => prepared.map_err(|error| output::with_causes(&error)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Hands over the data folder. The reason is that of a failure.
    async fn hand_over(
        &self,
        mut successor: Successor,
        recording: &Recording,
        released: &Released,
    ) -> (Successor, Option<String>) {
        let progress = self.progress(recording);
        let lock = released.lock.as_ref().map(OwnedFd::try_clone).transpose();
        let lock = match lock {
            Ok(lock) => lock,
            Err(error) => return (successor, Some(format!("cannot pass the lock: {error}"))),
        };
        let handed = tokio::task::spawn_blocking(move || {
            let handed = successor.hand_over(progress, lock.as_ref());
            (successor, handed.err().map(|error| output::with_causes(&error)))
        });
        match handed.await {
            Ok(handed) => handed,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    fn progress(&self, recording: &Recording) -> Progress {
        let lanes = recording.journal.as_ref().map(|journal| journal.progress());
        Progress::new(&lanes.unwrap_or_default(), self.gateway.limiter().quota_counts())
    }

    /// Completes the requests of this process.
    async fn leave(
        &mut self,
        upgrades: &mut Upgrades,
        recording: &Recording,
        mut successor: Successor,
    ) -> Exit {
        upgrades.socket.leave();
        upgrades.admin.task.abort();
        let _ = upgrades.admin.closing.send(true);
        let addrs = self.gateway.duplicate_listeners().unwrap_or_default();
        let taken = addrs.iter().enumerate();
        let taken = taken.filter(|(_, one)| !successor.left.contains(&one.addr));
        self.gateway.hand_over(&taken.map(|(index, _)| index).collect::<Vec<_>>());
        drop(addrs);
        upgrades.admin.socket.sockets.clear();
        let config = Arc::clone(&self.upstreams.config);
        let end = Instant::now() + config.drain.upgrade;
        let mut deadline = CLOSE_TIME;
        while !self.gateway.is_drained() && Instant::now() < end {
            successor.report(self.progress(recording));
            if let Some(status) = successor.ended() {
                // Nobody accepts connections until the service manager has started weir again, and that
                // one waits for the data folder of this process.
                self.events.successor_ended(successor.pid(), status, config.drain.deadline);
                deadline = config.drain.deadline;
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(REPORT_INTERVAL) => {}
                () = self.stop_requested() => {
                    deadline = config.drain.deadline;
                    break;
                }
            }
        }
        let exit = self.finish(Duration::ZERO, deadline).await;
        successor.report(self.progress(recording));
        exit
    }

    fn upgrade_failed(&self, reason: &str) {
        self.reloads.upgrade_failed();
        self.events.upgrade_failed(reason);
    }
}

/// Ends the parts that change the data folder, except for the writers of lanes.
async fn release(recording: &mut Recording) -> Released {
    let parts = recording.take_followers();
    let journal = recording.journal.clone();
    let released = tokio::task::spawn_blocking(move || {
        // Each writes what it has read.
        drop(parts);
        journal.and_then(|journal| journal.release().ok())
    });
    Released { lock: released.await.unwrap_or_default() }
}
