//! Selection of a target: round robin, least busy or hash, and failover to another target after a
//! failed attempt.

use super::{Target, Upstream, hash};
use std::rc::Rc;
use std::time::Instant;
use weir_config::Balance;

/// The picks for one request.
pub(super) struct Pick<'u> {
    pub(super) upstream: &'u Upstream,
    /// Hash key of `balance: hash`.
    key: Option<u64>,
    /// Targets that had an attempt or a failed connect.
    tried: Vec<usize>,
    current: Option<usize>,
}

impl<'u> Pick<'u> {
    pub(super) fn new(upstream: &'u Upstream, key: Option<u64>) -> Self {
        Self { upstream, key, tried: Vec::new(), current: None }
    }

    /// The last picked target; the first target before any pick.
    pub(super) fn target(&self) -> &'u Rc<Target> {
        &self.upstream.targets[self.current.unwrap_or(0)]
    }

    /// Picks a target without an attempt; if all had one, a target other than the last.
    pub(super) fn next(&mut self) -> &'u Rc<Target> {
        self.tried.extend(self.current.take());
        let Self { upstream, key, tried, .. } = self;
        let index = upstream.choose(tried, *key).unwrap_or_else(|| {
            let last = tried.last().copied();
            tried.clear();
            tried.extend(last.filter(|_| upstream.targets.len() > 1));
            upstream.choose(tried, *key).unwrap_or(0)
        });
        self.current = Some(index);
        self.target()
    }

    /// Picks another target in rotation without an attempt, if there is one.
    pub(super) fn other(&mut self, now: Instant) -> Option<&'u Rc<Target>> {
        let Self { upstream, key, tried, current } = self;
        tried.extend(current.as_ref());
        let mut targets = upstream.targets.iter().enumerate();
        if !targets.any(|(index, one)| !tried.contains(&index) && one.health.may_admit(now)) {
            return None;
        }
        let other = upstream.choose(tried, *key)?;
        tried.push(other);
        upstream.targets.get(other)
    }

    /// Of two targets with concurrent attempts, this one had the last attempt.
    pub(super) fn settle(&mut self, target: &Rc<Target>) {
        self.current = self.upstream.targets.iter().position(|one| Rc::ptr_eq(one, target));
    }

    /// The attempt at the last picked target does not count.
    pub(super) fn forget(&mut self) {
        self.current = None;
    }
}

impl Upstream {
    /// Chooses a target that is not in `tried`, by `key` if present. If every target is ejected,
    /// ejection is ignored: wrong health information must not cause an outage.
    pub fn choose(&self, tried: &[usize], key: Option<u64>) -> Option<usize> {
        let count = self.targets.len();
        if count == 1 {
            return tried.is_empty().then_some(0);
        }
        let now = Instant::now();
        let untried = |index: &usize| !tried.contains(index);
        let open = |index| untried(&index) && self.targets[index].health.may_admit(now);
        let by_key = key.filter(|_| self.balance == Balance::Hash).and_then(|key| {
            self.best(key, open).or_else(|| self.best(key, |index| untried(&index)))
        });
        let first = match (self.balance, &self.weights) {
            _ if by_key.is_some() => by_key?,
            (Balance::RoundRobin | Balance::Hash, Some(weights)) => {
                // As below: a retry takes no turn.
                let first = tried.is_empty();
                weights.turn(first, open).or_else(|| weights.turn(first, |at| untried(&at)))?
            }
            (Balance::LeastBusy, Some(weights)) => {
                let (one, other) = weights.two();
                let load = |index: usize| (index, self.targets[index].busy());
                if weights.is_less(load(other), load(one)) { other } else { one }
            }
            (Balance::RoundRobin | Balance::Hash, None) => {
                let next = self.next.get();
                // A retry does not advance the round robin: otherwise the target after a failing
                // one would get more than its share of requests.
                if tried.is_empty() {
                    self.next.set((next + 1) % count);
                }
                next
            }
            (Balance::LeastBusy, None) => {
                let one = fastrand::usize(..count);
                let other = (one + fastrand::usize(1..count)) % count;
                let busy = |index: usize| self.targets[index].busy();
                if busy(other) < busy(one) { other } else { one }
            }
        };
        let order = || (0..count).map(|step| (first + step) % count).filter(untried);
        order().find(|&index| self.targets[index].health.admits(now)).or_else(|| order().next())
    }

    /// The target with the highest score for a key, of those that `may`.
    fn best(&self, key: u64, may: impl Fn(usize) -> bool) -> Option<usize> {
        let score = |index: usize| {
            let (target, weight) = self.hashes[index];
            hash::score(target, weight, key)
        };
        let may = (0..self.hashes.len()).filter(|index| may(*index));
        may.map(|index| (score(index), index)).max_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1)
    }
}
