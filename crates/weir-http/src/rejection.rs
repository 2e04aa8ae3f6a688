//! A request that weir itself rejects: the problem, the details of this occurrence, and the headers
//! of the response.

use crate::deadline::{Expired, Wait};
use crate::path::PathError;
use crate::problem::Problem;
use std::borrow::Cow;
use weir_config::validation::Violation;
use weir_wire::HeadError;

/// Maximum characters of a recorded reason.
const MAX_REASON_CHARS: usize = 1000;

/// The reason of a rejection. Small, because every stage may return one.
#[derive(Debug)]
pub struct Rejection {
    /// The error for the client.
    pub problem: Problem,
    /// The client has disconnected: no response can be sent.
    pub client_closed: bool,
    details: Option<Box<RejectionDetails>>,
}

/// Details of a rejection.
#[derive(Debug, Default)]
pub struct RejectionDetails {
    /// Detail for the client; must not contain credentials or bodies.
    pub detail: Option<Cow<'static, str>>,
    /// The reason for the record, not for the client: the auth or the limit that rejected the
    /// request.
    pub recorded: Option<String>,
    /// `WWW-Authenticate`, `Retry-After`, `Allow` and similar headers.
    pub headers: Vec<(&'static str, String)>,
    /// Violations of the OpenAPI document.
    pub violations: Vec<Violation>,
}

impl Rejection {
    /// A rejection without details.
    pub fn new(problem: Problem) -> Self {
        Self { problem, client_closed: false, details: None }
    }

    /// The client has disconnected.
    pub(crate) fn closed_by_client(self) -> Self {
        Self { client_closed: true, ..self }
    }

    /// Adds the detail of this occurrence.
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.details.get_or_insert_default().detail = Some(detail.into());
        self
    }

    /// Adds the reason for the record, which must not contain credentials or bodies either.
    pub fn recorded(mut self, reason: String) -> Self {
        self.details.get_or_insert_default().recorded = Some(reason);
        self
    }

    /// Adds violations of the OpenAPI document.
    pub fn violations(mut self, violations: Vec<Violation>) -> Self {
        self.details.get_or_insert_default().violations = violations;
        self
    }

    /// Adds a header of the response.
    pub fn header(mut self, name: &'static str, value: String) -> Self {
        self.details.get_or_insert_default().headers.push((name, value));
        self
    }

    /// The details, which may be empty.
    pub fn details(&self) -> &RejectionDetails {
        static NONE: RejectionDetails = RejectionDetails::none();
        self.details.as_deref().unwrap_or(&NONE)
    }

    /// The title of the problem, and the detail of this occurrence.
    pub fn summary(&self) -> String {
        let title = self.problem.title();
        match &self.details().detail {
            Some(detail) => format!("{title}: {detail}"),
            None => title.to_owned(),
        }
    }

    /// Replaces the detail of this occurrence by the result of `edit`.
    pub fn map_detail(mut self, edit: impl FnOnce(Option<&str>) -> String) -> Self {
        let details = self.details.get_or_insert_default();
        details.detail = Some(edit(details.detail.as_deref()).into());
        self
    }
}

impl RejectionDetails {
    const fn none() -> Self {
        Self { detail: None, recorded: None, headers: Vec::new(), violations: Vec::new() }
    }

    /// The reason of this occurrence for the record; `None` if the problem is sufficient.
    pub fn reason(&self) -> Option<String> {
        let violations = self.violations.iter().map(|one| {
            let place = format!("{} {}{}", one.place.as_str(), one.name, one.pointer);
            format!("{}: {}", place.trim_end(), one.detail)
        });
        let detail = self.detail.as_deref().map(str::to_owned);
        let parts: Vec<String> =
            self.recorded.iter().cloned().chain(detail).chain(violations).collect();
        let mut reason = parts.join("; ");
        if let Some((end, _)) = reason.char_indices().nth(MAX_REASON_CHARS) {
            reason.truncate(end);
            reason.push('…');
        }
        (!reason.is_empty()).then_some(reason)
    }
}

impl From<Problem> for Rejection {
    fn from(problem: Problem) -> Self {
        Self::new(problem)
    }
}

impl From<HeadError> for Rejection {
    fn from(error: HeadError) -> Self {
        let problem = match error {
            HeadError::TooLong | HeadError::TooManyFields => Problem::HeadersTooLarge,
            HeadError::TargetTooLong => Problem::UrlTooLong,
            _ => Problem::BadRequest,
        };
        Self::new(problem).detail(error.to_string())
    }
}

impl From<PathError> for Rejection {
    fn from(error: PathError) -> Self {
        let problem =
            if error.is_ambiguous() { Problem::AmbiguousPath } else { Problem::BadRequest };
        Self::new(problem).detail(error.to_string())
    }
}

impl From<Expired> for Rejection {
    fn from(expired: Expired) -> Self {
        match expired {
            Expired::Request => Self::new(Problem::DeadlineExceeded),
            Expired::Wait(
                Wait::Idle
                | Wait::Head
                | Wait::RequestBody
                | Wait::Client
                | Wait::Upgraded
                | Wait::HalfClosed
                | Wait::LastChance
                | Wait::Linger,
            ) => Self::new(Problem::RequestTimeout),
            Expired::Wait(Wait::Connect) => {
                Self::new(Problem::UpstreamUnreachable).detail("connect timeout")
            }
            Expired::Wait(Wait::Agent) => Self::new(Problem::PoolBusy),
            Expired::Wait(Wait::FirstByte | Wait::UpstreamBody) => {
                Self::new(Problem::UpstreamTimeout)
            }
            Expired::Wait(Wait::Disk) => Self::new(Problem::FileUnreadable),
        }
    }
}
