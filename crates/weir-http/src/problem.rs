//! Problem documents (RFC 9457): the error responses of weir itself.
//!
//! Every problem has a stable type, the side at fault and whether a retry is safe.
//! `docs/reference/problems.md` lists all problems; a test compares both.

use crate::negotiate;
use weir_config::validation::Violation;
use weir_wire::Headers;

/// The side that must act; documents have the name in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// The request must change.
    Client,
    /// weir or its operator.
    Weir,
    /// The server behind weir.
    Upstream,
}

/// Whether the same request may be sent again; documents have the name in kebab case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Retry {
    /// The request would be rejected again.
    Pointless,
    /// The request had no effect: a retry is safe, after `Retry-After` if present.
    Safe,
    /// The upstream may have processed the request: retry only idempotent requests.
    IfIdempotent,
}

macro_rules! problems {
    ($($(#[$doc:meta])+ $name:ident = $status:literal $slug:literal $title:literal $fault:ident $retry:ident,)+) => {
        /// An error response of weir itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Problem {
            $($(#[$doc])+ $name,)+
        }

        impl Problem {
            /// Every problem, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Status code.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)+ }
            }

            /// The last part of the type, `urn:weir:problem:<slug>`; stable, also a metrics label.
            pub fn slug(self) -> &'static str {
                match self { $(Self::$name => $slug,)+ }
            }

            /// Short summary, the same for every occurrence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }

            /// The side at fault.
            pub fn fault(self) -> Fault {
                match self { $(Self::$name => Fault::$fault,)+ }
            }

            /// Whether a retry is safe.
            pub fn retry(self) -> Retry {
                match self { $(Self::$name => Retry::$retry,)+ }
            }
        }
    };
}

problems! {
    /// The bytes are not a valid HTTP request; the detail names the violated rule.
    BadRequest = 400 "bad-request" "Malformed request" Client Pointless,
    /// Servers read the path in more than one way, and the route rejects such paths
    /// (`path_normalization`).
    AmbiguousPath = 400 "ambiguous-path" "Ambiguous path" Client Pointless,
    /// The body ended early, or its coding is malformed.
    BadBody = 400 "bad-body" "Malformed request body" Client Pointless,
    /// The route maps request bodies, and the body is not JSON.
    MalformedJson = 400 "malformed-json" "The request body is not valid JSON" Client Pointless,
    /// The route maps request bodies, and the XML of the body is malformed.
    MalformedXml = 400 "malformed-xml" "The request body is not readable XML" Client Pointless,
    /// The JSON is well formed, but the route's map cannot be applied to it.
    UnmappableBody = 422 "unmappable-body" "The request body cannot be mapped" Client Pointless,
    /// Parameters or body violate the OpenAPI document; `errors` lists the violations.
    InvalidRequest = 400 "invalid-request" "The request does not match the API description" Client Pointless,
    /// The route requires a credential, and the request has none.
    MissingCredential = 401 "missing-credential" "A credential is required" Client Pointless,
    /// The `Authorization` header or the API key is repeated or malformed.
    MalformedCredential = 401 "malformed-credential" "The credential is malformed" Client Pointless,
    /// `exp` of the token has passed.
    TokenExpired = 401 "token-expired" "The token has expired" Client Pointless,
    /// `nbf` of the token is in the future.
    TokenNotYetValid = 401 "token-not-yet-valid" "The token is not valid yet" Client Pointless,
    /// The signature of the token is wrong.
    TokenSignature = 401 "token-signature" "The token's signature is invalid" Client Pointless,
    /// No configured key matches the token.
    TokenKey = 401 "token-key" "The token is signed with an unknown key" Client Pointless,
    /// The signature algorithm of the token is not accepted.
    TokenAlgorithm = 401 "token-algorithm" "The token's algorithm is not accepted" Client Pointless,
    /// The token has another issuer.
    TokenIssuer = 401 "token-issuer" "The token's issuer is not accepted" Client Pointless,
    /// The token has another audience.
    TokenAudience = 401 "token-audience" "The token is for another audience" Client Pointless,
    /// The token lacks a required claim.
    TokenClaim = 401 "token-claim" "The token lacks a required claim" Client Pointless,
    /// The authorization server reports the token as inactive (RFC 7662).
    TokenInactive = 401 "token-inactive" "The token is not active" Client Pointless,
    /// The client certificate has no name of the kind that the `auth` requires.
    CertificateName = 401 "certificate-name" "The certificate has no usable name" Client Pointless,
    /// The client certificate has expired since the handshake.
    CertificateExpired = 401 "certificate-expired" "The certificate has expired" Client Pointless,
    /// No consumer has the API key.
    UnknownApiKey = 401 "unknown-api-key" "The API key is unknown" Client Pointless,
    /// The API key has expired (`expires`).
    ApiKeyExpired = 401 "api-key-expired" "The API key has expired" Client Pointless,
    /// An operator has revoked the API key.
    ApiKeyRevoked = 401 "api-key-revoked" "The API key is revoked" Client Pointless,
    /// The credential is valid, but does not permit the request.
    Forbidden = 403 "forbidden" "Access is denied" Client Pointless,
    /// The IP allow and deny lists reject the client's address.
    AddressRefused = 403 "address-refused" "Access from this address is denied" Client Pointless,
    /// The token lacks a required scope.
    InsufficientScope = 403 "insufficient-scope" "The token lacks a required scope" Client Pointless,
    /// The route does not accept the upgrade, such as a WebSocket of another origin.
    UpgradeRefused = 403 "upgrade-refused" "WebSocket upgrade is not allowed on this route" Client Pointless,
    /// No API is configured for this host.
    UnknownHost = 404 "unknown-host" "No API has this host" Client Pointless,
    /// No route matches the path.
    NoRoute = 404 "no-route" "No route has this path" Client Pointless,
    /// The served folder has no such file.
    NoFile = 404 "no-file" "The file does not exist" Client Pointless,
    /// The path exists, but not with this method; `Allow` lists the methods.
    MethodNotAllowed = 405 "method-not-allowed" "The method is not allowed on this path" Client Pointless,
    /// No offered format is acceptable to the client.
    NotAcceptable = 406 "not-acceptable" "No acceptable representation" Client Pointless,
    /// The request did not arrive within the time limit.
    RequestTimeout = 408 "request-timeout" "The request was not received in time" Client Safe,
    /// The file does not fulfil the precondition (`If-Match`, `If-Unmodified-Since`).
    PreconditionFailed = 412 "precondition-failed" "A precondition failed" Client Pointless,
    /// The body exceeds `limits.body`.
    BodyTooLarge = 413 "body-too-large" "The request body is too large" Client Pointless,
    /// The request target exceeds the limit.
    UrlTooLong = 414 "url-too-long" "The URL is too long" Client Pointless,
    /// The route cannot read the content type or coding of the body.
    UnsupportedMediaType = 415 "unsupported-media-type" "The content type is not supported" Client Pointless,
    /// The requested range lies beyond the end of the file; `Content-Range` has the length.
    RangeNotSatisfiable = 416 "range-not-satisfiable" "The range is not satisfiable" Client Pointless,
    /// An `Expect` other than `100-continue`.
    ExpectationFailed = 417 "expectation-failed" "The expectation is not supported" Client Pointless,
    /// The request head is too large, or has too many fields.
    HeadersTooLarge = 431 "headers-too-large" "The request headers are too large" Client Pointless,
    /// A rate limit is exhausted; `Retry-After` has the wait in seconds.
    RateLimited = 429 "rate-limited" "Too many requests" Client Safe,
    /// Too many authentications from the client's address have failed; `Retry-After` has the wait
    /// (`limits.failed_authentication`).
    AuthenticationThrottled = 429 "authentication-throttled" "Too many failed authentications" Client Safe,
    /// The quota of the plan is exhausted; `Retry-After` has the time until the next period.
    QuotaExhausted = 429 "quota-exhausted" "The quota is exhausted" Client Safe,
    /// A fault in weir itself.
    Internal = 500 "internal" "Internal error" Weir IfIdempotent,
    /// The file exists but cannot be read: permissions, the disk, or too many open files.
    FileUnreadable = 500 "file-unreadable" "The file cannot be read" Weir Safe,
    /// A script threw, returned an invalid result, or awaits a promise that never settles. The
    /// error is in the log and in the Tracker.
    ScriptFailed = 500 "script-failed" "The script failed" Weir IfIdempotent,
    /// A script was stopped because it exceeded its CPU time.
    ScriptStopped = 500 "script-stopped" "The script exceeded its CPU time" Weir IfIdempotent,
    /// The method is not supported (CONNECT).
    NotImplemented = 501 "not-implemented" "The method is not implemented" Client Pointless,
    /// No connection to the upstream could be established.
    UpstreamUnreachable = 502 "upstream-unreachable" "The upstream cannot be reached" Upstream Safe,
    /// The upstream's response violates the protocol.
    UpstreamProtocolError = 502 "upstream-garbage" "The upstream's response is malformed" Upstream IfIdempotent,
    /// The upstream closed the connection before the end of the response.
    UpstreamClosed = 502 "upstream-closed" "The upstream closed the connection early" Upstream IfIdempotent,
    /// The upstream's response cannot be mapped: not JSON, or too large.
    UpstreamUnmappable = 502 "upstream-unmappable" "The upstream's response cannot be mapped" Upstream IfIdempotent,
    /// One of the route's `calls` has an unusable status or body, and no fallback.
    CallFailed = 502 "call-failed" "A required upstream call failed" Upstream IfIdempotent,
    /// The response exceeds the route's limit.
    ResponseTooLarge = 502 "answer-too-large" "The response is too large" Upstream IfIdempotent,
    /// The response violates the OpenAPI document, and `validate.responses` is `enforce`. The
    /// violations are in the Tracker.
    InvalidResponse = 502 "invalid-answer" "The response does not match the API description" Upstream IfIdempotent,
    /// All `connections` to the upstream are in use, and the queue is full or the connect timeout
    /// has passed.
    UpstreamBusy = 503 "upstream-busy" "All connections to the upstream are in use" Upstream Safe,
    /// All agents of the pool are busy, and the queue is full or the queue timeout has passed;
    /// `Retry-After` is set.
    PoolBusy = 503 "pool-busy" "All agents of the pool are busy" Upstream Safe,
    /// No agent of the pool can be started; `Retry-After` has the time of the next start.
    PoolUnavailable = 503 "pool-unavailable" "No agent of the pool is running" Upstream Safe,
    /// The script engine ran out of memory; all calls in flight fail.
    ScriptMemory = 503 "script-memory" "The script engine ran out of memory" Weir IfIdempotent,
    /// The circuit breaker of the route's script is open: three stops within a minute.
    ScriptSuspended = 503 "script-suspended" "The script is suspended" Weir Safe,
    /// The call queue of the script's own thread is full.
    ScriptBusy = 503 "script-busy" "The script's call queue is full" Weir Safe,
    /// The key set for token verification cannot be fetched from its URL.
    KeysUnavailable = 503 "keys-unavailable" "The keys for token verification are unavailable" Weir Safe,
    /// The authorization server does not respond, or too many introspections are in flight.
    IntrospectionUnavailable = 503 "introspection-unavailable" "Token introspection is unavailable" Weir Safe,
    /// The node has no lease of a quota or rate, and the fleet granted none in time; `Retry-After`
    /// is set.
    LimitUnavailable = 503 "limit-unavailable" "The limit cannot be checked" Weir Safe,
    /// The process has reached its limit of open file descriptors, apart from the reserve for
    /// error responses.
    DescriptorsExhausted = 503 "descriptors-exhausted" "No file descriptors are available" Weir Safe,
    /// The request cannot be recorded, and `journal.when_full` is `refuse`.
    JournalFull = 503 "journal-full" "The journal is full" Weir Safe,
    /// weir is shutting down.
    ShuttingDown = 503 "shutting-down" "weir is shutting down" Weir Safe,
    /// The upstream's response did not arrive within its time limit.
    UpstreamTimeout = 504 "upstream-timeout" "The upstream did not respond in time" Upstream IfIdempotent,
    /// The request exceeded `limits.request`.
    DeadlineExceeded = 504 "deadline-exceeded" "The request exceeded its time limit" Upstream IfIdempotent,
}

/// Prefix of every problem type.
const TYPE_PREFIX: &str = "urn:weir:problem:";

/// Media types of problem documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemFormat {
    /// `application/problem+json`.
    Json,
    /// `application/problem+xml`.
    Xml,
}

