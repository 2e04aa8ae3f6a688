//! Reading transactions in the order in which they were completed.

mod calls;

use std::collections::HashMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::catalog::{Catalog, Segments};
use crate::files::Files;
use crate::files::damage::is_damage;
use crate::format::{Address, HEADER, Kind, Position};
use crate::lane_state::{LaneShared, LaneState};
use crate::record::Transaction;
use crate::record::undecoded::Undecoded;
use crate::segment::sealed::Sealed;
use crate::segment::{Frame, FrameRef, Segment};

/// Most bytes of one transaction that are assembled.
pub(crate) const MAX_TRANSACTION_BYTES: usize = 64 << 20;
/// Most bytes of open transactions that a reader keeps.
const MAX_OPEN_BYTES: usize = 8 << 20;

#[derive(Debug)]
enum Source {
    Raw(Segment),
    Sealed(Box<Sealed>),
}

/// Reads a lane up to its last append.
#[derive(Debug)]
pub struct Reader {
    catalog: Arc<Catalog>,
    shared: Arc<LaneShared>,
    position: Position,
    /// Highest sequence number that was read.
    sequence: u64,
    payload: bool,
    source: Option<Source>,
    open: OpenTransactions,
    /// Where the position is published.
    progress: Option<Arc<AtomicU64>>,
    /// What cannot be read is counted as damage.
    counts_damage: bool,
}

/// Frames of open transactions before the position, so that a reader need not go back for them.
#[derive(Debug, Default)]
struct OpenTransactions {
    frames: HashMap<u64, Vec<(Position, Frame)>>,
    bytes: usize,
}

impl OpenTransactions {
    fn keep(&mut self, position: Position, frame: Frame) {
        self.bytes += frame.payload.len();
        if self.bytes > MAX_OPEN_BYTES {
            // The frames are read again when the transactions end.
            *self = Self::default();
        } else {
            self.frames.entry(frame.sequence).or_default().push((position, frame));
        }
    }

    /// The frames before `end`, if all of them were kept.
    fn take(&mut self, end: &FrameRef<'_>) -> Option<Vec<Frame>> {
        let frames = self.frames.remove(&end.sequence).unwrap_or_default();
        self.bytes -= frames.iter().map(|(_, frame)| frame.payload.len()).sum::<usize>();
        let mut previous = Position::START;
        for (position, frame) in &frames {
            if frame.previous != previous {
                return None;
            }
            previous = *position;
        }
        let complete = end.previous == previous;
        complete.then(|| frames.into_iter().map(|(_, frame)| frame).collect())
    }
}

impl Reader {
    pub(crate) fn new(lane: LaneState, position: Position, sequence: u64) -> Self {
        let LaneState { catalog, shared } = lane;
        Self {
            catalog,
            shared,
            position,
            sequence,
            payload: true,
            source: None,
            open: OpenTransactions::default(),
            progress: None,
            counts_damage: true,
        }
    }

    /// Publishes its position, also while a segment is dropped: what it has returned by then is not
    /// skipped.
    pub(crate) fn publishing(self, progress: Arc<AtomicU64>) -> Self {
        progress.store(self.position.to_bits(), Ordering::Relaxed);
        Self { progress: Some(progress), ..self }
    }

