//! The Monitor of a data folder, for the admin API and the commands.

use crate::gaps;
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use std::path::Path;
use weir_admin::failure::Failure;
use weir_admin::gap::Missing;
use weir_admin::monitor::{Rebuilt, UsageFailure, UsageQuery, UsageReport, UsageRow};
use weir_monitor::{Group, Monitor, Report, Row, Usage, UsageError};
use weir_store::StoreError;
use weir_store::gaps::Gaps;

/// Supported steps in seconds.
const STEPS: [(&str, u64); 3] = [("minute", 60), ("hour", 3600), ("day", 86_400)];
/// Supported groupings.
const GROUPS: [(&str, Group); 5] = [
    ("consumer", Group::Consumer),
    ("api", Group::Api),
    ("operation", Group::Operation),
    ("plan", Group::Plan),
    ("status", Group::Status),
];
/// Status classes by their codes.
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Opens the metered usage of a data folder for reading.
///
/// # Errors
/// There is no metered usage.
pub(crate) fn read(data: &Path) -> anyhow::Result<Monitor> {
    anyhow::ensure!(weir_store::exists(data), "{} has no metering data", data.display());
    Ok(Monitor::read(data))
}

/// Executes a usage query.
///
/// # Errors
/// The query is invalid, or the usage cannot be read.
pub(crate) fn usage(
    monitor: &Monitor,
    gaps: &Gaps,
    query: &UsageQuery,
) -> Result<UsageReport, UsageFailure> {
    let usage = question(query, Timestamp::now()).map_err(UsageFailure::Question)?;
    match monitor.usage(&usage) {
        Ok(report) => {
            let missing = gaps.between(report.span.start, report.span.end);
            let failed = |error: StoreError| Failure::Unreadable(error.to_string());
            Ok(told(report, gaps::shown(missing.map_err(failed)?)))
        }
        Err(error @ (UsageError::Rows | UsageError::Step)) => {
            Err(UsageFailure::Question(error.to_string()))
        }
        Err(UsageError::Monitor(error)) => {
            Err(UsageFailure::Failed(Failure::Unreadable(error.to_string())))
        }
    }
}

fn question(query: &UsageQuery, now: Timestamp) -> Result<Usage, String> {
    let words = query.by.as_deref().unwrap_or_default().split(',').filter(|word| !word.is_empty());
    Ok(Usage {
        from: query.from.as_deref().map_or(Ok(0), |text| time(text, now))?,
        to: query.to.as_deref().map(|text| time(text, now)).transpose()?,
        consumer: query.consumer.clone(),
        api: query.api.clone(),
        operation: query.operation.clone(),
        plan: query.plan.clone(),
        status: query.status.as_deref().map(class).transpose()?,
        by: words.map(|word| named(&GROUPS, word)).collect::<Result<_, _>>()?,
        step: query.step.as_deref().map(|word| named(&STEPS, word)).transpose()?,
    })
}

fn class(text: &str) -> Result<u8, String> {
    let found = CLASSES.iter().position(|class| *class == text);
    found.map(|class| class as u8).ok_or_else(|| one_of(&CLASSES, text))
}

fn named<T: Copy>(known: &[(&str, T)], word: &str) -> Result<T, String> {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let found = known.iter().find(|(name, _)| *name == word.trim());
    found.map(|(_, what)| *what).ok_or_else(|| one_of(&names, word))
}

fn one_of(known: &[&str], word: &str) -> String {
    format!("'{word}' is not one of {}", known.join(", "))
}

/// A time in seconds since 1970: RFC 3339, a day, or an age.
fn time(text: &str, now: Timestamp) -> Result<u64, String> {
    let seconds = if let Ok(time) = text.parse::<Timestamp>() {
        time.as_second()
    } else if let Ok(day) = text.parse::<Date>() {
        let midnight = day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|error| error.to_string())?;
        midnight.timestamp().as_second()
    } else if let Some(ago) = ago(text) {
        now.as_second().saturating_sub(ago)
    } else {
        return Err(format!(
            "'{text}' is not a time, such as 2026-11-01T12:00:00Z, 2026-11-01 or an age: 30d"
        ));
    };
    Ok(u64::try_from(seconds).unwrap_or(0))
}

