//! Types that the data path and the readers of its records share. Ids and times write themselves as
//! text, and are strings in JSON.

mod amount;
mod rejection;
mod replay;
mod text;

pub use amount::{Amount, NoAmount};
pub use rejection::RejectionReason;
pub use replay::{OnDone, ReplayOutcome, ReplayRequest};
pub use text::{TransactionId, UnixMicros, UnixSeconds};
