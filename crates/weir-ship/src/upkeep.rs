//! The index template and the deletion of old indexes.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use weir_tracker::opensearch::{index_template, is_own_template};

use crate::bulk::{error_of, is_blocked};
use crate::request::{Request, Response};

/// Interval of checks of the template and of the age of indexes.
const INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Seconds of a day.
const DAY: i64 = 24 * 60 * 60;

/// The next request of the upkeep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read the template.
    ReadTemplate,
    /// Install it.
    WriteTemplate,
    /// List the indexes of the sink.
    List,
    /// Delete an index.
    Delete(String),
}

/// What the response to a step means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepVerdict {
    /// To go on.
    Done,
    /// The step is to be repeated.
    Retry(String),
    /// Nothing is sent until an operator has changed something.
    Pause(String),
    /// Old indexes cannot be deleted; documents are sent all the same.
    Note(String),
}

/// The upkeep of the indexes of a sink.
#[derive(Debug)]
pub(crate) struct Upkeep {
    name: String,
    /// Retention of indexes of completed, and of other transactions.
    keep: [Duration; 2],
    /// Old indexes are deleted at each interval.
    deletes: bool,
    steps: Vec<Step>,
    /// The template is known to be installed.
    ready: bool,
    finished: Option<Instant>,
}

impl Upkeep {
    pub(crate) fn new(name: &str, keep: [Duration; 2], deletes: bool) -> Self {
        let steps = Vec::new();
        Self { name: name.to_owned(), keep, deletes, steps, ready: false, finished: None }
    }

    /// Deletes old indexes with the next steps.
    pub(crate) fn delete_old(&mut self) {
        if !self.steps.contains(&Step::List) {
            self.steps.insert(0, Step::List);
        }
    }

    /// Whether documents may be sent.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// The template is read again before anything else is sent.
    pub(crate) fn begin_again(&mut self) {
        (self.ready, self.finished) = (false, None);
        self.steps.clear();
    }

