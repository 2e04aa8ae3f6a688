//! The lease of a job: the node that has it finds the items of the job and has them sent. Every statement
//! checks the epoch of the lease; another node takes the job over once the lease has ended.

use super::job;
use crate::database::{Connection, DatabaseError, Parameter, bounded};
use crate::identity::Boot;
use crate::{Handle, task};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio_postgres::types::{Json, Type};
use uuid::Uuid;
use weir_store::clock::now_us;
use weir_store::ledger::{Job, JobState, MAX_ITEMS};

/// How far a preview was read on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCursor {
    /// Cursor of the next page; `None` for the first one.
    pub after: Option<String>,
    /// There are no more pages.
    pub end: bool,
}

/// The lease of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLease {
    /// Number of the job.
    pub job: i64,
    /// Fencing token: it grows when another node takes the job over.
    pub epoch: i64,
    /// Name of the task.
    name: String,
}

/// A job that this node runs.
#[derive(Clone, Debug)]
pub struct LeasedJob {
    /// The lease.
    pub lease: JobLease,
    /// The job.
    pub job: Job,
    /// How far its preview was read, by node.
    pub cursors: BTreeMap<Uuid, JobCursor>,
    /// Transactions of the preview.
    pub found: i64,
    /// Transactions that are being sent.
    pub sending: usize,
}

/// A transaction of a page of a preview.
#[derive(Clone, Debug)]
pub struct PageItem {
    /// Its id.
    pub id: Uuid,
    /// Lane of the journal of its node.
    pub lane: u16,
    /// Position in the lane.
    pub position: u64,
    /// Code of the reason for which it cannot be sent; empty if it can.
    pub reason: String,
}

/// A transaction that is to be sent.
#[derive(Clone, Debug)]
pub struct PendingItem {
    /// Its id.
    pub id: Uuid,
    /// The node that has it.
    pub node: Uuid,
    /// Lane of the journal of that node.
    pub lane: u16,
    /// Position in the lane.
    pub position: u64,
    /// In a retry: the job that is retried sent it, or would have, despite its state.
    pub accepted: bool,
}

/// Leases of jobs, over a connection that exists while there are jobs.
#[derive(Debug)]
pub struct Leases {
    handle: Handle,
    connection: Option<Connection>,
}

impl Leases {
    /// Leases of this node.
    #[must_use]
    pub fn new(handle: Handle) -> Self {
        Self { handle, connection: None }
    }

    /// Waits until a job was created or changed through this node.
    pub async fn changed(&self) {
        self.handle.shared.job_work.notified().await;
    }

    /// Closes the connection, after an error or while there is nothing to do.
    pub fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Leases the oldest job in this state that no other node runs, or renews its lease. `None` if there
    /// is none, or if this node is not registered.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn take(&mut self, state: JobState) -> Result<Option<LeasedJob>, DatabaseError> {
        let Some((node, boot)) = *self.handle.shared.registered.lock() else { return Ok(None) };
        let found = match &self.connection {
            Some(connection) => find(connection, node, state).await?,
            None => self.handle.report_on(async |one| find(one, node, state).await).await?,
        };
        let Some(number) = found else { return Ok(None) };
        let connection = self.connect().await?;
        let name = format!("job-{number}");
        let Some(epoch) = task::claim(connection, &name, node, boot).await? else {
            return Ok(None);
        };
        let lease = JobLease { job: number, epoch, name };
        set_unknown(connection, &lease, (node, boot)).await?;
        // Its state may have changed before the lease was there.
        Ok(read(connection, lease).await?.filter(|leased| leased.job.state == state))
    }

    /// Ends a lease, so that another node need not wait for that.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn release(&mut self, lease: &JobLease) -> Result<(), DatabaseError> {
        let node = self.node();
        let sql =
            "UPDATE weir.task SET until = now() WHERE name = $1 AND epoch = $2 AND owner = $3";
        let parameters: [Parameter<'_>; 3] =
            [(&lease.name, Type::TEXT), (&lease.epoch, Type::INT8), (&node, Type::UUID)];
        self.connect().await?.execute(sql, &parameters).await.map(drop)
    }

    fn node(&self) -> Uuid {
        self.handle.membership().0
    }

    async fn connect(&mut self) -> Result<&mut Connection, DatabaseError> {
        let connection = match self.connection.take().filter(|one| !one.is_closed()) {
            Some(connection) => connection,
            None => {
                let connect = self.handle.shared.settings.lock().connect.clone();
                Connection::open(&connect).await?
            }
        };
        Ok(self.connection.insert(connection))
    }
}

