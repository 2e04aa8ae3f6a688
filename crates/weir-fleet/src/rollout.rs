//! Statements about versions of the configuration and their rollouts.
//!
//! A version is a row that never changes. The version of a node is that of the active rollout, if the node
//! is one of its stage, else that of the fleet. Nodes poll it with their heartbeat and report what became of
//! it; the node that has the task `rollout` judges the reports ([`verdict`]) and writes the next stage.

pub(crate) mod driver;
pub(crate) mod verdict;

use crate::database::{Connection, DatabaseError, Parameter};
use crate::status::NodeStatus;
use crate::versions::{Comparison, FleetVersions, Rollout, Version};
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use strum::{Display, EnumString};
use tokio_postgres::Row;
use tokio_postgres::types::{Json, Type};
use uuid::Uuid;
use verdict::Counts;
use weir_config::versions::{Attempt, Files, MAX_BYTES};
use weir_model::UnixSeconds;

/// Versions that are kept, besides those in use.
const MAX_VERSIONS: i64 = 100;
/// Rollouts that are kept, besides the one that has set the version in force.
const MAX_ROLLOUTS: i64 = 1000;
/// Longest comment of a version, in characters.
pub const MAX_COMMENT: usize = 1000;
/// Level of compression.
const LEVEL: i32 = 9;

/// A version that the fleet demands of a node.
#[derive(Debug)]
pub struct Offer {
    /// The attempt.
    pub attempt: Attempt,
    /// The files; otherwise why this node cannot try the version.
    pub files: Result<Files, String>,
    /// An operator has rolled back to it: the node needs no proof that it is a good one.
    pub is_rollback: bool,
}

/// Why a command on rollouts was not executed.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// There is no such version.
    #[error("there is no version {0}; `weir rollout versions` lists them")]
    UnknownVersion(i64),
    /// Another rollout is active.
    #[error("another rollout is active: wait for its end, or `weir rollout abort`")]
    Active,
    /// No rollout is in a state in which the command applies.
    #[error("no rollout is {0}")]
    NotActive(&'static str),
    /// No node takes versions.
    #[error("no live node has `fleet: {{config: {{source: fleet}}}}`")]
    NoNodes,
    /// There is no version to return to.
    #[error("no version was in force before: give the number of one")]
    NoneBefore,
    /// A rollback to a version that no rollout has given to all nodes.
    #[error("version {0} was never in force: `weir rollout start {0}` rolls it out in stages")]
    NeverInForce(i64),
    /// The version is in force already.
    #[error("version {0} is in force already")]
    InForce(i64),
    /// The files cannot be stored.
    #[error("the files cannot be stored: {0}")]
    Files(String),
}

impl From<tokio_postgres::Error> for RolloutError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Files in the form in which they are stored, and their digest.
fn pack(files: &Files) -> Result<(Vec<u8>, String), String> {
    let text = serde_json::to_vec(files).map_err(|error| error.to_string())?;
    let packed = zstd::bulk::compress(&text, LEVEL).map_err(|error| error.to_string())?;
    Ok((packed, HEXLOWER.encode(digest(&SHA256, &text).as_ref())))
}

/// The files of a version whose digest is right.
fn unpack(packed: &[u8], expected: &str) -> Result<Files, String> {
    // Escapes make the JSON longer than its texts.
    let text = zstd::bulk::decompress(packed, 8 * MAX_BYTES).map_err(|error| error.to_string())?;
    if HEXLOWER.encode(digest(&SHA256, &text).as_ref()) != expected {
        return Err("its files do not have its digest".to_owned());
    }
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// Stores a version; returns its number. Old ones that no node needs are deleted.
pub(crate) async fn push(
    connection: &Connection,
    files: &Files,
    (by, comment): (&str, &str),
) -> Result<i64, RolloutError> {
    let (packed, digest) = pack(files).map_err(RolloutError::Files)?;
    // A failover may have lost versions that nodes have: their numbers are not used again.
    let sql = "WITH next AS (UPDATE weir.fleet SET pushed = 1 + greatest(pushed,
             (SELECT coalesce(max((in_force->>'version')::bigint), 0) FROM weir.node)) RETURNING pushed)
         INSERT INTO weir.config (number, digest, files, min_weir, who, comment)
         SELECT pushed, $1, $2, $3, $4, $5 FROM next RETURNING number";
    let parameters: [Parameter<'_>; 5] = [
        (&digest, Type::TEXT),
        (&packed, Type::BYTEA),
        (&env!("CARGO_PKG_VERSION"), Type::TEXT),
        (&by, Type::TEXT),
        (&comment, Type::TEXT),
    ];
    let number: i64 = connection.one(sql, &parameters).await?.try_get(0)?;
    let last = number - MAX_VERSIONS;
    let sql = "DELETE FROM weir.config c WHERE number <= $1
         AND NOT EXISTS (SELECT FROM weir.fleet f WHERE c.number = f.version)
         AND NOT EXISTS (SELECT FROM weir.rollout r, weir.fleet f WHERE c.number IN (r.version, r.base)
             AND (r.state IN ('running', 'paused') OR r.id = f.rollout))";
    connection.execute(sql, &[(&last, Type::INT8)]).await?;
    Ok(number)
}

