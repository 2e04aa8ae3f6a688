//! Repair: builds parts for gaps.

use std::sync::Arc;

use weir_journal::{Position, Reader};

use super::{DAY, Indexer, read, readers};
use crate::error::Error;
use crate::index::coverage::Gap;
use crate::part::{Build, OpenPart};

/// A gap that is read again.
#[derive(Debug)]
pub(super) struct Repair {
    readers: Vec<Reader>,
    gap: Gap,
    build: Build,
    part: OpenPart,
    day: Option<u64>,
}

impl Indexer {
    /// Reads up to about `limit` transactions of a gap again.
    pub(super) fn repair_gap(&mut self, limit: usize) -> Result<usize, Error> {
        let read = self.repair_some(limit);
        if read.is_err() {
            self.repair = None;
        }
        read
    }

    fn repair_some(&mut self, limit: usize) -> Result<usize, Error> {
        if self.repair.is_none() {
            let Some(gap) = self.shared.state.read().gaps.first().cloned() else { return Ok(0) };
            let build = Build::new(self.shared.settings.depth);
            let readers = readers(&self.shared, &gap.from);
            let part = OpenPart::new(self.shared.settings.depth, build.seed());
            self.repair = Some(Repair { readers, gap, build, part, day: None });
        }
        let Some(repair) = &mut self.repair else { return Ok(0) };
        let (mut done, mut ended) = (0, true);
        let mut position: Vec<Position> = repair.gap.from.clone();
        for (lane, reader) in repair.readers.iter_mut().enumerate() {
            let to = repair.gap.to[lane];
            while done < limit && !repair.build.is_full() && reader.position() < to {
                let Some(mut transaction) = reader.next_visible().map_err(Error::Journal)? else {
                    break;
                };
                if transaction.address.is_none_or(|address| address.position >= to) {
                    break;
                }
                let day = transaction.received_us / DAY;
                repair.day = Some(repair.day.unwrap_or(day).max(day));
                let block = read(&self.shared, &mut repair.build, &mut transaction);
                repair.part.blocks.extend(block);
                repair.part.columns.push(&transaction);
                done += 1;
            }
            ended &= done < limit && !repair.build.is_full();
            position[lane] = if ended { to } else { reader.position().min(to) };
        }
        if ended || repair.build.is_full() {
            self.finish_repair(position)?;
        }
        // At least 1: the next call finds out whether anything is left.
        Ok(done.max(1))
    }

    /// Writes what was read again; the rest remains a gap.
    fn finish_repair(&mut self, reached: Vec<Position>) -> Result<(), Error> {
        let Some(mut repair) = self.repair.take() else { return Ok(()) };
        repair.part.blocks.extend(repair.build.last());
        let mut sealed = None;
        if let Some(day) = repair.day {
            let folder = self.next_folder(day);
            let spans = repair.gap.from.iter().copied().zip(reached.iter().copied()).collect();
            let provisional = self.shared.settings.provisional;
            let part = repair.part.write(spans, provisional, &self.building(), &folder)?;
            sealed = Some(Arc::new(part));
        }
        let mut state = self.shared.state.write();
        state.sealed.extend(sealed);
        state.gaps.retain(|gap| *gap != repair.gap);
        if reached != repair.gap.to {
            state.gaps.insert(0, Gap { from: reached, to: repair.gap.to });
        }
        Ok(())
    }
}
