//! What was not sent to a sink, in the database: rejected documents and gaps. Neither has content of a
//! transaction.

use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use weir_journal::{Address, Position, Skipped};
use weir_model::{TransactionId, UnixMicros};
use weir_store::StoreError;

use crate::error::ShipError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_store::clock::now_us;

/// Most rejected documents of a sink that are kept; the oldest are dropped.
const MAX_REJECTED: i64 = 100_000;

/// A document that a sink has rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RejectedDocument {
    /// Name of the sink.
    pub sink: String,
    /// Id of the transaction.
    #[schema(value_type = String)]
    pub id: TransactionId,
    /// Time of the rejection.
    #[schema(value_type = String)]
    pub at: UnixMicros,
    /// Status of the item from OpenSearch, or error code of Kafka; 0 if there was none.
    pub status: u16,
    /// Reason.
    pub reason: String,
}

/// Records that were not sent to a sink, or without headers and bodies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShipGap {
    /// Name of the sink.
    pub sink: String,
    /// Index of the lane.
    pub lane: u16,
    /// `record`: not sent; `payload`: sent without headers and bodies.
    pub why: String,
    /// Position of the first record in the journal.
    pub from: u64,
    /// Position after the last record.
    pub to: u64,
    /// Number of records.
    pub records: u64,
    /// The number is an upper bound.
    pub at_most: bool,
    /// Time of the last change.
    #[schema(value_type = String)]
    pub at: UnixMicros,
    /// What the last backfill found, if there was one since that change.
    pub filled: Option<GapFilled>,
}

/// What a backfill found of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GapFilled {
    /// Records that the sink has now.
    pub recovered: u64,
    /// Records that the journal does not have any more; unknown after a backfill of a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<u64>,
    /// Time of its end.
    #[schema(value_type = String)]
    pub at: UnixMicros,
}

/// Why records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The journal has dropped them.
    Record,
    /// The journal has dropped their headers and bodies.
    Payload,
}

impl Missing {
    fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Payload => "payload",
        }
    }
}

/// A document to be noted as rejected.
pub(crate) struct NewRejected {
    pub(crate) id: u128,
    pub(crate) address: Option<Address>,
    pub(crate) status: u16,
    pub(crate) reason: String,
}

/// The records of a sink, on a connection of their own.
#[derive(Debug)]
pub(crate) struct Records {
    connection: Connection,
    sink: String,
}

impl Records {
    pub(crate) fn open(data: &Path, sink: &str) -> Result<Self, StoreError> {
        Ok(Self { connection: weir_store::open(data)?, sink: sink.to_owned() })
    }

    /// The id of this node in the source of events.
    pub(crate) fn event_source(&self) -> rusqlite::Result<String> {
        let read = "SELECT id FROM event_source";
        self.connection.prepare_cached(read)?.query_row([], |row| row.get(0))
    }

    /// Adds rejected documents, durably. Returns how many old ones were dropped for them.
    pub(crate) fn reject(&mut self, documents: &[NewRejected]) -> rusqlite::Result<u64> {
        let database = self.connection.transaction()?;
        for NewRejected { id, address, status, reason } in documents {
            let lane = address.map_or(0, |address| address.lane);
            let position = address.map_or(0, |address| address.position.to_bits().cast_signed());
            let insert = "INSERT INTO ship_rejected (sink, id, lane, position, at, status, reason)
                          VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                          ON CONFLICT (sink, id) DO UPDATE SET at = ?5, status = ?6, reason = ?7";
            let id = id.to_be_bytes();
            let at = now_us().cast_signed();
            database.execute(insert, params![self.sink, id, lane, position, at, status, reason])?;
        }
        let oldest = "SELECT number FROM ship_rejected WHERE sink = ?1
                      ORDER BY number DESC LIMIT 1 OFFSET ?2";
        let oldest: Option<i64> = database
            .query_row(oldest, params![self.sink, MAX_REJECTED], |row| row.get(0))
            .optional()?;
        let drop = "DELETE FROM ship_rejected WHERE sink = ?1 AND number <= ?2";
        let dropped = database.execute(drop, params![self.sink, oldest.unwrap_or(0)])?;
        database.commit()?;
        Ok(dropped as u64)
    }

