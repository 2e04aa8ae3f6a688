//! A request that weir itself answers with an error: the problem, this occurrence of it, and the
//! headers that belong to it.

use crate::deadline::{Expired, Wait};
use crate::path::PathError;
use crate::problem::Problem;
use std::borrow::Cow;
use weir_config::validation::Violation;
use weir_wire::HeadError;

/// Most characters of what is recorded of an occurrence.
const LONGEST_REASON: usize = 1000;

/// Why a request is not answered by its handler.
#[derive(Debug)]
pub struct Rejection {
    /// The error that the client gets.
    pub problem: Problem,
    /// This occurrence; never a credential, never a body.
    pub detail: Option<Cow<'static, str>>,
    /// Why, for the record and not for the client: which auth, which limit.
    pub recorded: Option<String>,
    /// `WWW-Authenticate`, `Retry-After`, `Allow` and the like.
    pub headers: Vec<(&'static str, String)>,
    /// Where and how the request does not match the description.
    pub violations: Vec<Violation>,
    /// The client is gone: there is nobody to tell.
    pub client_closed: bool,
}

impl Rejection {
    /// Without details.
    pub fn new(problem: Problem) -> Self {
        Self {
            problem,
            detail: None,
            recorded: None,
            headers: Vec::new(),
            violations: Vec::new(),
            client_closed: false,
        }
    }

    /// Adds the detail of this occurrence.
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Says why for the record. Like the detail: never a credential, never a body.
    pub fn recorded(mut self, why: String) -> Self {
        self.recorded = Some(why);
        self
    }

    /// This occurrence in words, as it is recorded; nothing if the problem says all there is.
    pub fn reason(&self) -> Option<String> {
        let violations = self.violations.iter().map(|one| {
            let place = format!("{} {}{}", one.place.as_str(), one.name, one.pointer);
            format!("{}: {}", place.trim_end(), one.detail)
        });
        let detail = self.detail.as_deref().map(str::to_owned);
        let parts: Vec<String> =
            self.recorded.iter().cloned().chain(detail).chain(violations).collect();
        let mut reason = parts.join("; ");
        if let Some((end, _)) = reason.char_indices().nth(LONGEST_REASON) {
            reason.truncate(end);
            reason.push('…');
        }
        (!reason.is_empty()).then_some(reason)
    }

    /// Adds violations of the OpenAPI document.
    pub fn violations(mut self, violations: Vec<Violation>) -> Self {
        self.violations = violations;
        self
    }

    /// Adds a header of the response.
    pub fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
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
