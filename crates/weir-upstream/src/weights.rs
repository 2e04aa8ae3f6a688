//! Weighted balancing: the share of requests of each target, for example of a canary release.

use std::cell::RefCell;

/// Different weights, and the state of the round robin.
#[derive(Debug)]
pub(super) struct Weights {
    of: Vec<u32>,
    /// Current weight of each target.
    credits: RefCell<Vec<i64>>,
}

impl Weights {
    /// `None` if all weights are equal.
    pub(super) fn new(of: Vec<u32>) -> Option<Self> {
        let differ = of.windows(2).any(|two| two[0] != two[1]);
        differ.then(|| Self { credits: RefCell::new(vec![0; of.len()]), of })
    }

    /// The next target among those that `may`: each of them gains its weight; the target with the
    /// highest credit is chosen and loses the sum of all weights. This spreads out the turns: heavy
    /// targets get no more turns in a row than necessary (the smooth round robin of nginx). Unless
    /// `taken`, the state does not change.
    pub(super) fn turn(&self, taken: bool, may: impl Fn(usize) -> bool) -> Option<usize> {
        let mut credits = self.credits.borrow_mut();
        let owed = |index: usize| credits[index] + i64::from(self.of[index]);
        // Of equal credits the first one.
        let chosen =
            (0..self.of.len()).rev().filter(|index| may(*index)).max_by_key(|&i| owed(i))?;
        if taken {
            let mut gained = 0;
            for (index, weight) in self.of.iter().enumerate().filter(|(index, _)| may(*index)) {
                credits[index] += i64::from(*weight);
                gained += i64::from(*weight);
            }
            credits[chosen] -= gained;
        }
        Some(chosen)
    }

    /// Two different targets at random by their weights; there are at least two.
    pub(super) fn two(&self) -> (usize, usize) {
        let one = self.one_but(None);
        (one, self.one_but(Some(one)))
    }

    fn one_but(&self, other: Option<usize>) -> usize {
        let weights = || self.of.iter().enumerate().filter(|(index, _)| Some(*index) != other);
        let all: u64 = weights().map(|(_, weight)| u64::from(*weight)).sum();
        let mut at = fastrand::u64(..all.max(1));
        for (index, weight) in weights() {
            match at.checked_sub(u64::from(*weight)) {
                Some(rest) => at = rest,
                None => return index,
            }
        }
        0
    }

    /// Whether `one` is a smaller load for its target than `other` for its own, by weight.
    pub(super) fn is_less(
        &self,
        (one, busy): (usize, usize),
        (other, its): (usize, usize),
    ) -> bool {
        busy as u64 * u64::from(self.of[other]) < its as u64 * u64::from(self.of[one])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(weights: &Weights, count: usize, may: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..count).map(|_| weights.turn(true, &may).unwrap()).collect()
    }

    #[test]
    fn turns_are_shared_by_weight_and_spread_out() {
        assert!(Weights::new(vec![3, 3, 3]).is_none());
        let weights = Weights::new(vec![5, 1, 1]).unwrap();
        assert_eq!(turns(&weights, 7, |_| true), [0, 0, 1, 0, 2, 0, 0]);
        let weights = Weights::new(vec![95, 5]).unwrap();
        let all = turns(&weights, 2000, |_| true);
        for twenty in all.chunks(20) {
            assert_eq!(twenty.iter().filter(|&&index| index == 1).count(), 1, "{twenty:?}");
        }
    }

    #[test]
    fn those_that_may_not_be_chosen_are_owed_nothing_for_it() {
        let weights = Weights::new(vec![2, 1, 1]).unwrap();
        assert!(turns(&weights, 400, |index| index != 0).iter().all(|&index| index != 0));
        let later = turns(&weights, 400, |_| true);
        assert_eq!(later.iter().filter(|&&index| index == 0).count(), 200);
        assert_eq!(weights.turn(true, |_| false), None);
    }

    #[test]
    fn a_question_is_no_turn() {
        let weights = Weights::new(vec![1, 9]).unwrap();
        (0..100).for_each(|_| assert_eq!(weights.turn(false, |index| index == 0), Some(0)));
        let ten = turns(&weights, 10, |_| true);
        assert_eq!(ten.iter().filter(|&&index| index == 0).count(), 1);
    }

    #[test]
    fn two_at_random_are_different_and_heavy_ones_come_more_often() {
        let weights = Weights::new(vec![1, 8, 1]).unwrap();
        let mut first = [0; 3];
        for _ in 0..10_000 {
            let (one, other) = weights.two();
            assert_ne!(one, other);
            first[one] += 1;
        }
        assert!((7500..8500).contains(&first[1]), "{first:?}");
        assert!(weights.is_less((1, 7), (0, 1)) && !weights.is_less((1, 8), (0, 1)));
        assert!(weights.is_less((0, 0), (1, 1)));
    }
}
