//! Types that the data path and the readers of its records share: ids, times, amounts, replays, stages.
//! Ids and times write themselves as text, and are strings in JSON. Also the settings of pools, of
//! events and of sinks of transactions, which the configuration resolves and other crates apply.

mod amount;
mod annotations;
mod attempt;
pub mod bins;
pub mod bucket_url;
mod duration;
pub mod events;
mod metering;
mod outcome;
pub mod pool;
mod rejection;
mod replay;
pub mod search_sink;
pub mod stage;
mod text;

pub use amount::{Amount, NoAmount};
pub use annotations::{Annotation, Annotations};
pub use attempt::Attempt;
pub use duration::duration_in_words;
pub use metering::Counts;
pub use outcome::Outcome;
pub use rejection::RejectionReason;
pub use replay::{OnDone, ReplayOutcome, ReplayRequest};
pub use text::{TransactionId, UnixMicros, UnixSeconds};

/// Index of an upstream in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamId(pub usize);
