//! Encoding of requests.

use super::authentication::{Authorization, preemptive};
use super::http2;
use super::request_error::RequestError;
use super::uri;
use crate::program::{
    Body, Multipart, Origin, PartContent, Redirects, Request, Scope, Stream, StreamKind, Text, Url,
    target,
};
use bytes::Bytes;
use http_body_util::Full;
use std::borrow::Cow;
use std::path::Path;
use weir_wire::{encode, is_token};

/// A request without variables, encoded before the run.
pub(super) struct Encoded {
    /// Index into the plan's origins.
    pub(super) origin: usize,
    pub(super) url: String,
    pub(super) target: String,
    /// One for each body.
    pub(super) messages: Vec<Message>,
}

/// Head and body, encoded.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    /// Length of the head.
    pub(super) head: usize,
    /// The same for HTTP/2, if encoded before the run.
    pub(super) http2: Option<http::Request<Full<Bytes>>>,
}

impl Message {
    /// Request line and fields.
    pub(super) fn head(&self) -> &[u8] {
        &self.bytes[..self.head]
    }

    /// The body.
    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[self.head..]
    }
}

/// Additions to the fields of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExtraFields<'a> {
    /// Value of `Cookie`.
    pub(super) cookie: Option<&'a str>,
    /// A redirect made it a GET without body.
    pub(super) redirected: bool,
    /// Validators of an earlier response.
    pub(super) validators: Option<&'a Validators>,
    pub(super) authorization: Authorization<'a>,
}

/// Validators of a response, which a cache keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Validators {
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
    /// Fields of `Vary`, and their lines in the request of the response.
    pub(super) vary: Option<(String, Vec<String>)>,
}

impl Validators {
    /// Whether a request selects the same variant.
    pub(super) fn apply_to(&self, head: &[u8]) -> bool {
        self.vary.as_ref().is_none_or(|(names, lines)| varied(head, names) == *lines)
    }
}

/// The lines of these fields in the head of a request. `names` is a value of `Vary`.
pub(super) fn varied(head: &[u8], names: &str) -> Vec<String> {
    let head = String::from_utf8_lossy(head);
    let is_named = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default();
        names.split(',').any(|known| known.trim().eq_ignore_ascii_case(name))
    };
    head.split("\r\n").filter(is_named).map(str::to_owned).collect()
}

/// Separates the parts of a `multipart/form-data` body. Constant, so that a run is reproducible; no
/// part may contain this text.
const BOUNDARY: &str = "weir-lab-7d4a6d158c9b4a4f";

/// Origin and target of the request, with the current values of its variables.
pub(super) fn destination(
    request: &Request,
    scope: &mut Scope<'_>,
) -> Result<(Origin, String), RequestError> {
    let url = match &request.url {
        Url::Parts { origin, target: text } => {
            let text = text.render(scope);
            if request.client.strict {
                uri::check(&origin.url(&text))?;
            }
            return Ok((origin.clone(), target(&text)));
        }
        Url::Absolute(text) => text.render(scope).into_owned(),
        Url::Path { base, path, query } => {
            let path = path.render(scope).replace(' ', "%20");
            if path.starts_with("http://") || path.starts_with("https://") {
                path
            } else {
                let slash = if path.starts_with('/') { "" } else { "/" };
                let query = query.render(scope);
                let mark = match (query.is_empty(), path.contains('?')) {
                    (true, _) => "",
                    (false, true) => "&",
                    (false, false) => "?",
                };
                format!("{}{slash}{path}{mark}{query}", base.render(scope))
            }
        }
    };
    if request.client.strict {
        uri::check(&url)?;
    }
    let shown: String = url.chars().take(200).collect();
    Origin::parse(&url)
        .map_err(|error| RequestError::request(format!("{error}: {shown:?}")).of(&url))
}

