//! Types that the data path and the readers of its records share: ids, times, amounts, replays, stages.
//! Ids and times write themselves as text, and are strings in JSON. Also the settings of pools and of
//! events, which the configuration resolves and other crates apply.

mod amount;
mod annotations;
pub mod events;
mod metering;
pub mod pool;
mod rejection;
mod replay;
pub mod stage;
mod text;

pub use amount::{Amount, NoAmount};
pub use annotations::{Annotation, Annotations};
pub use metering::Counts;
pub use rejection::RejectionReason;
pub use replay::{OnDone, ReplayOutcome, ReplayRequest};
pub use text::{TransactionId, UnixMicros, UnixSeconds};

/// Index of an upstream in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamId(pub usize);

/// An enumeration whose values have words in the configuration.
pub trait Choice: Copy + 'static {
    /// Word and value, in the order of messages and the reference.
    const CHOICES: &'static [(&'static str, Self)];
}
