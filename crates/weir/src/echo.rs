//! The echo backend: the upstream of examples, tests and performance comparisons.
//!
//! The backend must cost far less than the server under test: a loop on the wire codec with reused
//! buffers, with one read and one write per request. Each worker is a thread with its own runtime
//! and its own socket. Clients are trusted: sizes are bounded, times are not.

mod connection;
mod response;
mod websocket;

use crate::output;
use anyhow::Context;
use std::cell::Cell;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use weir_net::listen::{self, BindError};

/// Largest request body; a larger one gets 413.
pub(crate) const LARGEST_BODY: usize = 1024 * 1024;

/// Largest number of connections of a worker; further ones are closed at once.
const CONNECTIONS: usize = 20_000;

/// Settings.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Addresses; port 0 chooses a free port.
    pub(crate) listen: Vec<SocketAddr>,
    /// Threads, at least 1.
    pub(crate) workers: usize,
    /// Delay of every response, without blocking a thread.
    pub(crate) delay: Duration,
}

/// Bound sockets that are not served yet.
pub(crate) struct Bound {
    sockets: Vec<Vec<TcpListener>>,
    delay: Duration,
}

/// Binds every address.
///
/// # Errors
/// An address cannot be bound; the message names it.
pub(crate) fn bind(options: &Options) -> Result<Bound, BindError> {
    let sockets = options
        .listen
        .iter()
        .map(|&addr| listen::bind(addr, options.workers))
        .collect::<Result<_, _>>()?;
    Ok(Bound { sockets, delay: options.delay })
}

impl Bound {
    /// Bound addresses.
    ///
    /// # Errors
    /// The address cannot be read.
    pub(crate) fn addrs(&self) -> std::io::Result<Vec<SocketAddr>> {
        self.sockets.iter().flat_map(|same| same.first()).map(TcpListener::local_addr).collect()
    }

    /// Starts the workers, which run until the process ends.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(self) -> anyhow::Result<()> {
        let delay = self.delay;
        let workers = self.sockets.iter().map(Vec::len).max().unwrap_or(0);
        let mut shares: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
        for same in self.sockets {
            for (share, socket) in shares.iter_mut().zip(same) {
                share.push(socket);
            }
        }
        for (index, sockets) in shares.into_iter().enumerate() {
            std::thread::Builder::new()
                .name(format!("echo-{index}"))
                .spawn(move || match runtime() {
                    Ok(runtime) => runtime.block_on(worker(sockets, delay)),
                    Err(error) => output::error(&format!("echo-{index} failed: {error}")),
                })
                .context("cannot start a thread")?;
        }
        Ok(())
    }
}

fn runtime() -> std::io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_io().enable_time().build_local(LocalOptions::default())
}

async fn worker(sockets: Vec<TcpListener>, delay: Duration) {
    let open = Rc::new(Cell::new(0));
    let accepting: Vec<_> = sockets
        .into_iter()
        .map(|socket| tokio::task::spawn_local(accept(socket, delay, open.clone())))
        .collect();
    for task in accepting {
        let _ = task.await;
    }
}

async fn accept(socket: TcpListener, delay: Duration, open: Rc<Cell<usize>>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(socket) else { return };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Probably out of file descriptors: gives connections time to end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if open.get() >= CONNECTIONS {
            continue;
        }
        open.set(open.get() + 1);
        let open = open.clone();
        tokio::task::spawn_local(async move {
            // Errors at the end of a connection concern the client only.
            let _ = connection::serve(stream, delay).await;
            open.set(open.get() - 1);
        });
    }
}
