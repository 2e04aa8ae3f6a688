//! One request, as it is described.

use super::{Check, Extractor, Label, StatusSet, Text};
use bytes::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// A request, its answer's checks and what is taken from the answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// Under which name its samples are counted.
    pub label: Label,
    /// The method, upper case.
    pub method: String,
    /// Where to.
    pub url: Url,
    /// Fields as they are sent, in this order. `Host`, `Content-Length` and `Connection` are added
    /// if they are not among them.
    pub headers: Vec<(Text, Text)>,
    /// The body.
    pub body: Body,
    /// The connection is used again.
    pub keep_alive: bool,
    /// HTTP/2: by ALPN over TLS, with prior knowledge otherwise.
    pub http2: bool,
    /// Limits in time.
    pub timeouts: Timeouts,
    /// What a redirect does.
    pub redirects: Redirects,
    /// Statuses that are no errors.
    pub success: StatusSet,
    /// Statuses outside of `success` that are declared: counted apart, neither success nor error.
    pub expected: StatusSet,
    /// Checks of the answer; the first that fails makes the sample fail.
    pub checks: Vec<Check>,
    /// What is taken out of the answer.
    pub extractors: Vec<Extractor>,
    /// The answer's body is decoded (gzip, deflate) and its decoded length counted, which costs
    /// time; checks and extractors that look at the body decode it in any case.
    pub decode: bool,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Url {
    /// Taken apart, with a target (path and query) that may have variables.
    Parts {
        /// Scheme, host and port.
        origin: Origin,
        /// Path and query.
        target: Text,
    },
    /// A whole URL, taken apart each time: for variables in its scheme, host or port.
    Whole(Text),
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
    /// None, and no length either.
    #[default]
    None,
    /// Always the same bytes.
    Bytes(Bytes),
    /// One of these after the other, then the first again; each user begins elsewhere.
    Each(Vec<Bytes>),
    /// Text with variables.
    Text(Text),
    /// `multipart/form-data`; its content type is added.
    Multipart(Vec<Part>),
}

/// A part of a `multipart/form-data` body.
#[derive(Clone, Debug)]
pub enum Part {
    /// A field.
    Field {
        /// Its name.
        name: Text,
        /// Its value.
        value: Text,
        /// Its content type, if one is stated.
        content_type: Option<String>,
    },
    /// A file.
    File {
        /// The field's name.
        name: Text,
        /// What is sent as file name.
        path: PathBuf,
        /// Its content type.
        content_type: String,
        /// What is in it.
        content: Bytes,
    },
}

/// Limits in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To open a connection, with TLS.
    pub connect: Duration,
    /// From the request to the end of its answer.
    pub response: Duration,
}

impl Default for Timeouts {
    /// 10 s to connect, 60 s for the answer.
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), response: Duration::from_secs(60) }
    }
}

/// What a redirect (301, 302, 303, 307, 308 with a `Location`) does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// It is an answer like any other.
    #[default]
    Ignore,
    /// It is followed, at most 20 times; all of it is one sample.
    Follow,
}

impl Request {
    /// A GET of `target` at `origin` with nothing special about it.
    pub fn get(label: Label, origin: Origin, target: Text) -> Self {
        Self {
            label,
            method: "GET".to_owned(),
            url: Url::Parts { origin, target },
            headers: Vec::new(),
            body: Body::None,
            keep_alive: true,
            http2: false,
            timeouts: Timeouts::default(),
            redirects: Redirects::Ignore,
            success: StatusSet::success(),
            expected: StatusSet::none(),
            checks: Vec::new(),
            extractors: Vec::new(),
            decode: false,
        }
    }
}

impl Origin {
    /// Host and port as they stand in a URL and in `Host`: without the scheme's own port.
    pub fn authority(&self) -> String {
        let bracket = self.host.contains(':');
        let (open, close) = if bracket { ("[", "]") } else { ("", "") };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual {
            return format!("{open}{}{close}", self.host);
        }
        format!("{open}{}{close}:{}", self.host, self.port)
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// The absolute URL of a target.
    pub fn url(&self, target: &str) -> String {
        format!("{}://{}{target}", self.scheme(), self.authority())
    }

    /// Takes an absolute URL apart: its origin, and its target as [`target`] makes it. User
    /// information is dropped.
    ///
    /// # Errors
    /// It is none of `http` or `https`, or has no host or no valid port.
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
            None if tls => 443,
            None => 80,
        };
        Ok((Self { tls, host: host.to_owned(), port }, target(path)))
    }
}

/// Why a text is no URL that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Scheme.
    #[error("a URL starts with http:// or https://")]
    Scheme,
    /// Host.
    #[error("the URL has no valid host")]
    Host,
    /// Port.
    #[error("the URL's port is no number from 1 to 65535")]
    Port,
}

/// Path and query as they are sent: without fragment, with a slash in front, and with everything
/// percent-encoded that may not stand in a request line (white space, controls, what is not
/// ASCII). What is encoded already stays as it is.
pub fn target(path: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let path = path.split('#').next().unwrap_or_default();
    let mut target = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        target.push('/');
    }
    for byte in path.bytes() {
        if byte.is_ascii_graphic() {
            target.push(char::from(byte));
        } else {
            target.push('%');
            target.push(char::from(HEX[usize::from(byte >> 4)]));
            target.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    target
}

#[cfg(test)]
mod tests;
