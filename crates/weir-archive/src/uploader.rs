//! From the journal to the bucket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use uuid::Uuid;
use weir_journal::{Follower, Journal, create_folder};

use crate::bucket::{Bucket, BucketSettings};
use crate::error::ArchiveError;
use crate::gaps::Gaps;
use crate::layout::{Manifest, NodeInfo, VERSION};
use crate::retention;
use crate::staged::Staged;

/// Name of the follower of the journal.
pub const FOLLOWER: &str = "archive";
/// Interval of checks for segments that are too old.
const RETENTION_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How segments are uploaded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The bucket and its prefix, which many nodes may share.
    pub bucket: BucketSettings,
    /// Identity of this node: the name of its folder.
    pub node: Uuid,
    /// Display name of this node; may be empty.
    pub name: String,
    /// How segments are indexed.
    pub index: weir_tracker::Settings,
    /// Retention in the bucket; `None`: nothing is deleted.
    pub keep: Option<Duration>,
    /// Bytes of the journal that may be held back.
    pub max_backlog: u64,
}

/// What was done since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments in the bucket.
    pub segments: u64,
    /// Bytes of their objects.
    pub bytes: u64,
    /// Transactions of these segments.
    pub transactions: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Transactions that were not uploaded, or without headers and bodies, because the journal had
    /// dropped them.
    pub gap_records: u64,
    /// Segments that were deleted from the bucket.
    pub deleted: u64,
    /// Since when all attempts have failed.
    pub failing_since: Option<Instant>,
    /// Why the last attempt failed.
    pub reason: Option<String>,
}

/// Removes the follower: the journal keeps nothing for the archive.
///
/// # Errors
/// The checkpoint cannot be removed.
pub fn remove_follower(journal: &Journal) -> std::io::Result<()> {
    journal.forget(FOLLOWER)
}

/// Uploads the sealed segments of a journal.
#[derive(Debug)]
pub struct Uploader {
    settings: Settings,
    journal: Arc<Journal>,
    follower: Follower,
    bucket: Bucket,
    /// Where the next segment is staged.
    folder: PathBuf,
    staged: Option<Staged>,
    gaps: Gaps,
    /// What `node.json` says, once it is known to.
    info: Option<NodeInfo>,
    /// The lane that is tried first.
    lane: u16,
    retention: Option<Instant>,
    statistics: Statistics,
}

impl Uploader {
    /// Continues at its checkpoint; the first time, with the first record of the journal.
    ///
    /// # Errors
    /// The settings are invalid, or files cannot be read or written.
    pub fn open(
        journal: &Arc<Journal>,
        data: &Path,
        settings: Settings,
    ) -> Result<Self, ArchiveError> {
        let bucket = Bucket::open(&settings.bucket)?.folder(&settings.node.to_string());
        let follower = journal.follower_with_backlog(FOLLOWER, settings.max_backlog);
        let follower = follower.map_err(ArchiveError::Journal)?;
        follower.read_only_sealed();
        let archive = data.join("archive");
        create_folder(&archive).map_err(ArchiveError::io(&archive))?;
        let folder = archive.join("staged");
        // What was uploaded completely before the process ended is behind the checkpoint.
        let is_next = |staged: &Staged| {
            let Manifest { lane, segment, .. } = staged.manifest;
            follower.position(lane).segment() <= segment
        };
        let staged = Staged::open(&folder).filter(is_next);
        let gaps = Gaps::open(archive.join("gaps.json"))?;
        Ok(Self {
            settings,
            journal: Arc::clone(journal),
            follower,
            bucket,
            folder,
            staged,
            gaps,
            info: None,
            lane: 0,
            retention: None,
            statistics: Statistics::default(),
        })
    }

    /// What was done since it was opened.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Uploads the next segment or gap, or deletes what is too old. False if there is nothing to do. It
    /// can be dropped while it waits, and called again.
    ///
    /// # Errors
    /// See [`ArchiveError`]. It can be called again.
    pub async fn step(&mut self) -> Result<bool, ArchiveError> {
        let done = self.try_step().await;
        match &done {
            Ok(_) => (self.statistics.failing_since, self.statistics.reason) = (None, None),
            Err(error) => {
                self.statistics.failures += 1;
                self.statistics.failing_since.get_or_insert_with(Instant::now);
                self.statistics.reason = Some(error.to_string());
            }
        }
        done
    }

