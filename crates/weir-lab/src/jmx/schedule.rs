//! Schedules of the open model: `rate(10/sec) random_arrivals(1 min) pause(2 s)`.

use crate::program::{ArrivalStage, MAX_STAGE_SECONDS, valid_rate};
use std::time::Duration;

/// Most stages of a schedule.
const MAX_STAGES: usize = 10_000;

/// A step of a schedule.
enum Part {
    /// A rate, in arrivals per second.
    Rate(f64),
    Arrivals {
        random: bool,
        seconds: f64,
    },
}

/// Parses a schedule. A single number is the number of arrivals in a second, as in JMeter.
pub(super) fn parse(text: &str) -> Result<Vec<ArrivalStage>, String> {
    let parts = match text.trim().parse::<u32>() {
        Ok(count) => vec![
            Part::Rate(count.into()),
            Part::Arrivals { random: false, seconds: 1.0 },
            Part::Rate(count.into()),
            Part::Rate(0.0),
            Part::Arrivals { random: false, seconds: 3600.0 },
        ],
        Err(_) => Parser { text, rest: text }.parts()?,
    };
    for part in &parts {
        if let Part::Rate(rate) = part {
            valid_rate(*rate)?;
        }
    }
    let mut stages = Vec::new();
    let mut rate = 0.0;
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Rate(next) => rate = *next,
            Part::Arrivals { random, seconds } => {
                let to = match parts.get(at + 1) {
                    Some(Part::Rate(next)) => *next,
                    _ => rate,
                };
                let duration = Duration::try_from_secs_f64(*seconds).ok();
                let duration = duration.filter(|_| *seconds <= MAX_STAGE_SECONDS);
                let duration = duration.ok_or_else(|| format!("{seconds} seconds are too long"))?;
                stages.push(ArrivalStage { duration, from: rate, to, random: *random });
            }
        }
    }
    if stages.len() > MAX_STAGES {
        return Err(format!("more than {MAX_STAGES} stages"));
    }
    Ok(stages)
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn parts(mut self) -> Result<Vec<Part>, String> {
        let mut parts = Vec::new();
        let mut rate = 0.0;
        loop {
            self.skip();
            if self.rest.is_empty() {
                return Ok(parts);
            }
            let name = self.word().to_ascii_lowercase();
            let random = name == "random_arrivals";
            match name.as_str() {
                "rate" => {
                    self.sign('(')?;
                    rate = self.rate()?;
                    parts.push(Part::Rate(rate));
                }
                "random_arrivals" | "even_arrivals" => {
                    self.sign('(')?;
                    parts.push(Part::Arrivals { random, seconds: self.duration()? });
                }
                "pause" => {
                    self.sign('(')?;
                    let pause = Part::Arrivals { random: false, seconds: self.duration()? };
                    let around = [Part::Rate(rate), Part::Rate(0.0)];
                    parts.extend(around);
                    parts.push(pause);
                    parts.extend([Part::Rate(0.0), Part::Rate(rate)]);
                }
                _ => return Err(self.expected("rate, random_arrivals, even_arrivals or pause")),
            }
            self.sign(')')?;
        }
    }

    fn expected(&self, what: &str) -> String {
        let at = self.text.len() - self.rest.len();
        format!("{what} is expected at character {} of `{}`", at + 1, self.text)
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if let Some(comment) = self.rest.strip_prefix("//") {
                self.rest = comment.trim_start_matches(|c| c != '\n' && c != '\r');
            } else if let Some(comment) = self.rest.strip_prefix("/*")
                && let Some(end) = comment.find("*/")
            {
                self.rest = &comment[end + 2..];
            } else {
                return;
            }
        }
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        self.skip();
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn word(&mut self) -> &'t str {
        self.take(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    fn sign(&mut self, sign: char) -> Result<(), String> {
        self.skip();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.ok_or_else(|| self.expected(&format!("`{sign}`")))?;
        Ok(())
    }

    fn number(&mut self) -> Result<f64, String> {
        let number = self.take(|c| c.is_ascii_digit() || c == '.').parse();
        number.map_err(|_| self.expected("a number"))
    }

    fn closes(&mut self) -> bool {
        self.skip();
        self.rest.starts_with(')')
    }

    fn rate(&mut self) -> Result<f64, String> {
        let rate = self.number()?;
        if rate == 0.0 && self.closes() {
            return Ok(0.0);
        }
        if self.sign('/').is_err() && !self.word().eq_ignore_ascii_case("per") {
            return Err(self.expected("`/`"));
        }
        Ok(rate / self.unit()?)
    }

    fn duration(&mut self) -> Result<f64, String> {
        let mut seconds = 0.0;
        loop {
            let number = self.number()?;
            if number == 0.0 && self.closes() {
                return Ok(seconds);
            }
            seconds += number * self.unit()?;
            if self.closes() {
                return Ok(seconds);
            }
        }
    }

    /// Seconds of a unit.
    fn unit(&mut self) -> Result<f64, String> {
        let unit = self.take(|c| c.is_ascii_alphabetic()).to_ascii_lowercase();
        Ok(match unit.as_str() {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            unit if unit.starts_with("sec") => 1.0,
            unit if unit.starts_with("min") => 60.0,
            unit if unit.starts_with("hour") => 3600.0,
            unit if unit.starts_with("day") => 86_400.0,
            _ => return Err(self.expected("a unit of time")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(f64, f64, f64, bool)> {
        let stages = parse(text).expect("a schedule");
        stages.iter().map(|s| (s.duration.as_secs_f64(), s.from, s.to, s.random)).collect()
    }

    #[test]
    fn schedules_are_read_as_jmeter_reads_them() {
        assert_eq!(
            shown(
                "rate(60/min) random_arrivals(1 min 30 sec) rate(2 per s) /* up */ even_arrivals(500ms)"
            ),
            [(90.0, 1.0, 2.0, true), (0.5, 2.0, 2.0, false)]
        );
        assert_eq!(
            shown("rate(3/s) even_arrivals(1 s) pause(2 s) even_arrivals(1 s) // end"),
            [(1.0, 3.0, 3.0, false), (2.0, 0.0, 0.0, false), (1.0, 3.0, 3.0, false)]
        );
        assert_eq!(shown("5"), [(1.0, 5.0, 5.0, false), (3600.0, 0.0, 0.0, false)]);
        assert_eq!(shown("rate(0) even_arrivals(0)"), [(0.0, 0.0, 0.0, false)]);
    }

    #[test]
    fn invalid_schedules_are_errors_with_their_place() {
        for (text, place) in [
            ("rate(5)", "`/` is expected at character 7"),
            ("rate(5/x)", "a unit of time"),
            ("walk(5)", "pause is expected"),
            ("even_arrivals(5 s", "a number"),
            ("even_arrivals 5", "`(`"),
            ("rate(5/s) even_arrivals(s)", "a number"),
            ("rate(10000001/s) even_arrivals(1 s)", "from 0 to 10000000/s, not 10000001/s"),
            ("4294967295", "from 0 to 10000000/s"),
            ("rate(1/s) even_arrivals(99999999999 d)", "too long"),
        ] {
            let error = parse(text).expect_err("invalid");
            assert!(error.contains(place), "{text}: {error}");
        }
    }
}
