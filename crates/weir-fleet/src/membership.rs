//! Membership: the row of a node, its lease, and the rows of the others.
//!
//! All times are those of the database. A node renews its lease with each heartbeat. Every write of a
//! node checks its boot and its lease, so that a process that was suspended, or whose identity another
//! process has taken, changes nothing.

use crate::database::{Connection, DatabaseError, Parameter, bounded};
use crate::identity::{Boot, Identity, IdentityError};
use crate::status::{ConfigurationState, NodeState, NodeStatus};
use crate::unreplicated::{MISSING, UNREPORTED, UnreplicatedReport};
use crate::versions::NodeVersion;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_postgres::Row;
use tokio_postgres::types::{Json, Type};
use uuid::Uuid;

/// Interval of heartbeats.
pub const HEARTBEAT: Duration = Duration::from_secs(2);
/// Length of a lease, in seconds.
const LEASE: f64 = 10.0;
/// Time for which a folder that may be a copy watches the lease of its identity: an owner would have
/// renewed it.
const WATCH: Duration = Duration::from_secs(5);

/// Why a node cannot register.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistrationError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl From<tokio_postgres::Error> for RegistrationError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// What a node says about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Display name.
    pub(crate) name: String,
    /// Digest of the configuration in force.
    pub(crate) digest: String,
    /// URL of its admin listener for other nodes; empty for none.
    pub(crate) advertise: String,
    /// The last load of the configuration.
    pub(crate) configuration: ConfigurationState,
    /// Clock of this node minus that of the database, in milliseconds.
    pub(crate) offset_ms: i64,
    /// The node ends: requests in flight complete.
    pub(crate) draining: bool,
    /// Calls that are not replicated; `None`: as reported last.
    pub(crate) unreplicated: Option<UnreplicatedReport>,
    /// Its version of the configuration; `None` with own files only.
    pub(crate) in_force: Option<NodeVersion>,
}

/// A registration of a node.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) boot: Boot,
    /// The id before, if another process has it.
    pub(crate) replaced: Option<Uuid>,
}

/// Registers a process: makes the next boot of its identity, or of a new one if another process has
/// this one.
pub(crate) async fn register(
    connection: &Connection,
    identity: &mut Identity,
    report: &Report,
) -> Result<Registration, RegistrationError> {
    if let Some(boot) = try_register(connection, identity, report).await? {
        return Ok(Registration { boot, replaced: None });
    }
    let before = identity.id();
    identity.replace()?;
    match try_register(connection, identity, report).await? {
        Some(boot) => Ok(Registration { boot, replaced: Some(before) }),
        // A random id that exists: not in practice.
        None => Err(DatabaseError::Missing.into()),
    }
}

/// `None` if another process has the identity.
async fn try_register(
    connection: &Connection,
    identity: &mut Identity,
    report: &Report,
) -> Result<Option<Boot>, RegistrationError> {
    let token = identity.next_token()?;
    if !identity.is_in_place() && is_renewed(connection, identity.id()).await? {
        return Ok(None);
    }
    let tokens: Vec<Uuid> = identity.tokens().collect();
    let number = identity.boot().map_or(1, |boot| boot.number + 1);
    let Report { name, digest, advertise, configuration, .. } = report;
    let version = env!("CARGO_PKG_VERSION");
    let configuration = Json(configuration);
    // The row of a new node, or of one that this database does not know; else that of the last boot.
    // A boot whose response was lost has the token already, and is not made twice.
    let sql =
        "INSERT INTO weir.node AS n (id, name, boot, boot_token, until, state, version, digest,
             config_state, offset_ms, advertise)
         VALUES ($1, $2, $3, $4, now() + make_interval(secs => $9), 'live', $5, $6, $7, 0, $10)
         ON CONFLICT (id) DO UPDATE SET
             boot = n.boot + (n.boot_token <> excluded.boot_token)::int,
             boot_token = excluded.boot_token, until = excluded.until, state = 'live', seen = now(),
             name = excluded.name, version = excluded.version, digest = excluded.digest,
             config_state = excluded.config_state, advertise = excluded.advertise
         WHERE n.boot_token = ANY ($8)
         RETURNING boot";
    let parameters: [Parameter<'_>; 10] = [
        (&identity.id(), Type::UUID),
        (name, Type::TEXT),
        (&number, Type::INT8),
        (&token, Type::UUID),
        (&version, Type::TEXT),
        (digest, Type::TEXT),
        (&configuration, Type::JSONB),
        (&tokens, Type::UUID_ARRAY),
        (&LEASE, Type::FLOAT8),
        (advertise, Type::TEXT),
    ];
    let rows = connection.query(sql, &parameters).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let boot = Boot { number: row.try_get(0)?, token };
    identity.booted(boot)?;
    Ok(Some(boot))
}

