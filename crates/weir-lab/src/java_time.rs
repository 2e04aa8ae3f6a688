//! Dates and times in patterns of Java: `SimpleDateFormat` and `DateTimeFormatter`, in English, in
//! the time zone of the machine.

mod parse;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Zoned};
use std::fmt::Write;

/// Longest pattern.
const MAX_PATTERN_BYTES: usize = 1024;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The class of Java that reads a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `SimpleDateFormat`, for `__time`.
    Simple,
    /// `DateTimeFormatter`, for all other functions.
    Formatter,
}

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimePattern {
    class: Class,
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Literal(String),
    /// A letter and how often it is repeated.
    Field(char, usize),
}

/// A text that was read with a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    /// Date and time.
    pub(crate) time: Zoned,
    /// The pattern has a date, a time of day.
    pub(crate) has: (bool, bool),
}

impl TimePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The pattern is invalid or has unsupported letters.
    pub fn new(pattern: &str, class: Class) -> Result<Self, String> {
        const SIMPLE: &str = "GyYMLwWDdFEuaHkKhmsSzZX";
        const FORMATTER: &str = "GuyYDMLdQqwWEecFaHkKhmsSAnNVzOXxZ";
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(format!("a pattern has at most {MAX_PATTERN_BYTES} bytes"));
        }
        let known = if class == Class::Simple { SIMPLE } else { FORMATTER };
        let mut items = Vec::new();
        let mut literal = String::new();
        let mut characters = pattern.chars().peekable();
        while let Some(character) = characters.next() {
            if character == '\'' {
                // Two quotation marks are one, inside and outside of a quoted part.
                if characters.next_if_eq(&'\'').is_some() {
                    literal.push('\'');
                    continue;
                }
                loop {
                    match characters.next() {
                        Some('\'') if characters.next_if_eq(&'\'').is_none() => break,
                        Some(quoted) => literal.push(quoted),
                        None => return Err("a quotation mark is not closed".to_owned()),
                    }
                }
            } else if character.is_ascii_alphabetic() {
                if !known.contains(character) {
                    return Err(format!("the letter `{character}` is not supported"));
                }
                let mut count = 1;
                while characters.next_if_eq(&character).is_some() {
                    count += 1;
                }
                if !literal.is_empty() {
                    items.push(Item::Literal(std::mem::take(&mut literal)));
                }
                items.push(Item::Field(character, count));
            } else if class == Class::Formatter && "[]{}#".contains(character) {
                return Err(format!("`{character}` is not supported"));
            } else {
                literal.push(character);
            }
        }
        if !literal.is_empty() {
            items.push(Item::Literal(literal));
        }
        Ok(Self { class, items })
    }

    /// Whether the hours of the pattern are those of half a day.
    pub(crate) fn has_half_days(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Field('h' | 'K', _)))
    }

    /// Whether the pattern has a date, and a time of day.
    pub(crate) fn parts(&self) -> (bool, bool) {
        let has = |letters: &str| {
            self.items.iter().any(|item| matches!(item, Item::Field(l, _) if letters.contains(*l)))
        };
        (has("GuyYMLdDQqwWEecF"), has("HkKhmsSAnNa"))
    }

    /// A time in this pattern.
    pub fn format(&self, time: &Zoned) -> String {
        let mut out = String::new();
        for item in &self.items {
            match item {
                Item::Literal(text) => out.push_str(text),
                Item::Field(letter, count) => self.field(*letter, *count, time, &mut out),
            }
        }
        out
    }

    fn field(&self, letter: char, count: usize, time: &Zoned, out: &mut String) {
        let date = time.date();
        let formatter = self.class == Class::Formatter;
        // Writing to a string cannot fail.
        let mut number = |number: i64| {
            let _ = write!(out, "{number:0count$}");
        };
        match letter {
            'y' | 'Y' | 'u' if letter != 'u' || formatter => {
                let year = match letter {
                    'Y' => week_of_year(date).0,
                    _ => date.year(),
                };
                match count {
                    2 => number(i64::from(year.rem_euclid(100))),
                    _ => number(year.into()),
                }
            }
            'M' | 'L' if count < 3 => number(date.month().into()),
            'd' => number(date.day().into()),
            'D' => number(date.day_of_year().into()),
            'F' => number(i64::from((date.day() - 1) / 7 + 1)),
            'w' => number(week_of_year(date).1),
            'W' => number(week_of(i64::from(date.day()), date.first_of_month().weekday())),
            'u' => number(date.weekday().to_monday_one_offset().into()),
            'e' | 'c' if count < 3 => number(date.weekday().to_sunday_one_offset().into()),
            'Q' | 'q' if count < 3 => number(i64::from((date.month() - 1) / 3 + 1)),
            'H' => number(time.hour().into()),
            'k' => number(i64::from((time.hour() + 23) % 24 + 1)),
            'K' => number(i64::from(time.hour() % 12)),
            'h' => number(i64::from((time.hour() + 11) % 12 + 1)),
            'm' => number(time.minute().into()),
            's' => number(time.second().into()),
            'S' if formatter => {
                let nanos = format!("{:09}", time.subsec_nanosecond());
                out.extend(nanos.chars().chain(std::iter::repeat('0')).take(count));
            }
            'S' => number(i64::from(time.subsec_nanosecond()) / 1_000_000),
            'n' => number(time.subsec_nanosecond().into()),
            'A' => number(nano_of_day(time) / 1_000_000),
            'N' => number(nano_of_day(time)),
            _ => self.text(letter, count, time, out),
        }
    }

    /// A field that is no number.
    fn text(&self, letter: char, count: usize, time: &Zoned, out: &mut String) {
        let (month, day) = (time.month(), time.weekday());
        let name = |name: &str, short: usize| match (count, self.class) {
            (5.., Class::Formatter) => name[..1].to_owned(),
            (4.., _) => name.to_owned(),
            _ => name[..short].to_owned(),
        };
        out.push_str(&match letter {
            'G' if count == 4 && self.class == Class::Formatter => "Anno Domini".to_owned(),
            'G' => "AD".to_owned(),
            'M' | 'L' => name(MONTHS[usize::try_from(month - 1).unwrap_or(0)], 3),
            'E' | 'e' | 'c' => {
                name(DAYS[usize::try_from(day.to_monday_zero_offset()).unwrap_or(0)], 3)
            }
            'a' => if time.hour() < 12 { "AM" } else { "PM" }.to_owned(),
            'Q' | 'q' => format!("Q{}", (month - 1) / 3 + 1),
            'Z' => match (self.class, count) {
                (Class::Formatter, 5) => offset(time, 3, true),
                (Class::Formatter, 4) => format!("GMT{}", offset(time, 3, false)),
                _ => offset(time, 2, false),
            },
            'X' => offset(time, count, true),
            'x' => offset(time, count, false),
            'O' => format!("GMT{}", offset(time, 3, false)),
            'V' => time.time_zone().iana_name().unwrap_or("Z").to_owned(),
            _ => zone_name(time),
        });
    }
}

