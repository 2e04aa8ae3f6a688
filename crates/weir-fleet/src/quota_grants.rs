//! What this node was granted of calendar quotas, kept in its own database: after a restart during an
//! outage the node knows which of its calls were an overdraft.

use rusqlite::{Connection, params};
use std::path::Path;
use weir_limit::QuotaLeased;
use weir_store::{StoreError, clock};

/// The grants of a data folder.
#[derive(Debug)]
pub(crate) struct QuotaGrants(Connection);

impl QuotaGrants {
    /// Opens the database of a data folder.
    pub(crate) fn open(data: &Path) -> Result<Self, StoreError> {
        weir_store::open(data).map(Self)
    }

    /// The grants of windows that have not ended.
    pub(crate) fn current(&self) -> rusqlite::Result<Vec<QuotaLeased>> {
        let read = "SELECT plan, consumer, start, leased FROM quota_leased WHERE ends > ?1";
        let mut read = self.0.prepare(read)?;
        let rows = read.query_map([clock::now().as_secs()], |row| {
            let (plan, consumer) = (row.get(0)?, row.get(1)?);
            Ok(QuotaLeased { plan, consumer, window_start: row.get(2)?, leased: row.get(3)? })
        })?;
        rows.collect()
    }

    /// Stores the calls that were granted in a window in total, and deletes windows that have ended.
    pub(crate) fn store(&self, granted: &QuotaLeased, ends: u64) -> rusqlite::Result<()> {
        let QuotaLeased { plan, consumer, window_start, leased } = granted;
        let write = "INSERT INTO quota_leased VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET leased = ?5";
        let mut write = self.0.prepare_cached(write)?;
        write.execute(params![plan, consumer, window_start, ends, leased])?;
        let delete = "DELETE FROM quota_leased WHERE ends <= ?1";
        self.0.prepare_cached(delete)?.execute([clock::now().as_secs()]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_of_current_windows_survive_a_restart() {
        let data = tempfile::tempdir().unwrap();
        let granted = |consumer: &str, leased| QuotaLeased {
            plan: "gold".to_owned(),
            consumer: consumer.to_owned(),
            window_start: 60,
            leased,
        };
        let grants = QuotaGrants::open(data.path()).unwrap();
        grants.store(&granted("old", 5), 120).unwrap();
        grants.store(&granted("acme", 5), u64::from(u32::MAX)).unwrap();
        grants.store(&granted("acme", 9), u64::from(u32::MAX)).unwrap();
        let again = QuotaGrants::open(data.path()).unwrap();
        assert_eq!(again.current().unwrap(), [granted("acme", 9)]);
    }
}
