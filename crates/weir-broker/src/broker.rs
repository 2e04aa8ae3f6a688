//! The broker: its thread, and the pools it looks after.

use crate::folder::Folder;
use crate::log::Log;
use crate::mailbox::Mailbox;
use crate::pool::Pool;
use crate::statistics::PoolSnapshot;
use crate::supervisor::supervise;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;

/// How often a stop looks whether agents have ended.
const GLANCE: Duration = Duration::from_millis(10);

/// A pool as a Config has it. When the last request that was begun with that Config is over, and
/// no later Config has the same pool, its agents are ended.
#[derive(Debug)]
pub struct PoolHandle {
    pool: Arc<Pool>,
}

impl PoolHandle {
    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

impl Drop for PoolHandle {
    fn drop(&mut self) {
        self.pool.close();
    }
}

/// All pools, and the thread that looks after them.
pub struct Broker {
    mailboxes: Arc<[Arc<Mailbox>]>,
    data: PathBuf,
    log: Log,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Pools of the Config that was taken last, and of earlier ones as long as they are used.
    handles: Vec<Weak<PoolHandle>>,
    /// Every pool that may still have agents.
    pools: Vec<Weak<Pool>>,
    /// Pools that are not supervised yet.
    waiting: Vec<Supervised>,
    begun: bool,
    /// There as soon as there is a pool.
    folder: Option<Arc<Folder>>,
    thread: Option<Thread>,
}

/// A pool, and where the sockets of its agents are.
type Supervised = (Arc<Pool>, Arc<Folder>);

struct Thread {
    pools: mpsc::UnboundedSender<Supervised>,
    handle: JoinHandle<()>,
}

impl Inner {
    fn send(&mut self) {
        if let Some(thread) = self.thread.as_ref().filter(|_| self.begun) {
            for pool in self.waiting.drain(..) {
                // It ends with the broker only.
                let _ = thread.pools.send(pool);
            }
        }
    }
}

/// Starts the thread; it is ready when this returns.
fn start() -> io::Result<Thread> {
    let (sender, mut receiver) = mpsc::unbounded_channel::<Supervised>();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let run = move || {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build_local(LocalOptions::default());
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        drop(ready.send(Ok(())));
        runtime.block_on(async move {
            let mut tasks: Vec<tokio::task::JoinHandle<()>> = Vec::new();
            while let Some((pool, folder)) = receiver.recv().await {
                tasks.retain(|task| !task.is_finished());
                tasks.push(tokio::task::spawn_local(supervise(pool, folder)));
            }
            for task in tasks {
                // A panic has been reported by its hook already.
                let _ = task.await;
            }
        });
    };
    let handle = std::thread::Builder::new().name("broker".to_owned()).spawn(run)?;
    is_ready.recv().map_err(|_| io::Error::other("the broker ended at once"))??;
    Ok(Thread { pools: sender, handle })
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl Broker {
    /// One for so many workers, with its thread. `data` is where the folder of sockets will be;
    /// `log` gets lines. To be made before the workers part with the common table of descriptors:
    /// what wakes the thread has to be in theirs.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(workers: usize, data: &Path, log: Log) -> io::Result<Self> {
        let mailboxes = (0..workers).map(|_| Arc::default()).collect();
        let inner = Inner { thread: Some(start()?), ..Inner::default() };
        Ok(Self { mailboxes, data: data.to_owned(), log, inner: Mutex::new(inner) })
    }

    /// Where a worker learns which of its connections to close.
    pub fn mailbox(&self, worker: usize) -> Arc<Mailbox> {
        Arc::clone(&self.mailboxes[worker])
    }

    /// The pools of a Config, in its order. One that is there already, with the same program, goes
    /// on with its agents and takes over the rest.
    ///
    /// # Errors
    /// The folder for sockets cannot be made, or the thread not be started.
    pub fn pools(&self, configs: &[weir_config::Pool]) -> io::Result<Vec<Arc<PoolHandle>>> {
        let mut inner = self.inner();
        let before: Vec<Arc<PoolHandle>> = inner.handles.iter().filter_map(Weak::upgrade).collect();
        let mut handles = Vec::with_capacity(configs.len());
        for config in configs {
            let named = || before.iter().filter(|handle| handle.pool.name() == config.name);
            // The last one is of the latest Config.
            let same = named().next_back().filter(|handle| handle.pool.has_agents_of(config));
            if let Some(handle) = same {
                handle.pool.adjust(config);
                handles.push(Arc::clone(handle));
                continue;
            }
            let counts = named().next_back().map(|handle| Arc::clone(handle.pool.counts()));
            let pool = Pool::new(
                config,
                counts.unwrap_or_default(),
                Arc::clone(&self.mailboxes),
                Arc::clone(&self.log),
            );
            inner.pools.retain(|pool| pool.strong_count() > 0);
            inner.pools.push(Arc::downgrade(&pool));
            if inner.folder.is_none() {
                inner.folder = Some(self.folder()?);
            }
            let place = inner.folder.clone();
            inner.waiting.extend(place.map(|folder| (Arc::clone(&pool), folder)));
            handles.push(Arc::new(PoolHandle { pool }));
        }
        inner.send();
        inner.handles = before
            .iter()
            .filter(|old| !handles.iter().any(|handle| Arc::ptr_eq(old, handle)))
            .chain(&handles)
            .map(Arc::downgrade)
            .collect();
        Ok(handles)
    }

    /// From here on agents are started. To be called when every worker has a table of descriptors
    /// of its own: while a process is being started there are descriptors that must be closed for
    /// it to go on, and a table that is made at that moment would keep them.
    pub fn begin(&self) {
        let mut inner = self.inner();
        inner.begun = true;
        inner.send();
    }

    fn folder(&self) -> io::Result<Arc<Folder>> {
        let folder = Folder::open(&self.data).map_err(|error| {
            let text = format!("{}/agents: {error}", self.data.display());
            io::Error::new(error.kind(), text)
        })?;
        Ok(Arc::new(folder))
    }

    /// The pools of the latest Config.
    fn current(&self) -> Vec<Arc<PoolHandle>> {
        let handles: Vec<_> = self.inner().handles.iter().filter_map(Weak::upgrade).collect();
        let mut latest: Vec<Arc<PoolHandle>> = Vec::new();
        for handle in handles.into_iter().rev() {
            if !latest.iter().any(|other| other.pool.name() == handle.pool.name()) {
                latest.push(handle);
            }
        }
        latest.reverse();
        latest
    }

    /// What every pool is doing and has done.
    pub fn snapshot(&self) -> Vec<PoolSnapshot> {
        self.current().iter().map(|handle| handle.pool.snapshot()).collect()
    }

    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<Arc<Pool>> {
        let found = self.current().into_iter().find(|handle| handle.pool.name() == name);
        found.map(|handle| Arc::clone(&handle.pool))
    }

    /// Ends every agent, those that do not by themselves after their `stop_timeout`. Blocks until
    /// that is done. There are no pools afterwards.
    pub fn stop(&self) {
        let (pools, thread) = {
            let mut inner = self.inner();
            inner.waiting.clear();
            inner.folder = None;
            let pools: Vec<Arc<Pool>> = inner.pools.iter().filter_map(Weak::upgrade).collect();
            (pools, inner.thread.take())
        };
        pools.iter().for_each(|pool| pool.close());
        drop(pools);
        if let Some(Thread { pools, handle }) = thread {
            drop(pools);
            while !handle.is_finished() {
                std::thread::sleep(GLANCE);
            }
            let _ = handle.join();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Broker {
    /// Whoever does not stop in order leaves no agents behind either.
    fn drop(&mut self) {
        let inner = self.inner();
        if inner.thread.is_none() {
            return;
        }
        for pid in inner.pools.iter().filter_map(Weak::upgrade).flat_map(|pool| pool.pids()) {
            if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }
}
