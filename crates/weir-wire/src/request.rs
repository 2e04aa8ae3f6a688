//! Request heads.

use crate::head::Headers;
use crate::scan::{self, HeadError, HeadLimits, MAX_FIELDS, Scan};
use crate::{Framing, Known, Version};
use std::fmt;
use std::mem::MaybeUninit;

/// A request method; methods are case-sensitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET.
    #[default]
    Get,
    /// HEAD.
    Head,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
    /// PATCH.
    Patch,
    /// OPTIONS.
    Options,
    /// TRACE.
    Trace,
    /// CONNECT.
    Connect,
    /// Any other token; [`RequestHead::method_name`] has it.
    Other,
}

impl Method {
    /// Recognises a method.
    pub fn of(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "PATCH" => Self::Patch,
            "OPTIONS" => Self::Options,
            "TRACE" => Self::Trace,
            "CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// Whether sending the request twice does no more than sending it once (RFC 9110 9.2.2).
    pub fn is_idempotent(self) -> bool {
        matches!(
            self,
            Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace
        )
    }
}

/// A request head. Reusable: parsing into it again keeps its memory.
#[derive(Clone, Default)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The version.
    pub version: Version,
    /// The fields.
    pub headers: Headers,
    /// How the end of the body is found; never [`Framing::UntilClose`].
    pub framing: Framing,
    /// Whether the client would use the connection again.
    pub keep_alive: bool,
    /// Text of method, target path with query, and authority: not in `headers`' buffer, so that
    /// a head can also be built from HTTP/2.
    text: String,
    method_len: usize,
    target_len: usize,
    /// Of the target, up to the query.
    path_len: usize,
}

impl RequestHead {
    /// The method as text.
    pub fn method_name(&self) -> &str {
        &self.text[..self.method_len]
    }

    /// Path and query (origin form), or `*`.
    pub fn target(&self) -> &str {
        &self.text[self.method_len..self.method_len + self.target_len]
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.target()[..self.path_len]
    }

    /// The query without its question mark, undecoded.
    pub fn query(&self) -> Option<&str> {
        self.target().get(self.path_len + 1..)
    }

    /// Host and port the client asked for: of an absolute target, else of the Host header.
    /// Empty on HTTP/1.0 without Host.
    pub fn authority(&self) -> &str {
        &self.text[self.method_len + self.target_len..]
    }

    /// The authority, and the headers to change meanwhile.
    pub fn authority_and_headers(&mut self) -> (&str, &mut Headers) {
        (&self.text[self.method_len + self.target_len..], &mut self.headers)
    }

    /// Starts a head that does not come from HTTP/1 bytes; headers are pushed by the caller.
    pub fn set_line(&mut self, method: &str, target: &str, authority: &str) {
        self.text.clear();
        self.text.push_str(method);
        self.text.push_str(target);
        self.text.push_str(authority);
        self.method = Method::of(method);
        self.method_len = method.len();
        self.target_len = target.len();
        self.path_len = target.find('?').unwrap_or(target.len());
    }

    /// Replaces the path, for instance by its normal form; the query stays.
    pub fn set_path(&mut self, path: &str) {
        let old = self.path().len();
        self.text.replace_range(self.method_len..self.method_len + old, path);
        self.target_len = self.target_len - old + path.len();
        self.path_len = path.len();
    }

    /// Parses a request head at the start of `bytes`, as far as `scan` has not yet looked.
    /// Gives the number of bytes it took; `None` asks for more bytes.
    ///
    /// # Errors
    /// The head can never be valid, or is over a limit.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        scan: &mut Scan,
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        let read = scan.advance(bytes, limits).and_then(|found| {
            let Some((start, end)) = found else { return Ok(None) };
            self.read(&bytes[start..end], limits).map(|()| Some(end))
        });
        if read.is_err() {
            // Nothing of this head or of the one before it may be taken for a request.
            self.clear();
        }
        read
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.set_line("GET", "/", "");
        self.version = Version::Http11;
        self.headers.clear();
        self.framing = Framing::None;
        self.keep_alive = false;
    }

    fn read(&mut self, head: &[u8], limits: &HeadLimits) -> Result<(), HeadError> {
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut parsed = httparse::Request::new(&mut []);
        let status =
            parsed.parse_with_uninit_headers(head, &mut fields).map_err(scan::parse_error)?;
        let complete = status == httparse::Status::Complete(head.len());
        let (true, Some(method), Some(target), Some(minor)) =
            (complete, parsed.method, parsed.path, parsed.version)
        else {
            return Err(HeadError::StartLine);
        };
        self.version = if minor == 0 { Version::Http10 } else { Version::Http11 };
        scan::take_fields(&mut self.headers, head, parsed.headers);
        if target.len() > limits.target {
            return Err(HeadError::TargetTooLong);
        }
        let host = host(&self.headers, self.version)?;
        let (target, authority) = split_target(method, target, host)?;
        // Borrowed from the head itself, so `text` may be rewritten.
        let authority = std::str::from_utf8(authority).map_err(|_| HeadError::HostInvalid)?;
        self.text.clear();
        self.text.push_str(method);
        if !target.starts_with(['/', '*']) {
            self.text.push('/');
        }
        self.text.push_str(target);
        self.method_len = method.len();
        self.target_len = self.text.len() - method.len();
        self.path_len = self.target().find('?').unwrap_or(self.target_len);
        self.text.push_str(authority);
        self.method = Method::of(method);
        self.framing = scan::framing(&self.headers, self.version)?.unwrap_or(Framing::None);
        self.keep_alive = scan::keep_alive(&self.headers, self.version);
        Ok(())
    }

    /// Whether the client waits for `100 Continue`: `Some(false)` is an expectation that cannot
    /// be met (417). One from HTTP/1.0 is ignored (RFC 9110 section 10.1.1).
    pub fn expects_continue(&self) -> Option<bool> {
        if self.version == Version::Http10 {
            return None;
        }
        let mut met = None;
        for expect in self.headers.known_all(Known::Expect) {
            met = Some(met != Some(false) && expect.eq_ignore_ascii_case(b"100-continue"));
        }
        met
    }
}

