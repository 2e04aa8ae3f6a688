//! Description of a request.

use super::{
    AfterScripts, Check, Extractor, FileName, Label, PostProcessor, StatusSet, Stream, Text,
};
use crate::charset::Charset;
use crate::pattern::Pattern;
use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A request, with the checks and extractors of its response.
#[derive(Clone, Debug)]
pub struct Request {
    /// Label of its samples, unless it changes.
    pub label: Label,
    /// Label that is evaluated for each sample.
    pub name: Option<Text>,
    /// The method in upper case.
    pub method: String,
    /// The URL.
    pub url: Url,
    /// Fields in the sent order. `Host`, `Content-Length` and `Connection` are added unless
    /// present.
    pub headers: Vec<(Text, Text)>,
    /// The body.
    pub body: Body,
    /// Reuse the connection.
    pub keep_alive: bool,
    /// HTTP/2: by ALPN over TLS, with prior knowledge otherwise.
    pub http2: bool,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Behaviour after a redirect.
    pub redirects: Redirects,
    /// Successful statuses.
    pub success: StatusSet,
    /// Expected statuses outside of `success`: counted separately, neither success nor error.
    pub expected: StatusSet,
    /// Checks of the response; the first failed one fails the sample.
    pub checks: Vec<Check>,
    /// Extractors of the response.
    pub extractors: Vec<Extractor>,
    /// Extractors of JMeter, before the checks.
    pub post_processors: Vec<PostProcessor>,
    /// Scripts after the sample.
    pub scripts: Option<Box<AfterScripts>>,
    /// Options of JMeter plans.
    pub client: ClientOptions,
    /// The response is a stream of messages, on a connection of its own.
    pub stream: Option<Arc<Stream>>,
    /// Decode the body of the response (gzip, deflate) and count its decoded length, which costs
    /// time. Checks and extractors of the body always decode.
    pub decode: bool,
}

/// Options of a request of a JMeter plan.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// Content type of the body unless a field has one; not sent without the body.
    pub body_type: Option<String>,
    /// Illegal characters in the URL are an error, as for Java's `URI`; otherwise they are encoded.
    pub strict: bool,
    /// Only the last request of redirects is counted in bytes.
    pub counts_last: bool,
    /// The body of the response becomes its MD5.
    pub md5: bool,
    /// No cookies are kept or sent.
    pub without_cookies: bool,
    /// Credentials by the starts of URLs; the first one counts.
    pub credentials: Vec<Credentials>,
    /// Validators of earlier responses are sent.
    pub cache: Option<CacheOptions>,
    /// Resources of pages are requested, too.
    pub resources: Option<Resources>,
    /// Addresses by host names, instead of those of the system.
    pub hosts: Vec<(String, String)>,
    /// Host and port of an HTTP proxy.
    pub proxy: Option<(String, u16)>,
    /// Local address of connections.
    pub source: Option<IpAddr>,
}

/// Resources of a page that are requested with it.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// Only URLs that this expression matches.
    pub allowed: Option<Pattern>,
    /// No URLs that this expression matches.
    pub excluded: Option<Pattern>,
    /// Most requests at the same time; up to 1: one after the other.
    pub parallel: usize,
}

/// Credentials for URLs.
#[derive(Clone)]
pub struct Credentials {
    /// Start of the URLs.
    pub url: Text,
    /// Name of the user.
    pub user: Text,
    /// Password.
    pub password: Text,
    /// Only for this realm, unless empty.
    pub realm: Text,
    /// Basic credentials are sent before a server asks for them.
    pub is_preemptive: bool,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No secret.
        f.debug_struct("Credentials").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Options of a cache of validators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// A response that has not expired is not requested again, and there is no sample.
    pub expires: bool,
    /// Emptied at the start of each iteration.
    pub each_iteration: bool,
}

/// URL of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Url {
    /// Parsed, with a target (path and query) that may have variables.
    Parts {
        /// Scheme, host and port.
        origin: Origin,
        /// Path and query.
        target: Text,
    },
    /// An absolute URL, parsed each time: for variables in its scheme, host or port.
    Absolute(Text),
    /// A path that starts with a variable, which may have an absolute URL.
    Path {
        /// Scheme, host and port.
        base: Text,
        /// The path.
        path: Text,
        /// The query.
        query: Text,
    },
}

impl Url {
    /// An absolute URL, parsed now if it has no variables.
    ///
    /// # Errors
    /// A text without variables is no URL, with the reason.
    pub(crate) fn absolute(url: Text) -> Result<Self, String> {
        let Some(fixed) = url.as_fixed() else { return Ok(Self::Absolute(url)) };
        match Origin::parse(fixed) {
            Ok((origin, target)) => Ok(Self::Parts { origin, target: Text::fixed(target) }),
            Err(error) => Err(format!("`{fixed}` is not a URL: {error}")),
        }
    }
}

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// `https`.
    pub tls: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The body of a request.
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// None, and no length.
    #[default]
    None,
    /// Constant bytes.
    Bytes(Bytes),
    /// These bodies in turn, cyclically; each user starts at another one.
    Cycle(Vec<Bytes>),
    /// Text with variables.
    Text(Text),
    /// Text with variables in another encoding than UTF-8.
    Encoded(Text, Charset),
    /// `multipart/form-data`; its content type is added.
    Multipart(Multipart),
    /// A file whose name is known when it is sent.
    File(FileName),
}

