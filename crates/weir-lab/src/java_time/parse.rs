//! Reading of texts with a pattern of `DateTimeFormatter`.

use super::{DAYS, Item, MONTHS, Parsed, TimePattern, now};
use jiff::civil;
use jiff::tz::{Offset, TimeZone};

/// Values of fields.
#[derive(Default)]
struct Fields {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    hour: Option<i8>,
    half_hour: Option<i8>,
    afternoon: Option<bool>,
    minute: Option<i8>,
    second: Option<i8>,
    nano: Option<i32>,
    zone: Option<TimeZone>,
}

impl TimePattern {
    /// Reads a text. Fields without a value are those of the start of this year, in `zone`.
    pub(crate) fn parse(&self, text: &str, zone: &TimeZone) -> Option<Parsed> {
        let mut fields = Fields::default();
        let mut rest = text;
        for (at, item) in self.items.iter().enumerate() {
            rest = match item {
                Item::Literal(literal) => rest.strip_prefix(literal.as_str())?,
                Item::Field(letter, count) => {
                    let next_is_number = match self.items.get(at + 1) {
                        Some(Item::Field(letter, count)) => is_number(*letter, *count),
                        _ => false,
                    };
                    fields.read(*letter, *count, next_is_number, rest)?
                }
            };
        }
        if rest.is_empty() { fields.time(zone) } else { None }
    }
}

/// Whether a field is written in digits.
fn is_number(letter: char, count: usize) -> bool {
    matches!(letter, 'u' | 'y' | 'Y' | 'd' | 'D' | 'H' | 'k' | 'K' | 'h' | 'm' | 's' | 'S' | 'n')
        || matches!(letter, 'M' | 'L') && count < 3
}

impl Fields {
    /// Reads a field from the start of a text. Returns the rest.
    fn read<'t>(
        &mut self,
        letter: char,
        count: usize,
        next_is_number: bool,
        text: &'t str,
    ) -> Option<&'t str> {
        if !is_number(letter, count) {
            return self.read_text(letter, count, text);
        }
        let available = text.bytes().take_while(u8::is_ascii_digit).count();
        let digits = match (letter, count) {
            _ if next_is_number => count,
            ('S', _) | (_, 2) => count,
            (_, 1) => available.min(19),
            _ => available.max(count),
        };
        let (number, rest) = text.split_at_checked(digits.min(available))?;
        if number.len() < digits {
            return None;
        }
        let value: i64 = number.parse().ok()?;
        let small = i8::try_from(value);
        match letter {
            'u' | 'y' | 'Y' if count == 2 => self.year = i16::try_from(value + 2000).ok(),
            'u' | 'y' | 'Y' => self.year = Some(i16::try_from(value).ok()?),
            'M' | 'L' => self.month = Some(small.ok()?),
            'd' => self.day = Some(small.ok()?),
            'H' => self.hour = Some(small.ok()?),
            'k' => self.hour = Some(small.ok()? % 24),
            'h' => self.half_hour = Some(small.ok()? % 12),
            'K' => self.half_hour = Some(small.ok()?),
            'm' => self.minute = Some(small.ok()?),
            's' => self.second = Some(small.ok()?),
            'n' => self.nano = Some(i32::try_from(value).ok()?),
            'S' => {
                let padded: String = number.chars().chain("000000000".chars()).take(9).collect();
                self.nano = Some(padded.parse().ok()?);
            }
            _ => return None,
        }
        Some(rest)
    }

    fn read_text<'t>(&mut self, letter: char, count: usize, text: &'t str) -> Option<&'t str> {
        let named = |names: &[&'static str]| {
            let name = |name: &'static str| if count < 4 { &name[..3] } else { name };
            let at = names.iter().position(|known| text.starts_with(name(known)))?;
            Some((at, &text[name(names[at]).len()..]))
        };
        match letter {
            'M' | 'L' => {
                let (at, rest) = named(&MONTHS)?;
                self.month = i8::try_from(at + 1).ok();
                Some(rest)
            }
            // The date says which one it is.
            'E' | 'e' | 'c' => named(&DAYS).map(|(_, rest)| rest),
            'a' => {
                let afternoon = text.starts_with("PM");
                self.afternoon = Some(afternoon);
                text.strip_prefix(if afternoon { "PM" } else { "AM" })
            }
            'Z' | 'X' | 'x' => self.offset(text),
            'z' | 'V' | 'O' => {
                let part = |c: char| c.is_ascii_alphanumeric() || "/_+-:".contains(c);
                let end = text.find(|c| !part(c)).unwrap_or(text.len());
                let (name, rest) = text.split_at(end);
                self.zone = Some(match name {
                    "UTC" | "GMT" | "Z" => TimeZone::UTC,
                    name => TimeZone::get(name).ok()?,
                });
                Some(rest)
            }
            _ => None,
        }
    }

    /// `Z`, `+01`, `+0100` or `+01:00`.
    fn offset<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        if let Some(rest) = text.strip_prefix('Z') {
            self.zone = Some(TimeZone::UTC);
            return Some(rest);
        }
        let sign = match text.chars().next()? {
            '+' => 1,
            '-' => -1,
            _ => return None,
        };
        let end = text[1..].find(|c: char| !(c.is_ascii_digit() || c == ':'));
        let (written, rest) = text[1..].split_at(end.unwrap_or(text.len() - 1));
        let digits: String = written.chars().filter(char::is_ascii_digit).collect();
        let hours: i32 = digits.get(..2)?.parse().ok()?;
        let minutes: i32 = digits.get(2..4).map_or(Ok(0), str::parse).ok()?;
        let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?;
        self.zone = Some(TimeZone::fixed(offset));
        Some(rest)
    }

    fn time(self, zone: &TimeZone) -> Option<Parsed> {
        let has_date = self.year.or(self.month.map(i16::from)).or(self.day.map(i16::from));
        let hour = match (self.hour, self.half_hour) {
            (Some(hour), _) => Some(hour),
            (None, Some(hour)) => {
                Some(hour.checked_add(if self.afternoon == Some(true) { 12 } else { 0 })?)
            }
            (None, None) => None,
        };
        let date = civil::Date::new(
            self.year.unwrap_or_else(|| now().year()),
            self.month.unwrap_or(1),
            self.day.unwrap_or(1),
        );
        let time = civil::Time::new(
            hour.unwrap_or(0),
            self.minute.unwrap_or(0),
            self.second.unwrap_or(0),
            self.nano.unwrap_or(0),
        );
        let zone = self.zone.unwrap_or_else(|| zone.clone());
        let time = date.ok()?.to_datetime(time.ok()?).to_zoned(zone).ok()?;
        Some(Parsed { time, has: (has_date.is_some(), hour.is_some()) })
    }
}
