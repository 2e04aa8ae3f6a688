//! Addresses of a target that has a name: looked up when the first connection needs one, and again
//! from time to time, while the last answer is used. No request waits for a second look.

use super::Target;
use super::service::{Server, Service, in_turn};
use crate::stream::Stream;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// What is known of a name.
#[derive(Debug)]
pub(super) struct Names {
    /// The last good answer; empty if the service says that it is not to be had.
    known: RefCell<Option<Vec<Server>>>,
    /// In sweeps of the target, when it was asked last.
    asked: Cell<u64>,
    /// Somebody is asking.
    asking: Cell<bool>,
    /// Where the next connection begins.
    turn: Cell<usize>,
    every: Duration,
    /// There if SRV records say where it is, else its addresses do.
    service: Option<Service>,
}

impl Names {
    pub(super) fn new(every: Duration, service: Option<Service>) -> Self {
        Self {
            known: RefCell::default(),
            asked: Cell::new(0),
            asking: Cell::new(false),
            turn: Cell::new(0),
            every,
            service,
        }
    }

    /// From one question to the next, and what is asked for.
    pub(super) fn source(&self) -> (Duration, Option<&Service>) {
        (self.every, self.service.as_ref())
    }

    /// The addresses that are known, as the next connection is to try them: of several of a server
    /// each connection begins with another one. `None` before the first answer.
    fn next(&self) -> Option<Vec<SocketAddr>> {
        let known = self.known.borrow();
        let servers = in_turn(known.as_deref()?);
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

    /// Whether a connection that leads there may be kept: to a server that connections should
    /// be tried with first.
    fn is_first_choice(&self, address: &SocketAddr) -> bool {
        let known = self.known.borrow();
        let servers = known.as_deref().unwrap_or_default();
        let first = servers.iter().map(|server| server.priority).min();
        servers
            .iter()
            .filter(|server| Some(server.priority) == first)
            .any(|server| server.addresses.contains(address))
    }

    /// Whether it is time to ask again.
    fn is_due(&self, now: u64) -> bool {
        !self.asking.get()
            && self.known.borrow().is_some()
            && Duration::from_secs(now.saturating_sub(self.asked.get())) >= self.every
    }
}

impl Target {
    /// Addresses to connect to, those that are known if there are any.
    pub(super) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let Some(names) = &self.names else { return Ok(self.address.into_iter().collect()) };
        if let Some(known) = names.next() {
            return Ok(known);
        }
        self.look_up(names).await?;
        Ok(names.next().unwrap_or_default())
    }

    /// None of the addresses that are known could be connected to.
    pub(super) fn doubt_addresses(&self) {
        if let Some(names) = &self.names {
            names.asked.set(0);
        }
    }

    /// Asks again if it is time to. To be called once a second.
    pub(super) fn refresh_addresses(self: &Rc<Self>) {
        let due = self.names.as_ref().is_some_and(|names| names.is_due(self.sweeps.get()));
        if !due {
            return;
        }
        let target = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let Some(names) = &target.names else { return };
            names.asking.set(true);
            if target.look_up(names).await.is_ok() {
                target.leave_addresses(names);
            }
            names.asking.set(false);
        });
    }

    /// Asks. What is known stays if there is no good answer.
    async fn look_up(&self, names: &Names) -> io::Result<()> {
        names.asked.set(self.sweeps.get());
        let found = match &names.service {
            Some(service) => service.look_up().await,
            None => self.look_up_host().await,
        };
        let good = found.as_ref().is_ok_and(|servers| !servers.is_empty());
        self.stats.resolutions[usize::from(!good)].add(1);
        names.known.replace(Some(found?));
        Ok(())
    }

    async fn look_up_host(&self) -> io::Result<Vec<Server>> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        let mut addresses: Vec<SocketAddr> = found.collect();
        addresses.dedup();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host name has no address"));
        }
        Ok(vec![Server { priority: 0, weight: 0, addresses }])
    }

    /// Keeps no idle connection but to servers of the first choice: not to an address that is gone,
    /// and not to one that was tried because another did not answer.
    fn leave_addresses(&self, names: &Names) {
        let may_stay = |peer: Option<SocketAddr>| peer.is_none_or(|at| names.is_first_choice(&at));
        let is_kept = |stream: &Stream| may_stay(stream.peer());
        let gone: Vec<_> = {
            let mut idle = self.idle.borrow_mut();
            let (keep, gone): (Vec<_>, Vec<_>) =
                idle.drain(..).partition(|idle| is_kept(idle.stream()));
            idle.extend(keep);
            gone
        };
        self.stats.idle.sub(gone.len() as u64);
        drop(gone);
        if let Some(sessions) = &self.sessions {
            sessions.retain(may_stay);
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

    fn knowing(servers: Vec<Server>) -> Names {
        let names = Names::new(Duration::from_secs(5), None);
        names.known.replace(Some(servers));
        names
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
        let unknown = Names::new(Duration::from_secs(5), None);
        assert!(!unknown.is_due(100), "nobody has asked for it yet");
        assert_eq!(unknown.next(), None);
        let names = knowing(Vec::new());
        assert_eq!(names.next(), Some(Vec::new()));
        names.asked.set(10);
        assert!(!names.is_due(14));
        assert!(names.is_due(15));
        names.asking.set(true);
        assert!(!names.is_due(15));
    }
}
