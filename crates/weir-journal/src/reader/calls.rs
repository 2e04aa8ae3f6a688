//! Reading for those who count: only what counting looks at, and in the common case, a record that
//! is a whole transaction, without copying anything.

use std::io;
use std::sync::Arc;

use super::{Reader, Source};
use crate::call::CallRecord;
use crate::format::{Address, HEADER, Kind, Position};

/// Calls that are read while the files of the lane are held.
const AT_ONCE: usize = 256;

impl Reader {
    /// Gives up to `most` completed transactions as far as counting looks at them; how many it were.
    /// Fewer, also none, does not mean that there are no more unless [`Reader::position`] stays.
    ///
    /// # Errors
    /// As [`Reader::next_transaction`]; what was given before counts.
    pub fn calls(
        &mut self,
        most: usize,
        mut each: impl FnMut(&CallRecord<'_>),
    ) -> io::Result<usize> {
        let mut given = 0;
        while given < most {
            let before = (given, self.position);
            given += self.whole_calls((most - given).min(AT_ONCE), &mut each)?;
            if given == most {
                break;
            }
            if given == before.0 {
                // One by one, whatever it is.
                let Some(transaction) = self.next_transaction()? else { break };
                each(&CallRecord::of(&transaction));
                given += 1;
            }
        }
        Ok(given)
    }

    /// Gives transactions that are one record each, up to the first that is not.
    fn whole_calls(
        &mut self,
        most: usize,
        each: &mut impl FnMut(&CallRecord<'_>),
    ) -> io::Result<usize> {
        let files = Arc::clone(&self.files);
        let state = files.state();
        let end = self.shared.end();
        let mut given = 0;
        while given < most && self.position < end && self.enter(&state, end)? {
            let number = self.position.segment();
            let Some(Source::Raw(segment)) = &mut self.source else { break };
            let limit = if number == end.segment() { end.offset() } else { segment.length };
            let offset = self.position.offset().max(HEADER as u32);
            let Some(frame) = segment.frame_ref(offset, limit)? else { break };
            let is_whole = frame.kind == Kind::Completed && frame.previous == Position::START;
            if !is_whole {
                break;
            }
            let Some(mut call) = CallRecord::read(frame.payload) else { break };
            let position = Position::new(number, offset);
            call.address = Some(Address { lane: files.lane, position });
            each(&call);
            self.ticket = self.ticket.max(frame.ticket);
            self.position = Position::new(number, frame.next);
            given += 1;
        }
        Ok(given)
    }
}
