//! Samples: results of requests.

use crate::grpc::Status;
use crate::program::Label;

/// One sample: a request, or a transaction of several.
///
/// Times are nanoseconds since the start of the run; [`crate::record::Clock`] converts them to wall
/// time.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Label.
    pub label: Label,
    /// Index of the group in the program.
    pub group: u32,
    /// Number of the user in its group, from 0.
    pub user: u32,
    /// Intended start: by the schedule in an open model, otherwise `start`.
    pub intended: u64,
    /// Start.
    pub start: u64,
    /// Nanoseconds to open the connection, including TLS; 0 for a reused one.
    pub connect: u64,
    /// Time of the first byte of the response; `end` without a response.
    pub first_byte: u64,
    /// Time of the complete response, or of the error.
    pub end: u64,
    /// Nanoseconds of pauses inside a transaction.
    pub idle: u64,
    /// Outcome.
    pub outcome: Outcome,
    /// Status of the response; 0 without one.
    pub status: u16,
    /// Received bytes of heads and bodies of all its responses.
    pub received: u64,
    /// Bytes of the body, encoded.
    pub body: u64,
    /// Bytes of the body, decoded.
    pub decoded: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Reason phrase of the response, or text of the error.
    pub message: &'a str,
    /// The failed check and its message; empty if none.
    pub check: &'a str,
    /// The URL; empty for a transaction.
    pub url: &'a str,
    /// `Content-Type` of the response; empty if missing.
    pub content_type: &'a str,
    /// Active users of the group at the end of the sample.
    pub group_users: u32,
    /// Active users of all groups at the end of the sample.
    pub all_users: u32,
    /// A transaction of other samples.
    pub transaction: bool,
}

/// Outcome of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success.
    Ok,
    /// A status declared as expected, which is no success.
    Expected,
    /// Failure.
    Error(ErrorKind),
}

/// Kind of failure.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorKind {
    /// Connection refused.
    Refused,
    /// Connection reset.
    Reset,
    /// Connection closed before the response was complete.
    Closed,
    /// Connect timeout.
    ConnectTimeout,
    /// Response timeout.
    Timeout,
    /// The host name cannot be resolved.
    Resolve,
    /// TLS error.
    Tls,
    /// The response is not HTTP.
    Protocol,
    /// The request is invalid: its URL, or a part that is too large.
    Request,
    /// Any other error of the network or this machine, such as no free port.
    Network,
    /// Statuses 100 to 199 and those above 599.
    HttpOther,
    /// 200 to 299 outside of the successful statuses.
    #[strum(serialize = "http_2xx")]
    Http2xx,
    /// 300 to 399, likewise.
    #[strum(serialize = "http_3xx")]
    Http3xx,
    /// 400 to 499 except 429.
    #[strum(serialize = "http_4xx")]
    Http4xx,
    /// 429.
    #[strum(serialize = "http_429")]
    Http429,
    /// 500.
    #[strum(serialize = "http_500")]
    Http500,
    /// 502.
    #[strum(serialize = "http_502")]
    Http502,
    /// 503.
    #[strum(serialize = "http_503")]
    Http503,
    /// 504.
    #[strum(serialize = "http_504")]
    Http504,
    /// 500 to 599 except those above.
    #[strum(serialize = "http_5xx")]
    Http5xx,
    /// A gRPC call with this status, likewise for those below.
    GrpcCancelled,
    /// 2.
    GrpcUnknown,
    /// 3.
    GrpcInvalidArgument,
    /// 4, also by the client.
    GrpcDeadlineExceeded,
    /// 5.
    GrpcNotFound,
    /// 6.
    GrpcAlreadyExists,
    /// 7.
    GrpcPermissionDenied,
    /// 8.
    GrpcResourceExhausted,
    /// 9.
    GrpcFailedPrecondition,
    /// 10.
    GrpcAborted,
    /// 11.
    GrpcOutOfRange,
    /// 12.
    GrpcUnimplemented,
    /// 13.
    GrpcInternal,
    /// 14.
    GrpcUnavailable,
    /// 15.
    GrpcDataLoss,
    /// 16.
    GrpcUnauthenticated,
    /// A check failed.
    Check,
    /// Samples of the transaction failed.
    Transaction,
}

impl ErrorKind {
    /// All kinds, in order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Its name in results.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The kind of an unsuccessful status.
    pub fn from_status(status: u16) -> Self {
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

    /// The kind of an unsuccessful status of gRPC; a successful one fails by a check.
    pub fn from_grpc(status: Status) -> Self {
        match status {
            Status::Ok => Self::Check,
            Status::Cancelled => Self::GrpcCancelled,
            Status::Unknown => Self::GrpcUnknown,
            Status::InvalidArgument => Self::GrpcInvalidArgument,
            Status::DeadlineExceeded => Self::GrpcDeadlineExceeded,
            Status::NotFound => Self::GrpcNotFound,
            Status::AlreadyExists => Self::GrpcAlreadyExists,
            Status::PermissionDenied => Self::GrpcPermissionDenied,
            Status::ResourceExhausted => Self::GrpcResourceExhausted,
            Status::FailedPrecondition => Self::GrpcFailedPrecondition,
            Status::Aborted => Self::GrpcAborted,
            Status::OutOfRange => Self::GrpcOutOfRange,
            Status::Unimplemented => Self::GrpcUnimplemented,
            Status::Internal => Self::GrpcInternal,
            Status::Unavailable => Self::GrpcUnavailable,
            Status::DataLoss => Self::GrpcDataLoss,
            Status::Unauthenticated => Self::GrpcUnauthenticated,
        }
    }

    /// Index in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Sample<'_> {
    /// A successful sample without bytes and texts, of a user of a group, from `start` to `end`: every
    /// kind of sample sets what it has besides.
    #[inline]
    #[must_use]
    pub fn of(label: Label, (group, user): (usize, u32), (start, end): (u64, u64)) -> Self {
        Self {
            label,
            group: group as u32,
            user,
            intended: start,
            start,
            connect: 0,
            first_byte: end,
            end,
            idle: 0,
            outcome: Outcome::Ok,
            status: 0,
            received: 0,
            body: 0,
            decoded: 0,
            sent: 0,
            message: "",
            check: "",
            url: "",
            content_type: "",
            group_users: 0,
            all_users: 0,
            transaction: false,
        }
    }

    /// From the actual send to the end, nanoseconds.
    pub fn service(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// From the intended send to the end, nanoseconds.
    pub fn response(&self) -> u64 {
        self.end.saturating_sub(self.intended)
    }
}
