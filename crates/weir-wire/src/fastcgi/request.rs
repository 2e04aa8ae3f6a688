//! Encoding the records of a request.

use super::record::{Header, MAX_CONTENT_BYTES};
use super::{ParamsWriter, REQUEST_ID, kind};

/// The responder role (section 6.2), the only one that weir uses.
const RESPONDER: u8 = 1;

/// Appends the start of a request. With `keep` the agent keeps the connection open after it.
pub fn begin(out: &mut Vec<u8>, keep: bool) {
    record(out, kind::BEGIN_REQUEST, REQUEST_ID, &[0, RESPONDER, u8::from(keep), 0, 0, 0, 0, 0]);
}

/// Appends a part of the request body; nothing for empty data, which would end the body.
pub fn stdin(out: &mut Vec<u8>, data: &[u8]) {
    for chunk in data.chunks(MAX_CONTENT_BYTES) {
        record(out, kind::STDIN, REQUEST_ID, chunk);
    }
}

/// Appends the end of the request body.
pub fn stdin_end(out: &mut Vec<u8>) {
    record(out, kind::STDIN, REQUEST_ID, &[]);
}

/// Appends a request to abort (section 5.4).
pub fn abort(out: &mut Vec<u8>) {
    record(out, kind::ABORT_REQUEST, REQUEST_ID, &[]);
}

/// Appends a query of the agent's limits (section 4.1), to which any running agent responds.
pub fn get_values(out: &mut Vec<u8>) {
    let mut names = ParamsWriter::new(out);
    names.push("FCGI_MPXS_CONNS", b"");
    names.finish(kind::GET_VALUES, 0);
}

fn record(out: &mut Vec<u8>, kind: u8, request: u16, content: &[u8]) {
    let header = Header { kind, request, length: content.len() as u16, padding: 0 };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(content);
}