/// Without the query, which may hold a key; see [`Headers`] for the fields.
impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead")
            .field("method", &self.method_name())
            .field("path", &self.path())
            .field("authority", &self.authority())
            .field("version", &self.version)
            .field("headers", &self.headers)
            .field("framing", &self.framing)
            .field("keep_alive", &self.keep_alive)
            .finish_non_exhaustive()
    }
}

/// The one valid Host; empty on HTTP/1.0 without one.
fn host(headers: &Headers, version: Version) -> Result<&[u8], HeadError> {
    let mut hosts = headers.known_all(Known::Host);
    let Some(host) = hosts.next() else {
        return match version {
            Version::Http11 => Err(HeadError::HostMissing),
            Version::Http10 => Ok(b""),
        };
    };
    if hosts.next().is_some() {
        return Err(HeadError::HostRepeated);
    }
    if is_authority(host) { Ok(host) } else { Err(HeadError::HostInvalid) }
}

/// Takes a target apart into path with query, and authority (RFC 9112 section 3.2).
fn split_target<'a>(
    method: &str,
    target: &'a str,
    host: &'a [u8],
) -> Result<(&'a str, &'a [u8]), HeadError> {
    if !target.bytes().all(|b| matches!(b, 0x21..=0x7e) && b != b'#') {
        return Err(HeadError::Target);
    }
    if method == "CONNECT" {
        // Without a port there is nothing to connect to (RFC 9112 section 3.2.3).
        let port = target.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        return if port && !target.ends_with(':') && is_authority(target.as_bytes()) {
            Ok(("/", target.as_bytes()))
        } else {
            Err(HeadError::Target)
        };
    }
    if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        return Ok((target, host));
    }
    let (scheme, rest) = target.split_once("://").ok_or(HeadError::Target)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(HeadError::Target);
    }
    // The target's authority stands in for Host (RFC 9112 section 3.2.2).
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if !is_authority(authority.as_bytes()) {
        return Err(HeadError::HostInvalid);
    }
    // Section 3.2.4: so a client asks a proxy about the server as a whole.
    let whole_server = path.is_empty() && method == "OPTIONS";
    Ok((if whole_server { "*" } else { path }, authority.as_bytes()))
}

/// `host`, `host:port` or `[v6]:port`, without user information (RFC 3986 section 3.2).
fn is_authority(text: &[u8]) -> bool {
    let (host, port) = if text.first() == Some(&b'[') {
        let Some(close) = memchr::memchr(b']', text) else { return false };
        let address = std::str::from_utf8(&text[1..close]).unwrap_or("");
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return false;
        }
        match text.get(close + 1) {
            None => return true,
            Some(b':') => (&text[..=close], &text[close + 2..]),
            Some(_) => return false,
        }
    } else {
        match memchr::memchr(b':', text) {
            None => (text, &b""[..]),
            Some(colon) => (&text[..colon], &text[colon + 1..]),
        }
    };
    let port_ok = port.len() <= 5
        && port.iter().all(u8::is_ascii_digit)
        && (port.is_empty() || scan_port(port) <= 65_535);
    let host_ok = host.first() == Some(&b'[')
        || (!host.is_empty()
            && host.len() <= 255
            && host.iter().all(|&b| {
                b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'!' | b'$')
            }));
    host_ok && port_ok
}

fn scan_port(port: &[u8]) -> u32 {
    port.iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0'))
}

#[cfg(test)]
mod tests;