    /// The step that is due, taken out.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Step> {
        let due = self.finished.is_none_or(|finished| now.duration_since(finished) >= INTERVAL);
        if due && self.steps.iter().all(|step| *step == Step::List) {
            self.finished = Some(now);
            if self.deletes {
                self.delete_old();
            }
            self.steps.push(Step::ReadTemplate);
        }
        self.steps.pop()
    }

    pub(crate) fn request(&self, step: &Step) -> Request {
        let template = format!("/_index_template/weir-{}", self.name);
        match step {
            Step::ReadTemplate => Request::empty("GET", template),
            Step::WriteTemplate => Request::json("PUT", template, &index_template(&self.name)),
            Step::List => {
                let name = &self.name;
                let path = format!("/_cat/indices/weir-{name}-done-*,weir-{name}-failed-*");
                Request::empty("GET", format!("{path}?format=json&h=index"))
            }
            Step::Delete(index) => Request::empty("DELETE", format!("/{index}")),
        }
    }

    /// The response to a step. After an error the step is due again.
    pub(crate) fn settle(
        &mut self,
        step: Step,
        response: Result<Response, String>,
        today: Timestamp,
    ) -> StepVerdict {
        let response = match response {
            Ok(response) => response,
            Err(error) => return self.again(step, StepVerdict::Retry(error)),
        };
        let Response { status, body } = &response;
        match (&step, status) {
            (Step::ReadTemplate, 200) => self.read_template(step, body),
            (Step::ReadTemplate, 404) => {
                self.steps.push(Step::WriteTemplate);
                StepVerdict::Done
            }
            (Step::WriteTemplate, 200) => {
                self.ready = true;
                StepVerdict::Done
            }
            (Step::List, 200) => {
                let expired = self.expired(body, today);
                self.steps.extend(expired.into_iter().map(Step::Delete));
                StepVerdict::Done
            }
            // Another node was first.
            (Step::Delete(_), 200 | 404) | (Step::List, 404) => StepVerdict::Done,
            (_, 403) if is_blocked(body) => {
                self.again(step, StepVerdict::Retry(error_of(body, *status)))
            }
            (_, 408 | 429 | 500..=599) => {
                self.again(step, StepVerdict::Retry(error_of(body, *status)))
            }
            (Step::List | Step::Delete(_), _) => {
                let error = error_of(body, *status);
                StepVerdict::Note(format!("old indexes are not deleted: {error}"))
            }
            _ => {
                let reason = format!("index template: {}", error_of(body, *status));
                self.again(step, StepVerdict::Pause(reason))
            }
        }
    }

    fn again(&mut self, step: Step, verdict: StepVerdict) -> StepVerdict {
        self.steps.push(step);
        verdict
    }

    fn read_template(&mut self, step: Step, body: &[u8]) -> StepVerdict {
        let Ok(found) = serde_json::from_slice::<Value>(body) else {
            let reason = "status 200 without an index template".to_owned();
            return self.again(step, StepVerdict::Retry(reason));
        };
        match is_own_template(&found["index_templates"][0]["index_template"]) {
            (true, true) => self.ready = true,
            (true, false) => self.steps.push(Step::WriteTemplate),
            (false, _) => {
                let name = &self.name;
                let reason = format!("the index template weir-{name} is of another application");
                return self.again(step, StepVerdict::Pause(reason));
            }
        }
        StepVerdict::Done
    }

    /// Indexes whose last moment is older than their retention.
    fn expired(&self, body: &[u8], today: Timestamp) -> Vec<String> {
        let found = serde_json::from_slice::<Vec<Value>>(body).unwrap_or_default();
        let names = found.iter().filter_map(|index| index["index"].as_str());
        let expired = names.filter(|index| {
            let Some((keep, day)) = self.keep_and_day(index) else { return false };
            let keep = i64::try_from(keep.as_secs()).unwrap_or(i64::MAX);
            day.saturating_add(DAY).saturating_add(keep) < today.as_second()
        });
        expired.map(str::to_owned).collect()
    }

    /// Retention of an index, and the beginning of its day in seconds since 1970; none if the index
    /// is not of this sink.
    fn keep_and_day(&self, index: &str) -> Option<(Duration, i64)> {
        let rest = index.strip_prefix("weir-")?.strip_prefix(&self.name)?;
        let [done, failed] = self.keep;
        let (keep, day) = match (rest.strip_prefix("-done-"), rest.strip_prefix("-failed-")) {
            (Some(day), _) => (done, day),
            (_, Some(day)) => (failed, day),
            _ => return None,
        };
        let date: jiff::civil::Date = day.replace('.', "-").parse().ok()?;
        let begin = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
        (day.len() == "YYYY.MM.DD".len()).then_some((keep, begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAYS: u64 = 24 * 60 * 60;

    fn upkeep() -> Upkeep {
        Upkeep::new("search", [7, 90].map(|days| Duration::from_secs(days * DAYS)), true)
    }

    fn response(status: u16, body: &str) -> Result<Response, String> {
        Ok(Response { status, body: body.as_bytes().to_vec().into() })
    }

    #[test]
    fn the_template_is_installed_first_and_another_one_is_left_alone() {
        let (now, today) = (Instant::now(), Timestamp::now());
        let mut upkeep = upkeep();
        let step = upkeep.next(now).unwrap();
        assert_eq!(upkeep.request(&step).path, "/_index_template/weir-search");
        assert_eq!(upkeep.settle(step, response(404, "{}"), today), StepVerdict::Done);
        let step = upkeep.next(now).unwrap();
        assert_eq!(step, Step::WriteTemplate);
        assert!(!upkeep.is_ready());
        upkeep.settle(step, response(200, r#"{"acknowledged":true}"#), today);
        assert!(upkeep.is_ready());
        assert_eq!(upkeep.next(now), Some(Step::List));
        assert_eq!(upkeep.next(now), None);
        upkeep.begin_again();
        let step = upkeep.next(now).unwrap();
        let other = r#"{"index_templates":[{"index_template":{"version":9}}]}"#;
        let verdict = upkeep.settle(step, response(200, other), today);
        assert!(matches!(verdict, StepVerdict::Pause(_)), "{verdict:?}");
        let step = upkeep.next(now).unwrap();
        assert_eq!(step, Step::ReadTemplate, "an operator may have changed it");
        let older =
            r#"{"index_templates":[{"index_template":{"version":0,"_meta":{"owner":"weir"}}}]}"#;
        upkeep.settle(step, response(200, older), today);
        assert_eq!(upkeep.next(now), Some(Step::WriteTemplate));
    }

    #[test]
    fn a_node_of_several_deletes_only_when_it_is_its_turn() {
        let (now, today) = (Instant::now(), Timestamp::now());
        let mut upkeep = Upkeep::new("search", [Duration::ZERO; 2], false);
        assert_eq!(upkeep.next(now), Some(Step::ReadTemplate));
        let template =
            r#"{"index_templates":[{"index_template":{"version":9,"_meta":{"owner":"weir"}}}]}"#;
        upkeep.settle(Step::ReadTemplate, response(200, template), today);
        assert!(upkeep.is_ready());
        assert_eq!(upkeep.next(now), None);
        upkeep.delete_old();
        upkeep.delete_old();
        assert_eq!(upkeep.next(now), Some(Step::List));
        assert_eq!(upkeep.next(now), None);
        assert_eq!(upkeep.next(now + INTERVAL), Some(Step::ReadTemplate));
        assert_eq!(upkeep.next(now + INTERVAL), None);
    }

    #[test]
    fn indexes_are_deleted_by_their_day_and_state() {
        let mut upkeep = upkeep();
        let today: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let names = [
            "weir-search-done-2026.11.18",
            "weir-search-done-2026.11.19",
            "weir-search-failed-2026.11.18",
            "weir-search-failed-2026.08.01",
            "weir-search-done-2026.1.1",
            "weir-search-2-done-2020.01.01",
            "weir-search-done-archive",
        ];
        let list: Vec<_> = names.iter().map(|name| format!(r#"{{"index":"{name}"}}"#)).collect();
        let list = response(200, &format!("[{}]", list.join(",")));
        upkeep.settle(Step::List, list, today);
        assert_eq!(upkeep.steps, [0, 3].map(|which| Step::Delete(names[which].to_owned())));
    }
}