    /// Adds a gap, durably. Adjacent gaps become one; of gaps that overlap, which a crash causes, the
    /// greater number counts. Returns the number of records that are new.
    pub(crate) fn add_gap(&mut self, why: Missing, gap: Skipped) -> rusqlite::Result<u64> {
        let database = self.connection.transaction()?;
        let (mut sum, mut overlapping, mut merged) = (0, 0, gap);
        for known in touching(&database, &self.sink, why, gap)? {
            let adjacent = known.to == gap.from || known.from == gap.to;
            *if adjacent { &mut sum } else { &mut overlapping } += known.records;
            merged.from = merged.from.min(known.from);
            merged.to = merged.to.max(known.to);
            merged.at_most |= known.at_most;
            let delete = "DELETE FROM ship_gap
                          WHERE sink = ?1 AND lane = ?2 AND why = ?3 AND from_ = ?4";
            let key = params![self.sink, gap.lane, why.as_str(), bits(known.from)];
            database.execute(delete, key)?;
        }
        let before = sum + overlapping;
        merged.records = sum + gap.records.max(overlapping);
        let insert = "INSERT INTO ship_gap (sink, lane, why, from_, to_, records, at_most, at)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let Skipped { lane, from, to, records, at_most } = merged;
        let (from, to, at) = (bits(from), bits(to), now_us().cast_signed());
        let row = params![self.sink, lane, why.as_str(), from, to, records, at_most, at];
        database.execute(insert, row)?;
        database.commit()?;
        Ok(records - before)
    }

    /// The gaps whose records were not sent, in the order of lanes and positions.
    pub(crate) fn gaps(&self) -> rusqlite::Result<Vec<Skipped>> {
        let select = "SELECT lane, from_, to_, records, at_most FROM ship_gap
                      WHERE sink = ?1 AND why = ?2 ORDER BY lane, from_";
        let mut select = self.connection.prepare_cached(select)?;
        let read = |row: &rusqlite::Row<'_>| {
            let (from, to) = (position(row, 1)?, position(row, 2)?);
            Ok(Skipped { lane: row.get(0)?, from, to, records: row.get(3)?, at_most: row.get(4)? })
        };
        select.query_map(params![self.sink, Missing::Record.as_str()], read)?.collect()
    }

    /// Notes what a backfill has found of a gap; one that has changed meanwhile is left alone.
    pub(crate) fn mark_filled(&self, filled: &Filled) -> rusqlite::Result<()> {
        let Filled { gap, recovered, gone } = filled;
        let update = "UPDATE ship_gap SET recovered = ?6, gone = ?7, filled_at = ?8
                      WHERE sink = ?1 AND lane = ?2 AND why = ?3 AND from_ = ?4 AND to_ = ?5";
        let (why, at) = (Missing::Record.as_str(), now_us().cast_signed());
        let (from, to) = (bits(gap.from), bits(gap.to));
        let row = params![self.sink, gap.lane, why, from, to, recovered, gone, at];
        self.connection.execute(update, row).map(drop)
    }
}

/// A gap that a backfill has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) gap: Skipped,
    pub(crate) recovered: u64,
    pub(crate) gone: Option<u64>,
}

/// The known gaps that touch another one.
fn touching(
    connection: &Connection,
    sink: &str,
    why: Missing,
    gap: Skipped,
) -> rusqlite::Result<Vec<Skipped>> {
    let select = "SELECT from_, to_, records, at_most FROM ship_gap
                  WHERE sink = ?1 AND lane = ?2 AND why = ?3 AND to_ >= ?4 AND from_ <= ?5";
    let mut select = connection.prepare_cached(select)?;
    let read = |row: &rusqlite::Row<'_>| {
        let (from, to) = (position(row, 0)?, position(row, 1)?);
        Ok(Skipped { lane: gap.lane, from, to, records: row.get(2)?, at_most: row.get(3)? })
    };
    let of_gap = params![sink, gap.lane, why.as_str(), bits(gap.from), bits(gap.to)];
    select.query_map(of_gap, read)?.collect()
}

