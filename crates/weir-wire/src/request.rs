//! Request heads.

use crate::head::Headers;
use crate::scan::{self, HeadError, HeadLimits, Scan, is_token};
use crate::{Framing, Known, Version};
use std::fmt;

/// A request method; methods are case-sensitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, strum::EnumString)]
#[strum(serialize_all = "UPPERCASE")]
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
    /// The method of this name.
    pub fn of(name: &str) -> Self {
        name.parse().unwrap_or(Self::Other)
    }

    /// Whether the method is idempotent (RFC 9110 section 9.2.2).
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
    /// How the end of the body is determined; never [`Framing::UntilClose`].
    pub framing: Framing,
    /// Whether the client keeps the connection open.
    pub keep_alive: bool,
    /// Method, target path with query, and authority. Not in the buffer of `headers`, so that a
    /// head can also be built from HTTP/2.
    text: String,
    method_len: usize,
    target_len: usize,
    /// Length of the target's path.
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

    /// Host and port of the request: of an absolute target, otherwise of the Host header. Empty for
    /// HTTP/1.0 without Host.
    pub fn authority(&self) -> &str {
        &self.text[self.method_len + self.target_len..]
    }

    /// The authority, and the headers for modification.
    pub fn authority_and_headers(&mut self) -> (&str, &mut Headers) {
        (&self.text[self.method_len + self.target_len..], &mut self.headers)
    }

    /// Starts a head that does not come from HTTP/1 bytes; the caller adds the headers.
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

    /// Starts a head of HTTP/2 (RFC 9113 section 8.3.1) with the rules of HTTP/1.1: `target` is
    /// `:path`, `authority` is `:authority`, `hosts` are the Host fields. The host becomes the
    /// first field; the caller adds the others.
    ///
    /// # Errors
    /// Target or host are invalid in HTTP/1.1, or Host and `:authority` differ. Only the method is
    /// kept then.
    pub fn set_http2_line<'h>(
        &mut self,
        method: &str,
        target: &str,
        authority: Option<&'h str>,
        hosts: impl Iterator<Item = &'h [u8]>,
    ) -> Result<(), HeadError> {
        self.clear();
        match http2_authority(Method::of(method), target, authority, hosts) {
            Ok(authority) => {
                self.set_line(method, target, authority);
                self.headers.push_known(Known::Host, authority.as_bytes());
                Ok(())
            }
            Err(error) => {
                self.set_line(method, "", "");
                Err(error)
            }
        }
    }

    /// The framing that the fields of an HTTP/2 head declare; `None` if they declare none.
    ///
    /// # Errors
    /// Content-Length or Transfer-Encoding are invalid in HTTP/1.1.
    pub fn declared_framing(&self) -> Result<Option<Framing>, HeadError> {
        scan::framing(&self.headers, Version::Http11)
    }

    /// Replaces the path, for instance by its normalised form; the query stays.
    pub fn set_path(&mut self, path: &str) {
        let old = self.path().len();
        self.text.replace_range(self.method_len..self.method_len + old, path);
        self.target_len = self.target_len - old + path.len();
        self.path_len = path.len();
    }

    /// Parses a request head at the start of `bytes`. Call again with more bytes: the progress is
    /// in `scan` and `self`. Returns the length of the head; `None` if more bytes are needed.
    ///
    /// # Errors
    /// The head is invalid, or exceeds a limit.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        scan: &mut Scan,
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        let read = self.read(bytes, scan, limits);
        if read.is_err() {
            // Neither this head nor the one before may be used as a request.
            self.clear();
        }
        read
    }

    fn read(
        &mut self,
        bytes: &[u8],
        scan: &mut Scan,
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        let started = scan.skip_empty_lines(bytes)?
            && scan.start_line(bytes, limits, |line| self.read_line(line, limits))?;
        if !started {
            return Ok(None);
        }
        let Some((_, end)) = scan.fields(bytes, limits, &mut self.headers)? else {
            return Ok(None);
        };
        self.read_authority()?;
        self.framing = scan::framing(&self.headers, self.version)?.unwrap_or(Framing::None);
        self.keep_alive = scan::keep_alive(&self.headers, self.version)?;
        Ok(Some(end))
    }

    /// Clears the head, keeps the memory.
    pub fn clear(&mut self) {
        self.set_line("GET", "/", "");
        self.version = Version::Http11;
        self.headers.clear();
        self.framing = Framing::None;
        self.keep_alive = false;
    }

    /// Parses the request line at the start of `bytes` (RFC 9112 section 3) if it is complete;
    /// returns its length.
    fn read_line(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<Option<usize>, HeadError> {
        let Some(method) = bytes.iter().position(|&byte| !is_token(byte)) else {
            return Ok(None);
        };
        let target = &bytes[method + 1..];
        let space = memchr::memchr(b' ', target);
        let control = scan::find_control(&target[..space.unwrap_or(target.len())]);
        let length = (control < target.len()).then_some(control);
        let stop = if bytes[method] == b' ' && method > 0 {
            let Some(length) = length else { return Ok(None) };
            target[length]
        } else {
            bytes[method]
        };
        match (stop, length) {
            (b' ', Some(1..)) if method > 0 => {}
            (b'\n', _) => return Err(HeadError::BareLf),
            _ => return Err(HeadError::StartLine),
        }
        let length = length.unwrap_or_default();
        let target = &target[..length];
        if length > limits.target {
            return Err(HeadError::TargetTooLong);
        }
        let before_version = method + 1 + length + 1;
        let Some((version, end)) = scan::version(&bytes[before_version..])? else {
            return Ok(None);
        };
        match &bytes[before_version + end..] {
            [b'\r', b'\n', ..] => {}
            [] | [b'\r'] => return Ok(None),
            [b'\r', _, ..] => return Err(HeadError::BareCr),
            [b'\n', ..] => return Err(HeadError::BareLf),
            _ => return Err(HeadError::StartLine),
        }
        // A URI is ASCII; `read_authority` checks the rest.
        let text = std::str::from_utf8(&bytes[..method + 1 + length]);
        let text = text.ok().filter(|text| text.is_ascii()).ok_or(HeadError::Target)?;
        self.headers.clear();
        self.text.clear();
        self.text.push_str(&text[..method]);
        self.text.push_str(&text[method + 1..]);
        self.method = Method::of(&text[..method]);
        self.method_len = method;
        self.target_len = target.len();
        self.version = version;
        Ok(Some(before_version + end + 2))
    }

    /// Finds the authority in the target or in Host and stores it after the target, which then has
    /// only path and query (RFC 9112 section 3.2).
    fn read_authority(&mut self) -> Result<(), HeadError> {
        let host = host(&self.headers, self.version)?;
        self.path_len = path_length(self.target())?;
        if self.target().starts_with('/') && self.method != Method::Connect {
            self.text.push_str(host);
            return Ok(());
        }
        let (target, authority) = split_target(self.method, self.target(), host)?;
        let slash = if target.starts_with(['/', '*']) { "" } else { "/" };
        let (method, target) = (self.method_name().to_owned(), format!("{slash}{target}"));
        let authority = authority.to_owned();
        self.set_line(&method, &target, &authority);
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

/// Bytes of the path in a target: up to the query. A fragment is for the client alone.
fn path_length(target: &str) -> Result<usize, HeadError> {
    let Some(end) = scan::find_either(target.as_bytes(), b'?', b'#') else {
        return Ok(target.len());
    };
    let fragment = memchr::memchr(b'#', &target.as_bytes()[end..]);
    if fragment.is_some() { Err(HeadError::Target) } else { Ok(end) }
}

/// The one valid Host; empty on HTTP/1.0 without one.
fn host(headers: &Headers, version: Version) -> Result<&str, HeadError> {
    match single_host(headers.known_all(Known::Host))? {
        Some(host) => Ok(host),
        None if version == Version::Http10 => Ok(""),
        None => Err(HeadError::HostMissing),
    }
}

/// The valid Host, if there is one at all.
fn single_host<'h>(
    mut hosts: impl Iterator<Item = &'h [u8]>,
) -> Result<Option<&'h str>, HeadError> {
    let Some(host) = hosts.next() else { return Ok(None) };
    if hosts.next().is_some() {
        return Err(HeadError::HostRepeated);
    }
    let host = std::str::from_utf8(host).map_err(|_| HeadError::HostInvalid)?;
    if is_authority(host) { Ok(Some(host)) } else { Err(HeadError::HostInvalid) }
}

