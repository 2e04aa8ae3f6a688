//! Addresses of a target that has a name: looked up when the first connection needs one, and again
//! from time to time, while the last answer is used. No request waits for a second look.

use super::Target;
use crate::stream::Stream;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// What is known of a name.
#[derive(Debug)]
pub(super) struct Names {
    /// The last good answer; empty before the first one.
    addresses: RefCell<Vec<SocketAddr>>,
    /// In sweeps of the target, when it was asked last.
    asked: Cell<u64>,
    /// Somebody is asking.
    asking: Cell<bool>,
    /// Where the next connection begins.
    turn: Cell<usize>,
    every: Duration,
}

impl Names {
    pub(super) fn new(every: Duration) -> Self {
        Self {
            addresses: RefCell::default(),
            asked: Cell::new(0),
            asking: Cell::new(false),
            turn: Cell::new(0),
            every,
        }
    }

    /// From one question to the next.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// The addresses that are known, each connection beginning with another one.
    fn next(&self) -> Vec<SocketAddr> {
        let mut addresses = self.addresses.borrow().clone();
        if !addresses.is_empty() {
            let turn = self.turn.get() % addresses.len();
            addresses.rotate_left(turn);
            self.turn.set(turn + 1);
        }
        addresses
    }

    /// Takes an answer; whether an address is gone. One that is empty is none.
    fn take(&self, mut answer: Vec<SocketAddr>) -> bool {
        if answer.is_empty() {
            return false;
        }
        answer.dedup();
        let before = self.addresses.replace(answer);
        let now = self.addresses.borrow();
        before.iter().any(|address| !now.contains(address))
    }

    /// Whether it is time to ask again.
    fn is_due(&self, now: u64) -> bool {
        !self.asking.get()
            && !self.addresses.borrow().is_empty()
            && Duration::from_secs(now.saturating_sub(self.asked.get())) >= self.every
    }
}

impl Target {
    /// Addresses to connect to, those that are known if there are any.
    pub(super) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let Some(names) = &self.names else { return Ok(self.address.into_iter().collect()) };
        let known = names.next();
        if !known.is_empty() {
            return Ok(known);
        }
        self.look_up(names).await?;
        Ok(names.next())
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
            if let Ok(true) = target.look_up(names).await {
                target.leave_addresses(names);
            }
            names.asking.set(false);
        });
    }

    /// Asks; whether an address is gone.
    async fn look_up(&self, names: &Names) -> io::Result<bool> {
        names.asked.set(self.sweeps.get());
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let found: io::Result<Vec<SocketAddr>> = found.map(Iterator::collect);
        let good = found.as_ref().is_ok_and(|addresses| !addresses.is_empty());
        self.stats.resolutions[usize::from(!good)].add(1);
        Ok(names.take(found?))
    }

    /// Keeps no connection to an address that is gone.
    fn leave_addresses(&self, names: &Names) {
        let known = names.addresses.borrow();
        let is_known = |stream: &Stream| stream.peer().is_none_or(|peer| known.contains(&peer));
        let gone: Vec<_> = {
            let mut idle = self.idle.borrow_mut();
            let (keep, gone): (Vec<_>, Vec<_>) =
                idle.drain(..).partition(|idle| is_known(idle.stream()));
            idle.extend(keep);
            gone
        };
        self.stats.idle.sub(gone.len() as u64);
        drop(gone);
        if let Some(sessions) = &self.sessions {
            sessions.retain(|peer| peer.is_none_or(|peer| known.contains(&peer)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 80))
    }

    #[test]
    fn the_last_good_answer_is_kept_and_connections_go_round() {
        let names = Names::new(Duration::from_secs(5));
        assert!(!names.is_due(100), "nobody has asked for it yet");
        assert!(!names.take(vec![at(1), at(2)]));
        assert_eq!(names.next(), [at(1), at(2)]);
        assert_eq!(names.next(), [at(2), at(1)]);
        assert!(!names.take(Vec::new()));
        assert_eq!(names.next(), [at(1), at(2)]);
        assert!(!names.take(vec![at(1), at(2), at(3)]));
        assert!(names.take(vec![at(3)]));
        assert_eq!(names.next(), [at(3)]);
    }

    #[test]
    fn it_is_asked_again_when_its_time_is_up_and_once_at_a_time() {
        let names = Names::new(Duration::from_secs(5));
        names.take(vec![at(1)]);
        names.asked.set(10);
        assert!(!names.is_due(14));
        assert!(names.is_due(15));
        names.asking.set(true);
        assert!(!names.is_due(15));
    }
}
