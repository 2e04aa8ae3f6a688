//! Followers: those who read the whole journal, by name, and before whom nothing is dropped.
//!
//! `followers/NAME` holds, for each lane, the position `u64` and the highest ticket number `u64`
//! that the follower has passed, little-endian, and at the end the CRC-32 of it all. A damaged one is
//! kept aside as `followers/NAME.damaged-SECONDS`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::damage::Damages;
use crate::failpoint::Faults;
use crate::files::create_folder;
use crate::format::{Position, u64_at};
use crate::reader::Reader;
use crate::retention::now;

/// Most followers.
const FOLLOWERS: usize = 64;

/// How far a follower is in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) position: Position,
    pub(crate) ticket: u64,
}

/// What a follower has not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag {
    /// Its name.
    pub name: String,
    /// Transactions, those that are still open included.
    pub records: u64,
    /// Bytes, as they were appended.
    pub bytes: u64,
    /// How long ago the oldest of them was received.
    pub age: Duration,
}

/// A checkpoint that was damaged when the journal was opened: its follower begins again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedCheckpoint {
    /// Name of the follower.
    pub follower: String,
    /// The file.
    pub path: PathBuf,
    /// Where the damaged file is now; none if it could not be moved.
    pub kept: Option<PathBuf>,
}

impl std::fmt::Display for DamagedCheckpoint {
    /// The file, what is lost with it, and what is done about it.
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

/// All followers' checkpoints, as they are on the disk.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    folder: PathBuf,
    faults: Faults,
    durable: Mutex<BTreeMap<String, Vec<Passed>>>,
}

impl Checkpoints {
    /// Reads the checkpoints. A follower whose checkpoint is damaged or cannot be read begins again,
    /// and what there was is kept aside.
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
                let passed = read(&path, &faults)?.unwrap_or_else(|| {
                    let (kept, follower) = (put_aside(&path), follower.clone());
                    damaged.push(DamagedCheckpoint { follower, path, kept });
                    Vec::new()
                });
                durable.insert(follower, passed);
            }
        }
        Ok(Self { folder, faults, durable: Mutex::new(durable) })
    }

    pub(crate) fn all(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Passed>>> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every follower has passed a whole segment.
    pub(crate) fn have_passed(&self, lane: u16, segment: u32) -> bool {
        let passed = |lanes: &Vec<Passed>| {
            lanes.get(usize::from(lane)).is_some_and(|passed| passed.position.segment() > segment)
        };
        self.all().values().all(passed)
    }

    pub(crate) fn forget(&self, name: &str) -> io::Result<()> {
        if self.all().remove(name).is_some() {
            fs::remove_file(self.folder.join(name))?;
        }
        Ok(())
    }

    fn write(&self, name: &str, lanes: &[Passed]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(lanes.len() * 16 + 4);
        for passed in lanes {
            bytes.extend_from_slice(&passed.position.to_bits().to_le_bytes());
            bytes.extend_from_slice(&passed.ticket.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        self.faults.check("checkpoint.write")?;
        let path = self.folder.join(name);
        write_whole(&path, &bytes).map_err(|error| {
            io::Error::new(error.kind(), format!("writing {}: {error}", path.display()))
        })?;
        self.all().insert(name.to_owned(), lanes.to_vec());
        Ok(())
    }
}

/// None if what is there is damaged, or the disk does not give it: nobody can wait for it now.
fn read(path: &Path, faults: &Faults) -> io::Result<Option<Vec<Passed>>> {
    let file = File::open(path)?;
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    let read = Damages::new(faults.clone()).try_read(&file, 0, &mut bytes);
    Ok(read.ok().and_then(|()| decode(&bytes)))
}

/// Moves a damaged file to a name that nothing reads; none if that fails, which stops nothing.
pub(crate) fn put_aside(path: &Path) -> Option<PathBuf> {
    let kept = path.with_added_extension(format!("damaged-{}", now().as_secs()));
    fs::rename(path, &kept).ok().map(|()| kept)
}

/// Whether a file is the checkpoint of a follower, and damaged.
pub(crate) fn is_damaged(path: &Path, faults: &Faults) -> bool {
    let named = path.file_name().and_then(|name| name.to_str()).is_some_and(is_name);
    named && matches!(read(path, faults), Ok(None))
}

fn decode(bytes: &[u8]) -> Option<Vec<Passed>> {
    let (bytes, sum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(bytes) != u32::from_le_bytes(*sum) {
        return None;
    }
    let passed = |entry: &[u8]| Passed {
        position: Position::from_bits(u64_at(entry, 0)),
        ticket: u64_at(entry, 8),
    };
    Some(bytes.chunks_exact(16).map(passed).collect())
}

/// Puts a whole file in place of another one, durably.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let new = path.with_added_extension("new");
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}

/// A follower's checkpoint: where it goes on, and what may be dropped as far as it is concerned.
#[derive(Debug)]
pub struct Follower {
    name: String,
    checkpoints: Arc<Checkpoints>,
    passed: Vec<Passed>,
}

impl Follower {
    /// Registers a follower, durably; one that is new begins at the start.
    pub(crate) fn new(name: &str, checkpoints: Arc<Checkpoints>, lanes: usize) -> io::Result<Self> {
        if !is_name(name) {
            let what = "a follower's name has 1 to 64 lower-case letters, digits and hyphens";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let known = checkpoints.all().get(name).cloned();
        if known.is_none() && checkpoints.all().len() >= FOLLOWERS {
            return Err(io::Error::other("too many followers"));
        }
        let mut passed = known.unwrap_or_default();
        passed.resize(lanes.max(passed.len()), Passed::default());
        checkpoints.write(name, &passed)?;
        Ok(Self { name: name.to_owned(), checkpoints, passed })
    }

    /// Where it goes on in a lane.
    #[must_use]
    pub fn position(&self, lane: u16) -> Position {
        self.of(lane).position
    }

    pub(crate) fn of(&self, lane: u16) -> Passed {
        self.passed.get(usize::from(lane)).copied().unwrap_or_default()
    }

    /// Notes that what `reader` has given so far was taken care of; durable with the next
    /// [`Follower::commit`].
    pub fn pass(&mut self, reader: &Reader) {
        if let Some(passed) = self.passed.get_mut(usize::from(reader.lane())) {
            *passed = Passed { position: reader.position(), ticket: reader.ticket() };
        }
    }

    /// Goes back to the start of what there is, durably: everything is read again.
    ///
    /// # Errors
    /// When the checkpoint cannot be written.
    pub fn begin_again(&mut self) -> io::Result<()> {
        self.passed.fill(Passed::default());
        self.commit()
    }

    /// Makes the checkpoint durable. What was passed may be dropped from then on.
    ///
    /// # Errors
    /// When it cannot be written; the one before stands then.
    pub fn commit(&mut self) -> io::Result<()> {
        self.checkpoints.write(&self.name, &self.passed)
    }
}