impl Leases {
    /// Adds the page of a node to the preview. After the last page of all nodes the preview ends.
    ///
    /// # Errors
    /// The database cannot be used, or another node has the lease.
    pub async fn add_page(
        &mut self,
        leased: &LeasedJob,
        (node, cursor): (Uuid, JobCursor),
        items: &[PageItem],
        incomplete: bool,
    ) -> Result<(), DatabaseError> {
        let mut cursors = leased.cursors.clone();
        cursors.insert(node, cursor);
        let own = self.node();
        let transaction = self.connect().await?.transaction().await?;
        let JobLease { job, epoch, name } = &leased.lease;
        let sql = "SELECT FROM weir.task WHERE name = $1 AND epoch = $2 AND owner = $3
             AND until > now() FOR SHARE";
        let parameters: [Parameter<'_>; 3] =
            [(name, Type::TEXT), (epoch, Type::INT8), (&own, Type::UUID)];
        if transaction.query(sql, &parameters).await?.is_empty() {
            return Err(DatabaseError::Fenced);
        }
        // It may have been cancelled meanwhile.
        let sql = "SELECT FROM weir.job WHERE number = $1 AND state = 'previewing' FOR UPDATE";
        if transaction.query(sql, &[(job, Type::INT8)]).await?.is_empty() {
            return Ok(());
        }
        let room = usize::try_from(MAX_ITEMS - leased.found).unwrap_or_default();
        let added = &items[..items.len().min(room)];
        let ids: Vec<Uuid> = added.iter().map(|item| item.id).collect();
        let lanes: Vec<i32> = added.iter().map(|item| i32::from(item.lane)).collect();
        let positions: Vec<i64> = added.iter().map(|item| item.position as i64).collect();
        let reasons: Vec<&str> = added.iter().map(|item| item.reason.as_str()).collect();
        // A transaction that several nodes have is sent by the first of them.
        let sql = "INSERT INTO weir.job_item (job, original, node, lane, position, state, reason)
             SELECT $1, id, $2, lane, position,
                 CASE reason WHEN '' THEN 'pending' ELSE 'cannot' END, reason
             FROM unnest($3, $4, $5, $6) AS i (id, lane, position, reason)
             ON CONFLICT DO NOTHING";
        let parameters: [Parameter<'_>; 6] = [
            (job, Type::INT8),
            (&node, Type::UUID),
            (&ids, Type::UUID_ARRAY),
            (&lanes, Type::INT4_ARRAY),
            (&positions, Type::INT8_ARRAY),
            (&reasons, Type::TEXT_ARRAY),
        ];
        let inserted = transaction.execute(sql, &parameters).await?;
        let is_cut = added.len() < items.len();
        let incomplete = incomplete || is_cut;
        let ends = is_cut || cursors.values().all(|cursor| cursor.end);
        let (cursors, now, inserted) = (Json(&cursors), bounded(now_us()), bounded(inserted));
        let sql = "UPDATE weir.job SET cursors = $2, found = found + $3,
                 incomplete = incomplete OR $4,
                 began = CASE WHEN $5 AND run THEN $6 ELSE began END,
                 state = CASE WHEN NOT $5 THEN state WHEN run THEN 'running' ELSE 'previewed' END
             WHERE number = $1 AND state = 'previewing'";
        let parameters: [Parameter<'_>; 6] = [
            (job, Type::INT8),
            (&cursors, Type::JSONB),
            (&inserted, Type::INT8),
            (&incomplete, Type::BOOL),
            (&ends, Type::BOOL),
            (&now, Type::INT8),
        ];
        transaction.execute(sql, &parameters).await?;
        transaction.commit().await
    }

    /// The next transactions to send that these nodes have, the oldest first.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn pending(
        &mut self,
        job: i64,
        limit: usize,
        nodes: &[Uuid],
    ) -> Result<Vec<PendingItem>, DatabaseError> {
        let limit = bounded(limit as u64);
        // Ids are in the order of time.
        let sql = "SELECT original, node, lane, position, accepted FROM weir.job_item
             WHERE job = $1 AND state = 'pending' AND reason = '' AND node = ANY ($2)
             ORDER BY original LIMIT $3";
        let parameters: [Parameter<'_>; 3] =
            [(&job, Type::INT8), (&nodes, Type::UUID_ARRAY), (&limit, Type::INT8)];
        let rows = self.connect().await?.query(sql, &parameters).await?;
        let item = |row: &tokio_postgres::Row| -> Result<PendingItem, tokio_postgres::Error> {
            Ok(PendingItem {
                id: row.try_get(0)?,
                node: row.try_get(1)?,
                lane: u16::try_from(row.try_get::<_, i32>(2)?).unwrap_or_default(),
                position: row.try_get::<_, i64>(3)? as u64,
                accepted: row.try_get(4)?,
            })
        };
        rows.iter().map(item).collect::<Result<_, _>>().map_err(DatabaseError::from)
    }

    /// Finishes a job that has nothing left to send or to wait for; returns whether it did. What only
    /// nodes have that were retired is not sent.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn end_if_done(&mut self, lease: &JobLease) -> Result<bool, DatabaseError> {
        let (own, now) = (self.node(), bounded(now_us()));
        let connection = self.connect().await?;
        let sql = "UPDATE weir.job_item i SET state = 'refused', reason = 'not-kept'
             FROM weir.node n, weir.task t
             WHERE i.job = $1 AND i.state = 'pending' AND n.id = i.node
                 AND n.state IN ('retired', 'lost')
                 AND t.name = $2 AND t.epoch = $3 AND t.owner = $4 AND t.until > now()";
        let JobLease { job, epoch, name } = lease;
        let parameters: [Parameter<'_>; 4] =
            [(job, Type::INT8), (name, Type::TEXT), (epoch, Type::INT8), (&own, Type::UUID)];
        connection.execute(sql, &parameters).await?;
        let sql = "UPDATE weir.job j SET state = 'finished', ended = $5 FROM weir.task t
             WHERE j.number = $1 AND j.state = 'running' AND NOT EXISTS (
                     SELECT FROM weir.job_item WHERE job = $1 AND state IN ('pending', 'sending'))
                 AND t.name = $2 AND t.epoch = $3 AND t.owner = $4 AND t.until > now()";
        let [job, name, epoch, own] = parameters;
        let parameters = [job, name, epoch, own, (&now, Type::INT8)];
        Ok(connection.execute(sql, &parameters).await? > 0)
    }
}

/// The oldest job in a state that no other node runs.
async fn find(
    connection: &Connection,
    node: Uuid,
    state: JobState,
) -> Result<Option<i64>, DatabaseError> {
    let sql = "SELECT j.number FROM weir.job j LEFT JOIN weir.task t ON t.name = 'job-' || j.number
         WHERE j.state IN ('previewing', 'running') AND j.state = $1
             AND (t.name IS NULL OR t.owner = $2 OR t.until <= now())
         ORDER BY j.number LIMIT 1";
    let state = state.as_ref();
    let rows = connection.query(sql, &[(&state, Type::TEXT), (&node, Type::UUID)]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

async fn read(
    connection: &Connection,
    lease: JobLease,
) -> Result<Option<LeasedJob>, DatabaseError> {
    let sql = "SELECT j.number, j.query, j.destination, j.again, j.rate, j.who, j.state, j.run,
             j.incomplete, j.created, j.began, j.ended, '', j.retry_of, j.retry_states, j.cursors, j.found,
             (SELECT count(*) FROM weir.job_item i WHERE i.job = j.number AND i.state = 'sending')
         FROM weir.job j WHERE j.number = $1";
    let rows = connection.query(sql, &[(&lease.job, Type::INT8)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let Json(cursors) = row.try_get(15)?;
    let sending = usize::try_from(row.try_get::<_, i64>(17)?).unwrap_or_default();
    Ok(Some(LeasedJob { lease, job: job(row)?, cursors, found: row.try_get(16)?, sending }))
}

/// Sets attempts of a job to `unknown` that a node was sending whose lease has ended. That node writes
/// what became of them once it is back.
async fn set_unknown(
    connection: &mut Connection,
    lease: &JobLease,
    (node, boot): (Uuid, Boot),
) -> Result<(), DatabaseError> {
    let sql = "WITH open AS (
             SELECT a.id FROM weir.job_item i JOIN weir.attempt a ON a.id = i.attempt
             JOIN weir.node n ON n.id = a.node
             WHERE i.job = $1 AND i.state = 'sending' AND n.until <= now() AND EXISTS (
                 SELECT FROM weir.task t, weir.node own
                 WHERE t.name = $2 AND t.epoch = $3 AND t.owner = own.id AND t.until > now()
                     AND own.id = $4 AND own.boot = $5 AND own.until > now())
         ), attempts AS (
             UPDATE weir.attempt SET state = 'unknown' FROM open
             WHERE attempt.id = open.id AND attempt.state = 'sending'
         )
         UPDATE weir.job_item SET state = 'unknown' FROM open
         WHERE job_item.attempt = open.id AND job_item.state = 'sending'";
    let parameters: [Parameter<'_>; 5] = [
        (&lease.job, Type::INT8),
        (&lease.name, Type::TEXT),
        (&lease.epoch, Type::INT8),
        (&node, Type::UUID),
        (&boot.number, Type::INT8),
    ];
    connection.execute(sql, &parameters).await.map(drop)
}