/// Encodes a request with its body number `body` into `message`, whose memory is reused.
pub(super) fn write(
    request: &Request,
    destination: (&Origin, &str),
    content: (usize, ExtraFields<'_>),
    scope: &mut Scope<'_>,
    message: &mut Message,
) -> Result<(), RequestError> {
    let written = write_message(request, destination, content, scope, message);
    if written.is_err() {
        // A part of a message, with the length of the head of the message before, is of no use.
        message.bytes.clear();
        message.head = 0;
    }
    written
}

fn write_message(
    request: &Request,
    (origin, target): (&Origin, &str),
    (body, extra): (usize, ExtraFields<'_>),
    scope: &mut Scope<'_>,
    message: &mut Message,
) -> Result<(), RequestError> {
    let out = &mut message.bytes;
    out.clear();
    let method = if extra.redirected { "GET" } else { request.method.as_str() };
    match &request.client.proxy {
        Some(_) if !origin.tls => encode::request_line(out, method, &origin.url(target)),
        _ => encode::request_line(out, method, target),
    }
    let fields = Fields::write(request, extra, scope, out)?;
    if !fields.host {
        encode::field(out, "Host", origin.authority().as_bytes());
    }
    if let Some(cookie) = extra.cookie.filter(|_| !fields.cookie) {
        encode::field(out, "Cookie", cookie.as_bytes());
    }
    if !fields.authorization && !request.client.credentials.is_empty() {
        let value = match extra.authorization {
            Authorization::Answer(value) => value.map(Cow::Borrowed),
            Authorization::Preemptive => {
                preemptive(&request.client.credentials, (origin, target), scope).map(Cow::Owned)
            }
        };
        if let Some(value) = value {
            encode::field(out, "Authorization", value.as_bytes());
        }
    }
    if request.client.proxy.is_some() && !origin.tls {
        encode::field(out, "Proxy-Connection", b"Keep-Alive");
    }
    if let Some(validators) = extra.validators.filter(|v| v.apply_to(out)) {
        for (name, value) in
            [("If-Modified-Since", &validators.last_modified), ("If-None-Match", &validators.etag)]
        {
            if let Some(value) = value {
                encode::field(out, name, value.as_bytes());
            }
        }
    }
    if !request.keep_alive && !fields.connection {
        encode::field(out, "Connection", b"close");
    }
    let none = Body::None;
    let description = if extra.redirected { &none } else { &request.body };
    let content = content(description, body, scope)?;
    if let Body::Multipart(multipart) = description
        && !fields.content_type
    {
        let charset = multipart.encoding.name();
        let value = format!("multipart/form-data; boundary={BOUNDARY}; charset={charset}");
        encode::field(out, "Content-Type", value.as_bytes());
    }
    if let Some(body_type) = &request.client.body_type
        && !fields.content_type
        && !extra.redirected
    {
        encode::field(out, "Content-Type", body_type.as_bytes());
    }
    if let Some(content) = &content
        && !fields.length
    {
        encode::content_length(out, content.len() as u64);
    }
    out.extend_from_slice(b"\r\n");
    message.head = out.len();
    if let Some(content) = &content {
        out.extend_from_slice(content);
    }
    Ok(())
}

impl Message {
    /// The request of HTTP/2, encoded before the run or now.
    pub(super) fn http2(
        &self,
        origin: &Origin,
        target: &str,
    ) -> Result<http::Request<Full<Bytes>>, RequestError> {
        self.http2.clone().map_or_else(|| self.to_http2(origin, target), Ok)
    }

    /// The message as a request of HTTP/2.
    pub(super) fn to_http2(
        &self,
        origin: &Origin,
        target: &str,
    ) -> Result<http::Request<Full<Bytes>>, RequestError> {
        let (head, body) = self.bytes.split_at(self.head);
        let authority = origin.authority();
        let url = (origin.scheme(), authority.as_str(), target);
        http2::request(head, url, Bytes::copy_from_slice(body))
    }
}

/// Fields that the request defines itself.
#[derive(Default)]
struct Fields {
    host: bool,
    connection: bool,
    content_type: bool,
    length: bool,
    cookie: bool,
    authorization: bool,
}

impl Fields {
    fn write(
        request: &Request,
        extra: ExtraFields<'_>,
        scope: &mut Scope<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, RequestError> {
        let mut fields = Self::default();
        for (name, value) in &request.headers {
            let name = name.render(scope);
            let value = value.render(scope);
            let value = value.trim_matches([' ', '\t']);
            let valid = |byte: u8| byte == b'\t' || !byte.is_ascii_control();
            if name.is_empty() || !name.bytes().all(is_token) || !value.bytes().all(valid) {
                let shown: String = name.chars().take(100).collect();
                return Err(RequestError::request(format!(
                    "the header field {shown:?} is invalid"
                )));
            }
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            let keeps_type = request.redirects == Redirects::FollowAsGet;
            if extra.redirected && (is("content-type") && !keeps_type || is("content-length")) {
                continue;
            }
            if let Some(cookie) = extra.cookie.filter(|_| is("cookie")) {
                // The jar replaces the field.
                if !std::mem::replace(&mut fields.cookie, true) {
                    encode::field(out, "Cookie", cookie.as_bytes());
                }
                continue;
            }
            fields.host |= is("host");
            fields.connection |= is("connection");
            fields.content_type |= is("content-type");
            fields.authorization |= is("authorization");
            fields.length |= is("content-length") || is("transfer-encoding");
            encode::field(out, &name, value.as_bytes());
        }
        Ok(fields)
    }
}

/// The body's bytes; `None` is no body.
fn content<'a>(
    body: &'a Body,
    number: usize,
    scope: &mut Scope<'_>,
) -> Result<Option<Cow<'a, [u8]>>, RequestError> {
    Ok(Some(match body {
        Body::None => return Ok(None),
        Body::Bytes(bytes) => Cow::Borrowed(bytes),
        Body::Cycle(all) => {
            Cow::Borrowed(all.get(number % all.len().max(1)).map_or(&[], |bytes| bytes))
        }
        Body::Text(text) => match text.render(scope) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
        Body::Encoded(text, encoding) => {
            Cow::Owned(encoding.encode(&text.render(scope)).into_owned())
        }
        Body::Multipart(body) => Cow::Owned(multipart(body, scope)?),
        Body::File(file) => Cow::Owned(read(&file.path(scope), scope)?.into()),
    }))
}

fn read(path: &Path, scope: &Scope<'_>) -> Result<Bytes, RequestError> {
    scope.state.file(path).map_err(|error| RequestError::request(error.to_string()))
}

/// RFC 7578, with names quoted as browsers do it.
fn multipart(body: &Multipart, scope: &mut Scope<'_>) -> Result<Vec<u8>, RequestError> {
    let mut out = String::new().into_bytes();
    let quoted = |text: &str| {
        let text = text.replace('\\', r"\\").replace('"', "\\\"");
        text.replace('\r', "\\\r").replace('\n', " ")
    };
    for part in &body.parts {
        let name = quoted(&part.name.render(scope));
        let (path, bytes) = match &part.content {
            PartContent::Text(_) => (None, None),
            PartContent::File(path, bytes) => (Some(Cow::Borrowed(path)), Some(bytes.clone())),
            PartContent::Named(file) => {
                let path = file.path(scope);
                let bytes = read(&path, scope)?;
                (Some(Cow::Owned(path)), Some(bytes))
            }
        };
        let file = path.map_or_else(String::new, |path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            format!("; filename=\"{}\"", quoted(&file))
        });
        out.extend_from_slice(
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n")
                .as_bytes(),
        );
        if !part.content_type.is_empty() {
            encode::field(&mut out, "Content-Type", part.content_type.as_bytes());
        }
        if !part.transfer.is_empty() {
            encode::field(&mut out, "Content-Transfer-Encoding", part.transfer.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        if let PartContent::Text(value) = &part.content {
            out.extend_from_slice(&body.encoding.encode(&value.render(scope)));
        }
        out.extend_from_slice(&bytes.unwrap_or_default());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    Ok(out)
}

/// Whether a request has no variables.
pub(super) fn is_fixed(request: &Request) -> bool {
    let fixed = |text: &Text| text.as_fixed().is_some();
    let url = match &request.url {
        Url::Parts { target, .. } => fixed(target),
        Url::Absolute(text) => fixed(text),
        Url::Path { .. } => false,
    };
    let credentials = request.client.credentials.iter();
    let mut credentials = credentials.flat_map(|c| [&c.url, &c.user, &c.password, &c.realm]);
    let body = match &request.body {
        Body::None | Body::Bytes(_) => true,
        Body::Cycle(all) => !all.is_empty(),
        Body::Text(text) | Body::Encoded(text, _) => fixed(text),
        Body::File(_) => false,
        Body::Multipart(body) => body.parts.iter().all(|part| {
            let is_fixed = match &part.content {
                PartContent::Text(value) => fixed(value),
                PartContent::File(..) => true,
                PartContent::Named(_) => false,
            };
            fixed(&part.name) && is_fixed
        }),
    };
    let stream = match request.stream.as_deref() {
        // The message is part of what was sent, also if it is framed later.
        Some(Stream { kind: StreamKind::Grpc(call), .. }) => call.is_fixed(),
        _ => true,
    };
    url && body
        && stream
        && credentials.all(fixed)
        && request.headers.iter().all(|(name, value)| fixed(name) && fixed(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Label, Program, State, Values};

    #[test]
    fn a_message_that_cannot_be_encoded_is_empty() {
        let program = Program::default();
        let state = State::new(&program);
        let mut values = Values::new(&program, &state, 0, 0, 1);
        let mut scope = Scope { program: &program, state: &state, values: &mut values };
        let origin = Origin { tls: false, host: "h".to_owned(), port: 80 };
        let mut request = Request::get(Label(0), origin.clone(), Text::fixed("/"));
        let mut message = Message::default();
        let mut encode = |request: &Request, message: &mut Message| {
            let content = (0, ExtraFields::default());
            write(request, (&origin, "/"), content, &mut scope, message).is_ok()
        };
        assert!(encode(&request, &mut message));
        assert_eq!(message.head(), b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        request.headers = vec![(Text::fixed("a"), Text::fixed("b\nc"))];
        assert!(!encode(&request, &mut message));
        assert_eq!((message.head(), message.body()), (&b""[..], &b""[..]));
    }
}
