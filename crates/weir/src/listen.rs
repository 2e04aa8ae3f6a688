//! Listening sockets for threads that each accept for themselves.

use anyhow::Context;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{SocketAddr, TcpListener};

/// Pending connections the kernel keeps for each socket; it caps this at `somaxconn`.
const BACKLOG: i32 = 4096;

/// Binds `count` sockets to one address, among which the kernel spreads connections.
///
/// The address is first bound without `SO_REUSEPORT`: a second process is then told that it is in
/// use instead of silently getting half of the connections.
///
/// # Errors
/// The address cannot be bound; the text names it.
pub(crate) fn bind(addr: SocketAddr, count: usize) -> anyhow::Result<Vec<TcpListener>> {
    let probe = socket(addr, false).with_context(|| format!("cannot listen on {addr}"))?;
    // With port 0 this is where the port is chosen.
    let bound = probe.local_addr()?.as_socket().context("the socket has no address")?;
    drop(probe);
    (0..count)
        .map(|_| {
            let socket = socket(bound, true)?;
            socket.listen(BACKLOG)?;
            Ok(socket.into())
        })
        .collect::<std::io::Result<_>>()
        .with_context(|| format!("cannot listen on {bound}"))
}

fn socket(addr: SocketAddr, reuse_port: bool) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // Without this a restart would wait for connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    socket.set_nonblocking(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(!addr.ip().is_unspecified())?;
    }
    socket.bind(&addr.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_told_that_the_address_is_in_use() {
        let first = bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let addr = first[0].local_addr().unwrap();
        assert_eq!(first[1].local_addr().unwrap(), addr);
        let error = format!("{:#}", bind(addr, 1).unwrap_err());
        assert!(error.contains(&addr.to_string()) && error.contains("in use"), "{error}");
    }
}