fn position(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Position> {
    Ok(Position::from_bits(row.get::<_, i64>(column)?.cast_unsigned()))
}

fn bits(position: Position) -> i64 {
    position.to_bits().cast_signed()
}

/// The newest rejected documents of all sinks of a data folder, newest first.
///
/// # Errors
/// The database cannot be read.
pub fn rejected(data: &Path, limit: u32) -> Result<Vec<RejectedDocument>, ShipError> {
    let connection = weir_store::open(data)?;
    let select = "SELECT sink, id, at, status, reason FROM ship_rejected
                  ORDER BY number DESC LIMIT ?1";
    let mut select = connection.prepare_cached(select)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(RejectedDocument {
            sink: row.get(0)?,
            id: TransactionId(u128::from_be_bytes(row.get(1)?)),
            at: UnixMicros(row.get::<_, i64>(2)?.cast_unsigned()),
            status: row.get(3)?,
            reason: row.get(4)?,
        })
    };
    Ok(select.query_map([limit], read)?.collect::<rusqlite::Result<_>>()?)
}

/// The first gaps of all sinks of a data folder.
///
/// # Errors
/// The database cannot be read.
pub fn gaps(data: &Path, limit: u32) -> Result<Vec<ShipGap>, ShipError> {
    let connection = weir_store::open(data)?;
    let select =
        "SELECT sink, lane, why, from_, to_, records, at_most, at, recovered, gone, filled_at
                  FROM ship_gap ORDER BY sink, lane, from_ LIMIT ?1";
    let mut select = connection.prepare_cached(select)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(ShipGap {
            sink: row.get(0)?,
            lane: row.get(1)?,
            why: row.get(2)?,
            from: position(row, 3)?.to_bits(),
            to: position(row, 4)?.to_bits(),
            records: row.get(5)?,
            at_most: row.get(6)?,
            at: UnixMicros(row.get::<_, i64>(7)?.cast_unsigned()),
            filled: filled(row)?,
        })
    };
    Ok(select.query_map([limit], read)?.collect::<rusqlite::Result<_>>()?)
}

fn filled(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<GapFilled>> {
    let Some(at) = row.get::<_, Option<i64>>(10)? else { return Ok(None) };
    let at = UnixMicros(at.cast_unsigned());
    Ok(Some(GapFilled { recovered: row.get(8)?, gone: row.get(9)?, at }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(from: u64, to: u64, records: u64, at_most: bool) -> Skipped {
        let [from, to] = [from, to].map(Position::from_bits);
        Skipped { lane: 0, from, to, records, at_most }
    }

    #[test]
    fn adjacent_gaps_are_one_and_a_gap_that_is_told_again_does_not_count_twice() {
        let data = tempfile::tempdir().unwrap();
        let mut records = Records::open(data.path(), "search").unwrap();
        let mut add = |gap| records.add_gap(Missing::Record, gap).unwrap();
        assert_eq!(add(gap(100, 200, 10, false)), 10);
        assert_eq!(add(gap(200, 300, 5, false)), 5);
        assert_eq!(add(gap(50, 400, 20, true)), 5, "of them 15 are known");
        assert_eq!(add(gap(50, 400, 20, true)), 0);
        assert_eq!(add(gap(500, 600, 1, false)), 1);
        let found = gaps(data.path(), 10).unwrap();
        let found: Vec<_> = found.iter().map(|gap| (gap.from, gap.records)).collect();
        assert_eq!(found, [(50, 20), (500, 1)]);
    }

    #[test]
    fn the_oldest_rejected_documents_are_dropped() {
        let data = tempfile::tempdir().unwrap();
        let mut records = Records::open(data.path(), "search").unwrap();
        let document =
            |id: u128| NewRejected { id, address: None, status: 400, reason: "why".to_owned() };
        let many: Vec<_> = (0..MAX_REJECTED as u128 + 3).map(document).collect();
        assert_eq!(records.reject(&many).unwrap(), 3);
        assert_eq!(records.reject(&[document(50), document(50)]).unwrap(), 0, "known already");
        assert_eq!(rejected(data.path(), 1).unwrap()[0].id.0, MAX_REJECTED as u128 + 2);
    }
}
