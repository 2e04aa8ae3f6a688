//! Sockets on a real ring, also with completions that come late and in any order.

use crate::ring::MAX_ORPHANS;
use crate::socket::{Readable, Socket};
use crate::{adopt, driver, start, thread};
use io_uring::{IoUring, cqueue};
use std::future::poll_fn;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{JoinHandle, spawn_local, yield_now};

/// Completions that have arrived, and are passed on later and in any order.
#[derive(Debug)]
pub(crate) struct Disorder {
    random: fastrand::Rng,
    held: Vec<cqueue::Entry>,
}

impl Disorder {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), held: Vec::new() }
    }

    pub(crate) fn is_due(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn next(&mut self, ring: &mut IoUring) -> Option<cqueue::Entry> {
        self.held.extend(ring.completion());
        if self.held.is_empty() || self.random.u8(..4) == 0 {
            return None;
        }
        Some(self.held.swap_remove(self.random.usize(..self.held.len())))
    }
}

/// Runs a task on a thread with a ring; nothing where io_uring is not possible, which is said.
fn run(disorder: Option<u64>, task: impl AsyncFnOnce() + Send + 'static) {
    if let Err(error) = crate::probe() {
        return eprintln!("no io_uring here: {error}");
    }
    let run = move || {
        let _ring = start().unwrap();
        if let Some(seed) = disorder {
            thread::current().unwrap().disorder(seed);
        }
        let mut builder = Builder::new_current_thread();
        builder.on_thread_park(crate::park);
        let runtime = builder.enable_all().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            spawn_local(driver().unwrap());
            tokio::time::timeout(Duration::from_secs(30), task()).await.expect("it does not hang");
        });
    };
    std::thread::spawn(run).join().unwrap();
}

/// Waits until nothing is left of the sockets that were dropped.
async fn clean() {
    while !thread::current().unwrap().is_clean() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn on_ring(stream: UnixStream) -> Socket {
    stream.set_nonblocking(true).unwrap();
    adopt(stream.into()).unwrap()
}

fn pair() -> (Socket, UnixStream) {
    let (own, peer) = UnixStream::pair().unwrap();
    (on_ring(own), peer)
}

/// The byte at a place of a stream.
fn byte(place: usize) -> u8 {
    (place * 31 / 7) as u8
}

#[test]
fn many_bytes_pass_both_ways() {
    run(None, async || {
        for block in [100, 8 << 10, 9 << 10, 64 << 10, 1 << 20] {
            let (mut socket, mut peer) = pair();
            let mut other = peer.try_clone().unwrap();
            let bytes = (64 << 20).min(block * 20_000);
            let sink = std::thread::spawn(move || {
                let (mut block, mut count) = (vec![0; 50_000], 0);
                loop {
                    match peer.read(&mut block).unwrap() {
                        0 => return count,
                        read => count += read,
                    }
                }
            });
            let out = vec![b'x'; block];
            for _ in 0..bytes / block {
                socket.write_all(&out).await.unwrap();
            }
            socket.shutdown().await.unwrap();
            assert_eq!(sink.join().unwrap(), bytes / block * block);
            let source = std::thread::spawn(move || {
                (0..bytes / block).for_each(|_| other.write_all(&out).unwrap());
            });
            let (mut room, mut count) = (vec![0; 64 << 10], 0);
            while count < bytes / block * block {
                count += socket.read(&mut room).await.unwrap();
            }
            source.join().unwrap();
        }
        clean().await;
    });
}

/// Writes the bytes of a stream, in pieces of any length.
async fn write(mut to: impl AsyncWrite + Unpin, count: usize, seed: u64) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let bytes: Vec<u8> = (0..count).map(byte).collect();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let limit = if random.u8(..4) == 0 { 100_000 } else { 300 };
        let (piece, after) = rest.split_at(random.usize(1..=limit).min(rest.len()));
        to.write_all(piece).await?;
        rest = after;
        match random.u8(..3) {
            0 => yield_now().await,
            1 => to.flush().await?,
            _ => {}
        }
    }
    to.shutdown().await
}