impl ProblemFormat {
    /// Negotiated by `Accept`. JSON if the client accepts neither: a 406 would hide the problem.
    /// `application/xml` includes `application/problem+xml`.
    pub fn negotiated(request: &Headers) -> Self {
        const OFFERED: [(&str, ProblemFormat); 4] = [
            ("application/problem+json", ProblemFormat::Json),
            ("application/json", ProblemFormat::Json),
            ("application/problem+xml", ProblemFormat::Xml),
            ("application/xml", ProblemFormat::Xml),
        ];
        let chosen = negotiate::content_type(request, OFFERED.iter().map(|(name, _)| *name));
        chosen.map_or(Self::Json, |index| OFFERED[index].1)
    }

    /// Content-Type value.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/problem+json",
            Self::Xml => "application/problem+xml",
        }
    }
}

/// Details of one occurrence, without credentials and bodies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail<'a> {
    /// A sentence.
    pub text: Option<&'a str>,
    /// Violations of the OpenAPI document: `errors`.
    pub violations: &'a [Violation],
}

impl Problem {
    /// A time limit ended the request: 408 and 504.
    pub fn is_timeout(self) -> bool {
        matches!(self, Self::RequestTimeout | Self::UpstreamTimeout | Self::DeadlineExceeded)
    }