/// Whether a process renews the lease of a node now.
async fn is_renewed(connection: &Connection, id: Uuid) -> Result<bool, DatabaseError> {
    let sql = "SELECT until::text FROM weir.node WHERE id = $1 AND until > now()";
    let lease = async || -> Result<Option<String>, DatabaseError> {
        let rows = connection.query(sql, &[(&id, Type::UUID)]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    };
    let Some(before) = lease().await? else { return Ok(false) };
    tokio::time::sleep(WATCH).await;
    Ok(lease().await?.is_some_and(|now| now != before))
}

/// The result of a heartbeat.
pub(crate) struct Heartbeat {
    /// Clock of this node minus that of the database, in milliseconds.
    pub(crate) offset_ms: i64,
}

/// Renews the lease. `None` if another process has the identity.
pub(crate) async fn heartbeat(
    connection: &Connection,
    id: Uuid,
    boot: Boot,
    report: &Report,
) -> Result<Option<Heartbeat>, DatabaseError> {
    let sql =
        "UPDATE weir.node SET until = now() + make_interval(secs => $9), seen = now(), state = $8,
             name = $4, version = $5, digest = $6, config_state = $7, offset_ms = $10,
             advertise = $11, pending = coalesce($12, pending), rate = coalesce($13, rate),
             in_force = $14
         WHERE id = $1 AND boot = $2 AND boot_token = $3
         RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let Report {
        name,
        digest,
        advertise,
        configuration,
        offset_ms,
        draining,
        unreplicated,
        in_force,
    } = report;
    let (calls, rate) =
        (unreplicated.map(|one| bounded(one.calls)), unreplicated.map(|one| one.rate));
    let (version, configuration) = (env!("CARGO_PKG_VERSION"), Json(configuration));
    let state = if *draining { "draining" } else { "live" };
    let in_force = in_force.as_ref().map(Json);
    let parameters: [Parameter<'_>; 14] = [
        (&id, Type::UUID),
        (&boot.number, Type::INT8),
        (&boot.token, Type::UUID),
        (name, Type::TEXT),
        (&version, Type::TEXT),
        (digest, Type::TEXT),
        (&configuration, Type::JSONB),
        (&state, Type::TEXT),
        (&LEASE, Type::FLOAT8),
        (offset_ms, Type::INT8),
        (advertise, Type::TEXT),
        (&calls, Type::INT8),
        (&rate, Type::FLOAT8),
        (&in_force, Type::JSONB),
    ];
    let before = unix_ms();
    let rows = connection.query(sql, &parameters).await?;
    // The database answered in the middle of the round trip, as far as this node can know.
    let middle = before + (unix_ms() - before) / 2;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Heartbeat { offset_ms: middle - row.try_get::<_, i64>(0)? }))
}

/// Ends the lease, at the end of a process.
pub(crate) async fn release(
    connection: &Connection,
    id: Uuid,
    boot: Boot,
    unreplicated: Option<UnreplicatedReport>,
) -> Result<(), DatabaseError> {
    // Nothing more is recorded.
    let sql = "UPDATE weir.node SET until = now(), seen = now(), pending = coalesce($4, pending), rate = 0
         WHERE id = $1 AND boot = $2 AND boot_token = $3";
    let calls = unreplicated.map(|one| bounded(one.calls));
    let parameters: [Parameter<'_>; 4] = [
        (&id, Type::UUID),
        (&boot.number, Type::INT8),
        (&boot.token, Type::UUID),
        (&calls, Type::INT8),
    ];
    connection.execute(sql, &parameters).await.map(drop)
}

fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// All nodes that were not retired, and those that were in the last 30 days, by name.
pub(crate) async fn nodes(connection: &Connection) -> Result<Vec<NodeStatus>, DatabaseError> {
    let sql =
        "SELECT id, name, boot, state, version, digest, config_state, offset_ms, until > now(),
             extract(epoch FROM seen)::bigint, extract(epoch FROM now() - seen)::float8,
             advertise, in_force
         FROM weir.node
         WHERE state IN ('live', 'draining') OR seen > now() - interval '30 days'
         ORDER BY name, id";
    let rows = connection.query(sql, &[]).await?;
    rows.iter().map(|row| node(row).map_err(DatabaseError::from)).collect()
}

fn node(row: &Row) -> Result<NodeStatus, tokio_postgres::Error> {
    let (state, leased): (String, bool) = (row.try_get(3)?, row.try_get(8)?);
    let state = match (state.as_str(), leased) {
        ("retired", _) => NodeState::Retired,
        ("lost", _) => NodeState::Lost,
        (_, false) => NodeState::Down,
        ("draining", true) => NodeState::Draining,
        (_, true) => NodeState::Live,
    };
    // A state that a later version has written in another form is shown as unknown.
    let configuration = row.try_get::<_, Json<ConfigurationState>>(6);
    let in_force = row.try_get::<_, Option<Json<NodeVersion>>>(12);
    Ok(NodeStatus {
        id: row.try_get::<_, Uuid>(0)?.to_string(),
        name: row.try_get(1)?,
        boot: row.try_get(2)?,
        state,
        version: row.try_get(4)?,
        digest: row.try_get(5)?,
        configuration: configuration.map(|Json(state)| state).unwrap_or_default(),
        offset_ms: row.try_get(7)?,
        seen: weir_model::UnixSeconds(row.try_get::<_, i64>(9)?.unsigned_abs()),
        silent_seconds: row.try_get::<_, f64>(10)?.max(0.0),
        advertise: row.try_get(11)?,
        in_force: in_force.unwrap_or_default().map(|Json(report)| report),
    })
}

/// Result of retiring a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retirement {
    /// The node is retired.
    Done,
    /// There is no such node.
    Unknown,
    /// The node still renews its lease.
    Live,
}

/// Retires a node that has ended; `lost` if its data is gone. The node, if it starts again, is a member
/// again.
pub(crate) async fn retire(
    connection: &Connection,
    id: Uuid,
    lost: bool,
) -> Result<Retirement, DatabaseError> {
    let state = if lost { "lost" } else { "retired" };
    // Nobody knows whether its last attempts were sent, until it comes back.
    let sql = format!(
        "WITH retired AS (
             UPDATE weir.node SET state = $2,
                 missing = CASE WHEN $2 = 'lost' THEN {MISSING} END
             WHERE id = $1 AND until <= now() RETURNING id
         ), unknown AS (
             UPDATE weir.attempt SET state = 'unknown' FROM retired
             WHERE attempt.node = retired.id AND attempt.state = 'sending'
         )
         SELECT EXISTS (SELECT FROM retired)"
    );
    let parameters: [Parameter<'_>; 3] =
        [(&id, Type::UUID), (&state, Type::TEXT), (&UNREPORTED, Type::FLOAT8)];
    if connection.one(&sql, &parameters).await?.try_get(0)? {
        return Ok(Retirement::Done);
    }
    let exists = "SELECT EXISTS (SELECT FROM weir.node WHERE id = $1)";
    let exists: bool = connection.one(exists, &[(&id, Type::UUID)]).await?.try_get(0)?;
    Ok(if exists { Retirement::Live } else { Retirement::Unknown })
}
