//! Writes a backup.

use super::manifest::{BackupFile, Manifest};
use super::{CONFIGURATION, DATA, is_vacant, partial};
use anyhow::{Context, ensure};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use weir_journal::{Journal, Unfinished, create_folder, sync_folder};

/// Folder of links in the data folder, as long as a backup is written.
const STAGING: &str = "backup.staging";
/// Names in the data folder that are copied in their own way, or belong to a process.
const APART: [&str; 4] = ["index", "journal", "journal-manifest", STAGING];
const DATABASE: &str = "weir.db";
/// Name of the lock of the journal.
const LOCK: &str = "lock";

/// What is backed up.
pub(crate) struct Backup<'a> {
    pub(crate) data: &'a Path,
    /// The open journal of a running weir; without one the data folder must be locked.
    pub(crate) journal: Option<&'a Journal>,
    /// Files of the configuration.
    pub(crate) configuration: &'a [PathBuf],
}

/// Removes what an interrupted backup has left in a data folder.
///
/// # Errors
/// The folder cannot be removed.
pub(crate) fn remove_leftovers(data: &Path) -> io::Result<()> {
    weir_journal::if_exists(fs::remove_dir_all(data.join(STAGING))).map(drop)
}

/// A folder that is removed at the end.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // The next backup removes it otherwise.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Backup<'_> {
    /// Writes the backup into `target`, which must not exist or be empty. It appears there when it is
    /// complete.
    ///
    /// # Errors
    /// A file cannot be read or written; nothing is left then.
    pub(crate) fn write(&self, target: &Path) -> anyhow::Result<Manifest> {
        let target = std::path::absolute(target)?;
        let at = || target.display().to_string();
        ensure!(is_vacant(&target).with_context(at)?, "{} is not empty", target.display());
        let new = Temporary(partial(&target));
        remove_leftovers(self.data).with_context(|| self.data.display().to_string())?;
        weir_journal::if_exists(fs::remove_dir_all(&new.0)).with_context(at)?;
        create_folder(&new.0).with_context(at)?;
        let staging = Temporary(self.data.join(STAGING));
        create_folder(&staging.0).with_context(|| staging.0.display().to_string())?;

        let (mut files, unfinished) = self.copy_database_and_link(&staging.0, &new.0)?;
        copy_folder(&staging.0, &new.0, &unfinished, &mut files)?;
        self.copy_configuration(&new.0, &mut files)?;
        let manifest = Manifest::new(files);
        manifest.write(&new.0)?;
        sync_folders(&new.0).with_context(at)?;
        weir_journal::if_exists(fs::remove_dir(&target)).with_context(at)?;
        fs::rename(&new.0, &target).with_context(at)?;
        target.parent().map(sync_folder).transpose().with_context(at)?;
        Ok(manifest)
    }

    /// Index, database, journal and everything else, in this order.
    fn copy_database_and_link(
        &self,
        staging: &Path,
        new: &Path,
    ) -> anyhow::Result<(Vec<BackupFile>, Vec<Unfinished>)> {
        let at = || format!("cannot link the files of {}", self.data.display());
        link_tree(&self.data.join("index"), &staging.join("index"), &|_| true).with_context(at)?;
        let mut files = Vec::new();
        if self.data.join(DATABASE).exists() {
            create_folder(&new.join(DATA)).with_context(|| new.display().to_string())?;
            let path = format!("{DATA}/{DATABASE}");
            weir_store::copy(self.data, &new.join(&path))
                .with_context(|| format!("cannot write {}", new.join(&path).display()))?;
            files.push(BackupFile::of(new, &path)?);
        }
        let unfinished = match self.journal {
            Some(journal) => journal.snapshot(self.data, staging).with_context(at)?,
            None => {
                let needed = |name: &str| name != LOCK && !name.ends_with(".spare");
                for folder in ["journal", "journal-manifest"] {
                    let (from, to) = (self.data.join(folder), staging.join(folder));
                    link_tree(&from, &to, &needed).with_context(at)?;
                }
                Vec::new()
            }
        };
        let rest = |name: &str| !APART.contains(&name) && !name.starts_with(DATABASE);
        link_tree(self.data, staging, &rest).with_context(at)?;
        Ok((files, unfinished))
    }

    fn copy_configuration(&self, new: &Path, files: &mut Vec<BackupFile>) -> anyhow::Result<()> {
        let sources = self.configuration.iter().filter(|path| path.is_file());
        for (number, source) in sources.enumerate() {
            let name = source.file_name().unwrap_or_default().to_string_lossy();
            let path = format!("{CONFIGURATION}/{number:03}-{name}");
            files.push(BackupFile::copy(source, &new.join(&path), path, None)?);
        }
        Ok(())
    }
}

/// Links the files of a folder and its folders. Files that are removed meanwhile are left out, as are
/// sockets and files that are being written.
fn link_tree(from: &Path, to: &Path, accepts: &dyn Fn(&str) -> bool) -> io::Result<()> {
    let Some(entries) = weir_journal::if_exists(fs::read_dir(from))? else { return Ok(()) };
    create_folder(to)?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| !name.ends_with(".new") && accepts(name)) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            link_tree(&entry.path(), &to.join(name), accepts)?;
        } else if kind.is_file() {
            weir_journal::if_exists(fs::hard_link(entry.path(), to.join(name)))?;
        }
    }
    Ok(())
}

/// Copies the links of the staging folder.
fn copy_folder(
    staging: &Path,
    new: &Path,
    unfinished: &[Unfinished],
    files: &mut Vec<BackupFile>,
) -> anyhow::Result<()> {
    let valid: HashMap<_, _> = unfinished.iter().map(|one| (&*one.path, one.bytes)).collect();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let at = || staging.join(&folder).display().to_string();
        create_folder(&new.join(DATA).join(&folder)).with_context(at)?;
        for entry in fs::read_dir(staging.join(&folder)).with_context(at)? {
            let entry = entry.with_context(at)?;
            let relative = folder.join(entry.file_name());
            if entry.file_type().with_context(at)?.is_dir() {
                folders.push(relative);
                continue;
            }
            let path = format!("{DATA}/{}", relative.display());
            let to = new.join(&path);
            files.push(BackupFile::copy(&entry.path(), &to, path, valid.get(&*relative).copied())?);
        }
    }
    Ok(())
}

/// Makes the names of all files durable.
fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}
