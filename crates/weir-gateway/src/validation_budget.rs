//! Validations that exceeded their budget: an occasional line for the operator, with the route of
//! the last one.

use std::cell::RefCell;
use std::time::Instant;
use weir_config::validation::Violation;
use weir_net::throttle::Throttle;
use weir_record::client_request::ClientRequest;

/// The validations over budget of one worker since the last line.
#[derive(Debug, Default)]
pub struct OverBudget(RefCell<Throttle<Last>>);

#[derive(Debug)]
struct Last {
    /// `request` or `response`.
    side: &'static str,
    /// The names of API and operation.
    route: String,
    detail: String,
}

impl OverBudget {
    /// Counts a validation of a `request` or a `response`.
    pub(crate) fn add(
        &self,
        request: &ClientRequest<'_>,
        side: &'static str,
        violation: &Violation,
    ) {
        let matched = request.api.zip(request.route);
        let route = matched.map(|(api, route)| format!("{} {}", api.name, route.operation));
        let detail = format!("{}: {}", violation.place.as_str(), violation.detail);
        let last = Last { side, route: route.unwrap_or_default(), detail };
        self.0.borrow_mut().add(1, last);
    }

    /// The line that is due, if validations were counted since the last one.
    pub fn due(&self, worker: usize, now: Instant) -> Option<String> {
        let (count, Last { side, route, detail }) = self.0.borrow_mut().due(now)?;
        Some(format!(
            "weir: worker {worker}: validations over budget: {count}; last: {side} of \
             `{route}`: {detail}"
        ))
    }
}
