//! The broker: its thread and its pools.

use crate::invalidation::InvalidationQueue;
use crate::log::Log;
use crate::pool::Pool;
use crate::runtime_folder::RuntimeFolder;
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

/// Interval at which a stop checks whether agents have exited.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A pool of a Config. When the last request with that Config has ended, and no later Config has
/// the same pool, its agents are stopped.
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

/// All pools, and the thread that supervises them.
pub struct Broker {
    invalidations: Arc<[Arc<InvalidationQueue>]>,
    data: PathBuf,
    log: Log,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Pools of the latest Config, and of earlier ones as long as they are used.
    handles: Vec<Weak<PoolHandle>>,
    /// Every pool that may still have agents.
    pools: Vec<Weak<Pool>>,
    /// Pools that the thread does not have yet.
    unsupervised: Vec<Supervised>,
    started: bool,
    /// Created with the first pool.
    folder: Option<Arc<RuntimeFolder>>,
    thread: Option<Thread>,
}

/// A pool, and the folder of its sockets.
type Supervised = (Arc<Pool>, Arc<RuntimeFolder>);

struct Thread {
    pools: mpsc::UnboundedSender<Supervised>,
    handle: JoinHandle<()>,
}

impl Inner {
    fn send(&mut self) {
        if let Some(thread) = self.thread.as_ref().filter(|_| self.started) {
            for pool in self.unsupervised.drain(..) {
                // The thread ends with the broker only.
                let _ = thread.pools.send(pool);
            }
        }
    }
}

/// Starts the thread, which is ready when this returns.
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
                // The panic hook has reported a panic.
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
    /// Creates a broker with its thread. `data` is the data folder, for the folder of sockets;
    /// `log` gets lines. To be called before the workers unshare the common table of descriptors:
    /// the descriptor that wakes the thread must be in theirs.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(workers: usize, data: &Path, log: Log) -> io::Result<Self> {
        let invalidations = (0..workers).map(|_| Arc::default()).collect();
        let inner = Inner { thread: Some(start()?), ..Inner::default() };
        Ok(Self { invalidations, data: data.to_owned(), log, inner: Mutex::new(inner) })
    }

    /// The connections that a worker has to close.
    pub fn invalidations(&self, worker: usize) -> Arc<InvalidationQueue> {
        Arc::clone(&self.invalidations[worker])
    }

    /// The pools of a Config, in its order. An existing pool with the same program keeps its agents
    /// and takes the new settings.
    ///
    /// # Errors
    /// The folder for sockets cannot be created, or the thread not be started.
    pub fn pools(&self, configs: &[weir_model::pool::Pool]) -> io::Result<Vec<Arc<PoolHandle>>> {
        let mut inner = self.inner();
        let before: Vec<Arc<PoolHandle>> = inner.handles.iter().filter_map(Weak::upgrade).collect();
        let mut handles = Vec::with_capacity(configs.len());
        for config in configs {
            let named = || before.iter().filter(|handle| handle.pool.name() == config.name);
            // The last one belongs to the latest Config.
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
                Arc::clone(&self.invalidations),
                Arc::clone(&self.log),
            );
            inner.pools.retain(|pool| pool.strong_count() > 0);
            inner.pools.push(Arc::downgrade(&pool));
            if inner.folder.is_none() {
                inner.folder = Some(self.folder()?);
            }
            let folder = inner.folder.clone();
            inner.unsupervised.extend(folder.map(|folder| (Arc::clone(&pool), folder)));
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

    /// Starts agents from now on. To be called when every worker has its own table of descriptors:
    /// starting a process needs descriptors to be closed, and a table that is copied at that moment
    /// would keep them open.
    pub fn start_agents(&self) {
        let mut inner = self.inner();
        inner.started = true;
        inner.send();
    }

    fn folder(&self) -> io::Result<Arc<RuntimeFolder>> {
        let folder = RuntimeFolder::open(&self.data).map_err(|error| {
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

    /// State and figures of every pool.
    pub fn snapshot(&self) -> Vec<PoolSnapshot> {
        self.current().iter().map(|handle| handle.pool.snapshot()).collect()
    }

    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<Arc<Pool>> {
        let found = self.current().into_iter().find(|handle| handle.pool.name() == name);
        found.map(|handle| Arc::clone(&handle.pool))
    }

    /// Stops all agents; kills those that have not exited after their `stop_timeout`. Blocks until
    /// then. There are no pools afterwards.
    pub fn stop(&self) {
        let (pools, thread) = {
            let mut inner = self.inner();
            inner.unsupervised.clear();
            inner.folder = None;
            let pools: Vec<Arc<Pool>> = inner.pools.iter().filter_map(Weak::upgrade).collect();
            (pools, inner.thread.take())
        };
        pools.iter().for_each(|pool| pool.close());
        drop(pools);
        if let Some(Thread { pools, handle }) = thread {
            drop(pools);
            while !handle.is_finished() {
                std::thread::sleep(STOP_POLL_INTERVAL);
            }
            let _ = handle.join();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Broker {
    /// Kills all agents if [`Broker::stop`] was not called.
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