    /// weir rejected the request: authentication, limit or overload.
    #[must_use]
    pub fn is_rejection(self) -> bool {
        matches!(self.status(), 401 | 403 | 429 | 503)
    }

    /// The problem with a slug.
    #[must_use]
    pub fn of_slug(slug: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|problem| problem.slug() == slug)
    }

    /// Appends the document to `out`.
    ///
    /// `detail` must contain neither credentials nor bodies; `transaction` is the id that is also
    /// sent as `weir-transaction-id`.
    pub fn render(
        self,
        format: ProblemFormat,
        detail: Detail<'_>,
        transaction: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        match format {
            ProblemFormat::Json => self.render_json(detail, transaction, out),
            ProblemFormat::Xml => self.render_xml(detail, transaction, out),
        }
    }

    fn render_json(self, detail: Detail<'_>, transaction: Option<&str>, out: &mut Vec<u8>) {
        let mut json = |before: &str, text: &str, after: &str| {
            out.extend_from_slice(before.as_bytes());
            push_json(text, out);
            out.extend_from_slice(after.as_bytes());
        };
        json("{\"type\":\"urn:weir:problem:", self.slug(), "\"");
        json(",\"title\":\"", self.title(), "\"");
        json(",\"status\":", itoa::Buffer::new().format(self.status()), "");
        if let Some(detail) = detail.text {
            json(",\"detail\":\"", detail, "\"");
        }
        if let Some(transaction) = transaction {
            json(",\"instance\":\"urn:uuid:", transaction, "\"");
            json(",\"transaction\":\"", transaction, "\"");
        }
        json(",\"fault\":\"", self.fault().into(), "\"");
        json(",\"retry\":\"", self.retry().into(), "\"");
        for (i, violation) in detail.violations.iter().enumerate() {
            let before = if i == 0 { ",\"errors\":[{\"in\":\"" } else { ",{\"in\":\"" };
            json(before, violation.place.as_str(), "\"");
            if !violation.name.is_empty() {
                json(",\"name\":\"", &violation.name, "\"");
            }
            json(",\"pointer\":\"#", &violation.pointer, "\"");
            json(",\"detail\":\"", &violation.detail, "\"}");
        }
        let end = if detail.violations.is_empty() { "}\n" } else { "]}\n" };
        out.extend_from_slice(end.as_bytes());
    }

    /// RFC 9457 appendix B.
    fn render_xml(self, detail: Detail<'_>, transaction: Option<&str>, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<problem xmlns=\"urn:ietf:rfc:7807\">",
        );
        let mut element =
            |name: &str, prefix: &str, text: &str| push_element(name, prefix, text, out);
        element("type", TYPE_PREFIX, self.slug());
        element("title", "", self.title());
        element("status", "", itoa::Buffer::new().format(self.status()));
        if let Some(detail) = detail.text {
            element("detail", "", detail);
        }
        if let Some(transaction) = transaction {
            element("instance", "urn:uuid:", transaction);
            element("transaction", "", transaction);
        }
        element("fault", "", self.fault().into());
        element("retry", "", self.retry().into());
        if !detail.violations.is_empty() {
            render_violations(detail.violations, out);
        }
        out.extend_from_slice(b"</problem>\n");
    }
}

