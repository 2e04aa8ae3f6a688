//! What is done when a journal is opened: find what was open, and close it as interrupted.
//!
//! The `open` frame of a segment tells what was open when it began, so only the last segment is
//! read, or those back to the last one whose `open` frame is whole. When all are sealed, what they
//! carry tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use crate::files::{Files, State};
use crate::follower::DamagedCheckpoint;
use crate::format::{HEADER, Kind, Position, u64_at};
use crate::lane::Past;
use crate::manifest::{DamagedManifest, End, MissingFile};
use crate::sealed::Sealed;
use crate::segment::Segment;

/// A stretch that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Index of the lane.
    pub lane: u16,
    /// Where it begins.
    pub position: Position,
    /// Bytes in it; of a torn end only its first word is counted.
    pub bytes: u64,
}

/// What was found when the journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segments that were read.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Transactions that were open and are now `interrupted`.
    pub interrupted: u64,
    /// Transactions that could not be closed because the journal is full; the next
    /// opening tries again.
    pub left_open: u64,
    /// What was dropped.
    pub damage: Vec<Damage>,
    /// Files that should be there and are not.
    pub missing: Vec<MissingFile>,
    /// Checkpoints that were damaged.
    pub checkpoints: Vec<DamagedCheckpoint>,
    /// The manifest, if it was damaged.
    pub manifest: Option<DamagedManifest>,
}

impl RecoveryReport {
    /// A message for each file beside the records that was damaged: what is lost with it, and where
    /// it is now.
    pub fn damaged_files(&self) -> impl Iterator<Item = String> {
        let checkpoints = self.checkpoints.iter().map(ToString::to_string);
        checkpoints.chain(self.manifest.iter().map(ToString::to_string))
    }
}

/// Finds out what was open in a lane.
pub(crate) fn recover(files: &Files, ended: End, report: &mut RecoveryReport) -> io::Result<Past> {
    let state = files.state();
    let before = report.damage.len();
    let mut open: BTreeMap<u64, Position> = state.carry.open().collect();
    let mut next_ticket = state.carry.next_ticket.max(1);
    let mut tail = Vec::new();
    for number in state.raw.iter().rev() {
        match Segment::open(files, *number, state.carry.next_ticket) {
            Ok(mut segment) => {
                let opening = segment.frame(HEADER as u32, segment.length)?;
                tail.push(segment);
                if opening.is_some_and(|frame| frame.kind == Kind::Open) {
                    break;
                }
            }
            Err(error) if is_damage(&error) => {
                let there = fs::metadata(files.segment(*number))?.len();
                let bytes = there.max(written(files, ended, *number));
                note(files, Position::new(*number, 0), bytes, report);
            }
            Err(error) => return Err(error),
        }
    }
    for segment in tail.iter_mut().rev() {
        next_ticket = next_ticket.max(segment.header.first_ticket);
        scan((files, ended), segment, &mut open, &mut next_ticket, report)?;
    }
    // Ends of transactions may have been there.
    let damaged = report.damage[before..].iter().map(|damage| damage.position);
    let gone = state.gone.keys().map(|number| Position::new(*number, 0));
    let lost: Vec<Position> = damaged.chain(gone).collect();
    let open = open.into_iter().map(|(number, last)| {
        let unsure = lost.iter().copied().filter(|lost| *lost > last).min();
        (number, last, unsure)
    });
    Ok(Past { next_ticket, open: open.collect() })
}

/// The number of the first ticket of these segments, as the first of their headers that is whole
/// says.
pub(crate) fn first_ticket(
    files: &Files,
    segments: impl Iterator<Item = u32>,
) -> io::Result<Option<u64>> {
    for number in segments {
        match Segment::open_single(files, number, u64::MAX) {
            Ok(segment) if !segment.salvaged => return Ok(Some(segment.header.first_ticket)),
            Err(error) if !is_damage(&error) => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}

/// The greatest ticket number in the last of these sealed segments that has any; 0 if none has.
pub(crate) fn last_ticket(files: &Files, sealed: &BTreeSet<u32>) -> io::Result<u64> {
    for number in sealed.iter().rev() {
        let mut segment = Sealed::open(files, &State::default(), *number, false)?;
        let (mut offset, mut last) = (0, 0);
        while let Some(found) = segment.next(offset)? {
            last = segment.get(found)?.map_or(last, |one| last.max(one.ticket));
            let Some(behind) = found.checked_add(1) else { break };
            offset = behind;
        }
        if last > 0 {
            return Ok(last);
        }
    }
    Ok(0)
}

/// Bytes that had surely been written to a segment.
fn written(files: &Files, ended: End, number: u32) -> u64 {
    match ended.position.segment() {
        last if last == number => ended.position.offset().into(),
        last if last > number => files.segment_bytes(),
        _ => 0,
    }
}

/// Whether a segment is to be passed over rather than the reading given up.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn note(files: &Files, position: Position, bytes: u64, report: &mut RecoveryReport) {
    report.damage.push(Damage { lane: files.lane, position, bytes });
    files.damages.note(position.segment(), "segment", position.offset().into(), bytes);
}

fn scan(
    (files, ended): (&Files, End),
    segment: &mut Segment,
    open: &mut BTreeMap<u64, Position>,
    next_ticket: &mut u64,
    report: &mut RecoveryReport,
) -> io::Result<()> {
    report.segments += 1;
    if segment.salvaged {
        note(files, Position::new(segment.header.number, 0), HEADER as u64, report);
    }
    let cut = written(files, ended, segment.header.number).saturating_sub(segment.length.into());
    if cut > 0 {
        note(files, Position::new(segment.header.number, segment.length), cut, report);
    }
    let mut offset = HEADER as u32;
    loop {
        let position = Position::new(segment.header.number, offset);
        let Some(frame) = segment.frame(offset, segment.length)? else {
            let (next, bytes) = segment.resynchronise(offset, segment.length)?;
            if bytes > 0 || next.is_some() {
                note(files, position, bytes, report);
            }
            let Some(next) = next else { return Ok(()) };
            offset = next;
            continue;
        };
        report.records += 1;
        *next_ticket = (*next_ticket).max(frame.ticket.saturating_add(1));
        match frame.kind {
            Kind::Open => {
                let pairs = frame.payload.chunks_exact(16);
                *open = pairs
                    .map(|pair| (u64_at(pair, 0), Position::from_bits(u64_at(pair, 8))))
                    .collect();
            }
            Kind::Received => {
                open.insert(frame.ticket, position);
            }
            Kind::RequestPart | Kind::ResponsePart => {
                if let Some(last) = open.get_mut(&frame.ticket) {
                    *last = position;
                }
            }
            Kind::Completed => {
                open.remove(&frame.ticket);
            }
        }
        offset = frame.next;
    }
}
