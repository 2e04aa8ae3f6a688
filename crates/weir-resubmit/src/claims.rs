//! Claims: who else might send a transaction at the same time, or set its resolution.

use weir_model::RejectionReason;
use weir_store::ledger::{Again, Resolution};

/// An attempt to be claimed. The database of this node has it as `sending` already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Transaction id of the attempt.
    pub attempt: u128,
    /// The transaction that is sent again.
    pub original: u128,
    /// Name of the operator.
    pub who: String,
    /// Despite an attempt that has succeeded, or one of unknown state.
    pub again: Again,
}

/// The part of a job of the fleet that this node sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPart {
    /// Number of the job.
    pub job: i64,
    /// Epoch of the lease of the node that runs the job.
    pub epoch: i64,
    /// Transactions that this node cannot send, each with the code of the reason.
    pub rejected: Vec<(u128, String)>,
}

/// A resolution to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewResolution {
    /// The transaction.
    pub transaction: u128,
    /// The resolution.
    pub state: Resolution,
    /// Name of the operator.
    pub who: String,
    /// Comment.
    pub comment: String,
    /// Now, in microseconds since 1970.
    pub at: u64,
    /// Revision of the resolution that the database of this node has.
    pub after: i64,
}

/// Grants attempts, beyond the database of this node.
pub trait Claims: std::fmt::Debug + Send + Sync {
    /// Claims attempts, for a job of the fleet or not. The result has an element for each: `None` if it
    /// is granted.
    ///
    /// # Errors
    /// Nothing is granted; the text has the reason.
    fn claim(
        &self,
        attempts: &[Claim],
        job: Option<&JobPart>,
    ) -> Result<Vec<Option<RejectionReason>>, String>;

    /// Sets a resolution for all nodes. Returns its revision; `None`: there are no other nodes.
    ///
    /// # Errors
    /// The database of the fleet cannot be used; the text has the reason.
    fn resolve(&self, resolution: &NewResolution) -> Result<Option<i64>, String>;
}

/// A node that is alone: what its database has recorded is granted.
#[derive(Clone, Copy, Debug)]
pub struct SingleNode;

impl Claims for SingleNode {
    fn claim(
        &self,
        attempts: &[Claim],
        _job: Option<&JobPart>,
    ) -> Result<Vec<Option<RejectionReason>>, String> {
        Ok(vec![None; attempts.len()])
    }

    fn resolve(&self, _resolution: &NewResolution) -> Result<Option<i64>, String> {
        Ok(None)
    }
}
