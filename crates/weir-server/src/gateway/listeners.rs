//! The listeners of a running gateway, as another process gets them.
//!
//! The sockets are in the tables of the workers. This thread keeps duplicates to pass on; they never
//! accept.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_config::Config;
use weir_net::listen::Listening;
use weir_net::passed::PassedSockets;

/// The listeners, in the order of the configuration at the start.
#[derive(Debug)]
pub(super) struct Listeners {
    addresses: Vec<Addresses>,
    /// Whether another process has the sockets of a listener, too.
    shared: Vec<Arc<AtomicBool>>,
    /// Number of sockets of each listener, and all of them.
    counts: Vec<usize>,
    duplicates: Mutex<Vec<TcpListener>>,
}

/// The address of a listener.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    configured: SocketAddr,
    bound: SocketAddr,
    permanent: bool,
}

impl Listeners {
    /// Duplicates the sockets.
    pub(super) fn new(listeners: &[Listening], config: &Config) -> io::Result<Self> {
        let addresses = listeners.iter().zip(&config.listen).map(|(listening, configured)| {
            let Listening { addr, permanent, .. } = *listening;
            Addresses { configured: configured.addr, bound: addr, permanent }
        });
        let shared = |one: &Listening| Arc::new(AtomicBool::new(one.permanent));
        let all = listeners.iter().flat_map(|one| one.workers.iter().flatten());
        Ok(Self {
            addresses: addresses.collect(),
            shared: listeners.iter().map(shared).collect(),
            counts: listeners.iter().map(|one| one.workers.iter().flatten().count()).collect(),
            duplicates: Mutex::new(all.map(TcpListener::try_clone).collect::<Result<_, _>>()?),
        })
    }

    /// Whether another process has the sockets of a listener, too.
    pub(super) fn shared(&self, index: usize) -> &Arc<AtomicBool> {
        &self.shared[index]
    }

    /// Another process has the sockets of these listeners from now on.
    pub(super) fn share(&self, taken: &[usize]) {
        let shared = taken.iter().filter_map(|index| self.shared.get(*index));
        shared.for_each(|one| one.store(true, Relaxed));
    }

    /// The duplicates: no thread but this one needs them.
    pub(super) fn duplicates(&self) -> MutexGuard<'_, Vec<TcpListener>> {
        self.duplicates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the duplicates, so that a socket ends with the worker that closes it.
    pub(super) fn drop_duplicates(&self) {
        self.duplicates().clear();
    }

    /// The sockets for another process.
    pub(super) fn duplicate(&self) -> io::Result<Vec<PassedSockets>> {
        let duplicates = self.duplicates();
        let mut sockets = duplicates.iter();
        let passed = self.addresses.iter().zip(&self.counts).map(|(addresses, count)| {
            let sockets = sockets.by_ref().take(*count).map(TcpListener::try_clone);
            let Addresses { configured, bound: addr, permanent } = *addresses;
            Ok(PassedSockets {
                configured,
                addr,
                admin: false,
                sockets: sockets.collect::<Result<_, _>>()?,
                permanent,
            })
        });
        passed.collect()
    }
}
