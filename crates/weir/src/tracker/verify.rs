//! Reading a whole journal, so that every checksum is compared.

use super::failure;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_admin::tracker::{Verified, Verify};
use weir_journal::{Journal, Position, Reader, RecoveryReport};

/// How long one step takes, nearly.
const STEP: Duration = Duration::from_secs(1);

/// Reads a part of the journal with each step.
pub(crate) fn steps(journal: Arc<Journal>, recovery: &RecoveryReport) -> Verify {
    let mut found: Vec<Verified> = (recovery.damage.iter())
        .map(|damage| {
            let (segment, offset) = (damage.position.segment(), damage.position.offset());
            let id = format!("damage/{}/{segment}/{offset}", damage.lane);
            Verified { id, damaged_bytes: damage.bytes, ..Verified::default() }
        })
        .collect();
    let mut gone = Verified::default();
    for file in &recovery.missing {
        let id = format!("missing/{}/{}/{}", file.lane, file.segment, file.kind);
        let transactions = file.transactions;
        let of_file = match file.accepted {
            true => Verified { accepted_files: 1, accepted: transactions, ..Verified::default() },
            false => Verified { missing_files: 1, missing: transactions, ..Verified::default() },
        };
        gone.missing_files += of_file.missing_files;
        gone.missing += of_file.missing;
        gone.accepted_files += of_file.accepted_files;
        gone.accepted += of_file.accepted;
        found.push(Verified { id, ..of_file });
    }
    let mut total = Verified { id: "end".to_owned(), end: true, ..gone };
    let (mut lane, mut reading) = (0, None);
    let mut ended = false;
    Box::new(move || {
        let mut told = std::mem::take(&mut found);
        let until = Instant::now() + STEP;
        while lane < journal.lanes() {
            let (reader, of_lane) = reading.get_or_insert_with(|| begin(&journal, lane));
            if !read(reader, of_lane, until).map_err(failure)? {
                return Ok(Some(told));
            }
            total.transactions += of_lane.transactions;
            total.damaged += of_lane.damaged;
            total.expired += of_lane.expired;
            told.push(std::mem::take(of_lane));
            (lane, reading) = (lane + 1, None);
        }
        if std::mem::replace(&mut ended, true) {
            return Ok(None);
        }
        // Found at the start, or since then by whoever read them: each is counted once.
        total.damaged_bytes = journal.statistics().damaged_bytes;
        told.push(total.clone());
        Ok(Some(told))
    })
}

fn begin(journal: &Journal, lane: u16) -> (Reader, Verified) {
    let id = format!("lane/{lane}");
    (journal.reader(lane, Position::START), Verified { id, ..Verified::default() })
}

/// Reads on in a lane; gives whether its end was reached.
fn read(reader: &mut Reader, of_lane: &mut Verified, until: Instant) -> std::io::Result<bool> {
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
