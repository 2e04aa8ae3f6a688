//! Restores a backup into a new data folder.

use super::manifest::{BackupFile, Manifest};
use super::{DATA, is_vacant, partial};
use anyhow::{Context, ensure};
use std::fs;
use std::path::Path;
use weir_journal::{create_folder, if_exists, sync_folder};

/// Copies the data folder of a backup to `data`, which must not exist or be empty. It appears there
/// when every file is verified.
///
/// # Errors
/// The backup is incomplete or damaged, or `data` is not empty or cannot be written; nothing is left
/// then.
pub(crate) fn restore(backup: &Path, data: &Path) -> anyhow::Result<Manifest> {
    let data = std::path::absolute(data)?;
    let at = || data.display().to_string();
    ensure!(
        is_vacant(&data).with_context(at)?,
        "{} is not empty: restore into a new folder, or move this one away",
        data.display()
    );
    let manifest = Manifest::read(backup)?;
    let new = partial(&data);
    if_exists(fs::remove_dir_all(&new)).with_context(at)?;
    create_folder(&new).with_context(at)?;
    let copied = copy(backup, &new, &manifest).and_then(|()| {
        if_exists(fs::remove_dir(&data)).with_context(at)?;
        fs::rename(&new, &data).with_context(at)?;
        data.parent().map(sync_folder).transpose().with_context(at).map(drop)
    });
    if copied.is_err() {
        let _ = fs::remove_dir_all(&new);
    }
    copied.map(|()| manifest)
}

fn copy(backup: &Path, new: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let mut folders = std::collections::BTreeSet::from([new.to_owned()]);
    for file in &manifest.files {
        let from = backup.join(&file.path);
        let copied = match Path::new(&file.path).strip_prefix(DATA) {
            Ok(relative) => {
                let to = new.join(relative);
                folders.extend(to.parent().map(Path::to_owned));
                BackupFile::copy(&from, &to, file.path.clone(), None)?
            }
            Err(_) => BackupFile::of(backup, &file.path)?,
        };
        ensure!(
            copied == *file,
            "{} is damaged: {} bytes with SHA-256 {}, the manifest has {} with {}",
            from.display(),
            copied.bytes,
            copied.sha256,
            file.bytes,
            file.sha256
        );
    }
    folders.iter().try_for_each(|folder| sync_folder(folder)).context("cannot sync the folders")
}
