//! The DNS resolver of a target: a name is looked up when the first connection needs an address,
//! and periodically afterwards, while the known addresses are used. Only requests before the first
//! result wait.

use super::Target;
use super::service::{Server, Service, weighted_order};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use weir_http::stream::Stream;

/// The addresses of a name.
#[derive(Debug)]
pub(super) struct Resolver {
    /// Result of the last successful look-up; empty if the service declares itself unavailable.
    known: RefCell<Option<Vec<Server>>>,
    /// Time of the last lookup, in ticks of the target.
    last_lookup: Cell<u64>,
    /// Whether a lookup is running.
    is_running: Cell<bool>,
    /// Index of the first address for the next connection.
    turn: Cell<usize>,
    interval: Duration,
    /// Some for SRV records instead of addresses.
    service: Option<Service>,
}

impl Resolver {
    pub(super) fn new(interval: Duration, service: Option<Service>) -> Self {
        Self {
            known: RefCell::default(),
            last_lookup: Cell::new(0),
            is_running: Cell::new(false),
            turn: Cell::new(0),
            interval,
            service,
        }
    }

    /// The interval, and the service to look up.
    pub(super) fn source(&self) -> (Duration, Option<&Service>) {
        (self.interval, self.service.as_ref())
    }

    /// The known addresses in the order for the next connection; the addresses of a server are
    /// rotated between connections. `None` before the first result.
    fn next(&self) -> Option<Vec<SocketAddr>> {
        let known = self.known.borrow();
        let servers = weighted_order(known.as_deref()?);
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        let mut addresses = Vec::new();
        for server in servers {
            let all = server.addresses.iter();
            let first = turn % server.addresses.len().max(1);
            addresses.extend(all.clone().skip(first).chain(all.take(first)));
        }
        Some(addresses)
    }

    /// Whether a connection to this address may be kept: the server is one of the first choices.
    fn is_first_choice(&self, address: &SocketAddr) -> bool {
        let known = self.known.borrow();
        let servers = known.as_deref().unwrap_or_default();
        let first = servers.iter().map(|server| server.priority).min();
        servers
            .iter()
            .filter(|server| Some(server.priority) == first)
            .any(|server| server.addresses.contains(address))
    }

    /// Whether a lookup is due.
    fn is_due(&self, now: u64) -> bool {
        !self.is_running.get()
            && self.known.borrow().is_some()
            && Duration::from_secs(now.saturating_sub(self.last_lookup.get())) >= self.interval
    }
}

impl Target {
    /// Addresses to connect to: the known ones, if any.
    pub(super) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let Some(resolver) = &self.resolver else { return Ok(Vec::new()) };
        if let Some(known) = resolver.next() {
            return Ok(known);
        }
        self.resolve(resolver).await?;
        Ok(resolver.next().unwrap_or_default())
    }

    /// No connection to a known address succeeded: the addresses are suspect, and are looked up at
    /// the next tick.
    pub(super) fn suspect_addresses(&self) {
        if let Some(resolver) = &self.resolver {
            resolver.last_lookup.set(0);
        }
    }

    /// Starts a lookup if one is due. To be called once a second.
    pub(super) fn refresh_addresses(self: &Rc<Self>) {
        let due = self.resolver.as_ref().is_some_and(|one| one.is_due(self.ticks.get()));
        if !due {
            return;
        }
        let target = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let Some(resolver) = &target.resolver else { return };
            resolver.is_running.set(true);
            if target.resolve(resolver).await.is_ok() {
                target.evict_old_addresses(resolver);
            }
            resolver.is_running.set(false);
        });
    }

    /// If the lookup fails, known addresses are kept.
    async fn resolve(&self, resolver: &Resolver) -> io::Result<()> {
        resolver.last_lookup.set(self.ticks.get());
        let found = match &resolver.service {
            Some(service) => service.resolve().await,
            None => self.resolve_host().await,
        };
        let good = found.as_ref().is_ok_and(|servers| !servers.is_empty());
        self.stats.resolutions[usize::from(!good)].add(1);
        resolver.known.replace(Some(found?));
        Ok(())
    }

    async fn resolve_host(&self) -> io::Result<Vec<Server>> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        let mut addresses: Vec<SocketAddr> = found.collect();
        addresses.dedup();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host name has no address"));
        }
        Ok(vec![Server { priority: 0, weight: 0, addresses }])
    }

    /// Evicts idle connections except those to servers of first choice: connections to a removed
    /// address, and to a server that was used because another did not respond.
    fn evict_old_addresses(&self, resolver: &Resolver) {
        let may_stay =
            |peer: Option<SocketAddr>| peer.is_none_or(|at| resolver.is_first_choice(&at));
        let may_be_kept = |stream: &Stream| may_stay(stream.peer());
        let evicted: Vec<_> = {
            let mut idle = self.idle.borrow_mut();
            let (keep, evicted): (Vec<_>, Vec<_>) =
                idle.drain(..).partition(|idle| may_be_kept(idle.stream()));
            idle.extend(keep);
            evicted
        };
        self.stats.idle.sub(evicted.len() as u64);
        drop(evicted);
        if let Some(http2) = &self.http2 {
            http2.retain(may_stay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 80))
    }

    fn server(priority: u16, addresses: &[u8]) -> Server {
        let addresses = addresses.iter().map(|last| at(*last)).collect();
        Server { priority, weight: 0, addresses }
    }

    fn knowing(servers: Vec<Server>) -> Resolver {
        let resolver = Resolver::new(Duration::from_secs(5), None);
        resolver.known.replace(Some(servers));
        resolver
    }

    #[test]
    fn connections_go_round_the_addresses_of_a_server() {
        let names = knowing(vec![server(0, &[1, 2]), server(1, &[3])]);
        assert_eq!(names.next(), Some(vec![at(1), at(2), at(3)]));
        assert_eq!(names.next(), Some(vec![at(2), at(1), at(3)]));
        assert_eq!(names.next(), Some(vec![at(1), at(2), at(3)]));
    }

    #[test]
    fn only_connections_to_servers_of_the_first_choice_may_stay() {
        let names = knowing(vec![server(7, &[3]), server(2, &[1]), server(2, &[2])]);
        let may_stay = [1, 2, 3, 4].map(|last| names.is_first_choice(&at(last)));
        assert_eq!(may_stay, [true, true, false, false]);
        assert!(!knowing(Vec::new()).is_first_choice(&at(1)));
    }

    #[test]
    fn it_is_asked_again_when_its_time_is_up_and_once_at_a_time() {
        let unknown = Resolver::new(Duration::from_secs(5), None);
        assert!(!unknown.is_due(100), "no connection has needed it yet");
        assert_eq!(unknown.next(), None);
        let names = knowing(Vec::new());
        assert_eq!(names.next(), Some(Vec::new()));
        names.last_lookup.set(10);
        assert!(!names.is_due(14));
        assert!(names.is_due(15));
        names.is_running.set(true);
        assert!(!names.is_due(15));
    }
}
