//! Versions of a fleet's configuration on the disk of a node.
//!
//! The folder `config` in the data folder has a folder for each version that the node may need, called by
//! its number, and the file `state.json`. A version is complete before the state names it: its folder is
//! written under another name, synced and renamed. The state names the *good* version, which was in force
//! for a whole stage, and the one that the node is *trying*. A node that ends while it tries a version
//! starts with the good one, so that a version that ends processes ends each of them once.

use crate::VersionChoice;
use crate::secret_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use weir_document::draft::Node;
use weir_document::source_map::SourceMap;

/// Longest path of a file of a version, in bytes.
const MAX_PATH_BYTES: usize = 512;
/// Most files of a version.
pub const MAX_FILES: usize = 1000;
/// Longest text of all files of a version, in bytes: what a request of the admin API may have.
pub const MAX_BYTES: usize = 7 << 20;
/// The main file of a version.
pub const MAIN: &str = "weir.yaml";

/// The files of a version: path in the folder of the version, and text.
pub type Files = BTreeMap<String, String>;

/// Versions that a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionState {
    /// Was in force for a stage; `None`: the own file alone.
    #[serde(default)]
    pub good: Option<i64>,
    /// In force, but not yet for a stage.
    #[serde(default)]
    pub trying: Option<Attempt>,
    /// The last one that the node did not take.
    #[serde(default)]
    pub rejected: Option<RejectedVersion>,
}

/// An attempt to take a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The version; `None`: the own file alone.
    pub version: Option<i64>,
    /// The rollout that demands it.
    pub rollout: i64,
}

/// A version that a node did not take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedVersion {
    /// The attempt.
    pub attempt: Attempt,
    /// Why.
    pub reason: String,
}

/// The versions in a data folder.
#[derive(Debug)]
pub struct VersionStore {
    folder: PathBuf,
    /// The state on the disk.
    pub state: VersionState,
}

impl VersionState {
    fn read(folder: &Path) -> io::Result<Self> {
        match secret_file::read(&folder.join("state.json")) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// The version in force.
    #[must_use]
    pub fn current(&self) -> Option<i64> {
        self.trying.map_or(self.good, |attempt| attempt.version)
    }
}

impl VersionStore {
    /// Opens the versions of a data folder.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn open(data: &Path) -> io::Result<Self> {
        let folder = data.join("config");
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let state = VersionState::read(&folder)?;
        Ok(Self { folder, state })
    }

    /// The process before this one ended: the version that it was trying is rejected, what it had not
    /// finished to write is removed. A good version without a folder is none.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn recover(&mut self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)?.flatten().filter(|entry| entry.path().is_dir()) {
            let is_version = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
            if !entry.file_name().to_str().is_some_and(is_version) {
                remove(&entry.path())?;
            }
        }
        let before = self.state.clone();
        if let Some(attempt) = self.state.trying.take() {
            let reason = "the process ended while it tried this version".to_owned();
            self.state.rejected = Some(RejectedVersion { attempt, reason });
        }
        // A backup can have a state that is newer than its folders.
        self.state.good = self.state.good.filter(|good| self.folder(*good).is_dir());
        if self.state == before { Ok(()) } else { self.save() }
    }

    /// Writes the files of a version; returns their folder.
    ///
    /// # Errors
    /// A path is invalid, or a file cannot be written.
    pub fn write(&self, name: &str, files: &Files) -> io::Result<PathBuf> {
        let (folder, new) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        remove(&new)?;
        write_files(&new, files).inspect_err(|_| drop(remove(&new)))?;
        remove(&folder)?;
        fs::rename(&new, &folder)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(folder)
    }

    /// The folder of a version.
    #[must_use]
    pub fn folder(&self, version: i64) -> PathBuf {
        self.folder.join(version.to_string())
    }

    /// Removes what [`VersionStore::write`] has written under a name.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        remove(&self.folder.join(name))
    }

    /// Writes the state.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn save(&self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.state)?;
        secret_file::replace(&self.folder.join("state.json"), &text)
    }

    /// Removes versions that the state does not name.
    ///
    /// # Errors
    /// The folder cannot be read. A version that cannot be removed stays until the next time.
    pub fn clean(&self) -> io::Result<()> {
        let tried = self.state.trying.and_then(|attempt| attempt.version);
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<i64>().ok());
            if number.is_some_and(|number| ![self.state.good, tried].contains(&Some(number))) {
                let _ = remove(&entry.path());
            }
        }
        Ok(())
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn write_files(folder: &Path, files: &Files) -> io::Result<()> {
    for (path, text) in files {
        check_path(path)?;
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        let mut file = File::create_new(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// A path of a file of a version stays in its folder, and is written in one way only.
fn check_path(path: &str) -> io::Result<()> {
    let parts = || Path::new(path).components();
    let normal: PathBuf = parts().collect();
    let is_plain = parts().all(|part| matches!(part, Component::Normal(_)))
        && normal.as_os_str() == path
        && !path.contains('\0');
    match is_plain && !path.is_empty() && path.len() <= MAX_PATH_BYTES {
        true => Ok(()),
        false => Err(io::Error::other(format!("`{path}` is not a path in the folder"))),
    }
}

/// Whether files can be those of a version.
///
/// # Errors
/// The message has the limit that they exceed, or the wrong path.
pub fn check_files(files: &Files) -> Result<(), String> {
    let bytes: usize = files.iter().map(|(path, text)| path.len() + text.len()).sum();
    if files.len() > MAX_FILES || bytes > MAX_BYTES {
        return Err(format!("a version has at most {MAX_FILES} files and {MAX_BYTES} bytes"));
    }
    if !files.contains_key(MAIN) {
        return Err(format!("a version needs a file {MAIN}"));
    }
    files.keys().try_for_each(|path| check_path(path)).map_err(|error| error.to_string())?;
    let is_file = |folder: &&Path| folder.to_str().is_some_and(|path| files.contains_key(path));
    for path in files.keys() {
        if let Some(folder) = Path::new(path).ancestors().skip(1).find(is_file) {
            return Err(format!("`{}` is a file and the folder of `{path}`", folder.display()));
        }
    }
    Ok(())
}

/// The folder of the version to be loaded, if the own file of a node says that versions are used.
pub(crate) fn folder(root: &Node, texts: &SourceMap, choice: &VersionChoice) -> Option<PathBuf> {
    if root.get("fleet")?.get("config")?.get("source")?.text()? != "fleet" {
        return None;
    }
    let data = root.get("data");
    let file = data.map_or(root.at.file, |data| data.at.file);
    let data = texts.resolve(file, data.and_then(Node::text).unwrap_or("data"));
    let folder = data.join("config");
    // Without a readable state there is no version; the start reports an unreadable one.
    let state = || VersionState::read(&folder).unwrap_or_default();
    let number = match choice {
        VersionChoice::Current => state().current(),
        VersionChoice::Good => state().good.filter(|good| folder.join(good.to_string()).is_dir()),
        VersionChoice::None => None,
        VersionChoice::Folder(folder) => return Some(folder.clone()),
    };
    number.map(|number| folder.join(number.to_string()))
}

#[cfg(test)]
mod tests;
