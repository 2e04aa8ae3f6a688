//! Labels of counters. A counter is an array by the number of the variant; the names of variants are
//! the values of the label.

use weir_wire::Method;

/// Why a request is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum RetryReason {
    /// A kept connection was closed.
    Stale,
    /// No connection could be opened.
    Connect,
    /// The connection was closed before the first byte of the response.
    Closed,
    /// The timeout of the attempt expired.
    Timeout,
    /// The status of the response is one of those that are retried.
    Status,
    /// There was no response yet: a hedged attempt.
    Hedge,
}

/// Which of two hedged attempts had the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Hedged {
    /// The first attempt.
    First,
    /// The hedge.
    Second,
    /// Neither, or its response was an error.
    None,
}

/// Why a request that allows a retry is not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum RetryDenied {
    /// The retry budget is used up.
    Budget,
    /// The maximum number of attempts was made.
    Tries,
    /// The deadline of the request is before the end of the backoff.
    Deadline,
}

/// Outcome of a mirrored request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Mirrored {
    /// There was a response.
    Sent,
    /// There was none.
    Failed,
    /// Too many mirrored requests were in flight.
    Busy,
    /// The body of the request exceeds the limit.
    TooLarge,
    /// The body of the request was not complete.
    Incomplete,
}

/// Why a target is ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum EjectionReason {
    /// Health checks failed.
    Check,
    /// Too many consecutive requests failed.
    Failures,
    /// The share of error responses was too large.
    Errors,
}

/// How an upgraded connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum UpgradeEnd {
    /// The client closed it.
    Client,
    /// The upstream closed it.
    Upstream,
    /// The connection to the client was lost.
    ClientReset,
    /// The connection to the upstream was lost.
    UpstreamReset,
    /// The idle timeout expired.
    Idle,
    /// The maximum lifetime was reached.
    Lifetime,
    /// The maximum lifetime after a reload was reached.
    Reload,
    /// weir was stopped.
    Stop,
}

/// Method as a label: other methods than the standard ones are `_OTHER`, by the conventions of
/// OpenTelemetry.
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
