//! The checkpoints of followers on the disk.
//!
//! `followers/NAME` has, for each lane, the position `u64` and the highest sequence number `u64`
//! that the follower has read, little-endian, and at the end the CRC-32 of everything before it. A
//! damaged file is kept as `followers/NAME.damaged-SECONDS`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use crate::backlog::{Backlog, KeptFor, Skipped};
use crate::failpoint::Faults;
use crate::files::damage::DamageLog;
use crate::format::{Position, u64_at};
use crate::os::atomic_file::{
    create_folder, if_exists, quarantine, replace_durably, verified, with_checksum,
};
use crate::recovery::RecoveryReport;

/// Bytes of a checkpoint of one lane.
const ENTRY: usize = 16;

/// How far a follower has read a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) position: Position,
    pub(crate) sequence: u64,
}

/// The checkpoints of all followers, as they are on the disk.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    folder: PathBuf,
    faults: Faults,
    pub(crate) all: Mutex<BTreeMap<String, Vec<Checkpoint>>>,
    /// Followers whose backlog is bounded. Locked before `all` if both are.
    pub(crate) backlogs: Mutex<BTreeMap<String, Backlog>>,
}

impl Checkpoints {
    /// Reads the checkpoints. A follower whose checkpoint is damaged or unreadable starts again; the
    /// file is kept under another name.
    pub(crate) fn open(
        folder: PathBuf,
        faults: Faults,
        report: &mut RecoveryReport,
    ) -> io::Result<Self> {
        create_folder(&folder)?;
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if path.extension().is_some_and(|extension| extension == "new") {
                fs::remove_file(&path)?;
            } else if is_name(name) {
                let lanes = read(&path, &faults)?.unwrap_or_else(|| {
                    report.damaged_files.push(put_aside(name, &path));
                    report.damaged_checkpoints.push(name.to_owned());
                    Vec::new()
                });
                all.insert(name.to_owned(), lanes);
            }
        }
        Ok(Self { folder, faults, all: Mutex::new(all), backlogs: Mutex::default() })
    }

    /// Whether a segment is kept for a follower.
    pub(crate) fn is_needed(&self, lane: u16, segment: u32, kept_for: KeptFor) -> bool {
        let backlogs = self.backlogs.lock();
        let needs = |(name, lanes): (&String, &Vec<Checkpoint>)| {
            let has_read = lanes
                .get(usize::from(lane))
                .is_some_and(|checkpoint| checkpoint.position.segment() > segment);
            let within_bound = backlogs.get(name).is_none_or(|backlog| match kept_for {
                KeptFor::All => segment >= backlog.floor(lane),
                KeptFor::Readers => !backlog.only_sealed && segment >= backlog.floor(lane),
                KeptFor::Unbounded => false,
            });
            !has_read && within_bound
        };
        self.all.lock().iter().any(needs)
    }

    /// Where a reader of a follower with a bounded backlog publishes how far it has read a lane.
    pub(crate) fn progress(&self, name: &str, lane: u16) -> Option<Arc<AtomicU64>> {
        self.backlogs.lock().get_mut(name).map(|backlog| backlog.progress(lane))
    }

    /// What a follower skips, once each.
    pub(crate) fn take_skipped(&self, name: &str) -> Vec<Skipped> {
        self.backlogs.lock().get_mut(name).map(Backlog::take_skipped).unwrap_or_default()
    }

    /// How far each follower with a bounded backlog has read a lane.
    pub(crate) fn read_positions(&self, lane: u16) -> Vec<(String, Position)> {
        let all = self.all.lock().clone();
        let backlogs = self.backlogs.lock();
        let position = |(name, backlog): (&String, &Backlog)| {
            let checkpoint = all.get(name).and_then(|lanes| lanes.get(usize::from(lane)));
            let checkpoint = checkpoint.copied().unwrap_or_default();
            (name.clone(), backlog.read(lane).max(checkpoint.position))
        };
        backlogs.iter().map(position).collect()
    }

    /// Adds records that a follower skips.
    pub(crate) fn add_skipped(&self, name: &str, skipped: Skipped) {
        if let Some(backlog) = self.backlogs.lock().get_mut(name) {
            backlog.skip(skipped);
        }
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        self.backlogs.lock().remove(name);
        if self.all.lock().remove(name).is_some() {
            fs::remove_file(self.folder.join(name))?;
        }
        Ok(())
    }

    pub(crate) fn write(&self, name: &str, lanes: &[Checkpoint]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(lanes.len() * ENTRY + 4);
        for lane in lanes {
            bytes.extend_from_slice(&lane.position.to_bits().to_le_bytes());
            bytes.extend_from_slice(&lane.sequence.to_le_bytes());
        }
        self.faults.check("checkpoint.write")?;
        let path = self.folder.join(name);
        replace_durably(&path, &with_checksum(bytes)).map_err(|error| {
            io::Error::new(error.kind(), format!("writing {}: {error}", path.display()))
        })?;
        self.all.lock().insert(name.to_owned(), lanes.to_vec());
        Ok(())
    }
}

/// Puts a damaged checkpoint aside. Returns a message: the file, the loss, and what happens next.
fn put_aside(follower: &str, path: &Path) -> String {
    let now = match quarantine(path) {
        Some(kept) => format!("{} now", kept.display()),
        None => "replaced".to_owned(),
    };
    format!(
        "the checkpoint {} is damaged: how far `{follower}` has read the journal is lost; it \
         continues where its own files say, and without them reads everything in the journal \
         again; the damaged file is {now}",
        path.display(),
    )
}

/// None if the file is damaged, or the disk does not return it: there is no time to wait for it.
fn read(path: &Path, faults: &Faults) -> io::Result<Option<Vec<Checkpoint>>> {
    let file = File::open(path)?;
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    let read = DamageLog::new(faults.clone()).try_read(&file, 0, &mut bytes);
    Ok(read.ok().and_then(|()| decode(&bytes)))
}

fn decode(bytes: &[u8]) -> Option<Vec<Checkpoint>> {
    let checkpoint = |entry: &[u8]| Checkpoint {
        position: Position::from_bits(u64_at(entry, 0)),
        sequence: u64_at(entry, 8),
    };
    Some(verified(bytes)?.chunks_exact(ENTRY).map(checkpoint).collect())
}

/// Whether text may be the name of a follower.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(allowed)
}

/// Checkpoints of followers that are damaged, without opening the journal.
///
/// # Errors
/// The folder cannot be read.
pub fn damaged_checkpoints(data: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = data.join("journal").join("followers");
    let mut damaged = Vec::new();
    for entry in if_exists(fs::read_dir(folder))?.into_iter().flatten() {
        let path = entry?.path();
        let named = path.file_name().and_then(|name| name.to_str()).is_some_and(is_name);
        if named && matches!(read(&path, &Faults::default()), Ok(None)) {
            damaged.push(path);
        }
    }
    damaged.sort();
    Ok(damaged)
}
