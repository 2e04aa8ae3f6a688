//! Durations for people.

/// Seconds in their two largest units: `8 days 3 hours`, `45 seconds`.
#[must_use]
pub fn duration_in_words(seconds: u64) -> String {
    let units = [
        (seconds / 86_400, "day"),
        (seconds / 3600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let Some(first) = units.iter().position(|(count, _)| *count > 0) else {
        return "0 seconds".to_owned();
    };
    let largest = units.iter().skip(first).take(2).filter(|(count, _)| *count > 0);
    let words = largest.map(|(count, unit)| {
        let plural = if *count == 1 { "" } else { "s" };
        format!("{count} {unit}{plural}")
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::duration_in_words;

    #[test]
    fn the_two_largest_units_are_written() {
        assert_eq!(duration_in_words(0), "0 seconds");
        assert_eq!(duration_in_words(1), "1 second");
        assert_eq!(duration_in_words(61), "1 minute 1 second");
        assert_eq!(duration_in_words(7200), "2 hours");
        assert_eq!(duration_in_words(703_750), "8 days 3 hours");
        assert_eq!(duration_in_words(86_400 + 59), "1 day");
        assert_eq!(duration_in_words(u64::MAX / 2), "106751991167300 days 15 hours");
    }
}
