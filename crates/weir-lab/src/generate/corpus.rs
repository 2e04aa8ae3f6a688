//! Documents of words, few of them frequent and most of them rare, as in natural texts.

use super::{GenerateError, MAX_BYTES};
use bytes::Bytes;

/// A pool of documents whose words follow Zipf's law: the word of rank `k` has a weight of `1 /
/// k^exponent`. Every document has a unique number, so that it can be searched.
#[derive(Clone, Debug, PartialEq)]
pub struct Corpus {
    /// Number of documents.
    pub documents: u32,
    /// Words of each document.
    pub words: u32,
    /// Number of different words.
    pub vocabulary: u32,
    /// Exponent of the law; natural languages are near 1.
    pub exponent: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Corpus {
    fn default() -> Self {
        Self { documents: 1_000, words: 100, vocabulary: 20_000, exponent: 1.0, seed: 1 }
    }
}

/// Largest size of a word with its space, in bytes.
const MAX_WORD_BYTES: u64 = 12;

impl Corpus {
    /// `{"id":"doc-000017","text":"…"}`, all of them.
    ///
    /// # Errors
    /// The documents would exceed a gigabyte.
    pub(super) fn documents(&self) -> Result<Vec<Bytes>, GenerateError> {
        let each = u64::from(self.words).saturating_mul(MAX_WORD_BYTES).saturating_add(64);
        let all = u64::from(self.documents).saturating_mul(each);
        if all.saturating_add(u64::from(self.vocabulary).saturating_mul(8)) > MAX_BYTES {
            return Err(GenerateError::TooLarge);
        }
        let ranks = self.cumulated();
        let mut chance = fastrand::Rng::with_seed(self.seed);
        let documents = (0..self.documents).map(|number| {
            let mut text = format!("{{\"id\":\"doc-{number:06}\",\"text\":\"");
            for position in 0..self.words {
                if position > 0 {
                    text.push(' ');
                }
                word(pick(&ranks, chance.f64()), &mut text);
            }
            text.push_str("\"}");
            Bytes::from(text)
        });
        Ok(documents.collect())
    }

    /// Cumulative share of the words up to each rank.
    fn cumulated(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = (1..=self.vocabulary.max(1))
            .map(|rank| {
                sum += f64::from(rank).powf(-self.exponent);
                sum
            })
            .collect();
        sums.iter_mut().for_each(|part| *part /= sum);
        sums
    }
}

/// The rank (from 0) of a number in 0..1.
fn pick(cumulated: &[f64], at: f64) -> usize {
    cumulated.partition_point(|part| *part < at).min(cumulated.len() - 1)
}

/// The word of a rank: syllables, so that no word starts a number or a keyword.
fn word(rank: usize, out: &mut String) {
    const FIRST: &[u8; 16] = b"bdfghjklmnprstvz";
    const SECOND: &[u8; 5] = b"aeiou";
    let mut rest = rank;
    loop {
        out.push(char::from(FIRST[rest % 16]));
        rest /= 16;
        out.push(char::from(SECOND[rest % 5]));
        rest /= 5;
        if rest == 0 {
            return;
        }
        rest -= 1;
    }
}
