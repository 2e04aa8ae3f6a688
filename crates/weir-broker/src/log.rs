//! Standard error of agents as lines in weir's log.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receiver of log lines. It must not block.
pub type Log = Arc<dyn Fn(String) + Send + Sync>;

/// Longest line, in bytes; the rest is cut off.
pub(crate) const MAX_LINE_BYTES: usize = 4096;
/// Lines of one pool that are logged each second; further ones are counted.
const MAX_LINES_PER_SECOND: u32 = 50;

/// Limits the lines per second.
#[derive(Debug)]
pub(crate) struct Throttle {
    second: Instant,
    lines: u32,
}

impl Throttle {
    pub(crate) fn new() -> Self {
        Self { second: Instant::now(), lines: 0 }
    }

    /// Whether a line may pass now.
    pub(crate) fn admits(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.second) >= Duration::from_secs(1) {
            (self.second, self.lines) = (now, 0);
        }
        self.lines = self.lines.saturating_add(1);
        self.lines <= MAX_LINES_PER_SECOND
    }
}

/// Splits output into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Adds output; `each` gets every complete line.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        let mut parts = bytes.split(|&byte| byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            let space = MAX_LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(space)]);
            if parts.peek().is_some() {
                self.finish(&mut each);
            }
        }
    }

    /// Ends the output.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(String)) {
        let text = String::from_utf8_lossy(&self.line);
        // Control characters could move a terminal's cursor.
        let text: String =
            text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.line.clear();
        if !text.is_empty() {
            each(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_clean_and_not_too_long() {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for part in ["on", "e\ntwo\r\n\n", "\u{1b}[31mthree", "\n"] {
            lines.push(part.as_bytes(), |line| seen.push(line));
        }
        lines.push(&[b'x'; MAX_LINE_BYTES * 3], |line| seen.push(line));
        lines.push(b"four", |line| seen.push(line));
        lines.finish(|line| seen.push(line));
        assert_eq!(seen[..3], ["one", "two", " [31mthree"]);
        assert_eq!((seen.len(), seen[3].len()), (4, MAX_LINE_BYTES));
    }

    #[test]
    fn a_flood_passes_only_in_part() {
        let mut throttle = Throttle::new();
        let start = Instant::now() + Duration::from_secs(5);
        let passed =
            |throttle: &mut Throttle, now| (0..500).filter(|_| throttle.admits(now)).count();
        assert_eq!(passed(&mut throttle, start), MAX_LINES_PER_SECOND as usize);
        assert_eq!(
            passed(&mut throttle, start + Duration::from_secs(2)),
            MAX_LINES_PER_SECOND as usize
        );
    }
}
