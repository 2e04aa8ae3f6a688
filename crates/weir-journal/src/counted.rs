//! Why a call is counted, and what counting has to know of it: the bits of a record's `counted`.
//! They are part of the format.

/// A rule says so.
pub const RULE: u8 = 1;
/// Its plan needs it.
pub const PLAN: u8 = 2;
/// It has used up one call of its plan's quota.
pub const QUOTA: u8 = 4;
/// It was turned away before anything was done about it.
pub const REJECTED: u8 = 8;
/// It is a resubmission, and counts all the same.
pub const BILLED: u8 = 16;
/// It is recorded to be counted and for nothing else: it is no transaction to be shown.
pub const ALONE: u8 = 128;
