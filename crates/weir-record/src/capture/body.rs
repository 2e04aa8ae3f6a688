//! The capture of one body as it passes: bytes are counted, stored, hashed or buffered.

use super::Recorder;
use super::mask::{self, Held};
use super::rest::RestHash;
use crate::redaction::BodySettings;
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use weir_config::CaptureLevel;
use weir_http::body::BodyTap;
use weir_journal::{BodyMetadata, Side, TransactionHandle, Withheld};
use weir_wire::{Framing, Headers};

/// Capture of a body in transfer.
pub(super) struct BodyCapture {
    recorder: &'static Recorder,
    facts: BodyMetadata,
    keep: Keep,
    /// Maximum number of stored bytes.
    limit: u64,
    /// Framing of a request's body whose end has not been read. A response's body ends with its
    /// transaction.
    unread: Option<Framing>,
}

/// Treatment of the body's bytes.
enum Keep {
    /// Bytes are only counted.
    Nothing,
    /// The first bytes are stored at once; the others are hashed.
    First(Option<Box<RestHash>>),
    /// All bytes are buffered until they can be masked.
    Held(Held),
    /// The body has been masked and stored.
    Masked,
}

impl BodyCapture {
    /// Starts the capture of a body with these headers.
    pub(super) fn new(
        recorder: &'static Recorder,
        level: CaptureLevel,
        settings: &BodySettings,
        headers: &Headers,
    ) -> Self {
        let mut body = Self {
            recorder,
            facts: BodyMetadata::default(),
            keep: Keep::Nothing,
            limit: settings.limit,
            unread: None,
        };
        if level < CaptureLevel::Body {
            return body;
        }
        if settings.mask.is_empty() {
            body.keep = Keep::First(None);
            return body;
        }
        body.limit = body.limit.min(mask::LONGEST);
        match Held::new(headers, recorder) {
            Ok(held) => body.keep = Keep::Held(held),
            Err(why) => body.withhold(why),
        }
        body
    }

    /// Starts the capture of a request's body, which may be longer than the part that is read.
    pub(super) fn of_request(mut self, framing: Framing) -> Self {
        self.unread = Some(framing);
        self
    }

    fn withhold(&mut self, why: Withheld) {
        self.facts.withheld = Some(why);
        self.keep = Keep::Nothing;
    }