/// Reads the bytes of a stream up to its end, or leaves after about `leave` of them.
async fn read(
    mut from: impl AsyncRead + Unpin,
    (count, leave): (usize, usize),
    seed: u64,
) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut place = 0;
    while place < leave {
        let mut room = vec![0; random.usize(1..20_000)];
        let read = from.read(&mut room).await?;
        if read == 0 {
            assert_eq!(place, count, "the end comes after everything");
            break;
        }
        assert!(room[..read].iter().zip(place..).all(|(one, place)| *one == byte(place)));
        place += read;
        if random.u8(..3) == 0 {
            yield_now().await;
        }
    }
    Ok(())
}

#[test]
fn bytes_keep_their_order_whatever_the_order_of_completions() {
    for seed in 0..20 {
        run(Some(seed), async move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut tasks = Vec::new();
            for _ in 0..20 {
                let (one, two) = UnixStream::pair().unwrap();
                let (one, two) = (on_ring(one), on_ring(two));
                let counts = [random.usize(..200_000), random.usize(..3_000)];
                let (seed, ends_early) = (random.u64(..), random.u8(..4) == 0);
                tasks.push(spawn_local(async move {
                    let (from_two, to_two) = tokio::io::split(one);
                    let (from_one, to_one) = tokio::io::split(two);
                    let leave = if ends_early { counts[0] / 2 } else { usize::MAX };
                    let there = [
                        spawn_local(write(to_two, counts[0], seed)),
                        spawn_local(read(from_one, (counts[0], leave), seed)),
                        spawn_local(write(to_one, counts[1], !seed)),
                        spawn_local(read(from_two, (counts[1], usize::MAX), !seed)),
                    ];
                    if ends_early {
                        // One end leaves: the other finds out, or would wait for ever.
                        let [writing, reading, ..] = &there;
                        while !reading.is_finished() && !writing.is_finished() {
                            yield_now().await;
                        }
                        there.iter().for_each(JoinHandle::abort);
                    }
                    for task in there {
                        let done = task.await;
                        assert!(ends_early || matches!(done, Ok(Ok(()))), "{done:?}");
                    }
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
            clean().await;
        });
    }
}

#[test]
fn what_was_written_arrives_after_a_drop() {
    run(Some(1), async || {
        for count in [1, 8_000, 60_000] {
            let (mut socket, mut peer) = pair();
            socket.write_all(&vec![b'x'; count]).await.unwrap();
            drop(socket);
            clean().await;
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), count);
        }
    });
}

#[test]
fn a_drop_cancels_what_waits_and_closes_the_socket() {
    run(Some(2), async || {
        let (mut socket, mut peer) = pair();
        let read = spawn_local(async move {
            let _ = socket.read(&mut [0; 10]).await;
        });
        yield_now().await;
        read.abort();
        let _ = read.await;
        clean().await;
        assert_eq!(peer.read(&mut [0; 10]).unwrap(), 0, "the end");
    });
}

/// Writes until the peer takes no more.
async fn fill(socket: &mut Socket) {
    loop {
        let write = poll_fn(|cx| Poll::Ready(Pin::new(&mut *socket).poll_write(cx, &[b'x'; 1000])));
        match write.await {
            Poll::Pending if socket.is_blocked() => return,
            Poll::Pending => yield_now().await,
            Poll::Ready(written) => assert!(written.unwrap() > 0),
        }
    }
}

/// Connected by TCP, with room for few bytes.
fn tcp_pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 16 << 10).unwrap();
    let own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&own, 16 << 10).unwrap();
    // Does not send later what it could send at once.
    rustix::net::sockopt::set_tcp_congestion(&own, "reno").unwrap();
    own.set_nonblocking(true).unwrap();
    (adopt(own.into()).unwrap(), listener.accept().unwrap().0)
}

#[test]
fn what_a_slow_peer_has_not_taken_arrives_after_a_drop() {
    run(Some(4), async || {
        let (mut socket, mut peer) = pair();
        fill(&mut socket).await;
        drop(socket);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!thread::current().unwrap().is_clean());
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            all.len()
        });
        crate::settle().await;
        clean().await;
        assert!(reader.join().unwrap() > 100_000);
    });
}