/// A `multipart/form-data` body.
#[derive(Clone, Debug)]
pub struct Multipart {
    /// Its parts.
    pub parts: Vec<Part>,
    /// Encoding of texts, which the content type names.
    pub encoding: Charset,
}

impl From<Text> for Body {
    fn from(text: Text) -> Self {
        match text.as_fixed() {
            Some(fixed) => Self::Bytes(Bytes::copy_from_slice(fixed.as_bytes())),
            None => Self::Text(text),
        }
    }
}

/// A part of a `multipart/form-data` body.
#[derive(Clone, Debug)]
pub struct Part {
    /// Name of the field.
    pub name: Text,
    /// Content type; empty without one.
    pub content_type: String,
    /// The content.
    pub content: PartContent,
    /// `Content-Transfer-Encoding`; empty without one.
    pub transfer: &'static str,
}

/// Content of a [`Part`].
#[derive(Clone, Debug)]
pub enum PartContent {
    /// The value of a field.
    Text(Text),
    /// A file: its path, of which the name is sent, and its bytes.
    File(PathBuf, Bytes),
    /// A file whose name is known when it is sent.
    Named(FileName),
}

/// Timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Time to open a connection, including TLS.
    pub connect: Duration,
    /// Time from the request to the end of its response; also the limit of a TLS handshake, in which the
    /// server has to respond as well.
    pub response: Duration,
}

impl Default for Timeouts {
    /// 10 s to connect, 60 s for the response.
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), response: Duration::from_secs(60) }
    }
}

/// Behaviour after a redirect (301, 302, 303, 307, 308 with a `Location`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Redirects {
    /// Treat it as any other response.
    #[default]
    Ignore,
    /// Follow, at most 20 times, as one sample.
    Follow,
    /// The same as JMeter does it: always with GET (or HEAD), and not after 307 of other methods.
    #[strum(disabled)]
    FollowAsGet,
}

impl Request {
    /// A GET of `target` at `origin` with default settings.
    pub fn get(label: Label, origin: Origin, target: Text) -> Self {
        Self {
            label,
            name: None,
            method: "GET".to_owned(),
            url: Url::Parts { origin, target },
            headers: Vec::new(),
            body: Body::None,
            keep_alive: true,
            http2: false,
            timeouts: Timeouts::default(),
            redirects: Redirects::Ignore,
            success: StatusSet::success(),
            expected: StatusSet::default(),
            checks: Vec::new(),
            extractors: Vec::new(),
            post_processors: Vec::new(),
            scripts: None,
            client: ClientOptions::default(),
            stream: None,
            decode: false,
        }
    }
}

impl Origin {
    /// Host and port as in a URL and in `Host`: without the default port of the scheme.
    pub fn authority(&self) -> String {
        match self.port == Self::default_port(self.tls) {
            true => self.bracketed_host(),
            false => self.host_and_port(),
        }
    }

    /// Host and port, also the default one.
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.bracketed_host(), self.port)
    }

    /// The host; an address of IPv6 has brackets (RFC 3986, section 3.2.2).
    fn bracketed_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    /// The default port of a scheme.
    pub(crate) fn default_port(tls: bool) -> u16 {
        if tls { 443 } else { 80 }
    }

    /// Whether the host is this machine by its name or address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let is_loopback = |ip: std::net::IpAddr| ip.is_loopback();
        self.host == "localhost" || self.host.parse().is_ok_and(is_loopback)
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// The absolute URL of a target.
    pub fn url(&self, target: &str) -> String {
        format!("{}://{}{target}", self.scheme(), self.authority())
    }

    /// Parses an absolute URL: its origin, and its target as made by [`target`]. User information
    /// is dropped.
    ///
    /// # Errors
    /// The scheme is not `http` or `https`, or the host is missing or the port is invalid.
    pub fn parse(url: &str) -> Result<(Self, String), UrlError> {
        let (scheme, rest) = url.trim().split_once("://").ok_or(UrlError::Scheme)?;
        let tls = match scheme {
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ => return Err(UrlError::Scheme),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let authority = authority.rsplit_once('@').map_or(authority, |(_, behind)| behind);
        let (host, port) = match authority.strip_prefix('[') {
            Some(behind) => {
                let (host, port) = behind.split_once(']').ok_or(UrlError::Host)?;
                (host, port.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let bad = |c: char| c.is_whitespace() || c.is_control() || "[]\\<>\"{}|^`".contains(c);
        if host.is_empty() || host.contains(bad) {
            return Err(UrlError::Host);
        }
        let port = match port.filter(|port| !port.is_empty()) {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or(UrlError::Port)?,
            None => Self::default_port(tls),
        };
        Ok((Self { tls, host: host.to_owned(), port }, target(path)))
    }
}

/// Why a URL is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Scheme.
    #[error("a URL starts with http:// or https://")]
    Scheme,
    /// Host.
    #[error("the URL has no valid host")]
    Host,
    /// Port.
    #[error("the URL's port is not a number from 1 to 65535")]
    Port,
}

/// Path and query as sent: without fragment, with a leading slash, percent-encoded where necessary
/// (white space, control characters, non-ASCII). Existing encoding stays.
pub fn target(path: &str) -> String {
    const ENCODED: &AsciiSet = &CONTROLS.add(b' ');
    let path = path.split('#').next().unwrap_or_default();
    let mut target = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        target.push('/');
    }
    target.extend(utf8_percent_encode(path, ENCODED));
    target
}

#[cfg(test)]
mod tests;