/// All versions, the latest first.
pub(crate) async fn versions(connection: &Connection) -> Result<Vec<Version>, DatabaseError> {
    let sql = "SELECT number, digest, min_weir, who, comment, extract(epoch FROM at)::bigint
         FROM weir.config ORDER BY number DESC";
    let rows = connection.query(sql, &[]).await?;
    let version = |row: &Row| -> Result<Version, tokio_postgres::Error> {
        Ok(Version {
            number: row.try_get(0)?,
            digest: row.try_get(1)?,
            min_weir: row.try_get(2)?,
            by: row.try_get(3)?,
            comment: row.try_get(4)?,
            time: UnixSeconds(row.try_get::<_, i64>(5)?.unsigned_abs()),
        })
    };
    rows.iter().map(|row| version(row).map_err(DatabaseError::from)).collect()
}

/// The files of a version; otherwise why this weir cannot try it.
async fn files(
    connection: &Connection,
    number: i64,
) -> Result<Result<Files, String>, DatabaseError> {
    let sql = "SELECT digest, files, min_weir FROM weir.config WHERE number = $1";
    let rows = connection.query(sql, &[(&number, Type::INT8)]).await?;
    let Some(row) = rows.first() else { return Ok(Err("it was deleted".to_owned())) };
    let needed: String = row.try_get(2)?;
    let own = env!("CARGO_PKG_VERSION");
    if crate::schema::numbers(&needed) > crate::schema::numbers(own) {
        return Ok(Err(format!("it needs weir {needed} or later; this is {own}")));
    }
    let (digest, packed): (String, Vec<u8>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(unpack(&packed, &digest))
}

/// The version of the fleet and the latest rollout, and the counts at the begin of its stage, with which
/// `nodes` are compared.
pub(crate) async fn current(
    connection: &Connection,
    nodes: &[NodeStatus],
) -> Result<(FleetVersions, Counts), DatabaseError> {
    let sql = "SELECT f.version, f.rollout, r.id, r.version, r.base, r.stage, r.state, r.nodes,
             extract(epoch FROM now() - r.since)::float8, r.verdict, r.who,
             extract(epoch FROM r.at)::bigint, r.counts, r.compared, f.rolled_back
         FROM weir.fleet f LEFT JOIN LATERAL (SELECT * FROM weir.rollout ORDER BY id DESC LIMIT 1) r ON true
         WHERE f.one = 1";
    let row = connection.one(sql, &[]).await?;
    let mut versions = FleetVersions {
        version: row.try_get(0)?,
        rollout_of_version: row.try_get(1)?,
        is_rollback: row.try_get(14)?,
        rollout: None,
    };
    let Some(id) = row.try_get::<_, Option<i64>>(2)? else {
        return Ok((versions, Counts::default()));
    };
    let (stage, state): (String, String) = (row.try_get(5)?, row.try_get(6)?);
    let tried_by: Vec<Uuid> = row.try_get(7)?;
    let Json(counts) = row.try_get::<_, Json<Counts>>(12)?;
    let compared = row.try_get::<_, Option<Json<Comparison>>>(13)?.map(|Json(compared)| compared);
    let mut rollout = Rollout {
        id,
        version: row.try_get(3)?,
        base: row.try_get(4)?,
        stage: stage.parse().unwrap_or_default(),
        state: state.parse().unwrap_or_default(),
        nodes: tried_by.iter().map(Uuid::to_string).collect(),
        stage_seconds: row.try_get::<_, f64>(8)?.max(0.0),
        verdict: row.try_get(9)?,
        by: row.try_get(10)?,
        time: UnixSeconds(row.try_get::<_, i64>(11)?.unsigned_abs()),
        compared,
    };
    if rollout.is_active() {
        rollout.compared = Some(verdict::compare(&rollout, &counts, nodes));
    }
    versions.rollout = Some(rollout);
    Ok((versions, counts))
}

/// Starts a rollout with its first stage; `driver` is the node that responds.
pub(crate) async fn start(
    connection: &Connection,
    version: i64,
    by: &str,
    driver: Uuid,
    nodes: &[NodeStatus],
) -> Result<(), RolloutError> {
    exists(connection, version).await?;
    let (current, _) = current(connection, nodes).await?;
    if current.is_rolling() {
        return Err(RolloutError::Active);
    }
    if current.version == Some(version) {
        return Err(RolloutError::InForce(version));
    }
    let first = verdict::first(nodes, &driver.to_string()).ok_or(RolloutError::NoNodes)?;
    let counts = Json(Counts::at_start(nodes));
    let sql = "INSERT INTO weir.rollout (version, base, stage, state, nodes, counts, who)
         SELECT $1, version, 'one', 'running', ARRAY[$2::text::uuid], $3, $4 FROM weir.fleet
         ON CONFLICT DO NOTHING";
    let parameters: [Parameter<'_>; 4] =
        [(&version, Type::INT8), (&first, Type::TEXT), (&counts, Type::JSONB), (&by, Type::TEXT)];
    if connection.execute(sql, &parameters).await? == 0 {
        return Err(RolloutError::Active);
    }
    let sql = "DELETE FROM weir.rollout r WHERE id <= (SELECT max(id) - $1 FROM weir.rollout)
         AND NOT EXISTS (SELECT FROM weir.fleet f WHERE f.rollout = r.id)";
    connection.execute(sql, &[(&MAX_ROLLOUTS, Type::INT8)]).await?;
    Ok(())
}

async fn exists(connection: &Connection, version: i64) -> Result<(), RolloutError> {
    let sql = "SELECT EXISTS (SELECT FROM weir.config WHERE number = $1)";
    match connection.one(sql, &[(&version, Type::INT8)]).await?.try_get(0)? {
        true => Ok(()),
        false => Err(RolloutError::UnknownVersion(version)),
    }
}

/// A change of the active rollout by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum RolloutAction {
    /// Stays in its stage.
    Pause,
    /// Goes on; the stage begins again.
    Resume,
    /// Ends: all nodes return to the version before.
    Abort,
}

/// Changes the active rollout.
pub(crate) async fn act(
    connection: &Connection,
    action: RolloutAction,
    by: &str,
) -> Result<(), RolloutError> {
    let (from, sql) = match action {
        RolloutAction::Pause => (
            "running",
            "UPDATE weir.rollout SET state = 'paused', verdict = $1 WHERE state = 'running'",
        ),
        RolloutAction::Resume => (
            "paused",
            "UPDATE weir.rollout SET state = 'running', since = now(), verdict = left($1, 0)
             WHERE state = 'paused'",
        ),
        RolloutAction::Abort => (
            "active",
            "UPDATE weir.rollout SET state = 'aborted', verdict = $1
             WHERE state IN ('running', 'paused')",
        ),
    };
    let verdict = match action {
        RolloutAction::Abort => format!("aborted by {by}"),
        RolloutAction::Pause | RolloutAction::Resume => format!("paused by {by}"),
    };
    match connection.execute(sql, &[(&verdict, Type::TEXT)]).await? {
        0 => Err(RolloutError::NotActive(from)),
        _ => Ok(()),
    }
}

/// Makes a version that of all nodes at once: this one, or the one before. An active rollout is aborted;
/// without `version`, that is all. Returns the version.
pub(crate) async fn roll_back(
    connection: &Connection,
    version: Option<i64>,
    by: &str,
) -> Result<Option<i64>, RolloutError> {
    let (current, _) = current(connection, &[]).await?;
    let version = match version {
        // A repeated request: the version to return to stays the one before.
        Some(version) if current.version == Some(version) => {
            if current.is_rolling() {
                act(connection, RolloutAction::Abort, by).await?;
            }
            return Ok(Some(version));
        }
        Some(version) => {
            exists(connection, version).await?;
            let sql = "SELECT EXISTS (SELECT FROM weir.rollout WHERE version = $1 AND state = 'succeeded')";
            let row = connection.one(sql, &[(&version, Type::INT8)]).await?;
            if !row.try_get::<_, bool>(0)? {
                return Err(RolloutError::NeverInForce(version));
            }
            Some(version)
        }
        None if current.is_rolling() => {
            act(connection, RolloutAction::Abort, by).await?;
            return Ok(current.version);
        }
        None => {
            let sql = "SELECT base FROM weir.rollout r, weir.fleet f WHERE r.id = f.rollout";
            let rows = connection.query(sql, &[]).await?;
            rows.first().ok_or(RolloutError::NoneBefore)?.try_get(0)?
        }
    };
    let verdict = format!("rolled back by {by}");
    let sql = "WITH aborted AS (
             UPDATE weir.rollout SET state = 'aborted', verdict = $2
             WHERE state IN ('running', 'paused')
         ), made AS (
             INSERT INTO weir.rollout (version, base, stage, state, nodes, counts, who, verdict)
             SELECT $1, version, 'all', 'succeeded', '{}', '{}', $3, $2 FROM weir.fleet
             RETURNING id, version
         )
         UPDATE weir.fleet SET version = made.version, rollout = made.id, rolled_back = true FROM made";
    let parameters: [Parameter<'_>; 3] =
        [(&version, Type::INT8), (&verdict, Type::TEXT), (&by, Type::TEXT)];
    connection.execute(sql, &parameters).await?;
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_unpacked_only_with_their_digest() {
        let files: Files = [("weir.yaml".to_owned(), "apis: {}\n".to_owned())].into();
        let (packed, digest) = pack(&files).unwrap();
        assert_eq!(unpack(&packed, &digest), Ok(files));
        assert!(unpack(&packed, &"0".repeat(64)).unwrap_err().contains("digest"));
        assert!(unpack(&packed[1..], &digest).is_err());
    }
}