fn render_violations(violations: &[Violation], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<errors>");
    for violation in violations {
        out.extend_from_slice(b"<i>");
        let place = violation.place.as_str();
        let members = [("in", place), ("name", &violation.name), ("detail", &violation.detail)];
        for (name, text) in members.into_iter().filter(|(_, text)| !text.is_empty()) {
            push_element(name, "", text, out);
        }
        push_element("pointer", "#", &violation.pointer, out);
        out.extend_from_slice(b"</i>");
    }
    out.extend_from_slice(b"</errors>");
}

fn push_element(name: &str, prefix: &str, text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("<{name}>").as_bytes());
    push_xml(prefix, out);
    push_xml(text, out);
    out.extend_from_slice(format!("</{name}>").as_bytes());
}

/// Appends the content of a JSON string, without the quotes.
fn push_json(text: &str, out: &mut Vec<u8>) {
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend_from_slice(&[b'\\', character as u8]),
            '\u{0}'..='\u{1f}' => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let code = character as usize;
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[DIGITS[code >> 4], DIGITS[code & 15]]);
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Appends XML character data; characters that XML 1.0 excludes become U+FFFD.
fn push_xml(text: &str, out: &mut Vec<u8>) {
    for character in text.chars() {
        match character {
            '&' => out.extend_from_slice(b"&amp;"),
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '\u{0}'..='\u{8}'
            | '\u{b}'
            | '\u{c}'
            | '\u{e}'..='\u{1f}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                out.extend_from_slice("\u{fffd}".as_bytes());
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests;
