//! Adds up the seconds of all agents.

use crate::record::Interval;
use std::collections::BTreeMap;

/// Seconds that some agents have not reported yet.
pub(super) struct Merge {
    waiting: BTreeMap<u64, Interval>,
    /// The last second of each agent; `None` once it has ended.
    last: Vec<Option<u64>>,
    labels: usize,
    open: bool,
}

impl Merge {
    pub(super) fn new(agents: usize, labels: usize, open: bool) -> Self {
        Self { waiting: BTreeMap::new(), last: vec![Some(0); agents], labels, open }
    }

    /// Adds the figures of an agent, which reports its seconds in order.
    pub(super) fn add(&mut self, agent: usize, interval: &Interval) {
        let empty = || Interval::new(interval.second, self.labels, self.open);
        self.waiting.entry(interval.second).or_insert_with(empty).add(interval, true);
        // The next second: an agent may report parts of the current one again.
        if let Some(Some(last)) = self.last.get_mut(agent) {
            *last = interval.second + 1;
        }
    }

    /// An agent reports no further second.
    pub(super) fn end(&mut self, agent: usize) {
        if let Some(last) = self.last.get_mut(agent) {
            *last = None;
        }
    }

    /// Whether all agents have ended.
    pub(super) fn is_ended(&self) -> bool {
        self.last.iter().all(Option::is_none)
    }

    /// Seconds that all agents have reported.
    pub(super) fn complete(&mut self) -> Vec<Interval> {
        let from = self.last.iter().flatten().min().copied().unwrap_or(u64::MAX);
        let later = self.waiting.split_off(&from);
        std::mem::replace(&mut self.waiting, later).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Interval {
        Interval { offered: 1, ..Interval::new(second, 1, false) }
    }

    #[test]
    fn a_second_is_complete_when_every_agent_has_reported() {
        let mut merge = Merge::new(2, 1, false);
        let seconds = |merge: &mut Merge| {
            merge.complete().iter().map(|i| (i.second, i.offered)).collect::<Vec<_>>()
        };
        merge.add(0, &second(0));
        merge.add(0, &second(1));
        assert_eq!(seconds(&mut merge), []);
        merge.add(1, &second(0));
        assert_eq!(seconds(&mut merge), [(0, 2)]);
        merge.end(1);
        assert_eq!(seconds(&mut merge), [(1, 1)]);
        merge.add(0, &second(2));
        merge.end(0);
        assert!(merge.is_ended());
        assert_eq!(seconds(&mut merge), [(2, 1)]);
    }
}
