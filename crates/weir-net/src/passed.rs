//! Listening sockets that another process has bound: the service manager (systemd socket
//! activation), or the weir that this one replaces.
//!
//! Closing a listening socket resets the connections in its queue. A socket that another process
//! has too, or will have, is therefore only left, never closed with a filter or emptied.

use listenfd::ListenFd;
use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Sockets of one address.
#[derive(Debug)]
pub struct PassedSockets {
    /// The address in the configuration of the process that bound them, with port 0 if it was so
    /// there.
    pub configured: SocketAddr,
    /// Their address.
    pub addr: SocketAddr,
    /// They are those of the admin listener; the service manager does not say.
    pub admin: bool,
    /// One, or one for each worker.
    pub sockets: Vec<TcpListener>,
    /// The service manager has them, too: they outlive this process.
    pub permanent: bool,
}

/// Passed sockets that no listener has claimed yet.
#[derive(Debug, Default)]
pub struct Passed(Vec<PassedSockets>);

/// Why a passed socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PassedError {
    /// It is no listening TCP socket.
    #[error(
        "socket {number}{} passed by the service manager is no listening TCP socket: {error} \
         (weir.socket needs ListenStream=ADDRESS:PORT and Accept=no)",
        named(name)
    )]
    Kind {
        /// Its place, from 1 on.
        number: usize,
        /// Its `FileDescriptorName=`; may be empty.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// No listener has its address.
    #[error(
        "the service manager passed a socket for {addr}, but no listener of the configuration has \
         that address (listeners: {listeners}): its clients would wait forever; add the listener, \
         or remove ListenStream={addr} from the socket unit"
    )]
    Unclaimed {
        /// Its address.
        addr: SocketAddr,
        /// The configured ones, the admin listener included.
        listeners: String,
    },
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" ({name})") }
}

impl Passed {
    /// The sockets of `LISTEN_FDS`, if they are meant for this process (`LISTEN_PID`); none without
    /// socket activation. Child processes do not inherit them.
    ///
    /// # Errors
    /// One of them is no listening TCP socket.
    pub fn by_service_manager() -> Result<Self, PassedError> {
        // Read before listenfd removes the variables.
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut listen = ListenFd::from_env();
        let mut passed = Vec::new();
        for index in 0..listen.len() {
            let name = names.next().unwrap_or_default().to_owned();
            let failed = |error| PassedError::Kind { number: index + 1, name, error };
            let socket = listen.take_tcp_listener(index).and_then(|socket| {
                let socket = socket.ok_or(io::ErrorKind::NotFound)?;
                fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
                socket.set_nonblocking(true)?;
                Ok((socket.local_addr()?, socket))
            });
            let (addr, socket) = socket.map_err(failed)?;
            let (configured, sockets) = (addr, vec![socket]);
            passed.push(PassedSockets { configured, addr, admin: false, sockets, permanent: true });
        }
        Ok(Self(passed))
    }

    /// The sockets of a process that is replaced.
    #[must_use]
    pub fn by_predecessor(mut sockets: Vec<PassedSockets>) -> Self {
        sockets.retain(|one| !one.sockets.is_empty());
        Self(sockets)
    }

    /// Claims the sockets of an address: those configured with it, else those bound to it. With
    /// `admin`, they are for the admin listener.
    pub fn claim(&mut self, addr: SocketAddr, admin: bool) -> Option<PassedSockets> {
        let by = |is: &dyn Fn(&PassedSockets) -> bool| self.0.iter().position(is);
        let found = by(&|one| one.configured == addr && (one.permanent || one.admin == admin))
            .or_else(|| by(&|one| one.addr == addr))?;
        Some(self.0.remove(found))
    }

    /// The addresses of unclaimed sockets.
    #[must_use]
    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|one| one.addr).collect()
    }

    /// Checks that every socket of the service manager was claimed by one of `listeners`.
    ///
    /// # Errors
    /// One was not.
    pub fn finish(&self, listeners: &[SocketAddr]) -> Result<(), PassedError> {
        let Some(left) = self.0.iter().find(|one| one.permanent) else { return Ok(()) };
        let listeners: Vec<String> = listeners.iter().map(ToString::to_string).collect();
        Err(PassedError::Unclaimed { addr: left.addr, listeners: listeners.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(configured: &str, permanent: bool) -> PassedSockets {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        let configured = configured.parse().unwrap();
        PassedSockets { configured, addr, admin: false, sockets: vec![socket], permanent }
    }

    #[test]
    fn sockets_are_claimed_once_by_configured_or_bound_address() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut three = [(); 3].map(|()| passed("127.0.0.1:0", false));
        three[2].admin = true;
        let addrs = three.each_ref().map(|one| one.addr);
        let mut all = Passed::by_predecessor(three.into());
        assert_eq!(all.claim(any, true).unwrap().addr, addrs[2]);
        assert_eq!(all.claim(any, false).unwrap().addr, addrs[0]);
        assert_eq!(all.claim(addrs[1], false).unwrap().addr, addrs[1]);
        assert!(all.claim(any, false).is_none() && all.finish(&[]).is_ok());
    }

    #[test]
    fn an_unclaimed_socket_of_the_service_manager_is_an_error() {
        let all = Passed::by_predecessor(vec![passed("127.0.0.1:8080", true)]);
        let text = all.finish(&["127.0.0.1:9".parse().unwrap()]).unwrap_err().to_string();
        assert!(text.contains("(listeners: 127.0.0.1:9)"), "{text}");
    }
}
