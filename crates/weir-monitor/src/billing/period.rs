//! The period of an invoice: a year, a month or a day in a time zone.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{ToSpan as _, Zoned};
use std::ops::Range;

/// Why a text is not a period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeriodError {
    /// It is not a year, month or day.
    #[error("`{0}` is no period: write a month (2026-11), a year (2026) or a day (2026-11-21)")]
    Format(String),
    /// The time zone is unknown.
    #[error("`{0}` is no known time zone")]
    Zone(String),
}

/// Parses a period. Returns its range in seconds since 1970, from the first instant of its first day in
/// the time zone.
///
/// # Errors
/// The text is not a period, or the time zone is unknown.
pub fn period(text: &str, zone: &str) -> Result<Range<u64>, PeriodError> {
    let invalid = || PeriodError::Format(text.to_owned());
    let zone = TimeZone::get(zone).map_err(|_| PeriodError::Zone(zone.to_owned()))?;
    let is_allowed = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    let (first, length) = match text.len() {
        _ if !text.bytes().enumerate().all(is_allowed) => return Err(invalid()),
        4 => (format!("{text}-01-01"), 1.year()),
        7 => (format!("{text}-01"), 1.month()),
        10 => (text.to_owned(), 1.day()),
        _ => return Err(invalid()),
    };
    let first: Date = first.parse().map_err(|_| invalid())?;
    let end = first.checked_add(length).map_err(|_| invalid())?;
    let instant = |day: Date| {
        let begin = day.to_zoned(zone.clone()).and_then(|day: Zoned| day.start_of_day());
        let second = begin.map_err(|_| invalid())?.timestamp().as_second();
        u64::try_from(second).map_err(|_| invalid())
    };
    Ok(instant(first)?..instant(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(text: &str, zone: &str) -> (String, String) {
        let period = period(text, zone).expect(text);
        let time = |second: u64| weir_model::UnixSeconds(second).to_string();
        (time(period.start), time(period.end))
    }

    #[test]
    fn periods_follow_the_calendar_of_their_zone() {
        let of = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        let utc = bounds("2026-11", "UTC");
        assert_eq!(utc, of("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"));
        let berlin = bounds("2026-10", "Europe/Berlin");
        assert_eq!(berlin, of("2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"));
        assert_eq!(bounds("2026", "UTC"), of("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"));
        let day = bounds("2026-03-29", "Europe/Berlin");
        assert_eq!(day, of("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"));
    }

    #[test]
    fn what_is_no_period_is_refused() {
        for text in [
            "",
            "26",
            "2026-13",
            "2026-1",
            "2026-02-30",
            "2026-11-21-1",
            "x",
            "-2026",
            "0000",
            "1969",
        ] {
            assert_eq!(period(text, "UTC"), Err(PeriodError::Format(text.to_owned())), "{text}");
        }
        assert_eq!(period("2026", "Mars"), Err(PeriodError::Zone("Mars".to_owned())));
    }
}
