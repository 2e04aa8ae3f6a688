//! Paths of the parts of jobs that nodes request of each other.

/// A page of the transactions that a job finds on a node.
pub const FIND_ITEMS: &str = "/v1/fleet/jobs/find";
/// Transactions of a job that a node is to send.
pub const SEND_ITEMS: &str = "/v1/fleet/jobs/send";
