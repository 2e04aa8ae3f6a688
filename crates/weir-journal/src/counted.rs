//! Why a call is counted, and what metering needs to know: the bits of a record's `counted`. They
//! are part of the format.

/// A metering rule includes it.
pub const RULE: u8 = 1;
/// Its plan needs it.
pub const PLAN: u8 = 2;
/// It used up one call of its plan's quota.
pub const QUOTA: u8 = 4;
/// It was rejected before it was processed.
pub const REJECTED: u8 = 8;
/// It is a resubmission that is billed.
pub const BILLED: u8 = 16;
/// Count-only: recorded for metering, and not shown as a transaction.
pub const COUNT_ONLY: u8 = 128;
