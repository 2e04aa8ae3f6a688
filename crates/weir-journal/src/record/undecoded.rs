//! The texts of a transaction that is not decoded, to find out whether decoding is worth it.

use super::Side;
use super::field::fields;
use crate::format::Kind;
use weir_model::Outcome;

/// A text of a transaction, as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// Path and query of the request, percent-encoded.
    Target(&'a [u8]),
    /// Header lines of the request or of the response.
    Head(&'a [u8]),
    /// A body, or a part of it, with its content codings.
    Body(Side, &'a [u8]),
    /// A business key or a property (with its name), or a line of a log.
    Other(&'a [u8]),
}

/// A transaction that is not decoded.
#[derive(Debug)]
pub struct Undecoded<'a> {
    /// Records of frames, or the fields of a row.
    records: &'a [(Kind, &'a [u8])],
}

impl<'a> Undecoded<'a> {
    pub(crate) fn new(records: &'a [(Kind, &'a [u8])]) -> Self {
        Self { records }
    }

    /// Calls `each` with every text. A body may come in several parts, and a text twice; texts that a
    /// later field discards are included. Returns false if a record is malformed: there may be more.
    pub fn texts(&self, mut each: impl FnMut(Text<'a>)) -> bool {
        let mut is_complete = true;
        for (kind, record) in self.records {
            match kind {
                Kind::RequestPart => each(Text::Body(Side::Request, record)),
                Kind::ResponsePart => each(Text::Body(Side::Response, record)),
                Kind::Received | Kind::Completed => {
                    is_complete &= fields(record, |tag, value, _| match tag {
                        10 => each(Text::Target(value)),
                        11 | 35 => each(Text::Head(value)),
                        39 => each(Text::Body(Side::Request, value)),
                        40 => each(Text::Body(Side::Response, value)),
                        41..=43 => each(Text::Other(value)),
                        _ => {}
                    });
                }
                Kind::Open => is_complete = false,
            }
        }
        is_complete
    }
}

/// Whether a record says that its transaction was completed.
pub(crate) fn is_completed(record: &[u8]) -> bool {
    let mut outcome = Outcome::default();
    fields(record, |tag, value, _| {
        if let (32, Some(code)) = (tag, value.first()) {
            outcome = Outcome::from_code((*code).into());
        }
    });
    outcome == Outcome::Completed
}
