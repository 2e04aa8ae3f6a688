//! Alerts: when they fire, and their event. A node evaluates them on its own counts, a fleet on the sums
//! of all nodes.

use crate::delivery::Event;
use serde_json::{Value, json};
use weir_model::UnixSeconds;
use weir_model::events::{Alert, AlertRule};

/// Whether a rule fires with so many calls in its window, of them so many without a response below
/// status 500.
#[must_use]
pub fn fires(rule: &AlertRule, calls: u64, errors: u64) -> bool {
    match *rule {
        AlertRule::Calls { above } => calls > above,
        AlertRule::ErrorRate { above, at_least } => {
            let share = u128::from(errors) * 10_000;
            calls >= at_least && share > u128::from(above) * u128::from(calls)
        }
    }
}

/// The data of the event of an alert that starts to fire with the window that ends at `to`, in seconds
/// since 1970.
#[must_use]
pub fn data(alert: &Alert, to: u64, calls: u64, errors: u64) -> Value {
    let rule = match alert.rule {
        AlertRule::Calls { above } => json!({"calls": above}),
        AlertRule::ErrorRate { above, at_least } => {
            json!({"error_rate_percent": f64::from(above) / 100.0, "at_least": at_least})
        }
    };
    json!({
        "alert": alert.name,
        "above": rule,
        "from": UnixSeconds(to.saturating_sub(alert.over.as_secs())),
        "to": UnixSeconds(to),
        "apis": alert.apis,
        "consumers": alert.consumers,
        "calls": calls,
        "errors": errors,
    })
}

/// The event of an alert with this data. Its id is that of the alert and the window, so that receivers
/// recognise a repetition.
#[must_use]
pub fn event(alert: &Alert, to: u64, data: Value) -> Event {
    Event {
        id: format!("{}-{to}", alert.name),
        part: "monitor",
        kind: "weir.usage.alert".to_owned(),
        subject: alert.name.clone(),
        time_us: to * 1_000_000,
        data,
    }
}