    /// Counts passing bytes and returns those to be stored now.
    fn take<'b>(&mut self, bytes: &'b [u8], settings: &BodySettings) -> &'b [u8] {
        self.facts.length += bytes.len() as u64;
        match &mut self.keep {
            Keep::Nothing | Keep::Masked => b"",
            Keep::First(_) => {
                let room = self.limit.saturating_sub(self.facts.stored).min(bytes.len() as u64);
                self.facts.stored += room;
                let (stored, rest) = bytes.split_at(room as usize);
                self.hash(rest);
                stored
            }
            Keep::Held(held) => {
                let added = if self.facts.length > self.limit {
                    Err(Withheld::Long)
                } else {
                    held.add(bytes, settings.budget)
                };
                if let Err(why) = added {
                    self.withhold(why);
                }
                b""
            }
        }
    }

    /// Counts passing bytes of a body that is not stored.
    pub(super) fn count(&mut self, bytes: &[u8]) {
        self.facts.length += bytes.len() as u64;
    }

    /// Adds a number of bytes of a body that is not stored.
    pub(super) fn passed(&mut self, count: u64) {
        self.facts.length += count;
    }

    /// Hashes bytes that are not stored.
    fn hash(&mut self, rest: &[u8]) {
        if let Keep::First(hash) = &mut self.keep
            && !rest.is_empty()
            && let Some(key) = &self.recorder.common.key
        {
            hash.get_or_insert_with(|| Box::new(RestHash::new(key))).add(rest);
        }
    }

    /// Captures passing bytes of an open transaction.
    pub(super) fn pass(
        &mut self,
        handle: TransactionHandle,
        side: Side,
        bytes: &[u8],
        settings: &BodySettings,
    ) {
        let before = self.facts.stored;
        let stored = self.take(bytes, settings);
        self.store(handle, side, stored, before);
    }

    /// Writes bytes that [`BodyMetadata::stored`] already includes; `before` were stored earlier.
    fn store(&mut self, handle: TransactionHandle, side: Side, bytes: &[u8], before: u64) {
        let Some(lane) = &self.recorder.lane else { return };
        if !bytes.is_empty() && lane.borrow_mut().part(handle, side, bytes).is_err() {
            // Nothing is stored after a gap: the stored bytes are always the start of the body.
            self.facts.stored = before;
            self.limit = before;
            // Later bytes have been hashed already; the hash would cover another part of the body.
            self.keep = Keep::Nothing;
        }
    }

    /// Masks the buffered body after its end.
    fn mask(&mut self, settings: &BodySettings) -> Option<Vec<u8>> {
        if self.facts.length == 0 {
            return None;
        }
        let held = match std::mem::replace(&mut self.keep, Keep::Masked) {
            Keep::Held(held) => held,
            other => {
                self.keep = other;
                return None;
            }
        };
        match held.masked(&settings.mask, self.limit, settings.budget) {
            Ok(masked) => {
                self.facts.masked = masked.is_some();
                let stored = masked.unwrap_or_else(|| held.into_bytes());
                self.facts.stored = stored.len() as u64;
                Some(stored)
            }
            Err(why) => {
                self.withhold(why);
                None
            }
        }
    }

    /// The transfer was aborted.
    pub(super) fn broke_off(&mut self) {
        self.facts.aborted = true;
    }

    /// The end of the body has been read: a buffered body is masked and written, and its memory
    /// released.
    pub(super) fn over(&mut self, handle: Option<TransactionHandle>, settings: &BodySettings) {
        if self.unread.take().is_none() {
            return;
        }
        if let Some(handle) = handle
            && let Some(masked) = self.mask(settings)
        {
            self.store(handle, Side::Request, &masked, 0);
        }
    }

    /// Whether the body may be longer than the part that was read, because no handler read the
    /// rest. Its length is then the one that the client declared, if any.
    fn is_cut(&mut self) -> bool {
        let Some(framing) = self.unread.filter(|_| !self.facts.aborted) else { return false };
        if let Framing::Length(length) = framing {
            if length == self.facts.length {
                return false;
            }
            self.facts.length = length;
        }
        if let Keep::First(hash) = &mut self.keep {
            // The hash would cover only a part of the rest.
            *hash = None;
        }
        true
    }

    /// Whether bytes of the body are in the journal.
    pub(super) fn is_stored(&self) -> bool {
        self.facts.stored > 0
    }

    /// Ends the body; `last` are the bytes that have not passed yet. Returns the metadata and the
    /// bytes to be stored with the end of the transaction.
    pub(super) fn finish<'b>(
        mut self,
        last: &'b [u8],
        settings: &BodySettings,
    ) -> (BodyMetadata, Cow<'b, [u8]>) {
        let mut stored = Cow::Borrowed(self.take(last, settings));
        let cut = self.is_cut();
        if matches!(self.keep, Keep::Held(_)) {
            if self.facts.aborted || cut {
                self.withhold(Withheld::Aborted);
            } else if let Some(masked) = self.mask(settings) {
                stored = Cow::Owned(masked);
            }
        }
        match self.keep {
            // The masked body may be shorter than the original.
            Keep::Masked => return (self.facts, stored),
            Keep::First(hash) => self.facts.hash = hash.map_or([0; 16], |hash| hash.finish()),
            Keep::Nothing | Keep::Held(_) => {}
        }
        if self.facts.length == 0 {
            // An empty body is not withheld.
            self.facts.withheld = None;
        }
        if self.facts.withheld.is_some() {
            self.recorder.stats.withheld.add(1);
        }
        self.facts.truncated = cut || self.facts.stored < self.facts.length;
        (self.facts, stored)
    }

    /// Ends the body without storing it; `last` as above.
    pub(super) fn forget(mut self, last: &[u8]) -> BodyMetadata {
        self.facts.length += last.len() as u64;
        let cut = self.is_cut();
        let BodyMetadata { length, aborted, .. } = self.facts;
        BodyMetadata { length, aborted, truncated: cut || length > 0, ..BodyMetadata::default() }
    }
}

/// Records a request's body as its bytes pass.
pub(super) struct RequestTap {
    /// None if bytes are only counted.
    pub(super) handle: Option<TransactionHandle>,
    pub(super) body: RefCell<BodyCapture>,
    pub(super) settings: Rc<BodySettings>,
}

impl BodyTap for RequestTap {
    fn pass(&self, bytes: &[u8]) {
        let mut body = self.body.borrow_mut();
        match self.handle {
            Some(handle) => body.pass(handle, Side::Request, bytes, &self.settings),
            None => body.count(bytes),
        }
    }

    fn end(&self) {
        self.body.borrow_mut().over(self.handle, &self.settings);
    }

    fn aborted(&self) {
        self.body.borrow_mut().broke_off();
    }
}