#[test]
fn dropped_sockets_beyond_a_bound_are_reset() {
    run(None, async || {
        let reset = || crate::statistics().orphans_reset;
        let (mut sockets, mut peers): (Vec<_>, Vec<_>) =
            (0..MAX_ORPHANS + 3).map(|_| tcp_pair()).unzip();
        // A full socket may have room once more, when what was on its way has arrived.
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            for socket in &mut sockets {
                fill(socket).await;
            }
        }
        drop(sockets);
        assert_eq!(reset(), 3);
        // Closed once the task that has waited for the peer is gone.
        yield_now().await;
        let end = |mut peer: TcpStream| peer.read_to_end(&mut Vec::new());
        for _ in 0..3 {
            let error = end(peers.pop().unwrap()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        // One that ends makes room for another.
        let first = peers.remove(0);
        let first = std::thread::spawn(move || end(first));
        while !first.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(first.join().unwrap().is_ok());
        let (mut socket, peer) = tcp_pair();
        fill(&mut socket).await;
        drop((socket, peer));
        assert_eq!(reset(), 3);
        drop(peers);
        clean().await;
    });
}

#[test]
fn a_peer_that_has_closed_its_direction_and_does_not_read_costs_nothing() {
    run(None, async || {
        let (mut socket, peer) = pair();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        fill(&mut socket).await;
        let before = crate::statistics().enters;
        let more = socket.write_all(b"more");
        assert!(tokio::time::timeout(Duration::from_millis(200), more).await.is_err());
        assert!(crate::statistics().enters - before < 10);
        socket.reset_on_drop();
        drop(socket);
        clean().await;
        assert_eq!(thread::current().unwrap().blocked(), 0);
    });
}

#[test]
fn an_event_of_the_peer_is_noticed_without_reading() {
    run(Some(3), async || {
        let (mut socket, mut peer) = pair();
        socket.watch();
        peer.write_all(b"abc").unwrap();
        assert_eq!(poll_fn(|cx| socket.poll_readable(cx)).await, Readable::Data);
        let mut room = [0; 10];
        assert_eq!(socket.read(&mut room).await.unwrap(), 3);
        drop(peer);
        assert_eq!(poll_fn(|cx| socket.poll_readable(cx)).await, Readable::End);
        assert_eq!(socket.read(&mut room).await.unwrap(), 0);
        assert_eq!(socket.read(&mut room).await.unwrap(), 0, "again");
        let written = async {
            while socket.write_all(b"x").await.is_ok() {
                yield_now().await;
            }
        };
        written.await;
        assert!(socket.flush().await.is_err());
        assert!(socket.shutdown().await.is_err());
    });
}

#[test]
fn a_long_message_is_received_where_it_is_to_be() {
    for disorder in [None, Some(5)] {
        run(disorder, async || {
            let (mut socket, mut peer) = pair();
            let mut room = [0; 1 << 16];
            // What a provided buffer holds, and then the rest.
            peer.write_all(&[1; 40_000]).unwrap();
            let first = socket.read(&mut room).await.unwrap();
            assert_eq!((first, socket.read(&mut room).await.unwrap()), (4096, 40_000 - 4096));
            // The next part at once, as the next message.
            for (sent, received) in [(30_000, 30_000), (2, 2), (5_000, 4_096), (0, 904)] {
                let reader = spawn_local(async move {
                    let count = socket.read(&mut room).await.unwrap();
                    (socket, count)
                });
                yield_now().await;
                peer.write_all(&[2; 30_000][..sent]).unwrap();
                let count;
                (socket, count) = reader.await.unwrap();
                assert_eq!(count, received);
            }
            // Not waited for any more.
            let mut cx = Context::from_waker(Waker::noop());
            assert!(socket.poll_readable(&mut cx).is_pending());
            drop(socket);
            clean().await;
        });
    }
}

#[test]
fn a_drop_ends_the_wait_for_a_part_of_a_long_message() {
    run(Some(6), async || {
        let (mut socket, mut peer) = pair();
        let mut room = [0; 1 << 16];
        peer.write_all(&[1; 40_000]).unwrap();
        for _ in 0..2 {
            assert!(socket.read(&mut room).await.unwrap() > 0);
        }
        socket.watch();
        yield_now().await;
        drop(socket);
        clean().await;
        assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
    });
}

/// Each reader that has stopped holds bytes; the others need buffers, too.
#[test]
fn readers_that_stop_do_not_keep_buffers_from_others() {
    run(None, async || {
        let mut stopped = Vec::new();
        for _ in 0..600 {
            let (socket, mut peer) = pair();
            peer.write_all(b"kept").unwrap();
            assert_eq!(poll_fn(|cx| socket.poll_readable(cx)).await, Readable::Data);
            stopped.push((socket, peer));
        }
        let (mut socket, mut peer) = pair();
        peer.write_all(b"abc").unwrap();
        assert_eq!(socket.read(&mut [0; 10]).await.unwrap(), 3);
        for (socket, _) in &mut stopped {
            assert_eq!(socket.read(&mut [0; 10]).await.unwrap(), 4);
        }
        // All at once: more than there are buffers.
        let tasks = stopped.into_iter().map(|(mut socket, mut peer)| {
            spawn_local(async move {
                yield_now().await;
                peer.write_all(b"again").unwrap();
                assert_eq!(socket.read(&mut [0; 10]).await.unwrap(), 5);
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        clean().await;
    });
}

/// Exchanges messages with a peer on another thread, until the thread sleeps in the ring.
async fn speed_up(socket: &mut Socket) {
    while !thread::current().unwrap().is_fast() {
        socket.write_all(b"ping").await.unwrap();
        socket.read_exact(&mut [0; 4]).await.unwrap();
    }
}

/// A socket whose peer sends back what it gets.
fn echoed() -> Socket {
    let (socket, mut peer) = pair();
    std::thread::spawn(move || {
        let mut to = peer.try_clone().unwrap();
        let _ = io::copy(&mut peer, &mut to);
    });
    socket
}

#[test]
fn timers_and_other_threads_are_served_while_events_come_fast() {
    run(None, async || {
        let mut socket = echoed();
        speed_up(&mut socket).await;
        let (sender, mut received) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            sender.send(()).unwrap();
        });
        let timer = spawn_local(tokio::time::sleep(Duration::from_millis(20)));
        let (mut is_received, mut fast, mut turns) = (false, 0, 0);
        while !is_received || !timer.is_finished() {
            socket.write_all(b"ping").await.unwrap();
            socket.read_exact(&mut [0; 4]).await.unwrap();
            is_received |= received.try_recv().is_ok();
            fast += usize::from(thread::current().unwrap().is_fast());
            turns += 1;
        }
        assert!(fast > 0, "{fast} of {turns}");
        drop(socket);
        clean().await;
    });
}

#[test]
fn a_thread_without_events_does_not_stay_in_the_ring() {
    run(None, async || {
        let mut socket = echoed();
        speed_up(&mut socket).await;
        let (started, wait) = (Instant::now(), async { socket.read(&mut [0; 1]).await });
        assert!(tokio::time::timeout(Duration::from_millis(50), wait).await.is_err());
        assert!(started.elapsed() < Duration::from_secs(5), "a timer is late");
        assert!(!thread::current().unwrap().is_fast());
        let before = crate::statistics().enters;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(crate::statistics().enters - before < 10);
    });
}

#[test]
fn a_task_that_is_always_ready_holds_up_no_other() {
    for is_fast in [false, true] {
        run(None, async move || {
            let mut socket = echoed();
            if is_fast {
                speed_up(&mut socket).await;
            }
            let busy = spawn_local(async {
                loop {
                    yield_now().await;
                }
            });
            for _ in 0..20 {
                socket.write_all(b"ping").await.unwrap();
                socket.read_exact(&mut [0; 4]).await.unwrap();
            }
            busy.abort();
            assert!(!thread::current().unwrap().is_fast(), "it does not sleep");
        });
    }
}

#[test]
fn a_ring_ends_with_operations_in_progress() {
    run(None, async || {
        let (socket, peer) = pair();
        let waits = |socket: &Socket| {
            assert_eq!(
                socket.poll_readable(&mut Context::from_waker(Waker::noop())),
                Poll::Pending
            );
        };
        waits(&socket);
        yield_now().await;
        // Neither is dropped before the ring.
        std::mem::forget((socket, peer));
    });
}
