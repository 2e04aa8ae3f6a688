//! Labels of counters, each with all of its values in a fixed order: a counter is an array by the
//! number of the label.

use weir_wire::Method;

/// Why a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// A kept connection turned out to be closed.
    Stale,
    /// There was no connection to be had.
    Connect,
    /// The connection was closed without a byte of answer.
    Closed,
    /// No answer came in the time of a try.
    Timeout,
    /// The answer's status is one that says so.
    Status,
    /// There was no answer yet, and another target is asked, too.
    Hedge,
}

/// Who answered a request that had two tries at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hedged {
    /// The one that was asked first.
    First,
    /// The other one.
    Second,
    /// Nobody, or not well.
    None,
}

impl Hedged {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::First, Self::Second, Self::None];

    /// As a metrics label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::None => "none",
        }
    }
}

/// Why a request that might be is not sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDenied {
    /// The share of requests that may be is used up.
    Budget,
    /// It has been tried as often as may be.
    Tries,
    /// Its time is up before the pause would be.
    Deadline,
}

/// What came of a copy of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirrored {
    /// It was answered.
    Sent,
    /// It was not.
    Failed,
    /// There was no place for it.
    Busy,
    /// The body of the request is longer than may be copied.
    TooLarge,
    /// The request did not come whole.
    Incomplete,
}

impl Mirrored {
    /// All of them, in their order.
    pub const ALL: [Self; 5] =
        [Self::Sent, Self::Failed, Self::Busy, Self::TooLarge, Self::Incomplete];

    /// As a metrics label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Busy => "busy",
            Self::TooLarge => "too-large",
            Self::Incomplete => "incomplete",
        }
    }
}

impl RetryReason {
    /// All of them, in their order.
    pub const ALL: [Self; 6] =
        [Self::Stale, Self::Connect, Self::Closed, Self::Timeout, Self::Status, Self::Hedge];

    /// As a metrics label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Connect => "connect",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Status => "status",
            Self::Hedge => "hedge",
        }
    }
}

impl RetryDenied {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Budget, Self::Tries, Self::Deadline];

    /// As a metrics label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Tries => "tries",
            Self::Deadline => "deadline",
        }
    }
}

/// Why a target is out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EjectionReason {
    /// Checks say so.
    Check,
    /// So many requests in a row have failed.
    Failures,
    /// So many answers were errors.
    Errors,
}

impl EjectionReason {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Check, Self::Failures, Self::Errors];

    /// As a metrics label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Failures => "failures",
            Self::Errors => "errors",
        }
    }
}

/// How an upgraded connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeEnd {
    /// The client ended it, in order.
    Client,
    /// The upstream ended it, in order.
    Upstream,
    /// The client is gone.
    ClientReset,
    /// The upstream is gone.
    UpstreamReset,
    /// No byte passed for too long.
    Idle,
    /// It lasted as long as it may.
    Lifetime,
    /// It has gone on under an earlier configuration for as long as it may.
    Reload,
    /// weir is stopping.
    Stop,
}

impl UpgradeEnd {
    /// All of them, in their order.
    pub const ALL: [Self; 8] = [
        Self::Client,
        Self::Upstream,
        Self::ClientReset,
        Self::UpstreamReset,
        Self::Idle,
        Self::Lifetime,
        Self::Reload,
        Self::Stop,
    ];

    /// As a metrics label, and in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Upstream => "upstream",
            Self::ClientReset => "client-reset",
            Self::UpstreamReset => "upstream-reset",
            Self::Idle => "idle",
            Self::Lifetime => "lifetime",
            Self::Reload => "reload",
            Self::Stop => "stop",
        }
    }
}

/// Method as a label: other methods than the standard ones are `_OTHER`, as OpenTelemetry says.
pub fn method_label(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Patch => "PATCH",
        Method::Options => "OPTIONS",
        Method::Trace => "TRACE",
        Method::Connect => "CONNECT",
        Method::Other => "_OTHER",
    }
}
