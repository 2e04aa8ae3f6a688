//! The fields of a record: a `u32` with the tag in the lowest 8 bits and the length in the upper 24,
//! then the value.

use super::Discarded;
use crate::format::Kind;

/// Longest value of a field.
pub(super) const MAX_FIELD_BYTES: usize = (1 << 24) - 1;

pub(super) fn put(out: &mut Vec<u8>, tag: u8, value: &[u8]) -> bool {
    if value.is_empty() {
        return true;
    }
    if value.len() > MAX_FIELD_BYTES {
        return false;
    }
    out.extend_from_slice(&((value.len() as u32) << 8 | u32::from(tag)).to_le_bytes());
    out.extend_from_slice(value);
    true
}

/// Appends a value of any length, in several fields if needed.
pub(crate) fn put_long(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    for chunk in value.chunks(MAX_FIELD_BYTES) {
        put(out, tag, chunk);
    }
}

/// Passes each field of a payload with its tag, value and encoded form; false at the end if the
/// rest is malformed.
pub(crate) fn fields<'a>(
    mut payload: &'a [u8],
    mut each: impl FnMut(u8, &'a [u8], &'a [u8]),
) -> bool {
    while let Some((head, rest)) = payload.split_first_chunk::<4>() {
        let head = u32::from_le_bytes(*head);
        let length = (head >> 8) as usize;
        let Some(value) = rest.get(..length) else { return false };
        each(head as u8, value, &payload[..4 + length]);
        payload = &rest[length..];
    }
    payload.is_empty()
}

/// Bytes that the metadata of nearly all records fit into.
const METADATA_BYTES: usize = 256;

/// The metadata fields of a record. A malformed record is returned unchanged, so that its reader
/// detects it.
pub(crate) fn metadata(kind: Kind, payload: &[u8]) -> Vec<u8> {
    match kind {
        Kind::RequestPart | Kind::ResponsePart => Vec::new(),
        Kind::Received | Kind::Completed | Kind::Open => {
            let mut kept = Vec::with_capacity(payload.len().min(METADATA_BYTES));
            let complete = fields(payload, |tag, _, field| {
                if !is_payload(tag) {
                    kept.extend_from_slice(field);
                }
            });
            if complete { kept } else { payload.to_vec() }
        }
    }
}

/// Whether a field may be secret or long: such fields are sealed separately.
pub(crate) fn is_payload(tag: u8) -> bool {
    matches!(tag, 11 | 35 | 39 | 40 | 42 | 43)
}

/// Decodes the value of tag 47.
pub(crate) fn discarded(value: &[u8]) -> Option<Discarded> {
    Some(Discarded::from_repr(*value.first()?).unwrap_or(Discarded::Payload))
}

impl Discarded {
    /// Whether an earlier field with this tag is discarded.
    pub(crate) fn covers(self, tag: u8) -> bool {
        match self {
            Self::Nothing => false,
            Self::Response => tag == 40,
            Self::Payload => matches!(tag, 11 | 39 | 40),
        }
    }
}
