//! The schema in PostgreSQL: a list of steps, each run once and never changed afterwards.
//!
//! Steps only add, so that the release before still works with the schema of this one. All missing
//! steps run in one transaction, under a lock, so that many nodes may start at once. A step states the
//! lowest version of weir that may use the database from then on: a step that removes something waits
//! until no live node is older.

use crate::database::{Connection, DatabaseError, Transaction};
use tokio_postgres::types::Type;

/// A step of the schema.
struct Step {
    sql: &'static str,
    /// The lowest version of weir that may use a database with this step.
    min_weir: &'static str,
}

/// All steps, in the order in which they run.
const STEPS: &[Step] = &[
    Step { sql: include_str!("schema/01_members.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/02_usage.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/03_quotas.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/04_peers.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/05_attempts.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/06_access.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/07_jobs.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/08_alerts.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/09_rollouts.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/10_resolutions.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/11_unbilled.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/12_retries.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/13_views.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/14_token_ends.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/15_retry_base.sql"), min_weir: "0.1.0" },
    Step { sql: include_str!("schema/16_revoked_keys.sql"), min_weir: "0.1.0" },
];

/// Key of the lock under which steps run: "weir" in ASCII.
const LOCK: i64 = 0x7765_6972;

/// The state of the schema of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Steps that had run before.
    pub before: usize,
    /// Steps that have run now.
    pub after: usize,
}

/// Runs the steps that have not run, and claims the database for a fleet.
///
/// # Errors
/// The database fails, denies the permission, has the state of another fleet, or was migrated by a
/// version of weir that this one cannot follow.
pub async fn migrate(connection: &mut Connection, fleet: &str) -> Result<Migration, DatabaseError> {
    let before = applied(connection).await?;
    if before < STEPS.len() {
        run_steps(connection).await?;
    }
    claim(connection, fleet).await?;
    let after = applied(connection).await?;
    Ok(Migration { before, after })
}

/// The number of steps that have run.
///
/// # Errors
/// As [`migrate`]: the schema is of a later version, and needs one.
async fn applied(connection: &Connection) -> Result<usize, DatabaseError> {
    let exists = "SELECT to_regclass('weir.step') IS NOT NULL";
    if !connection.one(exists, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let read = "SELECT number, min_weir FROM weir.step ORDER BY number";
    let steps = connection.query(read, &[]).await?;
    for step in steps.iter().skip(STEPS.len()) {
        let needed: String = step.try_get(1)?;
        if numbers(&needed) > numbers(env!("CARGO_PKG_VERSION")) {
            return Err(DatabaseError::Later { needed });
        }
    }
    Ok(steps.len())
}

async fn run_steps(connection: &mut Connection) -> Result<(), DatabaseError> {
    let transaction = connection.transaction().await?;
    match run_missing(&transaction).await {
        Ok(()) => transaction.commit().await,
        Err(error) => {
            // At once: other nodes wait for the lock.
            let _ = transaction.rollback().await;
            Err(error)
        }
    }
}

async fn run_missing(transaction: &Transaction<'_>) -> Result<(), DatabaseError> {
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    // With the schema made by somebody else, the permission to create one is not needed.
    let exists = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'weir')";
    if !transaction.one(exists, &[]).await?.try_get::<_, bool>(0)? {
        transaction.batch("CREATE SCHEMA weir").await?;
    }
    transaction
        .batch(
            "CREATE TABLE IF NOT EXISTS weir.step (
                 number integer PRIMARY KEY,
                 min_weir text NOT NULL,
                 by_weir text NOT NULL,
                 at timestamptz NOT NULL DEFAULT now()
             )",
        )
        .await?;
    // Another node may have run some of them meanwhile.
    let count = transaction.one("SELECT count(*) FROM weir.step", &[]).await?;
    let done = usize::try_from(count.try_get::<_, i64>(0)?).unwrap_or_default();
    check_live_nodes(transaction, &STEPS[done.min(STEPS.len())..]).await?;
    for (index, step) in STEPS.iter().enumerate().skip(done) {
        transaction.batch(step.sql).await?;
        let number = index as i32 + 1;
        let version = env!("CARGO_PKG_VERSION");
        transaction
            .execute(
                "INSERT INTO weir.step (number, min_weir, by_weir) VALUES ($1, $2, $3)",
                &[(&number, Type::INT4), (&step.min_weir, Type::TEXT), (&version, Type::TEXT)],
            )
            .await?;
    }
    Ok(())
}

/// Fails if a live node is of a version that cannot use the schema with these steps.
async fn check_live_nodes(
    transaction: &Transaction<'_>,
    steps: &[Step],
) -> Result<(), DatabaseError> {
    let exists = "SELECT to_regclass('weir.node') IS NOT NULL";
    if !transaction.one(exists, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(());
    }
    let needed = steps.iter().map(|step| step.min_weir).max_by_key(|version| numbers(version));
    let Some(needed) = needed else { return Ok(()) };
    let live = "SELECT name, version FROM weir.node WHERE until > now() ORDER BY name";
    for row in transaction.query(live, &[]).await? {
        let (node, version): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        if numbers(&version) < numbers(needed) {
            return Err(DatabaseError::OldNode { needed: needed.to_owned(), node, version });
        }
    }
    Ok(())
}

/// Names the fleet of a new database; of another one the name is compared.
async fn claim(connection: &Connection, fleet: &str) -> Result<(), DatabaseError> {
    let insert = "INSERT INTO weir.fleet (one, name) VALUES (1, $1) ON CONFLICT DO NOTHING";
    connection.execute(insert, &[(&fleet, Type::TEXT)]).await?;
    let name: String =
        connection.one("SELECT name FROM weir.fleet WHERE one = 1", &[]).await?.try_get(0)?;
    if name == fleet { Ok(()) } else { Err(DatabaseError::OtherFleet { name }) }
}

/// The numbers of a version, for comparison.
pub(crate) fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("0.10.0") > numbers("0.9.9"));
        assert!(numbers("1.0.0") > numbers("0.99.99"));
        assert_eq!(numbers("0.1.0"), [0, 1, 0]);
    }
}
