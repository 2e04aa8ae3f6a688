//! Revoked API keys of all nodes: each node copies its changes to the database, and those of others from there.
//!
//! Both sides keep the later of two changes of a key, so their order does not matter. A node sends all that it has
//! after each of its own changes, and after each registration: the database may have lost something. It reads when
//! the number of changes there is another than at its last step.

use crate::copy_error::CopyError;
use crate::database::{Connection, DatabaseError, Parameter};
use std::sync::Arc;
use tokio_postgres::types::Type;
use weir_model::UnixMicros;
use weir_store::clock::now_us;
use weir_store::revoked_keys::{KeyChange, MAX_REVOKED, RESTORED_US, RevokedKeys};

/// Copies changes in both directions.
#[derive(Debug)]
pub(crate) struct RevokedKeyCopier {
    keys: Arc<RevokedKeys>,
    /// Modifications of this node that the database has.
    sent: Option<u64>,
    /// Changes of the database that this node has.
    read: Option<i64>,
}

impl RevokedKeyCopier {
    pub(crate) fn new(keys: Arc<RevokedKeys>) -> Self {
        Self { keys, sent: None, read: None }
    }

    /// After a new registration.
    pub(crate) fn connected(&mut self) {
        (self.sent, self.read) = (None, None);
    }

    /// Copies what has changed.
    pub(crate) async fn step(&mut self, connection: &mut Connection) -> Result<(), CopyError> {
        if self.sent != Some(self.keys.revision()) {
            let (changes, revision) = self.keys.changes();
            send(connection, &changes).await?;
            self.sent = Some(revision);
        }
        let sql = "SELECT revoked_keys FROM weir.fleet WHERE one = 1";
        let number = connection.one(sql, &[]).await?.try_get(0)?;
        if self.read != Some(number) {
            let (keys, changes) = (Arc::clone(&self.keys), read(connection).await?);
            // It writes a file, and waits for the workers.
            let merged = tokio::task::spawn_blocking(move || keys.merge(changes)).await;
            merged.map_err(|_| DatabaseError::Connect("the step was aborted".to_owned()))??;
            self.read = Some(number);
        }
        Ok(())
    }
}

/// Tells the database the changes that are later than those it has.
async fn send(connection: &mut Connection, changes: &[KeyChange]) -> Result<(), DatabaseError> {
    if changes.is_empty() {
        return Ok(());
    }
    let texts = |text: fn(&KeyChange) -> &String| changes.iter().map(text).collect::<Vec<_>>();
    let (hashes, consumers) = (texts(|one| &one.hash), texts(|one| &one.consumer));
    let (whose, reasons) = (texts(|one| &one.who), texts(|one| &one.reason));
    let revoked: Vec<bool> = changes.iter().map(|one| one.revoked).collect();
    let at: Vec<i64> =
        changes.iter().map(|one| i64::try_from(one.at.0).unwrap_or(i64::MAX)).collect();
    let sql = "INSERT INTO weir.revoked_key AS k (hash, revoked, consumer, who, reason, at)
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
         ON CONFLICT (hash) DO UPDATE
         SET revoked = excluded.revoked, consumer = excluded.consumer, who = excluded.who,
             reason = excluded.reason, at = excluded.at
         WHERE (excluded.at, excluded.revoked) > (k.at, k.revoked)";
    let parameters: [Parameter<'_>; 6] = [
        (&hashes, Type::TEXT_ARRAY),
        (&revoked, Type::BOOL_ARRAY),
        (&consumers, Type::TEXT_ARRAY),
        (&whose, Type::TEXT_ARRAY),
        (&reasons, Type::TEXT_ARRAY),
        (&at, Type::INT8_ARRAY),
    ];
    let transaction = connection.transaction().await?;
    if transaction.execute(sql, &parameters).await? > 0 {
        let count = "UPDATE weir.fleet SET revoked_keys = revoked_keys + 1";
        transaction.execute(count, &[]).await?;
    }
    // Here, because the table grows here only. No node sends such a change again.
    let over = i64::try_from(now_us().saturating_sub(RESTORED_US)).unwrap_or(0);
    let delete = "DELETE FROM weir.revoked_key WHERE NOT revoked AND at <= $1";
    transaction.execute(delete, &[(&over, Type::INT8)]).await?;
    transaction.commit().await
}

/// All changes; if there are too many, those that revoke a key first, then the latest.
async fn read(connection: &Connection) -> Result<Vec<KeyChange>, CopyError> {
    let sql = "SELECT hash, revoked, consumer, who, reason, at FROM weir.revoked_key
         ORDER BY revoked DESC, at DESC LIMIT $1";
    let limit = crate::database::bounded(MAX_REVOKED as u64);
    let mut changes = Vec::new();
    for row in connection.query(sql, &[(&limit, Type::INT8)]).await? {
        changes.push(KeyChange {
            hash: row.try_get(0)?,
            revoked: row.try_get(1)?,
            consumer: row.try_get(2)?,
            who: row.try_get(3)?,
            reason: row.try_get(4)?,
            at: UnixMicros(row.try_get::<_, i64>(5)?.unsigned_abs()),
        });
    }
    Ok(changes)
}