    async fn try_step(&mut self) -> Result<bool, ArchiveError> {
        self.note_gaps()?;
        if self.staged.is_none() {
            self.stage()?;
        }
        // A gap without any segment is an archive too: whoever searches the bucket has to see the gap.
        if self.staged.is_some() || self.gaps.first().is_some() {
            self.write_info().await?;
        }
        if self.staged.is_some() {
            self.upload().await?;
            return Ok(true);
        }
        if let Some(gap) = self.gaps.first() {
            self.bucket.put_json(&format!("gaps/{}", gap.name()), gap).await?;
            self.gaps.uploaded()?;
            return Ok(true);
        }
        self.enforce_retention().await
    }

    /// Counts and stores what the journal has dropped.
    fn note_gaps(&mut self) -> Result<(), ArchiveError> {
        let skipped = self.follower.take_skipped();
        self.statistics.gap_records += skipped.iter().map(|one| one.records).sum::<u64>();
        self.gaps.add(&skipped, u64::try_from(now().as_micros()).unwrap_or(u64::MAX))
    }

    /// Stages the next sealed segment that has transactions to be searched.
    fn stage(&mut self) -> Result<(), ArchiveError> {
        let lanes = self.journal.lanes();
        for turn in 0..lanes {
            let lane = (self.lane + turn) % lanes;
            while let Some(number) = self.journal.next_sealed(&self.follower, lane) {
                let index = &self.settings.index;
                let from = (&*self.journal, &self.follower, (lane, number));
                let staged = Staged::new(&self.folder, from.0, from.1, from.2, index)?;
                let Some(staged) = staged else { break };
                if staged.manifest.transactions == 0 {
                    self.pass(lane, number, staged.sequence)?;
                    continue;
                }
                self.statistics.gap_records += staged.manifest.expired;
                self.staged = Some(staged);
                self.lane = (lane + 1) % lanes;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes `node.json`, if it says something else.
    async fn write_info(&mut self) -> Result<(), ArchiveError> {
        let lanes = self.journal.lanes();
        let info = NodeInfo { version: VERSION, name: self.settings.name.clone(), lanes };
        if self.info.as_ref() == Some(&info) {
            return Ok(());
        }
        // A journal whose lanes were lost has fewer; their segments are still in the bucket.
        let before = self.bucket.read("node.json").await?;
        let before = before.and_then(|bytes| serde_json::from_slice::<NodeInfo>(&bytes).ok());
        let before = before.map_or(0, |before| before.lanes);
        let written = NodeInfo { lanes: lanes.max(before), ..info.clone() };
        self.bucket.put_json("node.json", &written).await?;
        self.info = Some(info);
        Ok(())
    }

    async fn upload(&mut self) -> Result<(), ArchiveError> {
        let Some(staged) = &self.staged else { return Ok(()) };
        for (file, path) in staged.files() {
            self.bucket.put_file(file, path).await?;
        }
        let manifest = &staged.manifest;
        let name = format!("manifests/{}", manifest.name());
        if !self.bucket.create_json(&name, manifest).await? {
            self.compare(&name, manifest).await?;
        }
        self.statistics.segments += 1;
        self.statistics.bytes += manifest.bytes();
        self.statistics.transactions += manifest.transactions;
        let (lane, number, sequence) = (manifest.lane, manifest.segment, staged.sequence);
        self.staged = None;
        self.pass(lane, number, sequence)?;
        Staged::remove(&self.folder)
    }

    /// Compares a manifest with one that exists: the same, unless another data folder has the same
    /// identity.
    async fn compare(&self, name: &str, manifest: &Manifest) -> Result<(), ArchiveError> {
        let Some(bytes) = self.bucket.read(name).await? else { return Ok(()) };
        let known: Manifest = self.bucket.decode(name, &bytes)?;
        if known.files == manifest.files {
            return Ok(());
        }
        let reason = "another data folder with the identity of this node has written it; move \
            `node.id` of one of them away";
        Err(self.bucket.damaged(name, reason))
    }

    fn pass(&mut self, lane: u16, number: u32, sequence: u64) -> Result<(), ArchiveError> {
        self.follower.pass_segment(lane, number, sequence);
        self.follower.commit().map_err(ArchiveError::Journal)
    }

    async fn enforce_retention(&mut self) -> Result<bool, ArchiveError> {
        let Some(keep) = self.settings.keep else { return Ok(false) };
        if self.retention.is_some_and(|last| last.elapsed() < RETENTION_INTERVAL) {
            return Ok(false);
        }
        let (deleted, has_more) = retention::enforce(&self.bucket, keep, now()).await?;
        self.statistics.deleted += deleted;
        if !has_more {
            self.retention = Some(Instant::now());
        }
        Ok(has_more)
    }
}

/// Time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