/// The short name of a time zone.
fn zone_name(time: &Zoned) -> String {
    let info = time.time_zone().to_offset_info(time.timestamp());
    info.abbreviation().to_owned()
}

/// `+01`, `+0100` or `+01:00` by the number of letters; with `z`, `Z` for UTC.
fn offset(time: &Zoned, count: usize, z: bool) -> String {
    let seconds = time.offset().seconds();
    if seconds == 0 && z {
        return "Z".to_owned();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
    match count {
        1 if minutes == 0 => format!("{sign}{hours:02}"),
        1 | 2 | 4 => format!("{sign}{hours:02}{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}"),
    }
}

fn nano_of_day(time: &Zoned) -> i64 {
    let seconds =
        i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    seconds * 1_000_000_000 + i64::from(time.subsec_nanosecond())
}

/// The week of a day in a period that starts on `first`; weeks start on Sunday, as in the USA.
fn week_of(day: i64, first: Weekday) -> i64 {
    (day - 1 + i64::from(first.to_sunday_zero_offset())) / 7 + 1
}

/// Year and number of a week; the first week of a year has its first day.
fn week_of_year(date: Date) -> (i16, i64) {
    let saturday = i32::from(6 - date.weekday().to_sunday_zero_offset());
    match date.checked_add(SignedDuration::from_hours(24 * i64::from(saturday))) {
        Ok(end) if end.year() > date.year() => (end.year(), 1),
        _ => {
            let week = week_of(date.day_of_year().into(), date.first_of_year().weekday());
            (date.year(), week)
        }
    }
}

/// The current time in the time zone of the machine.
pub(crate) fn now() -> Zoned {
    jiff::Timestamp::now().to_zoned(TimeZone::system())
}

/// The time of a number of milliseconds since 1970, in the time zone of the machine.
pub(crate) fn from_millis(millis: i64) -> Option<Zoned> {
    Some(jiff::Timestamp::from_millisecond(millis).ok()?.to_zoned(TimeZone::system()))
}

/// Reads a duration as Java's `Duration.parse`: `P1DT2H3M4.5S`, with signs.
pub(crate) fn duration(text: &str) -> Option<SignedDuration> {
    let text = text.trim().to_ascii_uppercase();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(&text)),
    };
    let text = text.strip_prefix('P')?;
    let (days, time) = text.split_once('T').map_or((text, None), |(d, t)| (d, Some(t)));
    let mut nanos: i128 = 0;
    let mut parts = 0;
    for (mut rest, units) in [
        (days, &[('D', 86_400)][..]),
        (time.unwrap_or_default(), &[('H', 3600), ('M', 60), ('S', 1)]),
    ] {
        for (unit, seconds) in units {
            let Some((number, behind)) = rest.split_once(*unit) else { continue };
            let (whole, fraction) = number.split_once(['.', ',']).unwrap_or((number, ""));
            if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let part: i128 = format!("{fraction:0<9}").parse().ok()?;
            let sign = if whole.starts_with('-') { -1 } else { 1 };
            let whole: i64 = whole.parse().ok()?;
            nanos += i128::from(whole) * seconds * 1_000_000_000 + sign * part;
            rest = behind;
            parts += 1;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    if parts == 0 || time == Some("") {
        return None;
    }
    let nanos = if negative { -nanos } else { nanos };
    let seconds = i64::try_from(nanos / 1_000_000_000).ok()?;
    Some(SignedDuration::new(seconds, (nanos % 1_000_000_000) as i32))
}

#[cfg(test)]
mod tests;
