//! Rate shares: a rate of the whole fleet, divided among its live nodes.
//!
//! Each of n nodes enforces rate/n and burst/n. The sum is exact while n is stable, except that every
//! node admits at least one request at once.

use super::gcra::Gcra;
use std::time::Duration;
use weir_config::{Rate, RateScope};

/// The rule of a rate limit, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Rate and burst of the whole scope.
    whole: Gcra,
    scope: RateScope,
}

impl Rule {
    pub(super) fn new(rate: Rate) -> Self {
        Self { whole: Gcra::new(rate), scope: rate.scope }
    }

    /// Rate and burst of the whole scope.
    pub(super) fn whole(self) -> Gcra {
        self.whole
    }

    /// Whether all nodes of the fleet share the limit.
    pub(super) fn is_shared(self) -> bool {
        self.scope == RateScope::Fleet
    }

    /// Time until a token is refilled, and most tokens at once, of the whole scope.
    pub(super) fn tokens(self) -> (Duration, u64) {
        (Duration::from_nanos(self.whole.cost()), self.whole.burst())
    }

    /// Most requests at once, within the whole scope.
    pub(super) fn burst(self) -> u64 {
        self.whole.burst()
    }

    /// The number of nodes that share the limit, of so many live ones.
    pub(super) fn shared_by(self, nodes: u32) -> u32 {
        match self.scope {
            RateScope::Fleet => nodes,
            RateScope::Node => 1,
        }
    }

    /// The rule that one of so many live nodes enforces.
    #[inline]
    pub(super) fn of_node(self, nodes: u32) -> Gcra {
        if nodes == 1 { self.whole } else { self.share(nodes) }
    }

    #[cold]
    fn share(self, nodes: u32) -> Gcra {
        match self.scope {
            RateScope::Fleet => self.whole.share(nodes),
            RateScope::Node => self.whole,
        }
    }
}
