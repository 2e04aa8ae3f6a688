//! The order in which a lane drops content while no further segment is ready: bodies first, then
//! headers, then everything but the count of the call, the count last.
//!
//! The end of each segment is reserved for smaller records. A record may use it only if no next
//! segment is ready, and only the part that belongs to its priority.

use crate::counted;
use crate::record::{Completed, Received};

/// Each of the three smaller kinds of records has this fraction of a segment to itself.
const SEGMENT_FRACTION: usize = 32;

/// Priority of a record for the end of a segment, highest first: a record leaves the end to as many
/// kinds as stand before its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    /// A count-only record, or the end of an open transaction.
    Count,
    /// Without headers and bodies.
    Metadata,
    /// With headers.
    Head,
    /// With bytes of a body.
    Payload,
}

impl Priority {
    pub(super) fn of(received: &Received<'_>, completed: &Completed<'_>) -> Self {
        if received.counted & counted::COUNT_ONLY != 0 {
            return Self::Count;
        }
        match Self::of_completed(completed) {
            Self::Metadata if !received.head.is_empty() => Self::Head,
            priority => priority,
        }
    }

    pub(super) fn of_completed(completed: &Completed<'_>) -> Self {
        let Completed { request_body, response_body, head, properties, logs, .. } = completed;
        if !request_body.is_empty() || !response_body.is_empty() {
            Self::Payload
        } else if !head.is_empty() || !properties.is_empty() || !logs.is_empty() {
            Self::Head
        } else {
            Self::Metadata
        }
    }

    /// Bytes at the end of a segment that are reserved for higher priorities.
    pub(super) fn reserved(self, segment_bytes: usize) -> usize {
        self as usize * (segment_bytes / SEGMENT_FRACTION)
    }
}