/// Seconds of a duration; a day has 24 hours.
fn ago(text: &str) -> Option<i64> {
    if let Some(days) = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok()) {
        return Some(i64::from(days) * 86_400);
    }
    let duration: SignedDuration = text.parse().ok()?;
    (!duration.is_negative()).then(|| duration.as_secs())
}

/// RFC 3339 of seconds since 1970.
fn shown(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|s| Timestamp::from_second(s).ok());
    time.unwrap_or(Timestamp::MAX).to_string()
}

fn told(report: Report, missing: Missing) -> UsageReport {
    UsageReport {
        from: shown(report.span.start),
        to: shown(report.span.end),
        rows: report.rows.into_iter().map(row).collect(),
        missing,
    }
}

fn row(row: Row) -> UsageRow {
    let [p50_us, p90_us, p99_us] = row.percentiles;
    UsageRow {
        time: row.start.map(shown),
        consumer: row.consumer,
        api: row.api,
        operation: row.operation,
        plan: row.plan,
        status: row.status.map(|class| CLASSES[usize::from(class).min(5)].to_owned()),
        calls: row.calls,
        request_bytes: row.request_bytes,
        response_bytes: row.response_bytes,
        amounts: row.amounts.into_iter().map(|(plan, units)| (plan, decimal(units))).collect(),
        p50_us,
        p90_us,
        p99_us,
    }
}

/// Units of 10⁻¹⁸ as a decimal, without zeros at its end.
fn decimal(units: i128) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let (whole, rest) =
        (units.unsigned_abs() / 10_u128.pow(18), units.unsigned_abs() % 10_u128.pow(18));
    let fraction = format!("{rest:018}");
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    }
}

/// Result of a rebuild.
pub(crate) fn rebuilt(ended: Result<weir_monitor::Rebuilt, String>) -> Rebuilt {
    match ended {
        Ok(done) => Rebuilt {
            from: shown(done.from),
            to: shown(done.to),
            read: done.read,
            before: done.before,
            after: done.after,
            failed: None,
        },
        Err(failed) => Rebuilt { failed: Some(failed), ..Rebuilt::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_moments_days_or_how_long_ago() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let day = |text| time(text, now).map(|time| time as i64 - now.as_second());
        assert_eq!(day("2026-11-21T13:00:00+01:00"), Ok(0));
        assert_eq!(day("2026-11-21"), Ok(-12 * 3600));
        assert_eq!(day("90m"), Ok(-90 * 60));
        assert_eq!(day("2d"), Ok(-2 * 86_400));
        assert_eq!(time("1960-01-01", now), Ok(0));
        for text in ["", "5", "-1h", "soon", "2026-13-01"] {
            assert!(time(text, now).is_err(), "{text}");
        }
    }

    #[test]
    fn questions_name_what_there_is() {
        let now = Timestamp::UNIX_EPOCH;
        let query = UsageQuery {
            by: Some("consumer,status".to_owned()),
            step: Some("day".to_owned()),
            status: Some("5xx".to_owned()),
            ..UsageQuery::default()
        };
        let asked = question(&query, now).unwrap();
        assert_eq!((asked.by.len(), asked.step, asked.status), (2, Some(86_400), Some(5)));
        let wrong = |query: UsageQuery| question(&query, now).is_err();
        assert!(wrong(UsageQuery { by: Some("who".to_owned()), ..query.clone() }));
        assert!(wrong(UsageQuery { step: Some("week".to_owned()), ..query.clone() }));
        assert!(wrong(UsageQuery { status: Some("6xx".to_owned()), ..query.clone() }));
        assert!(wrong(UsageQuery { from: Some("x".to_owned()), ..query }));
    }

    #[test]
    fn amounts_are_decimals() {
        let one = 10_i128.pow(18);
        assert_eq!(decimal(0), "0");
        assert_eq!(decimal(one * 12 + one / 2), "12.5");
        assert_eq!(decimal(-one / 1000), "-0.001");
    }
}
