use super::*;

fn time() -> Zoned {
    let zone = TimeZone::fixed(jiff::tz::offset(1));
    let time = jiff::civil::date(2024, 2, 3).at(14, 5, 6, 78_900_000);
    time.to_zoned(zone).expect("a time")
}

#[test]
fn times_are_written_as_java_does_it() {
    for (pattern, class, expected) in [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSZ", Class::Simple, "2024-02-03T14:05:06.078+0100"),
        ("d/M/yy h:mm a, EEEE", Class::Simple, "3/2/24 2:05 PM, Saturday"),
        ("'o''clock' 100%", Class::Simple, "o'clock 100%"),
        ("yyyy''", Class::Simple, "2024'"),
        ("YYYY-'W'ww D u F", Class::Simple, "2024-W05 34 6 1"),
        ("MMM EEE k K S SSSS", Class::Simple, "Feb Sat 14 2 78 0078"),
        ("X XX XXX Z", Class::Simple, "+01 +0100 +01:00 +0100"),
        ("y-M-d uuuu", Class::Formatter, "2024-2-3 2024"),
        ("S SSS SSSSSS n A", Class::Formatter, "0 078 078900 78900000 50706078"),
        ("xxx XXX Q", Class::Formatter, "+01:00 +01:00 1"),
        ("dd MMMM yyyy", Class::Formatter, "03 February 2024"),
    ] {
        let compiled =
            TimePattern::new(pattern, class).unwrap_or_else(|e| panic!("{pattern}: {e}"));
        assert_eq!(compiled.format(&time()), expected, "{pattern}");
    }
    for pattern in ["T", "'open", "[HH]"] {
        assert!(TimePattern::new(pattern, Class::Formatter).is_err(), "{pattern}");
    }
    assert_eq!(week_of_year(jiff::civil::date(2024, 12, 31)), (2025, 1));
    assert_eq!(week_of_year(jiff::civil::date(2023, 1, 1)), (2023, 1));
}

#[test]
fn times_are_read() {
    let read = |pattern: &str, text: &str| {
        let pattern = TimePattern::new(pattern, Class::Formatter).expect("a pattern");
        pattern.parse(text, &TimeZone::UTC).map(|parsed| parsed.time.to_string())
    };
    for (pattern, text, expected) in [
        ("yyyy-MM-dd", "2024-02-03", "2024-02-03T00:00:00+00:00[UTC]"),
        ("yyyyMMddHHmmss", "20240203140506", "2024-02-03T14:05:06+00:00[UTC]"),
        ("d/M/yyyy h:mm a", "3/2/2024 2:05 PM", "2024-02-03T14:05:00+00:00[UTC]"),
        (
            "dd MMM yyyy HH:mm:ss.SSS",
            "03 Feb 2024 14:05:06.070",
            "2024-02-03T14:05:06.07+00:00[UTC]",
        ),
        (
            "yyyy-MM-dd'T'HH:mm:ssXXX",
            "2024-02-03T14:05:06+01:00",
            "2024-02-03T14:05:06+01:00[+01:00]",
        ),
        ("yyyy-MM-dd'T'HH:mm:ssZ", "2024-02-03T14:05:06-0500", "2024-02-03T14:05:06-05:00[-05:00]"),
    ] {
        assert_eq!(read(pattern, text).as_deref(), Some(expected), "{pattern}");
    }
    for (pattern, text) in
        [("yyyy-MM-dd", "2024-2-3"), ("yyyy-MM-dd", "2024-02-30"), ("yyyy", "x"), ("HH", "7")]
    {
        assert_eq!(read(pattern, text), None, "{pattern}");
    }
}

#[test]
fn durations_are_read() {
    for (text, seconds) in [
        ("P1D", 86_400.0),
        ("PT1H30M", 5400.0),
        ("-P1DT1S", -86_401.0),
        ("PT-2M", -120.0),
        ("pt0.5s", 0.5),
        ("P2DT-1H", 169_200.0),
    ] {
        assert_eq!(duration(text).map(|d| d.as_secs_f64()), Some(seconds), "{text}");
    }
    for text in ["", "P", "PT", "1D", "P1H", "PT1D", "P1DT"] {
        assert_eq!(duration(text), None, "{text}");
    }
}

#[test]
fn an_hour_of_a_half_day_is_bounded() {
    let pattern = TimePattern::new("K a", Class::Formatter).expect("a pattern");
    assert!(pattern.parse("11 PM", &TimeZone::UTC).is_some());
    assert!(pattern.parse("120 PM", &TimeZone::UTC).is_none());
}
