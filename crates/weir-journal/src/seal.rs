//! Sealing: from a full segment to the three files told in [`crate::sealed`].
//!
//! Everything is written under names of its own and synced before it is renamed into place, the
//! metadata last; only then is the segment's file used for another one. A crash at any moment
//! leaves the segment or what it was sealed to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, ParamSwitch};

use crate::background::{Inner, LaneState};
use crate::carry::Carry;
use crate::files::Files;
use crate::follower::write_whole;
use crate::format::{HEADER, Kind, Position, u64_at};
use crate::manifest::Parts;
use crate::reader::TRANSACTION_LIMIT;
use crate::record::{Outcome, Void, fields, is_payload, put_long, void};
use crate::recovery::is_damage;
use crate::retention;
use crate::schedule;
use crate::sealed::{HEAD, MAGIC, Part, ROW, Summary, TAIL, TAIL_MAGIC, VERSION};
use crate::segment::{self, Frame, Segment};

/// Bytes after which a block is full.
const BLOCK: usize = 128 << 10;
/// Full segments of a lane that wait for followers, who read them more cheaply as they are.
const WAIT: usize = 4;

impl Inner {
    /// Seals a segment if one is due; false if none was.
    pub(crate) fn seal_one(&self) -> io::Result<bool> {
        for lane in &self.lanes {
            if let Some(number) = self.due(lane) {
                self.seal(lane, number).inspect_err(|error| {
                    if error.kind() == io::ErrorKind::StorageFull {
                        lane.files.drop_spares(&self.budget);
                    }
                })?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next segment of a lane to be sealed now.
    fn due(&self, lane: &LaneState) -> Option<u32> {
        let end = lane.shared.end().segment();
        let state = lane.files.state();
        let mut full = state.raw.range(..end);
        let number = *full.next()?;
        let read = self.checkpoints.have_passed(lane.files.lane, number);
        let pressing = full.count() >= WAIT || self.budget.short(self.lanes.len());
        (read || pressing).then_some(number)
    }

    fn seal(&self, lane: &LaneState, number: u32) -> io::Result<()> {
        let files = &lane.files;
        find_again(files)?;
        let already = files.state().sealed.contains_key(&number);
        if !already && self.drop_plain(lane, number)? {
            return Ok(());
        }
        let floor = files.state().carry.next_ticket;
        let sealed = match Segment::open(files, number, floor) {
            // It only could not be recycled then.
            Ok(_) if already => None,
            Ok(segment) => Some(write(files, segment, !self.late.load(Ordering::Relaxed))?),
            // Nothing in it can be read.
            Err(error) if is_damage(&error) => {
                let length = fs::metadata(files.segment(number))?.len();
                files.damages.note(number, "segment", 0, length);
                files.change().gone.insert(number, Parts::UNREADABLE);
                self.manifest.bring_up_to_date(&self.lanes, Some((files.lane, number, None)))?;
                None
            }
            Err(error) => return Err(error),
        };
        files.faults().check("seal.written")?;
        let mut state = files.change();
        if let Some((summary, carry)) = sealed {
            let before = std::mem::replace(&mut state.carry, carry).segment;
            state.sealed.insert(number, summary);
            self.budget.charge(summary.bytes());
            files.faults().check("seal.before-recycling")?;
            match fs::remove_file(files.path(before, "carry")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        files.recycle(number, &self.budget)?;
        state.raw.remove(&number);
        files.faults().check("seal.recycled")?;
        self.sealed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Drops a segment in which everything was recorded to be counted and has been: sealing it
    /// would take as long as counting it did. Says whether it was one.
    fn drop_plain(&self, lane: &LaneState, number: u32) -> io::Result<bool> {
        let files = &lane.files;
        let next_ticket = lane.shared.plain().get(&number).copied();
        let mut carry = files.state().carry.clone();
        let Some(next_ticket) = next_ticket.filter(|_| !carry.lost) else { return Ok(false) };
        if !self.checkpoints.have_passed(files.lane, number) {
            return Ok(false);
        }
        // Nothing was open in it, so all that changes is where the next one begins.
        carry.segment = number;
        carry.next_ticket = carry.next_ticket.max(next_ticket);
        write_whole(&files.path(number, "carry"), &carry.encode())?;
        files.faults().check("plain.carried")?;
        self.manifest.bring_up_to_date(&self.lanes, Some((files.lane, number, None)))?;
        let mut state = files.change();
        let before = std::mem::replace(&mut state.carry, carry).segment;
        files.recycle(number, &self.budget)?;
        state.raw.remove(&number);
        // Until its file is gone for good, the carry before it is the one that counts.
        files.sync_folder()?;
        files.faults().check("plain.recycled")?;
        if before != number {
            match fs::remove_file(files.path(before, "carry")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        lane.shared.plain().remove(&number);
        self.dropped.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }
}

/// Looks once more for a carry that could not be read when the journal was opened: then nobody
/// could wait for the disk, and after this the next one takes its place.
fn find_again(files: &Files) -> io::Result<()> {
    let Carry { lost, segment, .. } = files.state().carry;
    if lost {
        let carry = Carry::read(files, segment)?;
        if !carry.lost {
            files.change().carry = carry;
        }
    }
    Ok(())
}

/// Writes the sealed form and renames it into place. What takes long is done in idle time if that
/// is wanted; what holds a lock never is, as others would wait for idle time then.
fn write(files: &Files, segment: Segment, idle: bool) -> io::Result<(Summary, Carry)> {
    let number = segment.header.number;
    let mut sealing = Sealing::new(files, &segment)?;
    schedule::run_when_idle(idle);
    let scanned = sealing.scan(files, segment);
    schedule::run_when_idle(false);
    scanned?;
    sealing.forget_lost(files, number)?;
    let Sealing { parts, mut carry, pending, stamp_us, mut compressor, .. } = sealing;
    carry.segment = number;
    carry.frames = pending.into_values().flatten().collect();
    files.faults().check("seal.scanned")?;
    let mut summary = Summary { stamp_us, rows: parts[0].rows, ..Summary::default() };
    for (part, writer) in Part::ALL.into_iter().zip(parts) {
        let empty = writer.rows == 0 && part != Part::Meta;
        let new = writer.new.clone();
        summary.sizes[part as usize] = writer.finish(stamp_us, &mut compressor)?;
        if empty {
            summary.sizes[part as usize] = 0;
            fs::remove_file(&new)?;
        } else if part != Part::Meta {
            fs::rename(&new, files.path(number, part.extension()))?;
        }
        files.faults().check("seal.part")?;
    }
    // Syncs the folder as well, so that the metadata is never there without the rest.
    write_whole(&files.path(number, "carry"), &carry.encode())?;
    files.faults().check("seal.carried")?;
    let meta = files.path(number, Part::Meta.extension());
    fs::rename(meta.with_added_extension("new"), &meta)?;
    files.sync_folder()?;
    Ok((summary, carry))
}

/// A segment on its way.
struct Sealing {
    number: u32,
    parts: [Writer; 3],
    carry: Carry,
    /// Frames of transactions that are open at this point, by ticket.
    pending: BTreeMap<u64, Vec<(Position, Frame)>>,
    stamp_us: u64,
    compressor: Compressor<'static>,
    meta: Vec<u8>,
    payload: Vec<u8>,
}

impl Sealing {
    fn new(files: &Files, segment: &Segment) -> io::Result<Self> {
        let number = segment.header.number;
        let part = |part| Writer::new(files.path(number, Part::extension(part)), part);
        let state = files.state();
        let mut pending: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for (position, frame) in &state.carry.frames {
            pending.entry(frame.ticket).or_default().push((*position, frame.clone()));
        }
        let stamp_us = state.sealed.last_key_value().map_or(0, |(_, last)| last.stamp_us);
        let first = segment.header.first_ticket;
        let next_ticket = state.carry.next_ticket.max(first);
        Ok(Self {
            number,
            parts: [part(Part::Meta)?, part(Part::Payload)?, part(Part::Failed)?],
            carry: Carry { next_ticket, ..Carry::default() },
            pending,
            stamp_us: stamp_us.min(retention::now().as_micros() as u64),
            compressor: compressor()?,
            meta: Vec::new(),
            payload: Vec::new(),
        })
    }

    fn scan(&mut self, files: &Files, mut segment: Segment) -> io::Result<()> {
        let (number, end) = (segment.header.number, segment.length);
        let mut offset = HEADER as u32;
        if segment.salvaged {
            files.damages.note(number, "segment", 0, HEADER as u64);
        }
        loop {
            let Some(frame) = segment.frame(offset, end)? else {
                let (next, bytes) = segment.resynchronise(offset, end)?;
                files.damages.note(number, "segment", offset.into(), bytes);
                let Some(next) = next else { return Ok(()) };
                offset = next;
                continue;
            };
            let next = frame.next;
            if frame.kind != Kind::Open {
                self.carry.next_ticket = self.carry.next_ticket.max(frame.ticket.saturating_add(1));
            }
            match frame.kind {
                Kind::Open => {}
                Kind::Completed => self.complete(offset, &frame)?,
                Kind::Received | Kind::RequestPart | Kind::ResponsePart => {
                    let position = Position::new(number, offset);
                    self.pending.entry(frame.ticket).or_default().push((position, frame));
                }
            }
            offset = next;
        }
    }

    /// Writes a transaction's rows.
    fn complete(&mut self, offset: u32, end: &Frame) -> io::Result<()> {
        self.meta.clear();
        self.payload.clear();
        let before = self.pending.remove(&end.ticket).unwrap_or_default();
        let mut previous = Position::START;
        let (mut whole, mut bytes) = (true, end.payload.len());
        for (position, frame) in &before {
            whole &= frame.previous == previous;
            previous = *position;
            bytes += frame.payload.len();
            if bytes > TRANSACTION_LIMIT {
                whole = false;
                break;
            }
            self.absorb(frame);
        }
        whole &= end.previous == previous;
        self.absorb(end);
        let mut place = [0; 16];
        place[..8].copy_from_slice(&end.ticket.to_le_bytes());
        place[8..].copy_from_slice(&Position::new(self.number, end.next).to_bits().to_le_bytes());
        put_long(&mut self.meta, 46, &place);
        if !whole {
            put_long(&mut self.meta, 45, &[1]);
        }
        let (mut outcome, mut received_us) = (Outcome::Interrupted as u8, 0);
        fields(&self.meta, |tag, value, _| match tag {
            2 if value.len() == 8 => received_us = u64_at(value, 0),
            32 => outcome = value.first().copied().unwrap_or(outcome),
            _ => {}
        });
        self.stamp_us = self.stamp_us.max(received_us);
        let [meta, payload, failed] = &mut self.parts;
        meta.row(offset, &[&self.meta], &mut self.compressor)?;
        if outcome == Outcome::Completed as u8 {
            payload.row(offset, &[&self.payload], &mut self.compressor)
        } else {
            failed.row(offset, &[&self.meta, &self.payload], &mut self.compressor)
        }
    }

    fn absorb(&mut self, frame: &Frame) {
        match frame.kind {
            Kind::RequestPart => put_long(&mut self.payload, 39, &frame.payload),
            Kind::ResponsePart => put_long(&mut self.payload, 40, &frame.payload),
            Kind::Received | Kind::Completed => {
                let whole = fields(&frame.payload, |tag, value, field| {
                    if tag == 47 {
                        forget(&mut self.payload, void(value).unwrap_or_default());
                    }
                    let out = if is_payload(tag) { &mut self.payload } else { &mut self.meta };
                    out.extend_from_slice(field);
                });
                if !whole {
                    put_long(&mut self.meta, 45, &[1]);
                }
            }
            Kind::Open => {}
        }
    }

    /// Drops what the next segment does not know as open: its end was lost to damage.
    fn forget_lost(&mut self, files: &Files, number: u32) -> io::Result<()> {
        let next = number + 1;
        let floor = self.carry.next_ticket;
        if !files.state().raw.contains(&next) || segment::is_blank(files, next, floor)? {
            return Ok(());
        }
        let frame = match Segment::open_single(files, next, floor) {
            Ok(mut segment) => segment.frame(HEADER as u32, segment.length)?,
            Err(error) if is_damage(&error) => None,
            Err(error) => return Err(error),
        };
        if let Some(frame) = frame.filter(|frame| frame.kind == Kind::Open) {
            let open: BTreeSet<u64> =
                frame.payload.chunks_exact(16).map(|pair| u64_at(pair, 0)).collect();
            self.pending.retain(|ticket, _| open.contains(ticket));
        }
        Ok(())
    }
}

/// zstd at level 1, but hurrying past what does not repeat, and with literals still coded: a third
/// less time for an eighth more bytes. Measured in docs/decisions/journal.md.
fn compressor() -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(1)?;
    for parameter in [
        CParameter::HashLog(13),
        CParameter::MinMatch(7),
        CParameter::TargetLength(6),
        CParameter::LiteralCompressionMode(ParamSwitch::Enable),
    ] {
        compressor.set_parameter(parameter)?;
    }
    Ok(compressor)
}

/// Drops fields that do not count.
fn forget(payload: &mut Vec<u8>, void: Void) {
    let before = std::mem::take(payload);
    fields(&before, |tag, _, field| {
        if !void.covers(tag) {
            payload.extend_from_slice(field);
        }
    });
}

/// One of the files, being written.
struct Writer {
    new: PathBuf,
    file: File,
    place: u64,
    rows: u32,
    block: Vec<u8>,
    first: u32,
    index: Vec<u8>,
}

impl Writer {
    fn new(path: PathBuf, part: Part) -> io::Result<Self> {
        let new = path.with_added_extension("new");
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&(part as u32).to_le_bytes());
        file.write_all(&head)?;
        Ok(Self {
            new,
            file,
            place: HEAD as u64,
            rows: 0,
            block: Vec::new(),
            first: 0,
            index: Vec::new(),
        })
    }

    fn row(
        &mut self,
        offset: u32,
        fields: &[&[u8]],
        compressor: &mut Compressor<'_>,
    ) -> io::Result<()> {
        let length: usize = fields.iter().map(|fields| fields.len()).sum();
        if !self.block.is_empty() && self.block.len() + ROW + length > BLOCK {
            self.flush(compressor)?;
        }
        if self.block.is_empty() {
            self.first = offset;
        }
        self.block.extend_from_slice(&offset.to_le_bytes());
        self.block.extend_from_slice(&(length as u32).to_le_bytes());
        for fields in fields {
            self.block.extend_from_slice(fields);
        }
        self.rows += 1;
        Ok(())
    }

    fn flush(&mut self, compressor: &mut Compressor<'_>) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let packed = compressor.compress(&self.block)?;
        self.file.write_all(&packed)?;
        self.index.extend_from_slice(&self.first.to_le_bytes());
        self.index.extend_from_slice(&(packed.len() as u32).to_le_bytes());
        self.index.extend_from_slice(&self.place.to_le_bytes());
        self.index.extend_from_slice(&(self.block.len() as u32).to_le_bytes());
        self.index.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
        self.place += packed.len() as u64;
        self.block.clear();
        Ok(())
    }

    /// Writes the last block, index and tail, syncs, and gives the file's length.
    fn finish(mut self, stamp_us: u64, compressor: &mut Compressor<'_>) -> io::Result<u64> {
        self.flush(compressor)?;
        let count = (self.index.len() / crate::sealed::ENTRY) as u32;
        let mut tail = Vec::with_capacity(TAIL);
        tail.extend_from_slice(&count.to_le_bytes());
        tail.extend_from_slice(&self.rows.to_le_bytes());
        tail.extend_from_slice(&stamp_us.to_le_bytes());
        tail.extend_from_slice(&self.place.to_le_bytes());
        tail.extend_from_slice(&[0; 8]);
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.index);
        sum.update(&tail);
        tail.extend_from_slice(&sum.finalize().to_le_bytes());
        tail.extend_from_slice(&TAIL_MAGIC);
        self.file.write_all(&self.index)?;
        self.file.write_all(&tail)?;
        self.file.sync_all()?;
        Ok(self.place + (self.index.len() + tail.len()) as u64)
    }
}
