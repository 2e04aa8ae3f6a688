//! What agents write to standard error, as lines in weir's log.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where lines go. It must not block.
pub type Log = Arc<dyn Fn(String) + Send + Sync>;

/// Longest line, in bytes; what is behind it is cut off.
pub(crate) const LINE: usize = 4096;
/// Lines in a second that are logged of one pool; more are counted.
const LINES: u32 = 50;

/// Lets only so many lines pass.
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
        self.lines <= LINES
    }
}

/// Cuts what comes into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Takes bytes; `each` gets every line that has become whole.
    pub(crate) fn take(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        let mut pieces = bytes.split(|&byte| byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let room = LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if pieces.peek().is_some() {
                self.end(&mut each);
            }
        }
    }

    /// There will be no more.
    pub(crate) fn end(&mut self, mut each: impl FnMut(String)) {
        let text = String::from_utf8_lossy(&self.line);
        // What could move a terminal's cursor has no place in a log.
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
        for piece in ["on", "e\ntwo\r\n\n", "\u{1b}[31mthree", "\n"] {
            lines.take(piece.as_bytes(), |line| seen.push(line));
        }
        lines.take(&[b'x'; LINE * 3], |line| seen.push(line));
        lines.take(b"four", |line| seen.push(line));
        lines.end(|line| seen.push(line));
        assert_eq!(seen[..3], ["one", "two", " [31mthree"]);
        assert_eq!((seen.len(), seen[3].len()), (4, LINE));
    }

    #[test]
    fn a_flood_passes_only_in_part() {
        let mut throttle = Throttle::new();
        let start = Instant::now() + Duration::from_secs(5);
        let passed =
            |throttle: &mut Throttle, now| (0..500).filter(|_| throttle.admits(now)).count();
        assert_eq!(passed(&mut throttle, start), LINES as usize);
        assert_eq!(passed(&mut throttle, start + Duration::from_secs(2)), LINES as usize);
    }
}
