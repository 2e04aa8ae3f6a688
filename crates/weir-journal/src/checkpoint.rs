//! The checkpoints of followers on the disk.
//!
//! `followers/NAME` has, for each lane, the position `u64` and the highest sequence number `u64`
//! that the follower has read, little-endian, and at the end the CRC-32 of everything before it. A
//! damaged file is kept as `followers/NAME.damaged-SECONDS`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::failpoint::Faults;
use crate::files::damage::DamageLog;
use crate::format::{Position, u64_at};
use crate::os::atomic_file::{create_folder, quarantine, replace_durably, verified, with_checksum};

/// Bytes of a checkpoint of one lane.
const ENTRY: usize = 16;

/// How far a follower has read a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) position: Position,
    pub(crate) sequence: u64,
}

/// A checkpoint that was damaged when the journal was opened: its follower starts again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedCheckpoint {
    /// Name of the follower.
    pub follower: String,
    /// The file.
    pub path: PathBuf,
    /// New path of the damaged file; none if it could not be moved.
    pub kept: Option<PathBuf>,
}

impl std::fmt::Display for DamagedCheckpoint {
    /// The file, the loss, and what happens next.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { follower, path, kept } = self;
        write!(
            f,
            "the checkpoint {} is damaged: how far `{follower}` has read the journal is lost; it \
             continues where its own files say, and without them reads everything in the journal \
             again",
            path.display(),
        )?;
        match kept {
            Some(kept) => write!(f, "; the damaged file is {} now", kept.display()),
            None => f.write_str("; the damaged file is replaced"),
        }
    }
}

/// The checkpoints of all followers, as they are on the disk.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    folder: PathBuf,
    faults: Faults,
    durable: Mutex<BTreeMap<String, Vec<Checkpoint>>>,
}

impl Checkpoints {
    /// Reads the checkpoints. A follower whose checkpoint is damaged or unreadable starts again; the
    /// file is kept under another name.
    pub(crate) fn open(
        folder: PathBuf,
        faults: Faults,
        damaged: &mut Vec<DamagedCheckpoint>,
    ) -> io::Result<Self> {
        create_folder(&folder)?;
        let mut durable = BTreeMap::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if path.extension().is_some_and(|extension| extension == "new") {
                fs::remove_file(&path)?;
            } else if is_name(name) {
                let follower = name.to_owned();
                let lanes = read(&path, &faults)?.unwrap_or_else(|| {
                    let (kept, follower) = (quarantine(&path), follower.clone());
                    damaged.push(DamagedCheckpoint { follower, path, kept });
                    Vec::new()
                });
                durable.insert(follower, lanes);
            }
        }
        Ok(Self { folder, faults, durable: Mutex::new(durable) })
    }

    pub(crate) fn all(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Checkpoint>>> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every follower has read a whole segment.
    pub(crate) fn all_have_read(&self, lane: u16, segment: u32) -> bool {
        let has_read = |lanes: &Vec<Checkpoint>| {
            lanes.get(usize::from(lane)).is_some_and(|lane| lane.position.segment() > segment)
        };
        self.all().values().all(has_read)
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        if self.all().remove(name).is_some() {
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
        self.all().insert(name.to_owned(), lanes.to_vec());
        Ok(())
    }
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
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut damaged = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let named = path.file_name().and_then(|name| name.to_str()).is_some_and(is_name);
        if named && matches!(read(&path, &Faults::default()), Ok(None)) {
            damaged.push(path);
        }
    }
    damaged.sort();
    Ok(damaged)
}
