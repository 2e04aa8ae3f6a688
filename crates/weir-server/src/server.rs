//! Worker threads: they accept connections, follow reloads and the phases of a drain, and evict
//! idle connections.

mod accept;
mod descriptors;

pub(crate) use accept::Accepting;
pub(crate) use descriptors::{TableUnshare, unshares};

use crate::injection;
use accept::listeners;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::Ordering::Release;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use weir_config::IoBackend;
use weir_gateway::authorization_server;
use weir_gateway::worker::{Control, Phase, Worker};
use weir_http::clock;
use weir_net::descriptors::Complaint;
use weir_upstream::check;

/// Interval of eviction of idle upstream connections, and of ticks of the journal.
const SWEEP: Duration = Duration::from_secs(1);
/// How long a worker waits at its end for clients to take the last bytes of responses.
const SETTLE: Duration = Duration::from_secs(5);

/// Runs a worker on this thread until the end of a drain.
pub(crate) fn run(
    worker: &'static Worker,
    sockets: Vec<(usize, TcpListener, Accepting)>,
    unshare: TableUnshare,
    orders: mpsc::Receiver<injection::Injected>,
    control: watch::Receiver<Control>,
    with_ring: bool,
) -> io::Result<()> {
    weir_journal::use_short_time_slices();
    // Declared before the runtime, with which the tasks end: the ring ends after them.
    let _ring;
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .on_thread_park(weir_ring::park)
        .on_thread_unpark(clock::turn)
        .build_local(LocalOptions::default())?;
    // After the runtime is created: all other threads need its descriptors to wake it.
    let split = sockets.into_iter().map(|(listener, socket, open)| ((listener, socket), open));
    let (sockets, open): (Vec<(usize, TcpListener)>, Vec<Accepting>) = split.unzip();
    unshare.run(sockets.iter().map(|(_, socket)| socket));
    _ring = match with_ring.then(weir_ring::start).transpose() {
        Err(error) if worker.live().site.config.io == IoBackend::Auto => {
            let index = worker.index;
            (worker.shared.messages)(format!("worker {index} uses epoll: io_uring: {error}"));
            None
        }
        started => started?,
    };
    runtime.block_on(async move {
        let mut accepting = Vec::new();
        for (listener, open) in listeners(worker, sockets)?.into_iter().zip(open) {
            accepting.push(tokio::task::spawn_local(listener.accept(open, control.clone())));
        }
        tokio::task::spawn_local(weir_ring::driver()?);
        tokio::task::spawn_local(sweep(worker));
        tokio::task::spawn_local(injection::receive(worker, orders));
        tokio::task::spawn_local(
            worker.agents.tend(worker.shared.broker.invalidations(worker.index)),
        );
        follow(worker, control).await;
        for task in accepting {
            // Ends with the phase; an error would be a panic, which its hook has reported.
            let _ = task.await;
        }
        // What clients have not taken yet would be lost with the ring.
        let _ = tokio::time::timeout(SETTLE, weir_ring::settle()).await;
        Ok(())
    })
}

/// Follows the control until the drain ends, or every connection is closed.
async fn follow(worker: &'static Worker, mut control: watch::Receiver<Control>) {
    loop {
        let now = control.borrow_and_update().clone();
        worker.follow(&now);
        let Control { phase, version, .. } = now;
        worker.stats.version.store(version, Release);
        if phase != worker.phase() {
            worker.set_phase(phase);
        }
        if phase == Phase::Over || control.changed().await.is_err() {
            return;
        }
    }
}

async fn sweep(worker: &'static Worker) {
    let mut complaint = Complaint::default();
    let mut ring = weir_ring::Statistics::default();
    loop {
        tokio::time::sleep(SWEEP).await;
        let exhausted = worker.stats.descriptors_exhausted.get();
        let (live, now) = (worker.live(), Instant::now());
        let address =
            |index: usize| live.site.config.listen.get(index).map(|listener| listener.addr);
        let server = format!("worker {}", worker.index);
        let lines = [
            complaint.due(worker.index, exhausted, now),
            worker.handshakes.due(&server, address, now),
            worker.over_budget.due(worker.index, now),
        ];
        lines.into_iter().flatten().for_each(|line| (worker.shared.messages)(line));
        live.sweep();
        authorization_server::refresh_key_sets(&live);
        for (upstream, config) in live.upstreams.iter().zip(&live.site.config.upstreams) {
            if let Some(check) = &config.health.check {
                check::start_due(upstream, check);
            }
        }
        worker.recorder.tick();
        weir_ring::turn_soon();
        ring = count_ring(worker, ring);
    }
}

/// Adds what the ring of this thread has done since `before`; returns what it has done until now.
fn count_ring(worker: &Worker, before: weir_ring::Statistics) -> weir_ring::Statistics {
    let now = weir_ring::statistics();
    worker.stats.ring_enters.add(now.enters - before.enters);
    worker.stats.ring_operations.add(now.completed - before.completed);
    worker.stats.ring_without_buffer.add(now.without_buffer - before.without_buffer);
    worker.stats.ring_orphans_reset.add(now.orphans_reset - before.orphans_reset);
    now
}
