//! The upstream request, and its head for each protocol.

use http::{HeaderMap, HeaderValue, Request, Uri, header};
use weir_http::headers;
use weir_http::write_buffer::WriteBuffer;
use weir_telemetry::spans::AttemptSpan;
use weir_telemetry::trace_context::TraceContext;
use weir_wire::{Framing, Headers, Known, Method, encode};

/// A request with final headers, encoded separately for each target.
#[derive(Clone, Copy)]
pub struct OutboundRequest<'r> {
    /// Method.
    pub method: Method,
    /// Method as text.
    pub method_name: &'r str,
    /// Path and query.
    pub target: &'r str,
    /// `Host` or `:authority`, if not the authority of the target.
    pub host: Option<&'r str>,
    /// All headers except `Host` and those that frame the body.
    pub headers: &'r Headers,
    /// Protocol of the requested upgrade. HTTP/1.1 only.
    pub upgrade: Option<&'r str>,
    /// Whether the client accepts trailers. HTTP/2 only.
    pub trailers: bool,
    /// Whether this is a gRPC call: its `grpc-status` is counted.
    pub is_grpc: bool,
}

impl<'r> OutboundRequest<'r> {
    /// A request without upgrade, trailers and gRPC.
    pub fn new(
        method: Method,
        method_name: &'r str,
        target: &'r str,
        headers: &'r Headers,
    ) -> Self {
        Self {
            method,
            method_name,
            target,
            host: None,
            headers,
            upgrade: None,
            trailers: false,
            is_grpc: false,
        }
    }

    /// The head for HTTP/1.1. `authority` is that of the target, `span` that of the attempt.
    pub fn http1(
        &self,
        authority: &str,
        framing: Framing,
        span: Option<&AttemptSpan>,
    ) -> WriteBuffer {
        let mut out = WriteBuffer::default();
        let head = out.head();
        encode::request_line(head, self.method_name, self.target);
        encode::field(head, "host", self.host.unwrap_or(authority).as_bytes());
        if let Some(protocol) = self.upgrade {
            encode::field(head, "connection", b"upgrade");
            encode::field(head, "upgrade", protocol.as_bytes());
        }
        match span.and_then(AttemptSpan::traceparent) {
            None => encode::fields(head, self.headers),
            Some(own) => {
                let others = self.headers.iter().filter(|field| field.0 != Known::Traceparent);
                others.for_each(|(_, name, value)| encode::field(head, name, value));
                encode::field(head, "traceparent", own.as_str().as_bytes());
            }
        }
        match framing {
            Framing::None | Framing::UntilClose => {}
            Framing::Length(length) => encode::content_length(head, length),
            Framing::Chunked => encode::field(head, "transfer-encoding", b"chunked"),
        }
        head.extend_from_slice(b"\r\n");
        out
    }

    /// The head for HTTP/2, without headers that HTTP/2 does not permit. `None` if the head would
    /// be invalid.
    pub(super) fn http2(
        &self,
        scheme: &str,
        authority: &str,
        framing: Framing,
        span: Option<&AttemptSpan>,
    ) -> Option<Request<()>> {
        let authority = self.host.unwrap_or(authority);
        let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(self.target);
        let mut request = Request::new(());
        *request.method_mut() = http::Method::from_bytes(self.method_name.as_bytes()).ok()?;
        *request.uri_mut() = uri.build().ok()?;
        *request.version_mut() = http::Version::HTTP_2;
        *request.headers_mut() = self.http2_headers(span.and_then(AttemptSpan::traceparent))?;
        let headers = request.headers_mut();
        if self.trailers {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        if let Framing::Length(length) = framing {
            headers.insert(header::CONTENT_LENGTH, length.into());
        }
        Some(request)
    }

    fn http2_headers(&self, own: Option<TraceContext>) -> Option<HeaderMap> {
        let mut map = HeaderMap::try_with_capacity(self.headers.len() + 2).ok()?;
        for field in self.headers.iter() {
            if own.is_none() || field.0 != Known::Traceparent {
                headers::put_http2(&mut map, field).ok()?;
            }
        }
        if let Some(own) = own {
            let value = own.as_str().as_bytes();
            headers::put_http2(&mut map, (Known::Traceparent, "traceparent", value)).ok()?;
        }
        Some(map)
    }
}
