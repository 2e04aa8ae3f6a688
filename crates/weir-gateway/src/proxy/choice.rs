//! Where a request may go, and connections to there.

use crate::deadline::{Deadline, Expired};
use crate::descriptors::is_exhausted;
use crate::labels::Again;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::spans::Open;
use crate::upstream::{Call, Connection, TakeError, Target, Upstream, failed_check};
use std::rc::Rc;
use std::time::Instant;
use weir_wire::Method;

/// Most targets that are tried when connecting fails.
pub(super) const TARGETS_TRIED: usize = 3;

/// A try that did not bring an answer.
pub(super) struct Lost {
    pub(super) refusal: Refusal,
    /// Why another try might.
    pub(super) why: Option<Again>,
}

impl From<Lost> for Refusal {
    fn from(lost: Lost) -> Self {
        lost.refusal
    }
}

/// Where a request may go.
pub(super) struct Choice<'u> {
    pub(super) upstream: &'u Upstream,
    /// What it is kept together with others by.
    pub(super) key: Option<u64>,
    /// Targets that have had their try, or could not be connected to.
    pub(super) tried: Vec<usize>,
    /// There if the request is traced.
    pub(super) span: Option<Rc<Open>>,
}

/// Finds a target that can be reached, and a connection to it; those that cannot have been tried.
pub(super) async fn connect(
    deadline: &Deadline,
    method: Method,
    started: Instant,
    choice: &mut Choice<'_>,
) -> Result<(Rc<Target>, Box<Connection>), Lost> {
    let Choice { upstream, key, tried, span } = choice;
    loop {
        let Some(index) = upstream.choose(tried, *key) else {
            return Err(Lost { refusal: Problem::UpstreamUnreachable.into(), why: None });
        };
        let target = &upstream.targets[index];
        match target.take(deadline).await {
            Ok(connection) => return Ok((Rc::clone(target), connection)),
            Err(error) => {
                tried.push(index);
                let lost = not_taken(target, error, method, (started, span.as_ref()));
                if tried.len() == upstream.targets.len().min(TARGETS_TRIED) {
                    return Err(lost);
                }
            }
        }
    }
}

/// There is no connection to `target` for a request that wanted one since `started`; that is
/// counted.
pub(super) fn not_taken(
    target: &Rc<Target>,
    error: TakeError,
    method: Method,
    (started, span): (Instant, Option<&Rc<Open>>),
) -> Lost {
    if let Some(label) = error.label() {
        Call::new(Rc::clone(target), started, span).end(method, label, Instant::now());
    }
    not_connected(target, error)
}

pub(super) fn not_connected(target: &Target, error: TakeError) -> Lost {
    let (refusal, why) = match error {
        TakeError::Busy => return Lost { refusal: Problem::UpstreamBusy.into(), why: None },
        // The target was not asked, and is not to blame.
        TakeError::Connect(error) if is_exhausted(&error) => {
            let refusal = Refusal::new(Problem::DescriptorsExhausted);
            return Lost { refusal: refusal.header("retry-after", "1".to_owned()), why: None };
        }
        TakeError::Connect(error) => {
            // The kind says enough; the text could name inner addresses.
            let why = failed_check(&error, target.upstream());
            let why = why.unwrap_or_else(|| error.kind().to_string());
            (Refusal::new(Problem::UpstreamUnreachable).detail(why), Some(Again::Connect))
        }
        TakeError::Late(Expired::Request) => (Refusal::from(Expired::Request), None),
        TakeError::Late(expired) => (Refusal::from(expired), Some(Again::Connect)),
    };
    target.health.failed(Instant::now());
    Lost { refusal, why }
}
