//! Encoding of requests.

use super::http2;
use super::request_error::RequestError;
use super::uri;
use crate::program::{
    Body, Credentials, Multipart, Origin, PartContent, Redirects, Request, Scope, Text, Url, target,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
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

/// Additions to the fields of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExtraFields<'a> {
    /// Value of `Cookie`.
    pub(super) cookie: Option<&'a str>,
    /// A redirect made it a GET without body.
    pub(super) redirected: bool,
    /// Validators of an earlier response.
    pub(super) validators: Option<&'a Validators>,
}

/// Validators of a response, which a cache keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Validators {
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
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

/// `Authorization` for a URL.
fn authorization(
    credentials: &[Credentials],
    (origin, target): (&Origin, &str),
    scope: &mut Scope<'_>,
) -> Option<String> {
    let url = origin.url(target);
    // JMeter compares with and without the default port of the scheme.
    let with_port = format!("{}://{}:{}{target}", origin.scheme(), origin.host, origin.port);
    let found = credentials.iter().find(|credentials| {
        let start = credentials.url.render(scope);
        url.starts_with(&*start) || with_port.starts_with(&*start)
    })?;
    let pair = format!("{}:{}", found.user.render(scope), found.password.render(scope));
    Some(format!("Basic {}", STANDARD.encode(pair)))
}

/// Encodes a request with its body number `body` into `message`, whose memory is reused.
pub(super) fn write(
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
    if !fields.authorization
        && let Some(value) = authorization(&request.client.credentials, (origin, target), scope)
    {
        encode::field(out, "Authorization", value.as_bytes());
    }
    if request.client.proxy.is_some() && !origin.tls {
        encode::field(out, "Proxy-Connection", b"Keep-Alive");
    }
    if let Some(validators) = extra.validators {
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
    let content = content(description, body, scope);
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
) -> Option<std::borrow::Cow<'a, [u8]>> {
    use std::borrow::Cow;
    match body {
        Body::None => None,
        Body::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
        Body::Cycle(all) => {
            Some(Cow::Borrowed(all.get(number % all.len().max(1)).map_or(&[], |bytes| bytes)))
        }
        Body::Text(text) => Some(match text.render(scope) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }),
        Body::Encoded(text, encoding) => {
            Some(Cow::Owned(encoding.encode(&text.render(scope)).into_owned()))
        }
        Body::Multipart(body) => Some(Cow::Owned(multipart(body, scope))),
    }
}

/// RFC 7578, with names quoted as browsers do it.
fn multipart(body: &Multipart, scope: &mut Scope<'_>) -> Vec<u8> {
    let mut out = String::new().into_bytes();
    let quoted = |text: &str| {
        let text = text.replace('\\', r"\\").replace('"', "\\\"");
        text.replace('\r', "\\\r").replace('\n', " ")
    };
    for part in &body.parts {
        let name = quoted(&part.name.render(scope));
        let file = match &part.content {
            PartContent::Text(_) => String::new(),
            PartContent::File(path, _) => {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                format!("; filename=\"{}\"", quoted(&file))
            }
        };
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
        match &part.content {
            PartContent::Text(value) => {
                out.extend_from_slice(&body.encoding.encode(&value.render(scope)));
            }
            PartContent::File(_, bytes) => out.extend_from_slice(bytes),
        }
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    out
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
    let mut credentials = credentials.flat_map(|c| [&c.url, &c.user, &c.password]);
    let body = match &request.body {
        Body::None | Body::Bytes(_) => true,
        Body::Cycle(all) => !all.is_empty(),
        Body::Text(text) | Body::Encoded(text, _) => fixed(text),
        Body::Multipart(body) => body.parts.iter().all(|part| {
            let has_variable = matches!(&part.content, PartContent::Text(value) if !fixed(value));
            fixed(&part.name) && !has_variable
        }),
    };
    url && body
        && credentials.all(fixed)
        && request.headers.iter().all(|(name, value)| fixed(name) && fixed(value))
}
