//! Verification of a journal: reads all of it, so that every checksum is compared.

use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use utoipa::ToSchema;
use weir_journal::{Damage, Journal, Position, Reader, RecoveryReport};

/// Approximate duration of a step.
const STEP: Duration = Duration::from_secs(1);

/// Result of the verification of a part of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verified {
    /// `lane/N`, `damage/LANE/SEGMENT/OFFSET` of a range found at the start,
    /// `missing/LANE/SEGMENT/KIND` of a missing file, or `end`.
    pub id: String,
    /// Transactions read.
    pub transactions: u64,
    /// Transactions with losses.
    pub damaged: u64,
    /// Transactions whose headers and bodies were deleted because of their age.
    pub expired: u64,
    /// Damaged bytes.
    pub damaged_bytes: u64,
    /// Missing files, without those whose loss was accepted.
    #[serde(default)]
    pub missing_files: u64,
    /// Transactions whose files are missing: completely, or headers and bodies.
    #[serde(default)]
    pub missing: u64,
    /// Missing files whose loss was accepted with `weir repair --accept-missing`.
    #[serde(default)]
    pub accepted_files: u64,
    /// Transactions in those files.
    #[serde(default)]
    pub accepted: u64,
    /// The verification is complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
}

/// A verification in progress.
#[derive(Debug)]
pub struct Verification {
    journal: Arc<Journal>,
    /// Results to be returned.
    found: Vec<Verified>,
    total: Verified,
    lane: u16,
    reading: Option<(Reader, Verified)>,
    ended: bool,
}

impl Verification {
    /// Starts the verification of a journal with this recovery.
    #[must_use]
    pub fn new(journal: Arc<Journal>, recovery: &RecoveryReport) -> Self {
        let mut found: Vec<Verified> = (recovery.damage.iter())
            .map(|damage| {
                let Damage { lane, segment, offset, bytes } = *damage;
                let id = format!("damage/{lane}/{segment}/{offset}");
                Verified { id, damaged_bytes: bytes, ..Verified::default() }
            })
            .collect();
        let mut total = Verified { id: "end".to_owned(), end: true, ..Verified::default() };
        for file in &recovery.missing {
            let id = format!("missing/{}/{}/{}", file.lane, file.segment, file.kind);
            let mut of_file = Verified { id, ..Verified::default() };
            for sum in [&mut of_file, &mut total] {
                let (files, transactions) = match file.accepted {
                    true => (&mut sum.accepted_files, &mut sum.accepted),
                    false => (&mut sum.missing_files, &mut sum.missing),
                };
                *files += 1;
                *transactions += file.transactions;
            }
            found.push(of_file);
        }
        Self { journal, found, total, lane: 0, reading: None, ended: false }
    }

    /// Reads a part of the journal, for about a second; `None` at the end.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn step(&mut self) -> io::Result<Option<Vec<Verified>>> {
        let mut found = std::mem::take(&mut self.found);
        let until = Instant::now() + STEP;
        while self.lane < self.journal.lanes() {
            let start = || start(&self.journal, self.lane);
            let (reader, of_lane) = self.reading.get_or_insert_with(start);
            if !read(reader, of_lane, until)? {
                return Ok(Some(found));
            }
            self.total.transactions += of_lane.transactions;
            self.total.damaged += of_lane.damaged;
            self.total.expired += of_lane.expired;
            found.push(std::mem::take(of_lane));
            (self.lane, self.reading) = (self.lane + 1, None);
        }
        if std::mem::replace(&mut self.ended, true) {
            return Ok(None);
        }
        // Found at the start, or since then by any reader: each range is counted once.
        self.total.damaged_bytes = self.journal.statistics().damaged_bytes;
        found.push(self.total.clone());
        Ok(Some(found))
    }
}

fn start(journal: &Journal, lane: u16) -> (Reader, Verified) {
    let id = format!("lane/{lane}");
    (journal.reader(lane, Position::START), Verified { id, ..Verified::default() })
}

/// Continues with a lane; false if its end was not reached in time.
fn read(reader: &mut Reader, of_lane: &mut Verified, until: Instant) -> io::Result<bool> {
    while let Some(transaction) = reader.next_transaction()? {
        of_lane.transactions += 1;
        of_lane.damaged += u64::from(transaction.damaged);
        of_lane.expired += u64::from(transaction.expired);
        if Instant::now() >= until {
            return Ok(false);
        }
    }
    Ok(true)
}
