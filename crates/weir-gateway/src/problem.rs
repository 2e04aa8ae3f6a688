//! Problem documents (RFC 9457): what a client is told when weir itself answers with an error.
//!
//! Every problem has a stable type, says who is at fault and whether sending the same request again
//! is safe. `docs/reference/problems.md` lists them all; a test keeps it so.

use crate::negotiate;
use weir_config::validation::Violation;
use weir_wire::Headers;

/// Who has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is not acceptable as it is.
    Client,
    /// weir, or its operator.
    Weir,
    /// The server behind weir.
    Upstream,
}

impl Fault {
    /// As written in documents: `client`, `weir` or `upstream`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Weir => "weir",
            Self::Upstream => "upstream",
        }
    }
}

/// Whether the same request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It would be refused again.
    Pointless,
    /// Nothing was done with it: it may be sent again, after `Retry-After` if that is given.
    Safe,
    /// The upstream may have acted on it: only if doing it twice does no harm.
    IfIdempotent,
}

impl Retry {
    /// As written in documents: `pointless`, `safe` or `if-idempotent`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pointless => "pointless",
            Self::Safe => "safe",
            Self::IfIdempotent => "if-idempotent",
        }
    }
}

macro_rules! problems {
    ($($(#[$doc:meta])+ $name:ident = $status:literal $slug:literal $title:literal $fault:ident $retry:ident,)+) => {
        /// Everything weir itself answers with an error.
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

            /// The last part of the type, `urn:weir:problem:<slug>`; stable, and fit for a metrics
            /// label.
            pub fn slug(self) -> &'static str {
                match self { $(Self::$name => $slug,)+ }
            }

            /// Short summary, the same for every occurrence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }

            /// Who is at fault.
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
    /// The bytes are not an acceptable HTTP request; the detail says which rule is broken.
    BadRequest = 400 "bad-request" "Malformed request" Client Pointless,
    /// Servers read the path in more than one way, and the route does not take such paths
    /// (`path_normalization`).
    AmbiguousPath = 400 "ambiguous-path" "Ambiguous path" Client Pointless,
    /// The body ended before it was whole, or its coding is malformed.
    BadBody = 400 "bad-body" "Malformed request body" Client Pointless,
    /// A route that maps its request body got something that is not JSON.
    MalformedJson = 400 "malformed-json" "The request body is not valid JSON" Client Pointless,
    /// A route that maps its request body got XML that cannot be read.
    MalformedXml = 400 "malformed-xml" "The request body is not readable XML" Client Pointless,
    /// The JSON is well formed, but the route's map cannot be applied to it.
    UnmappableBody = 422 "unmappable-body" "The request body cannot be mapped" Client Pointless,
    /// Parameters or body of the request are not as the API's description says; `errors` tells
    /// where and why.
    InvalidRequest = 400 "invalid-request" "The request does not match the API's description" Client Pointless,
    /// The route needs a credential and there is none.
    MissingCredential = 401 "missing-credential" "A credential is required" Client Pointless,
    /// The Authorization header, or the API key, is given more than once or in an unknown form.
    MalformedCredential = 401 "malformed-credential" "The credential is malformed" Client Pointless,
    /// The token's time is over.
    TokenExpired = 401 "token-expired" "The token has expired" Client Pointless,
    /// The token's time has not come.
    TokenNotYetValid = 401 "token-not-yet-valid" "The token is not valid yet" Client Pointless,
    /// The token's signature is wrong.
    TokenSignature = 401 "token-signature" "The token's signature is invalid" Client Pointless,
    /// No key of weir's fits the token.
    TokenKey = 401 "token-key" "The token is signed with an unknown key" Client Pointless,
    /// The token is signed with an algorithm that is not accepted.
    TokenAlgorithm = 401 "token-algorithm" "The token's algorithm is not accepted" Client Pointless,
    /// The token is from another issuer.
    TokenIssuer = 401 "token-issuer" "The token's issuer is not accepted" Client Pointless,
    /// The token is for somebody else.
    TokenAudience = 401 "token-audience" "The token is for another audience" Client Pointless,
    /// The token lacks a claim that is required.
    TokenClaim = 401 "token-claim" "The token lacks a required claim" Client Pointless,
    /// The authorization server says that the token is none, or none any more.
    TokenInactive = 401 "token-inactive" "The token is not active" Client Pointless,
    /// The client's certificate has no name of the kind that the `auth` asks for.
    CertificateName = 401 "certificate-name" "The certificate does not name its owner" Client Pointless,
    /// The client's certificate has expired since the connection began.
    CertificateExpired = 401 "certificate-expired" "The certificate has expired" Client Pointless,
    /// The API key is not known.
    UnknownApiKey = 401 "unknown-api-key" "The API key is not known" Client Pointless,
    /// The credential is good but may not do this.
    Forbidden = 403 "forbidden" "Not allowed" Client Pointless,
    /// Requests from the client's address are not let in.
    AddressRefused = 403 "address-refused" "Not allowed from this address" Client Pointless,
    /// The token lacks a scope that is required.
    InsufficientScope = 403 "insufficient-scope" "The token lacks a required scope" Client Pointless,
    /// The route's connections do not become WebSockets.
    UpgradeRefused = 403 "upgrade-refused" "There is no WebSocket here" Client Pointless,
    /// No API answers to this host.
    UnknownHost = 404 "unknown-host" "No API answers to this host" Client Pointless,
    /// No route has this path.
    NoRoute = 404 "no-route" "No route has this path" Client Pointless,
    /// The folder that is served has no such file.
    NoFile = 404 "no-file" "No such file" Client Pointless,
    /// The path exists, but not with this method; `Allow` names those that do.
    MethodNotAllowed = 405 "method-not-allowed" "The method is not allowed on this path" Client Pointless,
    /// None of the formats offered is acceptable.
    NotAcceptable = 406 "not-acceptable" "No acceptable representation" Client Pointless,
    /// The request did not arrive in time.
    RequestTimeout = 408 "request-timeout" "The request took too long to arrive" Client Safe,
    /// The file is not in the state that the client names (`If-Match`, `If-Unmodified-Since`).
    PreconditionFailed = 412 "precondition-failed" "A precondition does not hold" Client Pointless,
    /// The body is larger than allowed.
    BodyTooLarge = 413 "body-too-large" "The request body is too large" Client Pointless,
    /// The request target is longer than allowed.
    UrlTooLong = 414 "url-too-long" "The URL is too long" Client Pointless,
    /// The route maps JSON and got another content type or coding.
    UnsupportedMediaType = 415 "unsupported-media-type" "The content type is not supported" Client Pointless,
    /// Nothing of the file lies in the range asked for; `Content-Range` says how long it is.
    RangeNotSatisfiable = 416 "range-not-satisfiable" "The range is not satisfiable" Client Pointless,
    /// An `Expect` other than `100-continue`.
    ExpectationFailed = 417 "expectation-failed" "The expectation cannot be met" Client Pointless,
    /// The request head is larger than allowed, or has too many fields.
    HeadersTooLarge = 431 "headers-too-large" "The request headers are too large" Client Pointless,
    /// A rate limit is exhausted; `Retry-After` says for how long.
    RateLimited = 429 "rate-limited" "Too many requests" Client Safe,
    /// Too many credentials from the client's address have failed; `Retry-After` says when another
    /// is verified (`limits.failed_authentication`).
    AuthenticationThrottled = 429 "authentication-throttled" "Too many failed authentications" Client Safe,
    /// The plan's quota is used up; `Retry-After` says when the next period begins.
    QuotaExhausted = 429 "quota-exhausted" "The quota is used up" Client Safe,
    /// A fault in weir itself.
    Internal = 500 "internal" "Internal error" Weir IfIdempotent,
    /// A file is there and cannot be read: permissions, the disk, or too many open files.
    FileUnreadable = 500 "file-unreadable" "The file cannot be read" Weir Safe,
    /// A script threw, gave something that cannot be sent, or waits for what will never come. What
    /// it threw is in the log and in the Tracker.
    ScriptFailed = 500 "script-failed" "The script failed" Weir IfIdempotent,
    /// A script was stopped because it used more CPU time than it may.
    ScriptStopped = 500 "script-stopped" "The script took too long" Weir IfIdempotent,
    /// The method is not one HTTP/1.1 servers implement here (CONNECT).
    NotImplemented = 501 "not-implemented" "Not implemented" Client Pointless,
    /// No connection to the upstream could be made.
    UpstreamUnreachable = 502 "upstream-unreachable" "The upstream cannot be reached" Upstream Safe,
    /// The upstream's answer is not acceptable HTTP.
    UpstreamGarbage = 502 "upstream-garbage" "The upstream's answer is malformed" Upstream IfIdempotent,
    /// The upstream closed the connection before its answer was whole.
    UpstreamClosed = 502 "upstream-closed" "The upstream broke off" Upstream IfIdempotent,
    /// The upstream's answer cannot be mapped: it is not JSON, or too large.
    UpstreamUnmappable = 502 "upstream-unmappable" "The upstream's answer cannot be mapped" Upstream IfIdempotent,
    /// One of the route's `calls` was answered with a status, or a body, that it cannot use, and has no
    /// fallback.
    CallFailed = 502 "call-failed" "A call that the answer needs has failed" Upstream IfIdempotent,
    /// The answer is larger than the route allows.
    AnswerTooLarge = 502 "answer-too-large" "The answer is too large" Upstream IfIdempotent,
    /// The handler's answer is not as the API's description says, and answers are held to that. What
    /// is wrong with it is in the Tracker.
    InvalidAnswer = 502 "invalid-answer" "The answer does not match the API's description" Upstream IfIdempotent,
    /// The upstream has as many connections as it may.
    UpstreamBusy = 503 "upstream-busy" "The upstream is busy" Upstream Safe,
    /// Every agent of the pool has a request, and as many requests wait, or this one has waited as
    /// long, as may; `Retry-After` says when to come again.
    PoolBusy = 503 "pool-busy" "Every agent is busy" Upstream Safe,
    /// No agent of the pool can be started; `Retry-After` says when that is tried again.
    PoolUnavailable = 503 "pool-unavailable" "There is no agent" Upstream Safe,
    /// The engine of the script used up its memory; every call it had in flight gets this.
    ScriptMemory = 503 "script-memory" "The script engine ran out of memory" Weir IfIdempotent,
    /// The route's script was stopped three times in a minute and is not called for a while.
    ScriptSuspended = 503 "script-suspended" "The script is suspended" Weir Safe,
    /// The script has a thread of its own, which has as many calls as it takes.
    ScriptBusy = 503 "script-busy" "The script is busy" Weir Safe,
    /// The keys that verify tokens are fetched from a URL, and it gives none.
    KeysUnavailable = 503 "keys-unavailable" "The keys that verify tokens are not available" Weir Safe,
    /// The authorization server that tokens are asked about gives no answer, or too many questions
    /// are under way.
    IntrospectionUnavailable = 503 "introspection-unavailable" "The token cannot be verified now" Weir Safe,
    /// The process has as many file descriptors open as it may, or only those left that are kept in
    /// reserve for saying so.
    DescriptorsExhausted = 503 "descriptors-exhausted" "No file descriptor is free" Weir Safe,
    /// The request could not be recorded, and the journal is to refuse such.
    JournalFull = 503 "journal-full" "The journal is full" Weir Safe,
    /// weir is stopping.
    ShuttingDown = 503 "shutting-down" "Shutting down" Weir Safe,
    /// The upstream did not answer in time.
    UpstreamTimeout = 504 "upstream-timeout" "The upstream took too long" Upstream IfIdempotent,
    /// The whole request took longer than it may.
    DeadlineExceeded = 504 "deadline-exceeded" "The request took too long" Upstream IfIdempotent,
}

/// What every problem type starts with.
const TYPE_PREFIX: &str = "urn:weir:problem:";

/// The media types a problem can be sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemFormat {
    /// `application/problem+json`.
    Json,
    /// `application/problem+xml`.
    Xml,
}

impl ProblemFormat {
    /// By the request's `Accept`; JSON when it accepts neither, since an error about an error helps
    /// nobody. A client that accepts `application/xml` means this kind, too.
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

/// What tells one occurrence of a problem apart. Neither holds credentials or bodies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail<'a> {
    /// A sentence.
    pub text: Option<&'a str>,
    /// Where and how the request does not match: `errors`.
    pub violations: &'a [Violation],
}

impl Problem {
    /// A time limit ended the request: 408 and 504.
    pub(crate) fn is_late(self) -> bool {
        matches!(self, Self::RequestTimeout | Self::UpstreamTimeout | Self::DeadlineExceeded)
    }

    /// weir turned the request away: who calls is not let in, a limit is used up, or there is no
    /// room for the request now.
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
    /// `detail` tells this occurrence apart and must hold neither credentials nor bodies;
    /// `transaction` is the id that is sent as `weir-transaction-id`, too.
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
        let mut digits = [0; 3];
        json(",\"status\":", status_digits(self.status(), &mut digits), "");
        if let Some(detail) = detail.text {
            json(",\"detail\":\"", detail, "\"");
        }
        if let Some(transaction) = transaction {
            json(",\"instance\":\"urn:uuid:", transaction, "\"");
            json(",\"transaction\":\"", transaction, "\"");
        }
        json(",\"fault\":\"", self.fault().as_str(), "\"");
        json(",\"retry\":\"", self.retry().as_str(), "\"");
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
        let mut element = |name: &str, prefix: &str, text: &str| {
            out.extend_from_slice(b"<");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b">");
            push_xml(prefix, out);
            push_xml(text, out);
            out.extend_from_slice(b"</");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b">");
        };
        element("type", TYPE_PREFIX, self.slug());
        element("title", "", self.title());
        let mut digits = [0; 3];
        element("status", "", status_digits(self.status(), &mut digits));
        if let Some(detail) = detail.text {
            element("detail", "", detail);
        }
        if let Some(transaction) = transaction {
            element("instance", "urn:uuid:", transaction);
            element("transaction", "", transaction);
        }
        element("fault", "", self.fault().as_str());
        element("retry", "", self.retry().as_str());
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
            out.extend_from_slice(format!("<{name}>").as_bytes());
            push_xml(text, out);
            out.extend_from_slice(format!("</{name}>").as_bytes());
        }
        out.extend_from_slice(b"<pointer>#");
        push_xml(&violation.pointer, out);
        out.extend_from_slice(b"</pointer></i>");
    }
    out.extend_from_slice(b"</errors>");
}

fn status_digits(status: u16, digits: &mut [u8; 3]) -> &str {
    for (digit, scale) in digits.iter_mut().zip([100, 10, 1]) {
        *digit = b'0' + (status / scale % 10) as u8;
    }
    std::str::from_utf8(digits).unwrap_or("500")
}

/// The text as it stands between the quotes of a JSON string.
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

/// The text as XML character data; characters XML 1.0 cannot hold become U+FFFD.
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
