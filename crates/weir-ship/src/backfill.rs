//! Backfill: transactions that a sink lacks and the journal still has are read again, beside the live
//! ones.
//!
//! It reads recorded gaps one after the other, or the whole journal. Documents are created, so that
//! those that exist are left alone, and a backfill can be repeated.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_journal::{Journal, Position, Reader, Skipped, Transaction};
use weir_model::UnixMicros;
use weir_store::clock::now_us;

use crate::queue::Queue;
use crate::records::Filled;

/// What a backfill sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackfillOptions {
    /// Transactions received from this time on, in microseconds since 1970.
    pub from: Option<u64>,
    /// Transactions received before this time.
    pub to: Option<u64>,
    /// Everything that the journal has, not only what is in gaps: for an index that was lost.
    pub all: bool,
}

/// State of a backfill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackfillState {
    /// It reads or sends.
    Running,
    /// It has ended.
    Completed,
    /// A new configuration, or a failure, has ended it: start another one.
    Interrupted,
}

/// Progress of a backfill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillProgress {
    /// State.
    pub state: BackfillState,
    /// Time of its start.
    #[schema(value_type = String)]
    pub started: UnixMicros,
    /// Time of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub ended: Option<UnixMicros>,
    /// Gaps to be read; with all transactions, lanes of the journal.
    pub ranges: u64,
    /// Of them, those that were read, and whose documents are settled.
    pub done: u64,
    /// Records of the gaps, at most; 0 with all transactions.
    pub records: u64,
    /// Transactions that were read.
    pub read: u64,
    /// Transactions that the sink has now.
    pub recovered: u64,
    /// Documents that it has rejected.
    pub rejected: u64,
    /// Records of gaps that the journal does not have any more. Of a period it is unknown.
    pub gone: u64,
}

impl BackfillProgress {
    /// Whether it has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == BackfillState::Running
    }

    /// The progress of one whose shipper is gone.
    #[must_use]
    pub fn interrupted(self) -> Self {
        match self.state {
            BackfillState::Running => Self {
                state: BackfillState::Interrupted,
                ended: Some(UnixMicros(now_us())),
                ..self
            },
            _ => self,
        }
    }
}

/// A part of a lane to be read.
#[derive(Clone, Copy, Debug)]
struct Range {
    lane: u16,
    from: Position,
    to: Position,
    /// The gap, if it is one.
    gap: Option<Skipped>,
}

/// A range that is being read, and whose documents are being sent.
#[derive(Debug)]
struct Reading {
    range: Range,
    reader: Reader,
    /// All of it was read.
    ended: bool,
    /// Its transactions, and the rejected documents of them.
    read: u64,
    rejected: u64,
}

/// A backfill.
#[derive(Debug)]
pub(crate) struct Backfill {
    period: (Option<u64>, Option<u64>),
    /// The next one is last.
    ranges: Vec<Range>,
    reading: Option<Reading>,
    /// Its documents that are not settled.
    pub(crate) queue: Queue,
    progress: BackfillProgress,
}

impl Backfill {
    /// Gaps are those of the sink.
    pub(crate) fn new(options: &BackfillOptions, gaps: Vec<Skipped>, journal: &Journal) -> Self {
        let of_gap =
            |gap: Skipped| Range { lane: gap.lane, from: gap.from, to: gap.to, gap: Some(gap) };
        let of_lane = |lane| {
            let (from, to) = (journal.begin(lane), journal.end(lane));
            Range { lane, from, to, gap: None }
        };
        let mut ranges: Vec<Range> = match options.all {
            true => (0..journal.lanes()).map(of_lane).collect(),
            false => gaps.into_iter().map(of_gap).collect(),
        };
        ranges.reverse();
        let records = ranges.iter().filter_map(|range| Some(range.gap?.records)).sum();
        let progress = BackfillProgress {
            state: BackfillState::Running,
            started: UnixMicros(now_us()),
            ended: None,
            ranges: ranges.len() as u64,
            done: 0,
            records,
            read: 0,
            recovered: 0,
            rejected: 0,
            gone: 0,
        };
        let period = (options.from, options.to);
        Self { period, ranges, reading: None, queue: Queue::default(), progress }
    }

    pub(crate) fn progress(&self) -> &BackfillProgress {
        &self.progress
    }

    /// Reads the next transaction of the range; false if there is none, or if the documents of a range
    /// that was read are not settled yet.
    pub(crate) fn next_into(
        &mut self,
        journal: &Arc<Journal>,
        transaction: &mut Transaction,
    ) -> io::Result<bool> {
        if self.reading.is_none() {
            let Some(range) = self.ranges.pop() else {
                if self.progress.is_running() {
                    self.progress.state = BackfillState::Completed;
                    self.progress.ended = Some(UnixMicros(now_us()));
                }
                return Ok(false);
            };
            // Segments that were dropped are left out.
            let reader = journal.reader(range.lane, range.from.max(journal.begin(range.lane)));
            self.reading = Some(Reading { range, reader, ended: false, read: 0, rejected: 0 });
        }
        let Some(reading) = &mut self.reading else { return Ok(false) };
        while !reading.ended {
            let is_next = reading.reader.position() < reading.range.to
                && reading.reader.next_visible_into(transaction)?
                && reading.reader.position() <= reading.range.to;
            if !is_next {
                reading.ended = true;
                break;
            }
            let (from, to) = self.period;
            let at = transaction.received_us;
            if from.is_none_or(|from| at >= from) && to.is_none_or(|to| at < to) {
                reading.read += 1;
                self.progress.read += 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Documents were rejected.
    pub(crate) fn rejected(&mut self, count: usize) {
        self.progress.rejected += count as u64;
        if let Some(reading) = &mut self.reading {
            reading.rejected += count as u64;
        }
    }

    /// Whether the range was read, and all of its documents are settled.
    pub(crate) fn is_range_over(&self) -> bool {
        self.reading.as_ref().is_some_and(|reading| reading.ended) && self.queue.is_settled()
    }

    /// What has become of the range that is over, if it is a gap.
    pub(crate) fn filled(&self) -> Option<Filled> {
        let reading = self.reading.as_ref()?;
        let gap = reading.range.gap?;
        let is_whole = self.period == (None, None);
        let gone = is_whole.then(|| gap.records.saturating_sub(reading.read));
        Some(Filled { gap, recovered: reading.read - reading.rejected, gone })
    }

    /// Goes on with the next range.
    pub(crate) fn go_on(&mut self) {
        self.progress.gone += self.filled().and_then(|filled| filled.gone).unwrap_or(0);
        if let Some(reading) = self.reading.take() {
            self.progress.recovered += reading.read - reading.rejected;
            self.progress.done += 1;
        }
    }
}
