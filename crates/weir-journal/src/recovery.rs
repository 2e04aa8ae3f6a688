//! Recovery: what a process that end without closing the journal has left open.
//!
//! The `open` frame of a segment lists the transactions that were open when it began, so that only
//! the last segment is read, or those back to the last one with an undamaged `open` frame. If all
//! segments are sealed, the carry-over has that list.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::catalog::Catalog;
use crate::files::damage::is_damage;
use crate::format::{HEADER, Kind, Position, u64_at};
use crate::manifest::{LaneEnd, MissingFile};
use crate::segment::Segment;

/// A damaged range of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Damage {
    /// The lane.
    pub lane: u16,
    /// The segment.
    pub segment: u32,
    /// Offset in the segment.
    pub offset: u32,
    /// Length in bytes.
    pub bytes: u64,
}

/// Result of the recovery when the journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecoveryReport {
    /// Segments read.
    pub segments: u64,
    /// Records read.
    pub records: u64,
    /// Transactions that were in flight and are `interrupted` now.
    pub interrupted: u64,
    /// Transactions that could not be closed because the journal is full.
    pub left_open: u64,
    /// Damaged ranges.
    pub damage: Vec<Damage>,
    /// Missing files.
    #[serde(default)]
    pub missing: Vec<MissingFile>,
    /// Followers whose checkpoint was damaged: they started again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged_checkpoints: Vec<String>,
    /// A message for each damaged file other than segments: what is lost with it, and its new path.
    #[serde(skip)]
    pub damaged_files: Vec<String>,
}

/// A lane after recovery.
#[derive(Debug, Default)]
pub(crate) struct RecoveredLane {
    pub(crate) next_sequence: u64,
    /// Sequence number and last position of each open transaction, and where its end may have been
    /// lost.
    pub(crate) open: Vec<(u64, Position, Option<Position>)>,
}

/// Finds the open transactions of a lane.
pub(crate) fn recover(
    catalog: &Catalog,
    end: LaneEnd,
    report: &mut RecoveryReport,
) -> io::Result<RecoveredLane> {
    let state = catalog.segments.read();
    let before = report.damage.len();
    let mut open: BTreeMap<u64, Position> = state.carry_over.open().collect();
    let mut next_sequence = state.carry_over.next_sequence.max(1);
    let mut tail = Vec::new();
    for number in state.raw.iter().rev() {
        match Segment::open(&catalog.files, *number, state.carry_over.next_sequence) {
            Ok(mut segment) => {
                let opening = segment.frame(HEADER as u32, segment.length)?;
                tail.push(segment);
                if opening.is_some_and(|frame| frame.kind == Kind::Open) {
                    break;
                }
            }
            Err(error) if is_damage(&error) => {
                let there = fs::metadata(catalog.files.segment(*number))?.len();
                let bytes = there.max(written(catalog, end, *number));
                record_damage(catalog, Position::new(*number, 0), bytes, report);
            }
            Err(error) => return Err(error),
        }
    }
    for segment in tail.iter_mut().rev() {
        next_sequence = next_sequence.max(segment.header.first_sequence);
        scan((catalog, end), segment, &mut open, &mut next_sequence, report)?;
    }
    // A damaged range may contain ends of transactions.
    let position = |damage: &Damage| Position::new(damage.segment, damage.offset);
    let damaged = report.damage[before..].iter().map(position);
    let missing = state.missing.keys().map(|number| Position::new(*number, 0));
    let lost: Vec<Position> = damaged.chain(missing).collect();
    let open = open.into_iter().map(|(number, last)| {
        let possible_end = lost.iter().copied().filter(|lost| *lost > last).min();
        (number, last, possible_end)
    });
    Ok(RecoveredLane { next_sequence, open: open.collect() })
}

/// Bytes that were certainly written to a segment.
fn written(catalog: &Catalog, end: LaneEnd, number: u32) -> u64 {
    match end.position.segment() {
        last if last == number => end.position.offset().into(),
        last if last > number => catalog.segment_bytes(),
        _ => 0,
    }
}

fn record_damage(catalog: &Catalog, position: Position, bytes: u64, report: &mut RecoveryReport) {
    let (segment, offset) = (position.segment(), position.offset());
    report.damage.push(Damage { lane: catalog.files.lane, segment, offset, bytes });
    catalog.files.damage.record(segment, "segment", offset.into(), bytes);
}

fn scan(
    (catalog, end): (&Catalog, LaneEnd),
    segment: &mut Segment,
    open: &mut BTreeMap<u64, Position>,
    next_sequence: &mut u64,
    report: &mut RecoveryReport,
) -> io::Result<()> {
    report.segments += 1;
    if segment.salvaged {
        record_damage(catalog, Position::new(segment.header.number, 0), HEADER as u64, report);
    }
    let cut = written(catalog, end, segment.header.number).saturating_sub(segment.length.into());
    if cut > 0 {
        record_damage(catalog, Position::new(segment.header.number, segment.length), cut, report);
    }
    let mut offset = HEADER as u32;
    loop {
        let position = Position::new(segment.header.number, offset);
        let Some(frame) = segment.frame(offset, segment.length)? else {
            let (next, bytes) = segment.resynchronise(offset, segment.length)?;
            if bytes > 0 || next.is_some() {
                record_damage(catalog, position, bytes, report);
            }
            let Some(next) = next else { return Ok(()) };
            offset = next;
            continue;
        };
        report.records += 1;
        *next_sequence = (*next_sequence).max(frame.sequence.saturating_add(1));
        match frame.kind {
            Kind::Open => {
                let pairs = frame.payload.chunks_exact(16);
                *open = pairs
                    .map(|pair| (u64_at(pair, 0), Position::from_bits(u64_at(pair, 8))))
                    .collect();
            }
            Kind::Received => {
                open.insert(frame.sequence, position);
            }
            Kind::RequestPart | Kind::ResponsePart => {
                if let Some(last) = open.get_mut(&frame.sequence) {
                    *last = position;
                }
            }
            Kind::Completed => {
                open.remove(&frame.sequence);
            }
        }
        offset = frame.next;
    }
}
