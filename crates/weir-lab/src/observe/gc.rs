//! Pauses in a JVM's unified garbage collection log (JEP 158, `-Xlog:gc`).
//!
//! ```text
//! [2024-05-01T10:00:00.123+0000][12.345s][info][gc] GC(7) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.345ms
//! ```
//!
//! Only lines of pauses with a length count: phases within a pause and concurrent work do not stop
//! the program. ZGC writes its pauses as `gc,phases`, with the prefix `y: ` or `o: ` if
//! generational.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// Bytes of each read.
const READ_CHUNK_BYTES: u64 = 1024 * 1024;

/// A log that is read while it grows.
#[derive(Debug)]
pub struct GcLog {
    file: File,
    /// An incomplete line.
    rest: String,
    /// Uptime of the last line with an uptime.
    last: Option<Duration>,
}

/// A pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pause {
    /// Uptime of the JVM, if logged.
    pub at: Option<Duration>,
    /// Length.
    pub length: Duration,
}

impl GcLog {
    /// Opens a log at its end: earlier pauses do not belong to this run.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn from_end(path: &Path) -> io::Result<Self> {
        let mut log = Self::from_start(path)?;
        log.file.seek(SeekFrom::End(0))?;
        Ok(log)
    }

    /// Opens a log at its start.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn from_start(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, rest: String::new(), last: None })
    }

    /// Uptime of the JVM at the last line; `None` without uptimes in the log.
    #[must_use]
    pub fn uptime(&self) -> Option<Duration> {
        self.last
    }

    /// Pauses since the last call.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read(&mut self) -> io::Result<Vec<Pause>> {
        let mut pauses = Vec::new();
        loop {
            let mut bytes = Vec::new();
            let read = (&mut self.file).take(READ_CHUNK_BYTES).read_to_end(&mut bytes)?;
            if read == 0 {
                return Ok(pauses);
            }
            self.rest.push_str(&String::from_utf8_lossy(&bytes));
            let Some(end) = self.rest.rfind('\n') else { continue };
            for line in self.rest[..end].lines() {
                let (uptime, message) = split(line);
                self.last = uptime.or(self.last);
                pauses.extend(length(message).map(|length| Pause { at: uptime, length }));
            }
            self.rest.drain(..=end);
        }
    }
}

/// Uptime and message of a line.
fn split(line: &str) -> (Option<Duration>, &str) {
    let mut uptime = None;
    let mut rest = line.trim();
    while let Some((decoration, behind)) =
        rest.strip_prefix('[').and_then(|text| text.split_once(']'))
    {
        uptime = uptime.or_else(|| time(decoration.trim()));
        rest = behind.trim_start();
    }
    (uptime, rest)
}

/// Length of a completed pause.
fn length(message: &str) -> Option<Duration> {
    let text = message.strip_prefix("GC(")?.split_once(')')?.1.trim_start();
    let generation = ["y: ", "Y: ", "o: ", "O: "].iter().find_map(|of| text.strip_prefix(of));
    if !generation.unwrap_or(text).starts_with("Pause") {
        return None;
    }
    time(text.rsplit(' ').next()?)
}

/// `3.345ms`, `12.345s` (some locales write a comma).
fn time(text: &str) -> Option<Duration> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0)];
    let (number, unit) =
        units.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    let number: f64 = number.replace(',', ".").parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok()
}

/// GC throughput in percent: (1 − Σ pause / T) · 100, the share of the time without pauses.
pub fn throughput(pauses: &[Pause], time: Duration) -> f64 {
    let paused: Duration = pauses.iter().map(|pause| pause.length).sum();
    let share = paused.as_secs_f64() / time.as_secs_f64().max(f64::MIN_POSITIVE);
    (1.0 - share.min(1.0)) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_stop_the_world_pauses_count() {
        let log = "\
[0.004s][info][gc] Using G1
[12.345s][info][gc,start    ] GC(7) Pause Young (Normal) (G1 Evacuation Pause)
[12.348s][info][gc,phases   ] GC(7)   Evacuate Collection Set: 2.1ms
[12.349s][info][gc          ] GC(7) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.345ms
[12.500s][info][gc          ] GC(8) Concurrent Mark Cycle 12.345ms
[12.600s][info][gc,phases   ] GC(8) y: Pause Mark Start 0.021ms
[2024-05-01T10:00:00.123+0000][13.000s][info][gc] GC(9) Pause Full (System.gc()) 10M->3M(20M) 1,5ms
GC(10) Pause Remark 9M->9M(20M) 0.655ms
";
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut reader = GcLog::from_start(file.path()).unwrap();
        let (first, second) = log.split_at(log.find("3.345").unwrap());
        file.write_all(first.as_bytes()).unwrap();
        assert_eq!(reader.read().unwrap(), []);
        file.write_all(second.as_bytes()).unwrap();
        let pauses = reader.read().unwrap();
        let micros: Vec<u128> = pauses.iter().map(|pause| pause.length.as_micros()).collect();
        assert_eq!(micros, [3345, 21, 1500, 655]);
        assert_eq!(reader.uptime(), Some(Duration::from_secs(13)));
        assert_eq!(pauses[0].at, Some(Duration::from_millis(12_349)));
        assert_eq!(pauses[3].at, None);
        assert!((throughput(&pauses, Duration::from_micros(552_100)) - 99.0).abs() < 1e-9);
        assert_eq!(GcLog::from_end(file.path()).unwrap().read().unwrap(), []);
    }
}
