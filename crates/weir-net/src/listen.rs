//! Listening sockets: one a worker and address, so that the kernel spreads connections.
//!
//! Sockets that were passed by another process are used as they are: none of them may be closed,
//! because connections may be in its queue.

use crate::passed::{Passed, PassedSockets};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Connections the kernel keeps for a listener until they are accepted; it may have a lower limit
/// of its own (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// An address that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {addr}: {error}")]
pub struct BindError {
    /// The address.
    pub addr: SocketAddr,
    /// The error.
    pub error: io::Error,
}

/// The sockets of an address.
#[derive(Debug)]
pub struct Listening {
    /// The address, with its port.
    pub addr: SocketAddr,
    /// The sockets of each worker; one, unless more were passed than there are workers.
    pub workers: Vec<Vec<TcpListener>>,
    /// The service manager has the sockets, too: they outlive this process.
    pub permanent: bool,
}

/// Uses the sockets that were passed for an address, and binds those that are missing.
///
/// # Errors
/// As [`bind`], or no descriptor is free.
pub fn claim(
    passed: &mut Passed,
    addr: SocketAddr,
    workers: usize,
) -> Result<Listening, BindError> {
    let failed = |error| BindError { addr, error };
    let Some(PassedSockets { addr, mut sockets, permanent, .. }) = passed.claim(addr, false) else {
        let sockets = bind(addr, workers)?;
        let addr = sockets.first().and_then(|one| one.local_addr().ok()).unwrap_or(addr);
        let workers = sockets.into_iter().map(|socket| vec![socket]).collect();
        return Ok(Listening { addr, workers, permanent: false });
    };
    for index in sockets.len()..workers {
        let first = &sockets[index % sockets.len()];
        // Without a shared port, or of another user: the workers accept from the same queue.
        let own = match SockRef::from(first).reuse_port() {
            Ok(true) if !permanent => socket(addr, true).map(TcpListener::from).ok(),
            _ => None,
        };
        let own = match own {
            Some(own) => own,
            None => first.try_clone().map_err(failed)?,
        };
        sockets.push(own);
    }
    let mut of_workers: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
    for (index, socket) in sockets.into_iter().enumerate() {
        socket.set_nonblocking(true).map_err(failed)?;
        of_workers[index % workers].push(socket);
    }
    Ok(Listening { addr, workers: of_workers, permanent })
}

/// Binds an address once for every worker. Port 0 takes a free port, the same for all.
///
/// # Errors
/// The address is in use, or does not belong to this machine.
pub fn bind(addr: SocketAddr, workers: usize) -> Result<Vec<TcpListener>, BindError> {
    let failed = |error| BindError { addr, error };
    // Sockets with a shared port can be bound by any process, a second weir included; a first
    // socket without sharing checks whether the address is free.
    let probe = socket(addr, false).map_err(failed)?;
    let addr = probe.local_addr().ok().and_then(|a| a.as_socket()).unwrap_or(addr);
    drop(probe);
    (0..workers).map(|_| socket(addr, true).map(TcpListener::from).map_err(failed)).collect()
}

fn socket(addr: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    // Only a socket that listens keeps others from the address.
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// The address of a listener for clients on this machine: loopback for a wildcard.
#[must_use]
pub fn reachable(mut addr: SocketAddr) -> SocketAddr {
    match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => addr.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => addr.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    addr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_sockets_are_divided_among_any_number_of_workers() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        for (bound, workers, permanent) in [(2, 3, false), (3, 2, false), (1, 2, true)] {
            let sockets = bind(any, bound).expect("a free port");
            let addr = sockets[0].local_addr().expect("an address");
            let one = PassedSockets { configured: any, addr, admin: false, sockets, permanent };
            let claimed = claim(&mut Passed::by_predecessor(vec![one]), any, workers);
            let claimed = claimed.expect("sockets");
            assert_eq!((claimed.addr, claimed.permanent), (addr, permanent));
            let counts: Vec<usize> = claimed.workers.iter().map(Vec::len).collect();
            assert_eq!(counts.iter().sum::<usize>(), bound.max(workers), "{counts:?}");
            assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
            let all = claimed.workers.iter().flatten();
            assert!(all.into_iter().all(|socket| socket.local_addr().ok() == Some(addr)));
        }
    }

    #[test]
    fn a_second_listener_is_told_that_the_address_is_in_use() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = bind(any, 2).expect("a free port");
        let addr = first[0].local_addr().expect("an address");
        assert_eq!(first[1].local_addr().expect("an address"), addr);
        let second = bind(addr, 2).expect_err("the port is taken");
        assert_eq!(second.error.kind(), io::ErrorKind::AddrInUse);
    }
}
