//! Encoding records into fields.

use super::field::{MAX_FIELD_BYTES, put};
use super::{BodyMetadata, Completed, Discarded, Received};
use weir_model::Attempt;

fn put_pair(out: &mut Vec<u8>, tag: u8, (name, value): (&str, &str)) -> bool {
    let length = 2 + name.len() + value.len();
    let Ok(name_length) = u16::try_from(name.len()) else { return false };
    if length > MAX_FIELD_BYTES {
        return false;
    }
    out.extend_from_slice(&((length as u32) << 8 | u32::from(tag)).to_le_bytes());
    out.extend_from_slice(&name_length.to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value.as_bytes());
    true
}

fn put_body(out: &mut Vec<u8>, tag: u8, body: &BodyMetadata) {
    if *body == BodyMetadata::default() {
        return;
    }
    let mut bytes = [0; 33];
    bytes[..8].copy_from_slice(&body.length.to_le_bytes());
    bytes[8..16].copy_from_slice(&body.stored.to_le_bytes());
    // The upper five bits are the reason for withholding; for a stored body, whether it was
    // redacted.
    bytes[16] = u8::from(body.truncated)
        | u8::from(body.withheld.is_some()) << 1
        | u8::from(body.aborted) << 2
        | body.withheld.map_or(u8::from(body.masked), |why| why as u8) << 3;
    bytes[17..].copy_from_slice(&body.hash);
    put(out, tag, &bytes);
}

/// Start and duration `u32` each, status `u16`, length of the error `u8`, error, target.
fn put_attempt(out: &mut Vec<u8>, attempt: &Attempt) -> bool {
    let Attempt { target, started_us, duration_us, status, error } = attempt;
    let Ok(error_length) = u8::try_from(error.len()) else { return false };
    let mut bytes = Vec::with_capacity(11 + error.len() + target.len());
    bytes.extend_from_slice(&started_us.to_le_bytes());
    bytes.extend_from_slice(&duration_us.to_le_bytes());
    bytes.extend_from_slice(&status.to_le_bytes());
    bytes.push(error_length);
    bytes.extend_from_slice(error.as_bytes());
    bytes.extend_from_slice(target.as_bytes());
    put(out, 52, &bytes)
}

impl Received<'_> {
    /// Appends the fields; false if one is too long.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> bool {
        put(out, 1, &self.id)
            && put(out, 2, &self.received_us.to_le_bytes())
            && put(out, 3, self.api.as_bytes())
            && put(out, 4, self.operation.as_bytes())
            && put(out, 5, self.transaction_type.as_bytes())
            && put(out, 6, self.consumer.as_bytes())
            && put(out, 7, self.principal.as_bytes())
            && put(out, 8, self.client.as_bytes())
            && put(out, 9, self.method.as_bytes())
            && put(out, 10, self.target.as_bytes())
            && put(out, 11, self.head)
            && put(out, 12, &[self.level])
            && put(out, 13, self.plan.as_bytes())
            && (self.counted == 0 || put(out, 14, &[self.counted]))
            && (self.resubmission_of == [0; 16] || put(out, 15, &self.resubmission_of))
            && put(out, 16, self.auth.as_bytes())
            && put(out, 17, self.scopes.as_bytes())
            && (!self.https || put(out, 18, &[1]))
    }
}

impl Completed<'_> {
    /// Appends the fields; false if one is too long.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> bool {
        encode_end(out, self);
        if self.retries > 0 {
            put(out, 48, &[self.retries]);
        }
        if let Some(possible_end) = self.possible_end {
            put(out, 49, &possible_end.to_bits().to_le_bytes());
        }
        if self.shortened {
            put(out, 44, &[1]);
        }
        put_body(out, 37, &self.request);
        put_body(out, 38, &self.response);
        for (code, duration) in self.stages {
            let [a, b, c, d] = duration.to_le_bytes();
            put(out, 36, &[*code, a, b, c, d]);
        }
        put(out, 33, self.problem.as_bytes())
            && put(out, 50, self.detail.as_bytes())
            && put(out, 34, self.upstream.as_bytes())
            && put(out, 51, self.upstream_target.as_bytes())
            && put(out, 54, self.configuration.as_bytes())
            && self.attempts.iter().all(|attempt| put_attempt(out, attempt))
            && put(out, 35, self.head)
            && put(out, 39, self.request_body)
            && put(out, 40, self.response_body)
            && self.keys.iter().all(|pair| put_pair(out, 41, *pair))
            && self.properties.iter().all(|pair| put_pair(out, 42, *pair))
            && self.logs.iter().all(|line| put(out, 43, line.as_bytes()))
    }

    /// Appends at most what fits into the space reserved for the end of an open transaction.
    pub(crate) fn encode_short(&self, out: &mut Vec<u8>) {
        encode_end(out, self);
        put(out, 44, &[1]);
    }
}

fn encode_end(out: &mut Vec<u8>, end: &Completed<'_>) {
    let [a, b] = end.status.to_le_bytes();
    put(out, 32, &[end.outcome as u8, a, b]);
    if end.problem_status != 0 {
        put(out, 53, &end.problem_status.to_le_bytes());
    }
    if end.discarded != Discarded::Nothing {
        put(out, 47, &[end.discarded as u8]);
    }
}
