//! The value after the colon.

use crate::field::Number;
use jiff::civil::{Date, DateTime};
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use std::ops::Bound;
use weir_journal::Outcome;
use weir_store::ledger::Resolution;

use super::error::QueryError;
use super::parser::Parser;
use super::{NameMatch, Term};

/// A value as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Bare(String),
    Quoted(String),
    /// A comparison or a range: its start and end.
    Range(Bound<String>, Bound<String>),
}

/// Makes a range of a compared value.
type Comparison = fn(String) -> Value;

const COMPARISONS: [(&str, Comparison); 4] = [
    (">=", |text| Value::Range(Bound::Included(text), Bound::Unbounded)),
    ("<=", |text| Value::Range(Bound::Unbounded, Bound::Included(text))),
    (">", |text| Value::Range(Bound::Excluded(text), Bound::Unbounded)),
    ("<", |text| Value::Range(Bound::Unbounded, Bound::Excluded(text))),
];

/// An end of a range in brackets.
fn bound(text: String, included: bool) -> Bound<String> {
    match included {
        _ if text == "*" => Bound::Unbounded,
        true => Bound::Included(text),
        false => Bound::Excluded(text),
    }
}

fn error(message: impl Into<String>, hint: &str) -> QueryError {
    QueryError::new(0, 0, message).hint(hint)
}

impl Parser<'_> {
    pub(super) fn value(&mut self) -> Result<Value, QueryError> {
        let at = self.at;
        let rest = &self.text[at..];
        if rest.starts_with('"') {
            return self.quoted().map(Value::Quoted);
        }
        if self.accept('[') {
            return self.range(at, true);
        }
        if self.accept('{') {
            return self.range(at, false);
        }
        for (sign, comparison) in COMPARISONS {
            if rest.starts_with(sign) {
                self.at += sign.len();
                return self.bare("()").map(comparison);
            }
        }
        self.bare("()").map(Value::Bare)
    }

    fn bare(&mut self, stops: &str) -> Result<String, QueryError> {
        let rest = &self.text[self.at..];
        let length = rest
            .find(|letter: char| letter.is_whitespace() || stops.contains(letter))
            .unwrap_or(rest.len());
        if length == 0 {
            return Err(QueryError::new(self.at, self.at, "a value is missing")
                .hint("write it without a space after the colon; `*` stands for any"));
        }
        self.at += length;
        Ok(rest[..length].to_owned())
    }

    fn quoted(&mut self) -> Result<String, QueryError> {
        let begin = self.at;
        let mut text = String::new();
        let mut letters = self.text[begin + 1..].char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.at = begin + 1 + at + 1;
                    return Ok(text);
                }
                '\\' => text.extend(letters.next().map(|(_, next)| next)),
                other => text.push(other),
            }
        }
        Err(QueryError::new(begin, self.text.len(), "the quotes are not closed").hint("write `\"`"))
    }

    fn range(&mut self, at: usize, low_in: bool) -> Result<Value, QueryError> {
        let hint = "a range is written [a TO b], or {a TO b} without its ends";
        self.space();
        let low = self.bare("[]{}()")?;
        if !self.operator("TO") {
            return Err(QueryError::new(at, self.at, "`TO` is missing").hint(hint));
        }
        self.space();
        let high = self.bare("[]{}()")?;
        self.space();
        let high_in = self.accept(']');
        if !high_in && !self.accept('}') {
            return Err(QueryError::new(at, self.at, "the range is not closed").hint(hint));
        }
        Ok(Value::Range(bound(low, low_in), bound(high, high_in)))
    }
}

impl Value {
    pub(super) fn text(self) -> Result<String, QueryError> {
        match self {
            Self::Bare(text) | Self::Quoted(text) => Ok(text),
            Self::Range(..) => Err(error(
                "this cannot be compared",
                "`status`, `took` and `time` can; put the value in quotes to search for the signs",
            )),
        }
    }

    pub(super) fn name(self) -> Result<NameMatch, QueryError> {
        if let Self::Bare(text) = &self
            && let Some(begin) = text.strip_suffix('*')
        {
            let begin = begin.to_owned();
            return Ok(if begin.is_empty() {
                NameMatch::Present
            } else {
                NameMatch::Prefix(begin)
            });
        }
        self.text().map(NameMatch::Equals)
    }

