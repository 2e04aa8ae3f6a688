//! The order in which the cases of an experiment have their rounds.

use serde::{Deserialize, Serialize};

/// How rounds of several cases follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrangement {
    /// A round of each case in turn: what the machine does meanwhile meets all of them alike.
    #[default]
    Interleaved,
    /// One case after the other, as the published tests did.
    Sequential,
    /// Each turn in an order of its own, so that no case always follows the same other one.
    Randomized,
}

/// Says whose turn it is.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrangement: Arrangement,
    /// Cases that still have rounds to run in this turn, the next one last.
    turn: Vec<usize>,
    random: fastrand::Rng,
}

impl Schedule {
    /// A schedule; `seed` decides the order if it is a random one, so that a run can be repeated.
    #[must_use]
    pub fn new(arrangement: Arrangement, seed: u64) -> Self {
        Self { arrangement, turn: Vec::new(), random: fastrand::Rng::with_seed(seed) }
    }

    /// The next case of those that are `open` (not finished); `None` if none is.
    pub fn next(&mut self, open: &[bool]) -> Option<usize> {
        if self.arrangement == Arrangement::Sequential {
            return open.iter().position(|open| *open);
        }
        let is_open = |case: &usize| open.get(*case).copied().unwrap_or(false);
        self.turn.retain(is_open);
        if self.turn.is_empty() {
            self.turn = (0..open.len()).filter(is_open).rev().collect();
            if self.arrangement == Arrangement::Randomized {
                self.random.shuffle(&mut self.turn);
            }
        }
        self.turn.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(arrangement: Arrangement, count: usize) -> Vec<usize> {
        let mut schedule = Schedule::new(arrangement, 7);
        (0..count).filter_map(|_| schedule.next(&[true, false, true, true])).collect()
    }

    #[test]
    fn each_arrangement_in_its_order() {
        assert_eq!(first(Arrangement::Interleaved, 6), [0, 2, 3, 0, 2, 3]);
        assert_eq!(first(Arrangement::Sequential, 3), [0, 0, 0]);
        let random = first(Arrangement::Randomized, 30);
        for turn in random.chunks(3) {
            let mut sorted = turn.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 2, 3], "each case once a turn");
        }
        assert!(random.chunks(3).any(|turn| turn != [0, 2, 3]));
    }

    #[test]
    fn a_finished_case_has_no_turn() {
        let mut schedule = Schedule::new(Arrangement::Interleaved, 0);
        assert_eq!(schedule.next(&[true, true, true]), Some(0));
        assert_eq!(schedule.next(&[true, false, true]), Some(2));
        assert_eq!(schedule.next(&[false, false, false]), None);
    }
}
