//! Listening sockets: one a worker and address, so that the kernel spreads connections.

use socket2::{Domain, Protocol, Socket, Type};
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
    fn a_second_listener_is_told_that_the_address_is_in_use() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = bind(any, 2).expect("a free port");
        let addr = first[0].local_addr().expect("an address");
        assert_eq!(first[1].local_addr().expect("an address"), addr);
        let second = bind(addr, 2).expect_err("the port is taken");
        assert_eq!(second.error.kind(), io::ErrorKind::AddrInUse);
    }
}