    /// A range of numbers; each written end stands for a span of numbers.
    fn span(
        &self,
        number: Number,
        read: impl Fn(&str) -> Result<(u64, u64), QueryError>,
    ) -> Result<Term, QueryError> {
        let (low, high) = match self {
            Self::Bare(text) | Self::Quoted(text) if text == "*" => (0, u64::MAX),
            Self::Bare(text) | Self::Quoted(text) => read(text)?,
            Self::Range(low, high) => {
                let low = match low {
                    Bound::Unbounded => 0,
                    Bound::Included(low) => read(low)?.0,
                    Bound::Excluded(low) => read(low)?.1.saturating_add(1),
                };
                let high = match high {
                    Bound::Unbounded => u64::MAX,
                    Bound::Included(high) => read(high)?.1,
                    Bound::Excluded(high) => read(high)?.0.saturating_sub(1),
                };
                (low, high)
            }
        };
        Ok(Term::Number(number, low, high))
    }
}

pub(super) fn state(value: &Value) -> Result<Term, QueryError> {
    let text = value.clone().text()?;
    match text.parse::<Outcome>() {
        Ok(outcome) => Ok(Term::Number(Number::State, outcome as u64, outcome as u64)),
        Err(_) if text == "*" => Ok(Term::Number(Number::State, 0, u64::MAX)),
        Err(_) => Err(error(
            format!("there is no state `{text}`"),
            "there are `completed`, `failed` and `interrupted`",
        )),
    }
}

/// A resolution, which is in the database.
pub(super) fn resolution(value: &Value) -> Result<Term, QueryError> {
    let text = value.clone().text()?;
    match text.parse::<Resolution>() {
        Ok(resolution) => Ok(Term::Resolution(Some(resolution))),
        Err(_) if text == "*" => Ok(Term::Resolution(None)),
        Err(_) => Err(error(
            format!("there is no resolution `{text}`"),
            "there are `open`, `resubmitted`, `resolved` and `dismissed`",
        )),
    }
}

pub(super) fn status(value: &Value) -> Result<Term, QueryError> {
    if matches!(value, Value::Bare(text) if text == "*") {
        return Ok(Term::Number(Number::Status, 1, u64::MAX));
    }
    value.span(Number::Status, |text| {
        let class = text.strip_suffix("xx").and_then(|class| class.parse::<u64>().ok());
        if let Some(class @ 1..=9) = class {
            return Ok((class * 100, class * 100 + 99));
        }
        match text.parse::<u16>() {
            Ok(status) => Ok((status.into(), status.into())),
            Err(_) => Err(error(
                format!("`{text}` is not a status"),
                "write a number such as 404, a class such as 5xx, or >=500",
            )),
        }
    })
}

pub(super) fn elapsed(value: &Value) -> Result<Term, QueryError> {
    value.span(Number::Elapsed, |text| match duration(text) {
        Some(time) => Ok((time, time)),
        None => Err(error(
            format!("`{text}` is not a duration"),
            "write a number with its unit: us, ms, s, m, h or d",
        )),
    })
}

/// Microseconds of `1.5s`.
fn duration(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'))?;
    let unit = match &text[digits..] {
        "us" | "µs" => 1e0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3600e6,
        "d" => 86_400e6,
        _ => return None,
    };
    let number: f64 = text[..digits].parse().ok()?;
    Some((number * unit) as u64)
}

pub(super) fn time(value: &Value, now: u64) -> Result<Term, QueryError> {
    value.span(Number::Time, |text| {
        time_span(text, now).ok_or_else(|| {
            error(
                format!("`{text}` is not a time"),
                "write 2026-11-20, 2026-11-20T10:00 or 2026-11-20T10:00:00Z, now or now-15m",
            )
        })
    })
}

/// The first and last microsecond of a single time.
fn single(value: &Value, now: u64) -> Result<(u64, u64), QueryError> {
    let hint = "write one time, such as 2026-11-20, 2026-11-20T10:00 or now-15m";
    match value {
        Value::Bare(text) | Value::Quoted(text) => {
            time_span(text, now).ok_or_else(|| error(format!("`{text}` is not a time"), hint))
        }
        Value::Range(..) => Err(error("this is compared already", hint)),
    }
}

pub(super) fn after(value: &Value, now: u64) -> Result<Term, QueryError> {
    Ok(Term::Number(Number::Time, single(value, now)?.0, u64::MAX))
}

