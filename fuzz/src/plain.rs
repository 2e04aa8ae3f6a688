//! Runs one target over its seeds and random changes of them, on any toolchain.
//!
//! `plain TARGET SECONDS FOLDER...`: every file of the folders, then changes of them until the time
//! is over. Without coverage to guide it this finds less than libFuzzer, but exercises the same
//! checks. An input that fails is written to `plain-failure-TARGET` in the current folder.

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};
use weir_fuzz::{Check, TARGETS};

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

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (name, seconds) = (arguments.next(), arguments.next().and_then(|s| s.parse().ok()));
    let target = TARGETS.iter().find(|(known, _)| Some(*known) == name.as_deref());
    let (Some(&(name, check)), Some(seconds)) = (target, seconds) else {
        eprintln!("usage: plain TARGET SECONDS FOLDER...");
        return ExitCode::from(2);
    };
    let seeds: Vec<Vec<u8>> = arguments
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| fs::read(entry.ok()?.path()).ok())
        .collect();
    if seeds.is_empty() {
        eprintln!("no seeds for {name}");
        return ExitCode::from(2);
    }
    let failed = run(name, check, &seeds, Duration::from_secs(seconds));
    ExitCode::from(u8::from(failed))
}

/// Whether an input failed.
fn run(name: &str, check: Check, inputs: &[Vec<u8>], time: Duration) -> bool {
    let fails = |input: &[u8]| {
        let failed = std::panic::catch_unwind(|| check(input)).is_err();
        if failed {
            let file = format!("plain-failure-{name}");
            let written = fs::write(&file, input).map_or_else(|e| e.to_string(), |()| file);
            eprintln!("{name}: failed on {} bytes: {written}", input.len());
        }
        failed
    };
    if inputs.iter().any(|input| fails(input)) {
        return true;
    }
    let start = Instant::now();
    let mut random = Random(
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64),
    );
    let mut runs = 0u64;
    while start.elapsed() < time {
        for _ in 0..100 {
            let mut input = inputs[random.below(inputs.len())].clone();
            for _ in 0..=random.below(8) {
                random.change(&mut input, inputs);
            }
            input.truncate(LONGEST);
            if fails(&input) {
                return true;
            }
            runs += 1;
        }
    }
    println!("{name}: {runs} inputs from {} seeds, every property held", inputs.len());
    false
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
