//! A JVM's unified GC log (`-Xlog:gc*`, JEP 158 and 271): how long it paused.
//!
//! ```text
//! [12.345s][info][gc] GC(7) Pause Young (Normal) (G1 Evacuation Pause) 24M->3M(256M) 2.345ms
//! ```
//!
//! What counts is a line whose message, after `GC(n)`, begins with `Pause` and ends with a duration;
//! lines without one only announce a pause. Times are the JVM's uptime, or its wall clock where the
//! log has no uptime. A pause belongs to a window if it ends in it.

use serde::Serialize;

/// A pause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pause {
    /// When it ended, seconds on the log's clock.
    pub at: f64,
    /// How long it was, in milliseconds.
    pub ms: f64,
    /// What it was for, such as `Pause Young (Normal) (G1 Evacuation Pause)`.
    pub what: String,
}

/// A log that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Pauses, in the order of the log.
    pub pauses: Vec<Pause>,
    /// Clock of the first line that has one.
    pub first: f64,
    /// Clock of the last.
    pub last: f64,
}

/// What a window of a log amounts to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Pauses {
    /// Length of the window, in seconds.
    pub seconds: f64,
    /// How many pauses.
    pub count: usize,
    /// Their sum, in milliseconds.
    pub sum_ms: f64,
    /// The longest, in milliseconds.
    pub longest_ms: f64,
    /// Share of the time without pauses, in percent: (1 − Σ pause ÷ T) · 100.
    pub throughput: f64,
}

impl Log {
    /// Reads a log. Lines that are none of a unified log are left out, as other output of a JVM
    /// often stands between.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut log = Self::default();
        let mut any = false;
        for line in text.lines() {
            let Some((at, message)) = line_of(line) else { continue };
            if !any {
                (log.first, any) = (at, true);
            }
            log.last = log.last.max(at);
            if let Some((what, ms)) = pause(message) {
                log.pauses.push(Pause { at, ms, what: what.to_owned() });
            }
        }
        log
    }

    /// Adds up the pauses from `from` to `to`, seconds on the log's clock; a JVM's uptime begins
    /// at 0, so that is where a whole log begins too.
    #[must_use]
    pub fn between(&self, from: f64, to: f64) -> Pauses {
        let inside = || self.pauses.iter().filter(|pause| from < pause.at && pause.at <= to);
        let seconds = (to - from).max(0.0);
        let sum_ms: f64 = inside().map(|pause| pause.ms).sum();
        let share = if seconds > 0.0 { sum_ms / 1e3 / seconds } else { 0.0 };
        Pauses {
            seconds,
            count: inside().count(),
            sum_ms,
            longest_ms: inside().map(|pause| pause.ms).fold(0.0, f64::max),
            throughput: (100.0 * (1.0 - share)).clamp(0.0, 100.0),
        }
    }

    /// All of it.
    #[must_use]
    pub fn whole(&self) -> Pauses {
        // A wall clock does not begin at 0; the log then begins with its first line.
        let uptime = self.first < 1e9;
        self.between(if uptime { 0.0 } else { self.first - 1e-9 }, self.last)
    }
}

/// Clock and message of a line.
fn line_of(line: &str) -> Option<(f64, &str)> {
    let mut rest = line.trim_end();
    let (mut uptime, mut wall) = (None, None);
    while let Some((decoration, after)) =
        rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
    {
        let decoration = decoration.trim();
        uptime = uptime.or_else(|| duration(decoration).map(|ms| ms / 1e3));
        wall = wall.or_else(|| clock(decoration));
        rest = after;
    }
    Some((uptime.or(wall)?, rest.trim_start()))
}

/// `2026-11-21T10:00:00.123+0000`, as seconds since 1970.
fn clock(text: &str) -> Option<f64> {
    if !text.contains('T') {
        return None;
    }
    let time = jiff::fmt::strtime::parse("%Y-%m-%dT%H:%M:%S%.f%z", text).ok()?;
    Some(time.to_timestamp().ok()?.as_nanosecond() as f64 / 1e9)
}

/// `1.234s`, `5ms` or `17ns`, in milliseconds. Some locales write a decimal comma.
fn duration(text: &str) -> Option<f64> {
    let units = [("ms", 1.0), ("us", 1e-3), ("ns", 1e-6), ("s", 1e3)];
    units.iter().find_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?.replace(',', ".");
        let fits = number.starts_with(|c: char| c.is_ascii_digit());
        number.parse::<f64>().ok().filter(|_| fits).map(|value| value * factor)
    })
}

/// What a message says of a pause that ended, and its milliseconds.
fn pause(message: &str) -> Option<(&str, f64)> {
    let (_, what) = message.strip_prefix("GC(")?.split_once(") ")?;
    let what = what.trim_start();
    if !what.starts_with("Pause") {
        return None;
    }
    let (what, time) = what.rsplit_once(' ')?;
    let ms = duration(time)?;
    // Before the duration may stand how the heap changed.
    let heap = |text: &str| text.contains("->") && text.ends_with(')');
    let what = match what.rsplit_once(' ') {
        Some((name, last)) if heap(last) => name,
        _ => what,
    };
    Some((what.trim_end(), ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    const G1: &str = "\
[0.005s][info][gc] Using G1
OpenJDK warning: something else
[1.000s][info][gc,start    ] GC(0) Pause Young (Normal) (G1 Evacuation Pause)
[1.010s][info][gc,phases   ] GC(0)   Pre Evacuate Collection Set: 0.1ms
[1.010s][info][gc          ] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 24M->3M(256M) 10.000ms
[5.000s][info][gc          ] GC(1) Concurrent Mark Cycle 35.000ms
[5.500s][info][gc          ] GC(1) Pause Remark 30M->30M(256M) 5,000ms
[10.000s][info][gc,cpu     ] GC(1) User=0.01s Sys=0.00s Real=0.00s
";

    #[test]
    fn pauses_are_counted_and_nothing_else() {
        let log = Log::parse(G1);
        let names: Vec<&str> = log.pauses.iter().map(|pause| pause.what.as_str()).collect();
        assert_eq!(names, ["Pause Young (Normal) (G1 Evacuation Pause)", "Pause Remark"]);
        let all = log.whole();
        assert_eq!((all.count, all.sum_ms, all.longest_ms, all.seconds), (2, 15.0, 10.0, 10.0));
        assert!((all.throughput - 99.85).abs() < 1e-9, "{all:?}");
        let late = log.between(5.0, 10.0);
        assert_eq!((late.count, late.sum_ms), (1, 5.0));
        assert!((late.throughput - 99.9).abs() < 1e-9, "{late:?}");
    }

    #[test]
    fn other_collectors_and_clocks() {
        let zgc = "[250ms][info][gc,phases] GC(0) Pause Mark Start 0.021ms\n";
        assert_eq!(Log::parse(zgc).pauses[0].at, 0.25);
        let wall = "[2026-11-21T10:00:00.500+0000][info][gc] GC(0) Pause Full (System.gc()) 5M->1M(8M) 40.0ms\n\
                    [2026-11-21T10:00:10.500+0000][info][gc] GC(1) Pause Full (System.gc()) 5M->1M(8M) 60.0ms\n";
        let log = Log::parse(wall);
        assert_eq!(log.pauses[0].what, "Pause Full (System.gc())");
        let all = log.whole();
        assert!((all.seconds - 10.0).abs() < 1e-3 && all.count == 2, "{all:?}");
        assert_eq!(Log::parse("no log").whole(), Pauses { throughput: 100.0, ..Pauses::default() });
    }
}
