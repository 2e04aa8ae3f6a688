//! Attempts at upstreams, as records have them.

/// An attempt at an upstream that gave the client no response: it failed, or another one was preferred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// The target, as the configuration names it.
    pub target: String,
    /// Microseconds from the arrival of the request to the choice of the target.
    pub started_us: u32,
    /// Microseconds from then to the end of the attempt.
    pub duration_us: u32,
    /// Status of the response, 0 without one.
    pub status: u16,
    /// Why it failed: the code of a problem, or `cancelled`; empty if the response was complete.
    pub error: String,
}
