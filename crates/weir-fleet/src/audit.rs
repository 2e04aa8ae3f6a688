//! Copies of the audit logs of all nodes.
//!
//! A node writes an entry to its own database before the action, and copies it here afterwards.

use crate::copy_error::CopyError;
use crate::database::{Connection, DatabaseError, Parameter};
use crate::identity::Boot;
use aws_lc_rs::digest::{Context, SHA256};
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_model::UnixMicros;
use weir_store::audit::{AuditEvent, AuditLog, AuditQuery, RETENTION};

/// Entries of a transaction.
const BATCH: usize = 500;

/// Copies the entries of this node.
#[derive(Debug)]
pub(crate) struct AuditCopier {
    log: AuditLog,
    /// Number of the last entry that is copied; `None`: the database knows.
    copied: Option<i64>,
}

impl AuditCopier {
    pub(crate) fn new(log: AuditLog) -> Self {
        Self { log, copied: None }
    }

    /// After a new registration: the database may have lost something, or the identity is another.
    pub(crate) fn connected(&mut self) {
        self.copied = None;
    }

    /// Writes an entry of this node.
    pub(crate) fn record(&self, event: &AuditEvent) -> Result<(), CopyError> {
        Ok(self.log.record(event)?)
    }

    /// Copies the next entries. Returns whether there may be more.
    pub(crate) async fn step(
        &mut self,
        connection: &mut Connection,
        node: Uuid,
        boot: Boot,
    ) -> Result<bool, CopyError> {
        let copied = match self.copied {
            Some(copied) => copied,
            None => copied_to(connection, node).await?,
        };
        let entries = self.log.after(copied, BATCH)?;
        let last = entries.last().map_or(copied, |entry| entry.number);
        if !entries.is_empty() {
            insert(connection, (node, boot), &entries, last).await?;
        }
        self.copied = Some(last);
        Ok(entries.len() == BATCH)
    }
}

async fn copied_to(connection: &Connection, node: Uuid) -> Result<i64, DatabaseError> {
    let sql = "SELECT audited FROM weir.node WHERE id = $1";
    Ok(connection.one(sql, &[(&node, Type::UUID)]).await?.try_get(0)?)
}

async fn insert(
    connection: &mut Connection,
    (node, boot): (Uuid, Boot),
    entries: &[AuditEvent],
    last: i64,
) -> Result<(), DatabaseError> {
    let ids: Vec<Uuid> = entries.iter().map(id).collect();
    let times: Vec<i64> =
        entries.iter().map(|entry| i64::try_from(entry.time.0).unwrap_or(i64::MAX)).collect();
    let texts = |text: fn(&AuditEvent) -> &str| -> Vec<String> {
        // PostgreSQL has no texts with this character.
        entries.iter().map(|entry| text(entry).replace('\0', "\u{fffd}")).collect()
    };
    let (tokens, names) = (texts(|entry| &entry.token), texts(|entry| &entry.name));
    let (roles, actions) = (texts(|entry| &entry.role), texts(|entry| &entry.action));
    let (abouts, subjects) = (texts(|entry| &entry.about), texts(|entry| &entry.subject));
    let details = texts(|entry| &entry.details);
    let sql = "INSERT INTO weir.audit
             (id, node, at, token, name, role, action, about, subject, details)
         SELECT id, $10, at, token, name, role, action, about, subject, details
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY
             AS e (id, at, token, name, role, action, about, subject, details, place)
         ORDER BY place ON CONFLICT (id) DO NOTHING";
    let parameters: [Parameter<'_>; 10] = [
        (&ids, Type::UUID_ARRAY),
        (&times, Type::INT8_ARRAY),
        (&tokens, Type::TEXT_ARRAY),
        (&names, Type::TEXT_ARRAY),
        (&roles, Type::TEXT_ARRAY),
        (&actions, Type::TEXT_ARRAY),
        (&abouts, Type::TEXT_ARRAY),
        (&subjects, Type::TEXT_ARRAY),
        (&details, Type::TEXT_ARRAY),
        (&node, Type::UUID),
    ];
    let transaction = connection.transaction().await?;
    transaction.execute(sql, &parameters).await?;
    let sql = "UPDATE weir.node SET audited = $4
         WHERE id = $1 AND boot = $2 AND boot_token = $3 AND until > now()";
    let parameters: [Parameter<'_>; 4] = [
        (&node, Type::UUID),
        (&boot.number, Type::INT8),
        (&boot.token, Type::UUID),
        (&last, Type::INT8),
    ];
    if transaction.execute(sql, &parameters).await? == 0 {
        return Err(DatabaseError::Fenced);
    }
    transaction.commit().await
}

