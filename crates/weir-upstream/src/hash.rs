//! Sticky sessions: requests with the same key go to the same target, by weighted rendezvous
//! hashing.
//!
//! Every target has a score for a key, and the one with the highest score is chosen: if a target is
//! removed, keys of other targets keep their target, and its own keys are spread over all others.
//! The scores of weighted targets are those of Schindelhauer and Schomaker (Weighted Distributed
//! Hash Tables, 2005): the logarithm of a number between 0 and 1, divided by the weight.

/// The hash of a target or a key: FNV-1a, so that all workers and all processes in front of the
/// same targets make the same choice.
pub fn of(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Whether a key is in a share of `part` ten-thousandths; a key in a share is in every larger one.
pub fn is_in(key: u64, part: u32) -> bool {
    let share = mixed(key) >> 11;
    share < ((1u64 << 53) / 10_000).saturating_mul(u64::from(part)) || part >= 10_000
}

/// SplitMix64's finaliser: with FNV alone, similar texts have similar hashes.
fn mixed(key: u64) -> u64 {
    let mut mixed = key;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The score of a target for a key; the highest wins.
pub(super) fn score(target: u64, weight: u32, key: u64) -> f64 {
    let between = ((mixed(target ^ key.rotate_left(32)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    between.ln() / f64::from(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: [&str; 4] = ["10.0.0.7:8000", "10.0.0.8:8000", "10.0.0.9:8000", "10.0.1.7:8000"];

    fn chosen(weights: &[u32], key: usize) -> usize {
        let scores = TARGETS.iter().zip(weights).map(|(target, weight)| {
            score(of(target.as_bytes()), *weight, of(format!("user-{key}").as_bytes()))
        });
        scores.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0
    }

    #[test]
    fn a_share_is_as_large_as_said_and_keeps_who_is_in_it() {
        let keys = || (0..100_000u32).map(|key| of(format!("user-{key}").as_bytes()));
        for (part, few, many) in [(1, 2, 30), (500, 4_700, 5_300), (5000, 49_000, 51_000)] {
            let count = keys().filter(|key| is_in(*key, part)).count();
            assert!((few..=many).contains(&count), "{part}: {count}");
            assert!(keys().all(|key| !is_in(key, part) || is_in(key, part + 100)));
        }
        assert!(keys().all(|key| is_in(key, 10_000) && !is_in(key, 0)));
    }

    fn shares(weights: &[u32]) -> Vec<usize> {
        let mut shares = vec![0; weights.len()];
        (0..40_000).for_each(|key| shares[chosen(weights, key)] += 1);
        shares
    }

    #[test]
    fn keys_are_spread_by_weight() {
        assert!(shares(&[1, 1, 1, 1]).iter().all(|share| (9_500..10_500).contains(share)));
        let got = shares(&[5, 1, 1, 1]);
        assert!((24_000..26_000).contains(&got[0]), "{got:?}");
        assert!(got[1..].iter().all(|share| (4_500..5_500).contains(share)), "{got:?}");
    }

    #[test]
    fn a_target_that_goes_takes_no_other_keys_along() {
        for key in 0..10_000 {
            let (all, without) = (chosen(&[1, 1, 1, 1], key), chosen(&[1, 1, 1], key));
            assert!(all == without || all == 3);
        }
    }

    #[test]
    fn more_weight_only_draws_keys_to_itself() {
        for key in 0..10_000 {
            let (before, after) = (chosen(&[1, 1, 1, 1], key), chosen(&[1, 2, 1, 1], key));
            assert!(before == after || after == 1);
        }
    }
}
