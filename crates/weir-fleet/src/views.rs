//! Named views of the console, for all users of all nodes: rows of the database.

use crate::Handle;
use crate::database::{Connection, DatabaseError, Parameter, bounded};
use tokio_postgres::types::Type;
use weir_model::UnixMicros;
use weir_store::clock::now_us;
use weir_store::views::{MAX_VIEWS, SavedView};

impl Handle {
    /// All views, by name.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn views(&self) -> Result<Vec<SavedView>, DatabaseError> {
        self.report_on(async |connection: &mut Connection| list(connection).await).await
    }

    /// Saves a view, or replaces the one with this name; returns whether there was room.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn save_view(
        &self,
        name: &str,
        search: &str,
        who: &str,
    ) -> Result<bool, DatabaseError> {
        let save = async |connection: &mut Connection| save(connection, name, search, who).await;
        self.report_on(save).await
    }

    /// Deletes a view; returns whether there was one.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn delete_view(&self, name: &str) -> Result<bool, DatabaseError> {
        let delete = async |connection: &mut Connection| {
            let sql = "DELETE FROM weir.view WHERE name = $1";
            connection.execute(sql, &[(&name, Type::TEXT)]).await
        };
        Ok(self.report_on(delete).await? > 0)
    }
}

async fn list(connection: &Connection) -> Result<Vec<SavedView>, DatabaseError> {
    let sql = "SELECT name, search, who, at FROM weir.view ORDER BY name LIMIT $1";
    let limit = bounded(MAX_VIEWS as u64);
    let rows = connection.query(sql, &[(&limit, Type::INT8)]).await?;
    let view = |row: &tokio_postgres::Row| -> Result<SavedView, tokio_postgres::Error> {
        let at = UnixMicros(row.try_get::<_, i64>(3)?.unsigned_abs());
        Ok(SavedView { name: row.try_get(0)?, search: row.try_get(1)?, who: row.try_get(2)?, at })
    };
    Ok(rows.iter().map(view).collect::<Result<_, _>>()?)
}

async fn save(
    connection: &mut Connection,
    name: &str,
    search: &str,
    who: &str,
) -> Result<bool, DatabaseError> {
    let transaction = connection.transaction().await?;
    // One node at a time, so that there are never too many.
    transaction.batch("LOCK TABLE weir.view IN SHARE ROW EXCLUSIVE MODE").await?;
    let (now, most) = (bounded(now_us()), bounded(MAX_VIEWS as u64));
    let sql = "INSERT INTO weir.view (name, search, who, at) SELECT $1, $2, $3, $4
         WHERE EXISTS (SELECT FROM weir.view WHERE name = $1)
             OR (SELECT count(*) FROM weir.view) < $5
         ON CONFLICT (name) DO UPDATE
         SET search = excluded.search, who = excluded.who, at = excluded.at";
    let parameters: [Parameter<'_>; 5] = [
        (&name, Type::TEXT),
        (&search, Type::TEXT),
        (&who, Type::TEXT),
        (&now, Type::INT8),
        (&most, Type::INT8),
    ];
    let saved = transaction.execute(sql, &parameters).await?;
    transaction.commit().await?;
    Ok(saved > 0)
}
