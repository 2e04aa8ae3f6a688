//! What one request gave.

use crate::program::Label;

/// One sample: a request, or a transaction of several.
///
/// Times are nanoseconds since the run's start; [`crate::record::Clock`] has that in wall time.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Under which name it is counted.
    pub label: Label,
    /// Index of the group in the program.
    pub group: u32,
    /// Number of the user in its group, from 0.
    pub user: u32,
    /// When it should have begun: by the schedule in an open model, else `start`.
    pub intended: u64,
    /// When it began.
    pub start: u64,
    /// Nanoseconds to open the connection, with TLS; 0 if there was one.
    pub connect: u64,
    /// When the first byte of the answer came; `end` if none came.
    pub first_byte: u64,
    /// When the answer was whole, or it was clear that it would not come.
    pub end: u64,
    /// Nanoseconds of pauses inside, of a transaction.
    pub idle: u64,
    /// How it went.
    pub outcome: Outcome,
    /// Status of the answer; 0 if none came.
    pub status: u16,
    /// Bytes received: head and body, as they came, of all answers that belong to it.
    pub received: u64,
    /// Bytes of the body as they came.
    pub body: u64,
    /// Bytes of the body, decoded.
    pub decoded: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Reason phrase of the answer, or the text of the failure.
    pub message: &'a str,
    /// Which check failed, and why; empty if none.
    pub check: &'a str,
    /// The URL; empty for a transaction.
    pub url: &'a str,
    /// `Content-Type` of the answer; empty if it had none.
    pub content_type: &'a str,
    /// Users of the group that were active when it ended.
    pub group_users: u32,
    /// Users of all groups, likewise.
    pub all_users: u32,
    /// It is a transaction of other samples.
    pub transaction: bool,
}

/// How a sample went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Ok,
    /// Its status was declared as expected, and is no success.
    Expected,
    /// It failed.
    Error(ErrorKind),
}

/// Why a sample failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// Nobody listens there.
    Refused,
    /// The connection was reset.
    Reset,
    /// It was closed before the answer was whole.
    Closed,
    /// It could not be opened in time.
    ConnectTimeout,
    /// The answer did not come in time.
    Timeout,
    /// The host's name is not known.
    Resolve,
    /// TLS failed.
    Tls,
    /// What came is no HTTP.
    Protocol,
    /// The request could not be made: no valid URL, or a part too large.
    Request,
    /// Any other fault of the network or this machine, such as no free port.
    Network,
    /// Statuses 100 to 199 and those above 599.
    HttpOther,
    /// 200 to 299, which was not among those wanted.
    Http2xx,
    /// 300 to 399, likewise.
    Http3xx,
    /// 400 to 499 but 429.
    Http4xx,
    /// 429.
    Http429,
    /// 500.
    Http500,
    /// 502.
    Http502,
    /// 503.
    Http503,
    /// 504.
    Http504,
    /// 500 to 599 but those.
    Http5xx,
    /// A check failed.
    Check,
    /// Samples of the transaction failed.
    Transaction,
}

impl ErrorKind {
    /// All of them, in order.
    pub const ALL: [Self; 22] = [
        Self::Refused,
        Self::Reset,
        Self::Closed,
        Self::ConnectTimeout,
        Self::Timeout,
        Self::Resolve,
        Self::Tls,
        Self::Protocol,
        Self::Request,
        Self::Network,
        Self::HttpOther,
        Self::Http2xx,
        Self::Http3xx,
        Self::Http4xx,
        Self::Http429,
        Self::Http500,
        Self::Http502,
        Self::Http503,
        Self::Http504,
        Self::Http5xx,
        Self::Check,
        Self::Transaction,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::ConnectTimeout => "connect_timeout",
            Self::Timeout => "timeout",
            Self::Resolve => "resolve",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
            Self::Request => "request",
            Self::Network => "network",
            Self::HttpOther => "http_other",
            Self::Http2xx => "http_2xx",
            Self::Http3xx => "http_3xx",
            Self::Http4xx => "http_4xx",
            Self::Http429 => "http_429",
            Self::Http500 => "http_500",
            Self::Http502 => "http_502",
            Self::Http503 => "http_503",
            Self::Http504 => "http_504",
            Self::Http5xx => "http_5xx",
            Self::Check => "check",
            Self::Transaction => "transaction",
        }
    }

    /// The kind of a status that is no success.
    pub fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Http2xx,
            300..=399 => Self::Http3xx,
            429 => Self::Http429,
            400..=499 => Self::Http4xx,
            500 => Self::Http500,
            502 => Self::Http502,
            503 => Self::Http503,
            504 => Self::Http504,
            501 | 505..=599 => Self::Http5xx,
            _ => Self::HttpOther,
        }
    }

    /// Its place in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Sample<'_> {
    /// From the actual send to the end, nanoseconds.
    pub fn service(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// From the intended send to the end, nanoseconds.
    pub fn response(&self) -> u64 {
        self.end.saturating_sub(self.intended)
    }
}
