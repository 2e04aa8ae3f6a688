//! Converting the frames of a segment into the rows of its sealed form.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, ParamSwitch};

use crate::catalog::Catalog;
use crate::catalog::carry_over::CarryOver;
use crate::files::damage::is_damage;
use crate::files::{Files, Part};
use crate::format::{HEADER, Kind, Position, u64_at};
use crate::os::atomic_file::replace_durably;
use crate::os::{schedule, unix_time};
use crate::reader::MAX_TRANSACTION_BYTES;
use crate::record::Discarded;
use crate::record::field::{discarded, fields, is_payload, put_long};
use crate::segment::sealed::Summary;
use crate::segment::sealed::writer::Writer;
use crate::segment::{self, Frame, Segment};
use weir_model::Outcome;

/// Writes the sealed form of a segment and renames it into place. With `idle` the long part runs in
/// idle time only; it holds no lock, as other threads would wait for idle time then.
pub(super) fn convert(
    catalog: &Catalog,
    segment: Segment,
    idle: bool,
) -> io::Result<(Summary, CarryOver)> {
    let files = &catalog.files;
    let number = segment.header.number;
    let mut conversion = Conversion::new(catalog, &segment)?;
    schedule::run_when_idle(idle);
    let scanned = conversion.scan(files, segment);
    schedule::run_when_idle(false);
    scanned?;
    conversion.drop_lost(catalog, number)?;
    let Conversion { parts, mut carry_over, pending, stamp_us, mut compressor, .. } = conversion;
    carry_over.segment = number;
    carry_over.frames = pending.into_values().flatten().collect();
    files.faults.check("seal.scanned")?;
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
        files.faults.check("seal.part")?;
    }
    // Syncs the folder as well: the metadata never exists without the other parts.
    replace_durably(&files.path(number, "carry"), &carry_over.encode())?;
    files.faults.check("seal.carried")?;
    let meta = files.path(number, Part::Meta.extension());
    fs::rename(meta.with_added_extension("new"), &meta)?;
    files.sync_folder()?;
    Ok((summary, carry_over))
}

/// The conversion of one segment.
struct Conversion {
    number: u32,
    parts: [Writer; 3],
    carry_over: CarryOver,
    /// Frames of transactions that are open at this point, by sequence number.
    pending: BTreeMap<u64, Vec<(Position, Frame)>>,
    stamp_us: u64,
    compressor: Compressor<'static>,
    meta: Vec<u8>,
    payload: Vec<u8>,
}

impl Conversion {
    fn new(catalog: &Catalog, segment: &Segment) -> io::Result<Self> {
        let number = segment.header.number;
        let part = |part| Writer::new(catalog.files.path(number, Part::extension(part)), part);
        let state = catalog.segments.read();
        let mut pending: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for (position, frame) in &state.carry_over.frames {
            pending.entry(frame.sequence).or_default().push((*position, frame.clone()));
        }
        let stamp_us = state.sealed.last_key_value().map_or(0, |(_, last)| last.stamp_us);
        let first = segment.header.first_sequence;
        let next_sequence = state.carry_over.next_sequence.max(first);
        Ok(Self {
            number,
            parts: [part(Part::Meta)?, part(Part::Payload)?, part(Part::Failed)?],
            carry_over: CarryOver { next_sequence, ..CarryOver::default() },
            pending,
            stamp_us: stamp_us.min(unix_time().as_micros() as u64),
            compressor: compressor()?,
            meta: Vec::new(),
            payload: Vec::new(),
        })
    }

    fn scan(&mut self, files: &Files, mut segment: Segment) -> io::Result<()> {
        let (number, end) = (segment.header.number, segment.length);
        let mut offset = HEADER as u32;
        if segment.salvaged {
            files.damage.record(number, "segment", 0, HEADER as u64);
        }
        loop {
            let Some(frame) = segment.frame(offset, end)? else {
                let (next, bytes) = segment.resynchronise(offset, end)?;
                files.damage.record(number, "segment", offset.into(), bytes);
                let Some(next) = next else { return Ok(()) };
                offset = next;
                continue;
            };
            let next = frame.next;
            if frame.kind != Kind::Open {
                self.carry_over.next_sequence =
                    self.carry_over.next_sequence.max(frame.sequence.saturating_add(1));
            }
            match frame.kind {
                Kind::Open => {}
                Kind::Completed => self.complete(offset, &frame)?,
                Kind::Received | Kind::RequestPart | Kind::ResponsePart => {
                    let position = Position::new(number, offset);
                    self.pending.entry(frame.sequence).or_default().push((position, frame));
                }
            }
            offset = next;
        }
    }

    /// Writes the rows of a transaction.
    fn complete(&mut self, offset: u32, end: &Frame) -> io::Result<()> {
        self.meta.clear();
        self.payload.clear();
        let before = self.pending.remove(&end.sequence).unwrap_or_default();
        let mut previous = Position::START;
        let (mut whole, mut bytes) = (true, end.payload.len());
        for (position, frame) in &before {
            whole &= frame.previous == previous;
            previous = *position;
            bytes += frame.payload.len();
            if bytes > MAX_TRANSACTION_BYTES {
                whole = false;
                break;
            }
            self.add_frame(frame);
        }
        whole &= end.previous == previous;
        self.add_frame(end);
        let mut place = [0; 16];
        place[..8].copy_from_slice(&end.sequence.to_le_bytes());
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

    fn add_frame(&mut self, frame: &Frame) {
        match frame.kind {
            Kind::RequestPart => put_long(&mut self.payload, 39, &frame.payload),
            Kind::ResponsePart => put_long(&mut self.payload, 40, &frame.payload),
            Kind::Received | Kind::Completed => {
                let complete = fields(&frame.payload, |tag, value, field| {
                    if tag == 47 {
                        remove_discarded(&mut self.payload, discarded(value).unwrap_or_default());
                    }
                    let out = if is_payload(tag) { &mut self.payload } else { &mut self.meta };
                    out.extend_from_slice(field);
                });
                if !complete {
                    put_long(&mut self.meta, 45, &[1]);
                }
            }
            Kind::Open => {}
        }
    }

    /// Drops transactions that the next segment does not list as open: their ends were lost to
    /// damage.
    fn drop_lost(&mut self, catalog: &Catalog, number: u32) -> io::Result<()> {
        let (files, next) = (&catalog.files, number + 1);
        let floor = self.carry_over.next_sequence;
        if !catalog.segments.read().raw.contains(&next) || segment::is_blank(files, next, floor)? {
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
            self.pending.retain(|sequence, _| open.contains(sequence));
        }
        Ok(())
    }
}

/// zstd at level 1, with fast skipping of data that does not repeat, and with compressed literals:
/// a third less time for an eighth more bytes. Measured in docs/decisions/journal.md.
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

/// Removes discarded fields.
fn remove_discarded(payload: &mut Vec<u8>, discarded: Discarded) {
    let before = std::mem::take(payload);
    fields(&before, |tag, _, field| {
        if !discarded.covers(tag) {
            payload.extend_from_slice(field);
        }
    });
}
