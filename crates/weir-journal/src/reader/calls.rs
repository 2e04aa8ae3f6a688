//! Reading for metering: only metered fields, and no copy if one record has the complete
//! transaction.

use std::io;
use std::sync::Arc;

use super::{Reader, Source};
use crate::format::{Address, HEADER, Kind, Position};
use crate::record::call::CallRecord;

/// Calls that are read under one lock of the catalog.
const MAX_CALLS_AT_ONCE: usize = 256;

impl Reader {
    /// Passes the metered fields of up to `most` completed transactions to `each`; returns their
    /// number. The end is reached only if [`Reader::position`] does not change.
    ///
    /// # Errors
    /// As [`Reader::next_transaction`]; transactions passed before the error count.
    pub fn calls(
        &mut self,
        max: usize,
        mut each: impl FnMut(&CallRecord<'_>),
    ) -> io::Result<usize> {
        let mut count = 0;
        while count < max {
            let before = (count, self.position);
            count += self.single_record_calls((max - count).min(MAX_CALLS_AT_ONCE), &mut each)?;
            if count == max {
                break;
            }
            if count == before.0 {
                // Any kind of transaction, one at a time.
                let Some(transaction) = self.next_transaction()? else { break };
                each(&CallRecord::of(&transaction));
                count += 1;
            }
        }
        Ok(count)
    }

    /// Passes transactions that are one record each, up to the first that is not.
    fn single_record_calls(
        &mut self,
        most: usize,
        each: &mut impl FnMut(&CallRecord<'_>),
    ) -> io::Result<usize> {
        let catalog = Arc::clone(&self.catalog);
        let state = catalog.segments.read();
        let end = self.shared.end();
        let mut count = 0;
        while count < most && self.position < end && self.open_segment(&state, end)? {
            let number = self.position.segment();
            let Some(Source::Raw(segment)) = &mut self.source else { break };
            let limit = if number == end.segment() { end.offset() } else { segment.length };
            let offset = self.position.offset().max(HEADER as u32);
            let Some(frame) = segment.frame_ref(offset, limit)? else { break };
            let is_single_record =
                frame.kind == Kind::Completed && frame.previous == Position::START;
            if !is_single_record {
                break;
            }
            let Some(mut call) = CallRecord::read(frame.payload) else { break };
            let position = Position::new(number, offset);
            call.address = Some(Address { lane: catalog.files.lane, position });
            each(&call);
            self.sequence = self.sequence.max(frame.sequence);
            self.position = Position::new(number, frame.next);
            count += 1;
        }
        Ok(count)
    }
}
