//! The manifest of a backup: all of its files with their checksums.

use anyhow::{Context, bail, ensure};
use aws_lc_rs::digest::{Context as Digest, SHA256};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path};

/// Version of the format.
const FORMAT: u32 = 1;
/// Bytes copied at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Largest manifest that is read: a million files.
const MAX_BYTES: u64 = 256 << 20;

/// The manifest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u32,
    /// The version of weir that wrote the backup.
    pub(crate) weir: String,
    /// Time at which the backup was complete (RFC 3339, UTC).
    pub(crate) time: String,
    /// All files but the manifest.
    pub(super) files: Vec<BackupFile>,
}

/// A file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BackupFile {
    /// Path in the backup.
    pub(super) path: String,
    pub(super) bytes: u64,
    /// SHA-256, hexadecimal.
    pub(super) sha256: String,
}

impl Manifest {
    pub(super) fn new(files: Vec<BackupFile>) -> Self {
        let time = jiff::Timestamp::now().to_string();
        Self { format: FORMAT, weir: env!("CARGO_PKG_VERSION").to_owned(), time, files }
    }

    /// Number of files, and their bytes.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.files.len(), self.files.iter().map(|file| file.bytes).sum())
    }

    /// Reads the manifest of a backup.
    ///
    /// # Errors
    /// There is none, or this version does not know its format, or a path leads out of the backup.
    pub(super) fn read(backup: &Path) -> anyhow::Result<Self> {
        let path = backup.join(super::MANIFEST);
        let at = || format!("{} is not a complete backup: {}", backup.display(), path.display());
        let mut text = String::new();
        let file = File::open(&path).with_context(at)?;
        file.take(MAX_BYTES).read_to_string(&mut text).with_context(at)?;
        let manifest: Self = serde_json::from_str(&text).with_context(at)?;
        ensure!(
            manifest.format == FORMAT,
            "{} has format {}; this version of weir reads format {FORMAT}",
            path.display(),
            manifest.format
        );
        for file in &manifest.files {
            let inside =
                Path::new(&file.path).components().all(|part| matches!(part, Component::Normal(_)));
            ensure!(inside, "{}: `{}` is not a path in the backup", path.display(), file.path);
        }
        Ok(manifest)
    }

    pub(super) fn write(&self, backup: &Path) -> anyhow::Result<()> {
        let path = backup.join(super::MANIFEST);
        let at = || format!("cannot write {}", path.display());
        let mut file = create(&path).with_context(at)?;
        file.write_all(serde_json::to_string_pretty(self)?.as_bytes()).with_context(at)?;
        file.sync_all().with_context(at)
    }
}

impl BackupFile {
    /// Copies a file, or its first bytes followed by zeros, and syncs the copy.
    ///
    /// # Errors
    /// It cannot be read or written; the message has the path.
    pub(super) fn copy(
        from: &Path,
        to: &Path,
        path: String,
        valid: Option<u64>,
    ) -> anyhow::Result<Self> {
        let reading = || format!("cannot read {}", from.display());
        let writing = || format!("cannot write {}", to.display());
        let mut source = File::open(from).with_context(reading)?;
        let bytes = source.metadata().with_context(reading)?.len();
        let mut rest = valid.unwrap_or(bytes).min(bytes);
        let (mut digest, mut chunk) = (Digest::new(&SHA256), vec![0; CHUNK_BYTES]);
        let mut target = create(to).with_context(writing)?;
        while rest > 0 {
            let most = usize::try_from(rest).map_or(CHUNK_BYTES, |rest| rest.min(CHUNK_BYTES));
            let count = source.read(&mut chunk[..most]).with_context(reading)?;
            if count == 0 {
                bail!("{} became shorter while it was copied", from.display());
            }
            digest.update(&chunk[..count]);
            target.write_all(&chunk[..count]).with_context(writing)?;
            rest -= count as u64;
        }
        let mut zeros = bytes - valid.unwrap_or(bytes).min(bytes);
        // A hole needs no room.
        target.set_len(bytes).with_context(writing)?;
        chunk.fill(0);
        while zeros > 0 {
            let count = usize::try_from(zeros).map_or(CHUNK_BYTES, |rest| rest.min(CHUNK_BYTES));
            digest.update(&chunk[..count]);
            zeros -= count as u64;
        }
        target.sync_all().with_context(writing)?;
        Ok(Self { path, bytes, sha256: HEXLOWER.encode(digest.finish().as_ref()) })
    }

    /// The entry of a file of the backup.
    pub(super) fn of(backup: &Path, path: &str) -> anyhow::Result<Self> {
        let from = backup.join(path);
        let at = || format!("cannot read {}", from.display());
        let mut source = File::open(&from).with_context(at)?;
        let (mut digest, mut chunk, mut bytes) = (Digest::new(&SHA256), vec![0; CHUNK_BYTES], 0);
        loop {
            match source.read(&mut chunk).with_context(at)? {
                0 => break,
                count => {
                    digest.update(&chunk[..count]);
                    bytes += count as u64;
                }
            }
        }
        source.sync_all().with_context(at)?;
        Ok(Self { path: path.to_owned(), bytes, sha256: HEXLOWER.encode(digest.finish().as_ref()) })
    }
}

/// A new private file, with its folders.
fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        weir_journal::create_folder(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
