//! Runs a target over its seeds and random changes of them, on any toolchain.
//!
//! Without coverage to guide it this finds less than libFuzzer, but exercises the same checks.

use crate::Check;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Longest input, in bytes.
const LONGEST: usize = 4096;
/// Text that such input is made of, put in as a whole.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"0\r\n\r\n",
    b"5\r\nhello\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Host: a\r\n",
    b"HTTP/1.0",
    b"GET / HTTP/1.1\r\n",
    b"%2e",
    b"%2F",
    b"/../",
    b"//",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"'",
    b"- ",
    b": ",
    b"\n  ",
    b"${env:A}",
    b"$.a",
    b"&a",
    b"*a",
    b"\xff",
    b"\xc3\xa4",
    b"*",
];

/// All files of a folder.
///
/// # Errors
/// The folder or a file of it cannot be read.
pub fn seeds(folder: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    fs::read_dir(folder)?.map(|entry| fs::read(entry?.path())).collect()
}

/// The seed of the random changes: `FUZZ_SEED`, 1 if unset; 0 is a seed by the clock.
#[must_use]
pub fn random_seed() -> u64 {
    let set = std::env::var("FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
    match set.unwrap_or(1) {
        0 => SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(1, |t| t.as_nanos() as u64),
        seed => seed,
    }
}

/// Checks all inputs, then changes of them until the time is over. Returns how many were checked, or
/// the first input that failed.
///
/// # Errors
/// The input that failed; the panic is on standard error.
pub fn run(check: Check, inputs: &[Vec<u8>], time: Duration, seed: u64) -> Result<u64, Vec<u8>> {
    let holds = |input: &[u8]| std::panic::catch_unwind(|| check(input)).is_ok();
    if let Some(failed) = inputs.iter().find(|input| !holds(input)) {
        return Err(failed.clone());
    }
    let start = Instant::now();
    let mut random = Random(seed);
    let mut runs = 0;
    while start.elapsed() < time {
        let mut input = inputs[random.below(inputs.len())].clone();
        for _ in 0..=random.below(8) {
            random.change(&mut input, inputs);
        }
        input.truncate(LONGEST);
        if !holds(&input) {
            return Err(input);
        }
        runs += 1;
    }
    Ok(runs)
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 |= 1;
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }

    /// One change: a byte set, put in or taken out, a word put in, a part doubled or taken out,
    /// or another input's end joined on.
    fn change(&mut self, input: &mut Vec<u8>, others: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let end = at + self.below((input.len() - at).min(64) + 1);
        match self.below(7) {
            0 if at < input.len() => input[at] = self.below(256) as u8,
            1 if at < input.len() => input[at] ^= 1 << self.below(8),
            2 => input.insert(at, self.below(256) as u8),
            3 => {
                input.drain(at..end);
            }
            4 => {
                let part = input[at..end].to_vec();
                input.splice(at..at, part);
            }
            5 => {
                let other = &others[self.below(others.len())];
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {
                let word = WORDS[self.below(WORDS.len())];
                input.splice(at..at, word.iter().copied());
            }
        }
    }
}