/// The authority that a head of HTTP/2 is for, if the head is valid.
fn http2_authority<'h>(
    method: Method,
    target: &str,
    authority: Option<&'h str>,
    hosts: impl Iterator<Item = &'h [u8]>,
) -> Result<&'h str, HeadError> {
    let named = single_host(hosts)?;
    let requested = authority.or(named).ok_or(HeadError::HostMissing)?;
    if !is_authority(requested) {
        return Err(HeadError::HostInvalid);
    }
    if named.is_some_and(|named| !named.eq_ignore_ascii_case(requested)) {
        return Err(HeadError::HostDiffers);
    }
    if method == Method::Connect {
        split_target(method, requested, requested)?;
        return Ok(requested);
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(HeadError::Target);
    }
    path_length(target)?;
    // An absolute target is for HTTP/1 only: here authority and scheme have fields of their own.
    let is_path = target.starts_with('/') || (target == "*" && method == Method::Options);
    if is_path { Ok(requested) } else { Err(HeadError::Target) }
}

/// Takes a target that is no path apart into path with query, and authority (RFC 9112 section 3.2).
fn split_target<'a>(
    method: Method,
    target: &'a str,
    host: &'a str,
) -> Result<(&'a str, &'a str), HeadError> {
    if method == Method::Connect {
        // Without a port there is nothing to connect to (RFC 9112 section 3.2.3).
        let port = target.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let valid = port && !target.ends_with(':') && is_authority(target);
        return if valid { Ok(("/", target)) } else { Err(HeadError::Target) };
    }
    if target == "*" && method == Method::Options {
        return Ok((target, host));
    }
    let (scheme, rest) = target.split_once("://").ok_or(HeadError::Target)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(HeadError::Target);
    }
    // The target's authority stands in for Host (RFC 9112 section 3.2.2).
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if !is_authority(authority) {
        return Err(HeadError::HostInvalid);
    }
    // Section 3.2.4: the form of a request to a proxy for `OPTIONS *`.
    let whole_server = path.is_empty() && method == Method::Options;
    Ok((if whole_server { "*" } else { path }, authority))
}

/// `host`, `host:port` or `[v6]:port`, without user information (RFC 3986 section 3.2).
fn is_authority(text: &str) -> bool {
    let name_end = if let Some(rest) = text.strip_prefix('[') {
        let Some((address, _)) = rest.split_once(']') else { return false };
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return false;
        }
        address.len() + 2
    } else {
        let others = text.bytes().position(|byte| !HOST[usize::from(byte)]);
        let length = others.unwrap_or(text.len());
        if length == 0 || length > 255 {
            return false;
        }
        length
    };
    match text.as_bytes()[name_end..].split_first() {
        None => true,
        Some((b':', port)) => {
            port.len() <= 5
                && port.iter().all(u8::is_ascii_digit)
                && port.iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0')) <= 65_535
        }
        Some(_) => false,
    }
}

/// Bytes a host name may have.
static HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let other = matches!(byte as u8, b'-' | b'.' | b'_' | b'~' | b'!' | b'$');
        table[byte] = (byte as u8).is_ascii_alphanumeric() || other;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests;
