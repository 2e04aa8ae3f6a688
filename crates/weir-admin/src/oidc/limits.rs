//! Limits of what anybody may have weir do: each client has its own, so that nobody takes those of others.

use crate::budget::Budget;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests that a client may make at once, and the interval after which one more may be made.
const BURST: u32 = 60;
const INTERVAL: Duration = Duration::from_secs(1);
/// Most clients with a budget of their own; further ones share one.
const MAX_CLIENTS: usize = 1024;
/// Most returns from the provider that are remembered.
const MAX_USED: usize = 4096;

/// Budgets by the address of the client.
pub(crate) struct ClientBudgets(Mutex<Clients>);

struct Clients {
    own: HashMap<IpAddr, Budget>,
    others: Budget,
}

impl Default for ClientBudgets {
    fn default() -> Self {
        let others = Budget::new(BURST, INTERVAL, Instant::now());
        Self(Mutex::new(Clients { own: HashMap::new(), others }))
    }
}

impl ClientBudgets {
    /// Consumes one; false if the client has none left.
    pub(crate) fn take(&self, client: Option<IpAddr>, now: Instant) -> bool {
        let Clients { own, others } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(client) = client.map(network) else { return others.take(now) };
        if !own.contains_key(&client) && own.len() >= MAX_CLIENTS {
            own.retain(|_, budget| now.duration_since(budget.since) < INTERVAL * BURST);
        }
        if !own.contains_key(&client) && own.len() >= MAX_CLIENTS {
            return others.take(now);
        }
        own.entry(client).or_insert_with(|| Budget::new(BURST, INTERVAL, now)).take(now)
    }
}

/// A client: an IPv4 address, or a network of 64 bits of IPv6, all of whose addresses one client may have.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            Ipv6Addr::from(network).into()
        }
        address => address,
    }
}

/// Values that are valid once.
pub(crate) struct Once {
    age: Duration,
    used: Mutex<VecDeque<(String, Instant)>>,
}

impl Once {
    /// Values that are valid for a time.
    pub(crate) fn new(age: Duration) -> Self {
        Self { age, used: Mutex::default() }
    }

    /// Uses a value, by its hash; false if it was used before, or if too many were used to remember this one.
    pub(crate) fn take(&self, hash: String, now: Instant) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while used.front().is_some_and(|(_, at)| now.duration_since(*at) > self.age) {
            used.pop_front();
        }
        if used.len() >= MAX_USED || used.iter().any(|(one, _)| *one == hash) {
            return false;
        }
        used.push_back((hash, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_takes_nothing_of_others() {
        let (budgets, now) = (ClientBudgets::default(), Instant::now());
        let take = |address: &str| budgets.take(Some(address.parse().unwrap()), now);
        assert!((0..BURST).all(|_| take("192.0.2.1")));
        assert!(!take("192.0.2.1") && !take("::ffff:192.0.2.1"));
        assert!(take("192.0.2.2"));
        assert!((0..BURST).all(|number| take(&format!("2001:db8::{number}"))));
        assert!(!take("2001:db8::ffff") && take("2001:db8:0:1::1"), "one network, one client");
        assert!(budgets.take(Some([192, 0, 2, 1].into()), now + INTERVAL));
        // However many there are.
        for number in 0..2 * MAX_CLIENTS as u32 {
            budgets.take(Some(std::net::Ipv4Addr::from(number).into()), now);
        }
        assert!(budgets.0.lock().unwrap().own.len() <= MAX_CLIENTS);
        let later = now + INTERVAL * (BURST + 1);
        assert!(budgets.take(Some([203, 0, 113, 1].into()), later), "room again");
        assert_eq!(budgets.0.lock().unwrap().own.len(), 1);
    }

    #[test]
    fn a_value_is_valid_once() {
        let (once, now) = (Once::new(Duration::from_secs(9)), Instant::now());
        assert!(once.take("a".to_owned(), now) && once.take("b".to_owned(), now));
        assert!(!once.take("a".to_owned(), now + Duration::from_secs(9)));
        (2..MAX_USED).for_each(|n| assert!(once.take(n.to_string(), now)));
        assert!(!once.take("c".to_owned(), now), "none is forgotten before its time");
        assert!(once.take("c".to_owned(), now + Duration::from_secs(10)));
    }
}
