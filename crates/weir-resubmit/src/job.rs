//! Commands to jobs.

use crate::single::Resubmitter;
use weir_store::ledger::{Job, JobAction, JobState, NewJob, RetryBlocker, RetryJob};

impl Resubmitter {
    /// Creates a job, which is previewed first.
    ///
    /// # Errors
    /// The database fails.
    pub fn new_job(&self, new: &NewJob, who: &str) -> rusqlite::Result<Job> {
        let job = self.shared.ledger.new_job(new, who)?;
        self.shared.statistics.lock().created += 1;
        self.shared.wake();
        Ok(job)
    }

    /// Creates a job that retries transactions of another one, which is previewed first.
    ///
    /// # Errors
    /// The database fails.
    pub fn retry(
        &self,
        number: i64,
        retry: &RetryJob,
        who: &str,
    ) -> rusqlite::Result<Result<Job, RetryBlocker>> {
        let created = self.shared.ledger.retry(number, retry, who)?;
        if created.is_ok() {
            self.count_created();
            self.shared.wake();
        }
        Ok(created)
    }

    /// Counts a job of the fleet that this node has created.
    pub fn count_created(&self) {
        self.shared.statistics.lock().created += 1;
    }

    /// Counts a job of the fleet that this node has cancelled.
    pub fn count_cancelled(&self) {
        self.shared.statistics.lock().cancelled += 1;
    }

    /// Counts a job of the fleet that this node has finished.
    pub fn count_finished(&self) {
        self.shared.statistics.lock().finished += 1;
    }

    /// Carries out a command. Returns the job afterwards and whether its state allowed the command;
    /// none if there is no such job.
    ///
    /// # Errors
    /// The database fails.
    pub fn act(&self, number: i64, action: JobAction) -> rusqlite::Result<Option<(Job, bool)>> {
        let change = self.shared.ledger.act(number, action)?;
        self.shared.wake();
        let Some(change) = change else { return Ok(None) };
        let cancelled =
            change.done && action == JobAction::Cancel && change.before != JobState::Cancelled;
        self.shared.statistics.lock().cancelled += u64::from(cancelled);
        Ok(Some((change.job, change.done)))
    }
}