    /// Omits heads, bodies, properties and logs where that saves reading them.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self { payload: false, ..self }
    }

    /// Counts no damage: for a position of a caller, where no record may begin.
    #[must_use]
    pub fn without_damage(self) -> Self {
        Self { counts_damage: false, ..self }
    }

    /// Index of the lane.
    #[must_use]
    pub fn lane(&self) -> u16 {
        self.catalog.files.lane
    }

    /// Where the next call continues: a checkpoint.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Highest sequence number that was returned, or that the reader began with: the other half of
    /// a checkpoint.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The next completed transaction that is not count-only; none if there is none yet.
    ///
    /// # Errors
    /// As [`Reader::next_transaction`].
    pub fn next_visible(&mut self) -> io::Result<Option<Transaction>> {
        let mut next = Transaction::default();
        Ok(self.next_visible_into(&mut next)?.then_some(next))
    }

    /// As [`Reader::next_visible`], into an existing transaction whose memory is reused. If the
    /// result is false, its content is undefined.
    ///
    /// # Errors
    /// As [`Reader::next_transaction`].
    pub fn next_visible_into(&mut self, next: &mut Transaction) -> io::Result<bool> {
        while self.next_into(next)? {
            if !next.is_count() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next completed transaction; none if there is none yet.
    ///
    /// # Errors
    /// A file cannot be read. Damage is skipped.
    pub fn next_transaction(&mut self) -> io::Result<Option<Transaction>> {
        let mut next = Transaction::default();
        Ok(self.next_into(&mut next)?.then_some(next))
    }

    fn next_into(&mut self, target: &mut Transaction) -> io::Result<bool> {
        let catalog = Arc::clone(&self.catalog);
        let state = catalog.segments.read();
        let found = self.advance(&catalog.files, &state, target);
        // Under the lock, which is held for writing while a segment is dropped.
        if let Some(progress) = &self.progress {
            progress.store(self.position.to_bits(), Ordering::Relaxed);
        }
        found
    }

    fn advance(
        &mut self,
        files: &Files,
        state: &Segments,
        target: &mut Transaction,
    ) -> io::Result<bool> {
        loop {
            let end = self.shared.end();
            if self.position >= end {
                return Ok(false);
            }
            if !self.open_segment(state, end)? {
                // Nothing up to the end can be read: it is lost.
                self.position = end;
                return Ok(false);
            }
            let (number, offset) = (self.position.segment(), self.position.offset());
            let next = Position::new(number + 1, 0);
            match &mut self.source {
                None => return Ok(false),
                Some(Source::Sealed(sealed)) => {
                    let Some(offset) = sealed.next(offset)? else {
                        self.position = next;
                        continue;
                    };
                    // After an error the reader stays at this transaction.
                    let found = sealed.get(offset)?;
                    self.position = Position::new(number, offset + 8);
                    if let Some(transaction) = found {
                        self.sequence = self.sequence.max(transaction.sequence);
                        self.position = self.position.max(transaction.after);
                        *target = transaction;
                        return Ok(true);
                    }
                }
                Some(Source::Raw(segment)) => {
                    let limit = if number == end.segment() { end.offset() } else { segment.length };
                    let offset = offset.max(HEADER as u32);
                    if let Some(frame) = segment.frame_ref(offset, limit)? {
                        let position = Position::new(number, offset);
                        match frame.kind {
                            Kind::Open => {}
                            Kind::Completed => {
                                let before = self.open.take(&frame);
                                let assembly = Assembly { files, state, position };
                                // After an error the reader stays at this transaction.
                                assembly.assemble(&frame, before, self.payload, target)?;
                            }
                            _ => self.open.keep(position, frame.keep(!self.payload)),
                        }
                        self.position = Position::new(number, frame.next);
                        self.sequence = self.sequence.max(frame.sequence);
                        if frame.kind == Kind::Completed {
                            return Ok(true);
                        }
                    } else {
                        let (found, bytes) = segment.resynchronise(offset, limit)?;
                        if self.counts_damage {
                            files.damage.record(number, "segment", offset.into(), bytes);
                        }
                        self.position = match found {
                            Some(found) => Position::new(number, found),
                            None if number == end.segment() => end,
                            None => next,
                        };
                    }
                }
            }
        }
    }

    /// Opens the segment at or after the position; false if there is none.
    fn open_segment(&mut self, state: &Segments, end: Position) -> io::Result<bool> {
        let number_at_position = self.position.segment();
        let there = match &self.source {
            // The file of a segment that was sealed meanwhile may belong to another segment now.
            Some(Source::Raw(segment)) => {
                segment.header.number == number_at_position
                    && state.raw.contains(&number_at_position)
            }
            // What was dropped is skipped, even if the file is still open.
            Some(Source::Sealed(sealed)) => {
                sealed.number == number_at_position
                    && state.sealed.contains_key(&number_at_position)
            }
            None => false,
        };
        if there {
            return Ok(true);
        }
        self.source = None;
        let mut from = Bound::Included(number_at_position);
        loop {
            let raw = state.raw.range((from, Bound::Included(end.segment()))).next();
            let sealed = state.sealed.range((from, Bound::Unbounded)).next();
            let (number, source) = match (raw, sealed) {
                (None, None) => return Ok(false),
                (Some(raw), sealed) if sealed.is_none_or(|(sealed, _)| raw < sealed) => {
                    let floor = state.carry_over.next_sequence;
                    let mut segment = Segment::open(&self.catalog.files, *raw, floor);
                    if let Ok(segment) = &mut segment {
                        segment.metadata_only = !self.payload;
                    }
                    (*raw, segment.map(Source::Raw))
                }
                (_, Some((sealed, _))) => {
                    let segment = state.open_sealed(&self.catalog.files, *sealed, self.payload);
                    (*sealed, segment.map(|segment| Source::Sealed(Box::new(segment))))
                }
                (Some(_), None) => return Ok(false),
            };
            match source {
                Ok(source) => {
                    if number != number_at_position {
                        self.position = Position::new(number, 0);
                    }
                    self.source = Some(source);
                    return Ok(true);
                }
                Err(error) if is_damage(&error) => from = Bound::Excluded(number),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Where a transaction is.
enum Place<'p> {
    Sealed(&'p mut Sealed),
    /// Its last frame, in a segment that is not sealed.
    Raw(Frame),
}

/// Time for which transactions are visited while the catalog of their lane is locked: sealing and the
/// preparation of segments wait for it.
const MAX_LOCKED: Duration = Duration::from_millis(20);

/// Calls `each` with the place of each transaction at sorted addresses of one lane, without those that are
/// not in the journal. The catalog is locked for it; after `until` it ends early. Returns how many addresses
/// are done.
fn walk(
    catalog: &Catalog,
    addresses: &[Address],
    payload: bool,
    until: Option<Instant>,
    mut each: impl FnMut(Assembly<'_>, Place<'_>) -> io::Result<()>,
) -> io::Result<usize> {
    let (files, state) = (&catalog.files, &*catalog.segments.read());
    let (mut sealed, mut raw): (Option<Sealed>, Option<Segment>) = (None, None);
    for (done, Address { position, .. }) in addresses.iter().enumerate() {
        if done > 0 && until.is_some_and(|until| Instant::now() >= until) {
            return Ok(done);
        }
        let (number, assembly) =
            (position.segment(), Assembly { files, state, position: *position });
        if state.sealed.contains_key(&number) {
            let segment = match sealed.take() {
                Some(segment) if segment.number == number => segment,
                _ => state.open_sealed(files, number, payload)?,
            };
            each(assembly, Place::Sealed(sealed.insert(segment)))?;
        } else if state.raw.contains(&number)
            && let Some(end) = frame_of(files, state, *position, &mut raw)?
            && end.kind == Kind::Completed
        {
            each(assembly, Place::Raw(end))?;
        }
    }
    Ok(addresses.len())
}

/// The transactions at sorted addresses of one lane, without those that are not in the journal.
pub(crate) fn get(
    catalog: &Catalog,
    addresses: &[Address],
    payload: bool,
    found: &mut dyn FnMut(Transaction),
) -> io::Result<()> {
    walk(catalog, addresses, payload, None, |assembly, place| {
        match place {
            Place::Sealed(segment) => {
                if let Some(transaction) = segment.get(assembly.position.offset())? {
                    found(transaction);
                }
            }
            Place::Raw(end) => {
                let mut transaction = Transaction::default();
                assembly.assemble(&end.borrowed(), None, true, &mut transaction)?;
                found(transaction);
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Calls `each` with the transactions at sorted addresses of one lane, not decoded; without those that are
/// not in the journal, or incomplete. Ends early when it has locked the catalog for long. Returns how many
/// addresses are done.
pub(crate) fn visit(
    catalog: &Catalog,
    addresses: &[Address],
    each: &mut dyn FnMut(Address, &Undecoded<'_>),
) -> io::Result<usize> {
    walk(catalog, addresses, true, Some(Instant::now() + MAX_LOCKED), |assembly, place| {
        let address = Address { lane: assembly.files.lane, position: assembly.position };
        match place {
            Place::Sealed(segment) => {
                segment
                    .visit(assembly.position.offset(), &mut |undecoded| each(address, undecoded))?;
            }
            Place::Raw(end) => {
                let (before, is_complete) = assembly.chain(&end.borrowed())?;
                let frames = before.iter().chain([&end]);
                let records: Vec<_> =
                    frames.map(|frame| (frame.kind, &frame.payload[..])).collect();
                if is_complete {
                    each(address, &Undecoded::new(&records));
                }
            }
        }
        Ok(())
    })
}

fn frame_at(files: &Files, state: &Segments, position: Position) -> io::Result<Option<Frame>> {
    let number = position.segment();
    if !state.raw.contains(&number) {
        return Ok(state.carry_over.frames.get(&position).cloned());
    }
    frame_of(files, state, position, &mut None)
}

/// The frame at a position of a segment that is not sealed; `opened` is the segment that was opened
/// last.
fn frame_of(
    files: &Files,
    state: &Segments,
    position: Position,
    opened: &mut Option<Segment>,
) -> io::Result<Option<Frame>> {
    let number = position.segment();
    let segment = match opened.take() {
        Some(segment) if segment.header.number == number => segment,
        _ => match Segment::open_single(files, number, state.carry_over.next_sequence) {
            Ok(segment) => segment,
            Err(error) if is_damage(&error) || error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        },
    };
    let segment = opened.insert(segment);
    segment.frame(position.offset(), segment.length)
}

/// A transaction to be assembled, by the position of its end.
#[derive(Clone, Copy)]
struct Assembly<'a> {
    files: &'a Files,
    state: &'a Segments,
    position: Position,
}

impl Assembly<'_> {
    /// Assembles the transaction into `target`, with or without its `payload`. If the frames
    /// `before` its `end` are not count, they are read backwards from there.
    fn assemble(
        self,
        end: &FrameRef<'_>,
        before: Option<Vec<Frame>>,
        payload: bool,
        target: &mut Transaction,
    ) -> io::Result<()> {
        target.clear();
        target.address = Some(Address { lane: self.files.lane, position: self.position });
        target.after = Position::new(self.position.segment(), end.next);
        target.sequence = end.sequence;
        let before = match before {
            Some(before) => before,
            None => {
                let (before, complete) = self.chain(end)?;
                target.damaged = !complete;
                before
            }
        };
        for frame in &before {
            target.add_frame(frame.kind, &frame.payload, payload);
        }
        target.add_frame(end.kind, end.payload, payload);
        Ok(())
    }

    /// The frames before `end`, oldest first, and whether the chain is complete.
    fn chain(self, end: &FrameRef<'_>) -> io::Result<(Vec<Frame>, bool)> {
        let (mut before, mut previous) = (self.position, end.previous);
        let (mut frames, mut bytes, mut complete) = (Vec::new(), end.payload.len(), true);
        while previous != Position::START {
            let frame = if previous < before && bytes < MAX_TRANSACTION_BYTES {
                frame_at(self.files, self.state, previous)?
                    .filter(|frame| frame.sequence == end.sequence)
            } else {
                None
            };
            let Some(frame) = frame else {
                complete = false;
                break;
            };
            before = previous;
            previous = frame.previous;
            bytes += frame.payload.len();
            frames.push(frame);
        }
        frames.reverse();
        Ok((frames, complete))
    }
}
