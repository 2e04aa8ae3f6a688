//! Order of the rounds of several cases.

/// Order of the rounds of several cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum CaseOrder {
    /// One round of each case in turn: disturbances of the machine affect all cases alike.
    #[default]
    Interleaved,
    /// As `interleaved`; each round starts with another case, so that no case is always first.
    Rotated,
    /// One case after the other, as in published tests.
    Sequential,
    /// One round of each case in random order, so that no case always follows the same one.
    Randomized,
}

/// Chooses the next case.
#[derive(Clone, Debug)]
pub struct Schedule {
    case_order: CaseOrder,
    /// Remaining cases of this cycle, the next one last.
    cycle: Vec<usize>,
    /// Number of cycles.
    cycles: usize,
    random: fastrand::Rng,
}

impl Schedule {
    /// A schedule; `seed` makes a random order reproducible.
    #[must_use]
    pub fn new(case_order: CaseOrder, seed: u64) -> Self {
        Self { case_order, cycle: Vec::new(), cycles: 0, random: fastrand::Rng::with_seed(seed) }
    }

    /// The next of the `open` (incomplete) cases; `None` without one.
    pub fn next(&mut self, open: &[bool]) -> Option<usize> {
        if self.case_order == CaseOrder::Sequential {
            return open.iter().position(|open| *open);
        }
        let is_open = |case: &usize| open.get(*case).copied().unwrap_or(false);
        self.cycle.retain(is_open);
        if self.cycle.is_empty() {
            self.cycle = (0..open.len()).filter(is_open).rev().collect();
            match self.case_order {
                CaseOrder::Randomized => self.random.shuffle(&mut self.cycle),
                CaseOrder::Rotated if !self.cycle.is_empty() => {
                    let by = self.cycles % self.cycle.len();
                    self.cycle.rotate_right(by);
                }
                _ => {}
            }
            self.cycles += 1;
        }
        self.cycle.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(case_order: CaseOrder, count: usize) -> Vec<usize> {
        let mut schedule = Schedule::new(case_order, 7);
        (0..count).filter_map(|_| schedule.next(&[true, false, true, true])).collect()
    }

    #[test]
    fn each_arrangement_in_its_order() {
        assert_eq!(first(CaseOrder::Interleaved, 6), [0, 2, 3, 0, 2, 3]);
        assert_eq!(first(CaseOrder::Sequential, 3), [0, 0, 0]);
        assert_eq!(first(CaseOrder::Rotated, 9), [0, 2, 3, 2, 3, 0, 3, 0, 2]);
        let random = first(CaseOrder::Randomized, 30);
        for cycle in random.chunks(3) {
            let mut sorted = cycle.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 2, 3], "each case once a cycle");
        }
        assert!(random.chunks(3).any(|cycle| cycle != [0, 2, 3]));
    }

    #[test]
    fn a_finished_case_has_no_turn() {
        let mut schedule = Schedule::new(CaseOrder::Interleaved, 0);
        assert_eq!(schedule.next(&[true, true, true]), Some(0));
        assert_eq!(schedule.next(&[true, false, true]), Some(2));
        assert_eq!(schedule.next(&[false, false, false]), None);
    }
}