pub(super) fn before(value: &Value, now: u64) -> Result<Term, QueryError> {
    let (first, _) = single(value, now)?;
    Ok(Term::Number(Number::Time, 0, first.saturating_sub(1)))
}

pub(super) fn since(value: &Value, now: u64) -> Result<Term, QueryError> {
    let hint = "write a duration such as 90s, 15m, 1h or 7d; `after:` takes a time";
    let (Value::Bare(text) | Value::Quoted(text)) = value else {
        return Err(error("this is compared already", hint));
    };
    let ago = duration(text).ok_or_else(|| error(format!("`{text}` is not a duration"), hint))?;
    Ok(Term::Number(Number::Time, now.saturating_sub(ago), u64::MAX))
}

/// The first and last microsecond that a time stands for.
fn time_span(text: &str, now: u64) -> Option<(u64, u64)> {
    if let Some(ago) = text.strip_prefix("now") {
        let ago = if ago.is_empty() { 0 } else { duration(ago.strip_prefix('-')?)? };
        let time = now.saturating_sub(ago);
        return Some((time, time));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        let first = u64::try_from(time.as_microsecond()).ok()?;
        let span = if text.contains('.') { 0 } else { 999_999 };
        return Some((first, first + span));
    }
    let (first, span) = if let Some(hour) = whole_hour(text) {
        (hour, 1.hours())
    } else if !text.contains(['T', 't', ' ']) {
        (text.parse::<Date>().ok()?.to_datetime(jiff::civil::Time::midnight()), 1.days())
    } else {
        let span = match text.matches(':').count() {
            1 => 1.minutes(),
            _ if text.contains('.') => 1.microseconds(),
            _ => 1.seconds(),
        };
        (text.parse::<DateTime>().ok()?, span)
    };
    let after = first.checked_add(span).ok()?;
    let micros = |time: DateTime| {
        let zoned = time.to_zoned(TimeZone::UTC).ok()?;
        u64::try_from(zoned.timestamp().as_microsecond()).ok()
    };
    Some((micros(first)?, micros(after)?.saturating_sub(1)))
}

/// `2026-11-20T10`
fn whole_hour(text: &str) -> Option<DateTime> {
    let (date, hour) = text.split_once('T')?;
    if hour.len() != 2 {
        return None;
    }
    let date: Date = date.parse().ok()?;
    date.to_datetime(jiff::civil::Time::midnight()).with().hour(hour.parse().ok()?).build().ok()
}

pub(super) fn id(value: &Value) -> Result<Term, QueryError> {
    let text = value.clone().text()?;
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    match ids_of(&digits) {
        Some((low, high)) => Ok(Term::Id(low, high)),
        None => Err(error(
            format!("`{text}` is not an id"),
            "write the id, or at least four of the digits it begins with",
        )),
    }
}

/// First and last id that begin with these digits.
pub(super) fn ids_of(digits: &str) -> Option<(u128, u128)> {
    let length = digits.len();
    if !(4..=32).contains(&length) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let free = 128 - 4 * length as u32;
    let low = u128::from_str_radix(digits, 16).ok()?.checked_shl(free).unwrap_or(0);
    let rest = if free == 0 { 0 } else { u128::MAX >> (4 * length as u32) };
    Some((low, low | rest))
}

/// Positions of the hyphens of an id, and its digits before the first.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const LENGTH: usize = 36;

/// The ids that a text without a field can mean: eight digits or more, with hyphens in their places.
/// Without hyphens it has to begin as ids do, by the time in them (RFC 9562, version 7), until 2039.
pub(super) fn bare_id(text: &str) -> Option<Term> {
    let is_hyphen = |at: usize| HYPHENS.contains(&at);
    let letters = || text.bytes().enumerate();
    let hyphened = text.len() > HYPHENS[0]
        && text.len() <= LENGTH
        && letters().all(|(at, letter)| is_hyphen(at) == (letter == b'-'));
    let plain = text.len() >= HYPHENS[0] && text.starts_with("01");
    let digits = match (hyphened, plain) {
        (true, _) => text.replace('-', ""),
        (false, true) => text.to_owned(),
        (false, false) => return None,
    };
    ids_of(&digits).map(|(low, high)| Term::Id(low, high))
}
