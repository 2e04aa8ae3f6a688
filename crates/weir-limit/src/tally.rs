//! The calls of a window on one node, and when more become available.

/// The calls of a consumer in a window, on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    /// Begin of the window, of a rolling quota that of the sub-window, in seconds since 1970.
    pub(super) start: u64,
    /// Calls counted in it.
    pub(super) used: u64,
    /// Calls leased for it, the used ones included.
    pub(super) leased: u64,
}

/// When calls become available again, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Renewal {
    /// Until no call counts any more.
    pub(super) reset: u64,
    /// Length of the window.
    pub(super) window: u64,
    /// Until a call may be admitted that is rejected now, at least 1.
    pub(super) retry: u64,
}
