//! The text form of a usage query, as in the admin API and on the command line.

use super::{CLASSES, Group, StatusClass, Usage};
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

/// Supported steps in seconds.
const STEPS: [(&str, u64); 3] = [("minute", 60), ("hour", 3600), ("day", 86_400)];
/// Supported groupings.
const GROUPS: [(&str, Group); 6] = [
    ("consumer", Group::Consumer),
    ("api", Group::Api),
    ("operation", Group::Operation),
    ("plan", Group::Plan),
    ("status", Group::Status),
    ("unbilled", Group::Unbilled),
];

/// A usage query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// Start: RFC 3339, a day (UTC), or an age (`30d`); default: the first metered minute. Rounded
    /// to the minute that contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// End, likewise; default: now. The minute that contains it is not included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Grouping, separated by commas: `consumer`, `api`, `operation`, `plan`, `status`, `unbilled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Time step: `minute`, `hour` or `day` (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Only this consumer; empty: calls without a consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Only this API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Only this operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Only this plan; empty: calls without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Only this class of status, `1xx` to `5xx`, or `none`: calls without a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Only this node of the fleet: its name or id, or `here` for what the node that responds has
    /// counted; default: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only these APIs, in addition to the other filters; empty: all. Not part of the text form.
    #[serde(skip)]
    pub apis: Vec<String>,
}

impl UsageQuery {
    /// The query with ages relative to `now`; the node is left to the caller.
    ///
    /// # Errors
    /// The query is invalid; the text has the reason.
    pub fn parse(&self, now: Timestamp) -> Result<Usage, String> {
        let by = self.by.as_deref().unwrap_or_default();
        let groups = by.split(',').filter(|word| !word.is_empty());
        Ok(Usage {
            max_rows: None,
            from: self.from.as_deref().map_or(Ok(0), |text| time(text, now))?,
            to: self.to.as_deref().map(|text| time(text, now)).transpose()?,
            consumer: self.consumer.clone(),
            api: self.api.clone(),
            apis: self.apis.clone(),
            operation: self.operation.clone(),
            plan: self.plan.clone(),
            status: self.status.as_deref().map(class).transpose()?,
            by: groups.map(|word| named(&GROUPS, word)).collect::<Result<_, _>>()?,
            step: self.step.as_deref().map(|word| named(&STEPS, word)).transpose()?,
        })
    }
}

fn class(text: &str) -> Result<StatusClass, String> {
    let found = CLASSES.iter().position(|class| *class == text);
    found.map(|class| StatusClass(class as u8)).ok_or_else(|| one_of(&CLASSES, text))
}

fn named<T: Copy>(known: &[(&str, T)], word: &str) -> Result<T, String> {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let found = known.iter().find(|(name, _)| *name == word.trim());
    found.map(|(_, value)| *value).ok_or_else(|| one_of(&names, word))
}

fn one_of(known: &[&str], word: &str) -> String {
    format!("'{word}' is not one of {}", known.join(", "))
}

/// A time in seconds since 1970: RFC 3339, a day, or an age.
///
/// # Errors
/// The text is none of these.
pub fn time(text: &str, now: Timestamp) -> Result<u64, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_timestamps_days_or_ages() {
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
    fn names_are_checked() {
        let now = Timestamp::UNIX_EPOCH;
        let query = UsageQuery {
            by: Some("consumer,status".to_owned()),
            step: Some("day".to_owned()),
            status: Some("5xx".to_owned()),
            ..UsageQuery::default()
        };
        let usage = query.parse(now).unwrap();
        assert_eq!(
            (usage.by.len(), usage.step, usage.status),
            (2, Some(86_400), Some(StatusClass(5)))
        );
        let wrong = |query: UsageQuery| query.parse(now).is_err();
        assert!(wrong(UsageQuery { by: Some("who".to_owned()), ..query.clone() }));
        assert!(wrong(UsageQuery { step: Some("week".to_owned()), ..query.clone() }));
        assert!(wrong(UsageQuery { status: Some("6xx".to_owned()), ..query.clone() }));
        assert!(wrong(UsageQuery { from: Some("x".to_owned()), ..query }));
    }
}
