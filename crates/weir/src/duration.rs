//! Durations on the command line: `100ms`, `15s`, `1h30m`.

use jiff::SignedDuration;
use std::time::Duration;

/// Parses a duration for clap.
///
/// # Errors
/// The text is not a duration, or negative.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration, such as 100ms, 15s, 5m or 1h");
    // jiff reads `100 ms` and ISO 8601 as well; a bare number has no unit and is refused.
    let duration: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(duration).map_err(|_| wrong())
}

/// Parses a duration that may be a number of days (`90d`), for clap.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_long(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match days {
        Some(days) => Ok(Duration::from_secs(u64::from(days) * 24 * 60 * 60)),
        None => parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_required_and_signs_refused() {
        assert_eq!(parse("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_long("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(parse_long("12h"), Ok(Duration::from_secs(12 * 3600)));
        assert!(parse_long("d").is_err());
        assert!(parse("5").is_err());
        assert!(parse("-5s").is_err());
        assert!(parse("soon").is_err());
    }
}