/// The id of an entry: the first half of the SHA-256 of its fields.
fn id(entry: &AuditEvent) -> Uuid {
    let AuditEvent { number, time, token, name, role, action, about, subject, details, .. } = entry;
    let mut digest = Context::new(&SHA256);
    digest.update(&number.to_be_bytes());
    digest.update(&time.0.to_be_bytes());
    for text in [token, name, role, action, about, subject, details] {
        digest.update(&(text.len() as u64).to_be_bytes());
        digest.update(text.as_bytes());
    }
    let mut half = [0; 16];
    half.copy_from_slice(&digest.finish().as_ref()[..16]);
    Uuid::from_bytes(half)
}

/// The latest entries that match, of all nodes or the one with this name or id, in the order of their
/// arrival, the last first. Their numbers are those of the fleet.
pub(crate) async fn latest(
    connection: &Connection,
    limit: usize,
    query: &AuditQuery,
    node: Option<&str>,
) -> Result<Vec<AuditEvent>, DatabaseError> {
    let AuditQuery { before, who, action, subject, from, to, text } = query;
    let (before, limit) = (before.unwrap_or(i64::MAX), limit as i64);
    let micros = |time: Option<UnixMicros>, absent: i64| {
        time.map_or(absent, |time| i64::try_from(time.0).unwrap_or(i64::MAX))
    };
    let (from, to) = (micros(*from, 0), micros(*to, i64::MAX));
    // PostgreSQL has no texts with this character.
    let text = text.as_ref().map(|text| text.replace('\0', "\u{fffd}"));
    let sql =
        "SELECT a.number, a.at, a.token, a.name, a.role, a.action, a.about, a.subject, a.details,
             coalesce(n.name, a.node::text)
         FROM weir.audit a LEFT JOIN weir.node n ON n.id = a.node
         WHERE a.number < $1 AND ($2 IS NULL OR a.name = $2 OR a.token = $2)
             AND ($3 IS NULL OR a.action = $3) AND ($4 IS NULL OR a.subject = $4)
             AND ($5 IS NULL OR n.name = $5 OR a.node::text = $5)
             AND a.at >= $7 AND a.at < $8
             AND ($9 IS NULL OR position(lower($9) IN lower(concat_ws(E'\\n', a.name, a.action, a.subject,
                 a.details))) > 0)
         ORDER BY a.number DESC LIMIT $6";
    let parameters: [Parameter<'_>; 9] = [
        (&before, Type::INT8),
        (who, Type::TEXT),
        (action, Type::TEXT),
        (subject, Type::TEXT),
        (&node, Type::TEXT),
        (&limit, Type::INT8),
        (&from, Type::INT8),
        (&to, Type::INT8),
        (&text, Type::TEXT),
    ];
    let rows = connection.query(sql, &parameters).await?;
    let read = |row: &tokio_postgres::Row| -> Result<AuditEvent, tokio_postgres::Error> {
        Ok(AuditEvent {
            number: row.try_get(0)?,
            time: UnixMicros(row.try_get::<_, i64>(1)?.unsigned_abs()),
            token: row.try_get(2)?,
            name: row.try_get(3)?,
            role: row.try_get(4)?,
            action: row.try_get(5)?,
            about: row.try_get(6)?,
            subject: row.try_get(7)?,
            details: row.try_get(8)?,
            node: row.try_get(9)?,
        })
    };
    rows.iter().map(read).collect::<Result<_, _>>().map_err(DatabaseError::from)
}

/// Drops entries whose retention has ended.
pub(crate) async fn purge(connection: &Connection) -> Result<(), DatabaseError> {
    let first = weir_store::clock::now().saturating_sub(RETENTION).as_micros();
    let first = i64::try_from(first).unwrap_or(i64::MAX);
    connection
        .execute("DELETE FROM weir.audit WHERE at < $1", &[(&first, Type::INT8)])
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_entry_depends_on_all_of_it() {
        let entry = AuditEvent { number: 1, name: "ab".to_owned(), ..AuditEvent::default() };
        let moved = AuditEvent { name: "a".to_owned(), role: "b".to_owned(), ..entry.clone() };
        let next = AuditEvent { number: 2, ..entry.clone() };
        let shown = AuditEvent { node: "one".to_owned(), ..entry.clone() };
        assert_eq!(id(&entry), id(&shown));
        assert!(id(&entry) != id(&moved) && id(&entry) != id(&next));
    }
}
