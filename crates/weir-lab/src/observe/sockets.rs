//! Established TCP connections of servers.
//!
//! They are counted in the kernel's tables (proc_pid_net(5)) by the ports that servers listen on. Descriptors are no
//! measure: connections on io_uring have none.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Take};
use std::time::Instant;

/// The tables. A connection within the machine has a row for each end; that of the server has the server's port first.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// Bytes of a table: more than 400,000 sockets.
const MAX_TABLE_BYTES: u64 = 64 << 20;
/// Bytes of each read.
const READ_CHUNK_BYTES: usize = 256 << 10;
/// Time between two reads, as a multiple of the time that the first one took: reads use 2 % of a core at most.
const PAUSE_FACTOR: u32 = 50;
/// States of sockets (`TCP_ESTABLISHED` and `TCP_LISTEN` of Linux).
const ESTABLISHED: u8 = 0x01;
const LISTEN: u8 = 0x0a;

/// Established connections by the port, for ports with a listener or a connection.
pub(super) type Connections = BTreeMap<u16, u64>;

/// Observed ports of this machine.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    ports: Vec<u16>,
    /// When the tables may be read again.
    next: Option<Instant>,
}

impl Sockets {
    /// Adds ports of a server.
    pub(super) fn add(&mut self, ports: &[u16]) {
        self.ports.extend(ports);
    }

    /// Counts the connections. `None` without ports, too soon after a slow read, or if a table is too long.
    pub(super) fn sample(&mut self, now: Instant) -> Option<Connections> {
        if self.ports.is_empty() || self.next.is_some_and(|next| now < next) {
            return None;
        }
        let start = Instant::now();
        let found = self.read();
        self.next = now.checked_add(start.elapsed() * PAUSE_FACTOR);
        found
    }

    fn read(&self) -> Option<Connections> {
        let mut found = Connections::new();
        for path in TABLES {
            // A machine without IPv6 has only the first one.
            if let Ok(table) = File::open(path) {
                count(table.take(MAX_TABLE_BYTES), &self.ports, &mut found)?;
            }
        }
        Some(found)
    }
}

/// Connections of a server with these ports; `None` if it listens on none of them, for instance in another network
/// namespace.
pub(super) fn at(connections: &Connections, ports: &[u16]) -> Option<u64> {
    let known = ports.iter().filter_map(|port| connections.get(port).copied());
    known.reduce(|one, other| one + other)
}

/// Adds the connections of a table; `None` if it cannot be read to its end.
fn count(table: Take<impl Read>, ports: &[u16], found: &mut Connections) -> Option<()> {
    let mut rows = BufReader::with_capacity(READ_CHUNK_BYTES, table);
    let mut row = String::new();
    while rows.read_line(&mut row).ok()? > 0 {
        if let Some((port, state)) = socket(&row)
            && ports.contains(&port)
            && (state == ESTABLISHED || state == LISTEN)
        {
            *found.entry(port).or_default() += u64::from(state == ESTABLISHED);
        }
        row.clear();
    }
    // A part of a table would be a wrong figure.
    (rows.get_ref().limit() > 0).then_some(())
}

/// Port of this machine and state of a row.
fn socket(row: &str) -> Option<(u16, u8)> {
    let mut fields = row.split_ascii_whitespace();
    let (_, port) = fields.nth(1)?.rsplit_once(':')?;
    // The other end is between them.
    let state = fields.nth(1)?;
    Some((u16::from_str_radix(port, 16).ok()?, u8::from_str_radix(state, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn established_connections_of_the_ports_count_in_both_tables() {
        let table =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 12 1
   2: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 13 1
   3: 0100007F:1F90 0100007F:C351 06 00000000:00000000 00:00000000 00000000     0        0 0 3
   4: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 14 1
";
        let table6 =
            "  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F90 00000000000000000000000001000000:C352 01 00000000
";
        let mut found = Connections::new();
        let ports = [0x1f90, 0x1f91, 0x1f92];
        for table in [table, table6] {
            assert_eq!(count(table.as_bytes().take(10_000), &ports, &mut found), Some(()));
        }
        assert_eq!(found, Connections::from([(0x1f90, 2), (0x1f91, 0)]));
        assert_eq!(at(&found, &ports), Some(2), "the server's ends only, without closed ones");
        assert_eq!(at(&found, &[0x1f91]), Some(0), "it listens");
        assert_eq!(at(&found, &[0x1f92]), None, "nobody is there");
        assert_eq!(count(table.as_bytes().take(100), &ports, &mut found), None, "too long");
    }

    #[test]
    fn connections_of_a_listener_are_counted_while_they_are_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let sample = || {
            let mut sockets = Sockets::default();
            sockets.add(&[port]);
            at(&sockets.sample(Instant::now()).unwrap(), &[port])
        };
        assert_eq!(sample(), Some(0));
        let clients = [(); 3].map(|()| TcpStream::connect(("127.0.0.1", port)).unwrap());
        let accepted = [(); 3].map(|()| listener.accept().unwrap());
        assert_eq!(sample(), Some(3));
        drop((clients, accepted));
        assert_eq!(sample(), Some(0));
        drop(listener);
        assert_eq!(sample(), None);
    }

    #[test]
    fn a_slow_read_is_followed_by_a_pause() {
        let now = Instant::now();
        let mut sockets = Sockets::default();
        assert_eq!(sockets.sample(now), None, "no ports");
        sockets.add(&[1]);
        assert!(sockets.sample(now).is_some());
        assert_eq!(sockets.sample(now), None, "at once");
    }
}
