//! HTTP/2, including gRPC: each request is a stream of a connection shared by several clients. The
//! task of the connection reads and writes frames; the client's own task does the rest.

mod response;
mod streams;
mod upload;

pub(crate) use response::Http2Response;
pub(super) use streams::Http2Connections;
use streams::StreamPermit;
pub use upload::{Http2Upload, TrailerFilter};

use super::attempt::{Failure, Reached};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{Request, header};
use weir_wire::{Framing, Method, ResponseHead};

/// A stream of a connection, for one request.
pub struct Http2Channel {
    permit: StreamPermit,
    send: SendRequest<Bytes>,
    /// The head, until it is sent.
    head: Option<Request<()>>,
    /// Some once the head is sent.
    response: Option<ResponseFuture>,
}

impl Http2Channel {
    /// The failure that an error means for the request.
    fn failed(&self, error: &h2::Error) -> Failure {
        if error.is_io() || error.is_go_away() {
            self.permit.abandon();
        }
        let is_local = error.is_library() && !error.is_io();
        match error.reason() {
            // RFC 9113 section 8.7.
            Some(Reason::REFUSED_STREAM) => Failure::Closed(Reached::Unprocessed),
            Some(Reason::NO_ERROR) if error.is_go_away() && error.is_remote() => {
                Failure::Closed(Reached::Unprocessed)
            }
            Some(reason) if is_local => Failure::protocol_error(reason.description().to_owned()),
            _ => Failure::Closed(Reached::NoResponse),
        }
    }
}

/// The head of a response in the form that the stages process.
fn read_head(
    parts: &http::response::Parts,
    incoming: &RecvStream,
    method: Method,
    response: &mut ResponseHead,
) {
    response.clear();
    response.status = parts.status.as_u16();
    for (name, value) in &parts.headers {
        response.headers.push(name.as_str(), value.as_bytes());
    }
    let length = parts.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    response.framing = match length {
        _ if incoming.is_end_stream() || method == Method::Head => Framing::None,
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    };
}
