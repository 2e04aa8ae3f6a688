//! HTTP/1.1 to targets and agents: a connection carries one request at a time.

mod response;
mod upload;

pub use response::Http1Response;
pub use upload::Http1Upload;

use super::attempt::{Failure, RESPONSE_LIMITS, Reached, Scope};
use super::connection::Connection;
use std::task::{Context, Poll};
use weir_http::console_cookie;
use weir_http::headers::strip_hop_by_hop;
use weir_wire::{Known, ResponseHead, Scan, encode};

/// Maximum number of interim (1xx) responses before the final one.
const MAX_INTERIM: usize = 8;
/// Maximum number of bytes of interim responses for a request: they have to fit into the send
/// buffer of the client's socket.
const MAX_INTERIM_BYTES: usize = 16 * 1024;

/// State of reading the head of a response.
#[derive(Default)]
pub struct HeadReader {
    scan: Scan,
    interim: usize,
}

impl HeadReader {
    fn poll(
        &mut self,
        connection: &mut Connection,
        response: &mut ResponseHead,
        scope: &Scope<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        loop {
            let bytes = connection.buffer.filled();
            match response.parse(bytes, scope.method, &mut self.scan, &RESPONSE_LIMITS) {
                Err(error) => return Poll::Ready(Err(Failure::protocol_error(error.to_string()))),
                Ok(Some(length)) => {
                    connection.buffer.consume(length);
                    self.scan = Scan::new();
                    if response.status >= 200 || (response.status == 101 && scope.upgrade) {
                        return Poll::Ready(Ok(()));
                    }
                    self.interim += 1;
                    if response.status == 101 || self.interim > MAX_INTERIM {
                        return Poll::Ready(Err(Failure::protocol_error(
                            "unexpected interim responses",
                        )));
                    }
                    // weir itself sends `100 (Continue)`.
                    if let Some(interim) = scope.interim.filter(|_| response.status != 100) {
                        pass_interim(response, &mut interim.borrow_mut());
                    }
                    continue;
                }
                Ok(None) => {}
            }
            let is_silent = self.interim == 0 && connection.buffer.is_empty();
            match connection.poll_fill(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => {
                    let reached = if is_silent { Reached::NoResponse } else { Reached::PartOfHead };
                    return Poll::Ready(Err(Failure::Closed(reached)));
                }
                Poll::Ready(Ok(_)) => {}
            }
        }
    }
}

/// Writes an interim response for the client.
fn pass_interim(response: &mut ResponseHead, out: &mut Vec<u8>) {
    strip_hop_by_hop(&mut response.headers, |known| {
        matches!(known, Known::WeirTransactionId | Known::ContentLength)
    });
    console_cookie::strip_response(&mut response.headers);
    let before = out.len();
    encode::status_line(out, response.status);
    encode::fields(out, &response.headers);
    out.extend_from_slice(b"\r\n");
    if out.len() > MAX_INTERIM_BYTES {
        out.truncate(before);
    }
}
