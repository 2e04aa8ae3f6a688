//! What a path leads to beneath a folder: a file with its compressed siblings, a folder, nothing.

use super::disk::{self, IoMode, ReadError};
use super::stored::{self, Stored};
use super::types;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use weir_config::Files;

/// A sibling older than its original by more than this many seconds was made of an earlier one.
/// Not less: copying a tree may give the original the later time.
const MAX_AGE_DIFFERENCE: i64 = 60;

/// A content coding that siblings may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `FILE.br`.
    Br,
    /// `FILE.zst`.
    Zstd,
    /// `FILE.gz`.
    Gzip,
}

impl Coding {
    /// All of them, the densest first.
    pub const ALL: [Self; 3] = [Self::Br, Self::Zstd, Self::Gzip];

    /// As Content-Encoding has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Br => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// What follows the name of the original.
    fn suffix(self) -> &'static str {
        match self {
            Self::Br => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }

    /// What follows in the tag.
    fn tag(self) -> &'static str {
        match self {
            Self::Br => "-br",
            Self::Zstd => "-zst",
            Self::Gzip => "-gz",
        }
    }
}

/// A file and what stands for it.
#[derive(Debug)]
pub struct Resource {
    /// The file itself.
    pub plain: Arc<Stored>,
    /// Its siblings, in the order of [`Coding::ALL`].
    pub coded: [Option<Arc<Stored>>; 3],
    /// Content-Type of all of them.
    pub content_type: String,
}

impl Resource {
    /// The file and its siblings.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &Arc<Stored>> {
        std::iter::once(&self.plain).chain(self.coded.iter().flatten())
    }

    /// None of the open files has changed.
    pub fn is_unchanged(&self) -> bool {
        self.forms().all(|form| form.is_unchanged())
    }
}

/// What a path leads to.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// Nothing that is served.
    NotFound,
    /// A folder with something that answers for it, asked for without a slash at its end.
    Folder,
    /// A file.
    File(Arc<Resource>),
}

/// Finds what `path` (see [`decoded`]) leads to beneath a folder; parts of `before` that are still
/// the same are taken over.
pub(crate) fn lookup(
    files: &Files,
    folder: &OwnedFd,
    path: &[u8],
    before: Option<&Resource>,
    mode: IoMode,
) -> Result<Lookup, ReadError> {
    let name = path.strip_suffix(b"/").unwrap_or(path);
    if name.len() < path.len() || name.is_empty() {
        return index(files, folder, name, before, mode);
    }
    let Some(file) = disk::open_beneath(folder, name, mode)? else { return Ok(Lookup::NotFound) };
    let stat = disk::stat(&file)?;
    if stored::is_file(&stat) {
        let plain = Stored::load(file, &stat, before.map(|b| &b.plain), "", mode)?;
        return resource(files, folder, name, plain, before, mode).map(Lookup::File);
    }
    // Only a folder has something beneath it.
    Ok(match index(files, folder, name, None, mode)? {
        Lookup::File(_) => Lookup::Folder,
        other => other,
    })
}

/// What answers for a folder.
fn index(
    files: &Files,
    folder: &OwnedFd,
    name: &[u8],
    before: Option<&Resource>,
    mode: IoMode,
) -> Result<Lookup, ReadError> {
    for index in &files.index {
        let path = match name {
            b"" => index.clone().into_bytes(),
            name => [name, b"/", index.as_bytes()].concat(),
        };
        let Some(file) = disk::open_beneath(folder, &path, mode)? else { continue };
        let stat = disk::stat(&file)?;
        if stored::is_file(&stat) {
            let plain = Stored::load(file, &stat, before.map(|b| &b.plain), "", mode)?;
            return resource(files, folder, &path, plain, before, mode).map(Lookup::File);
        }
    }
    Ok(Lookup::NotFound)
}

fn resource(
    files: &Files,
    folder: &OwnedFd,
    name: &[u8],
    plain: Arc<Stored>,
    before: Option<&Resource>,
    mode: IoMode,
) -> Result<Arc<Resource>, ReadError> {
    let mut coded = [const { None }; 3];
    if files.precompressed {
        for (index, coding) in Coding::ALL.into_iter().enumerate() {
            let path = [name, coding.suffix().as_bytes()].concat();
            let Some(file) = disk::open_beneath(folder, &path, mode)? else { continue };
            let stat = disk::stat(&file)?;
            if !stored::is_file(&stat) {
                continue;
            }
            let before = before.and_then(|before| before.coded[index].as_ref());
            let sibling = Stored::load(file, &stat, before, coding.tag(), mode)?;
            if plain.modified.saturating_sub(sibling.modified) <= MAX_AGE_DIFFERENCE {
                coded[index] = Some(sibling);
            }
        }
    }
    let content_type = types::content_type(name, &files.types);
    Ok(Arc::new(Resource { plain, coded, content_type }))
}

/// The path of a file: segments decoded. `None` for one that no file is served under: with an empty
/// segment before its end, a segment that an escape makes more than one, or one that begins with a
/// dot, unless such are served.
pub fn decode_path(rest: &str, dot_files: bool) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(rest.len());
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let start = path.len();
        path.extend(percent_encoding::percent_decode_str(segment));
        let last = segments.peek().is_none();
        match &path[start..] {
            b"" if last => {}
            b"" | b"." | b".." => return None,
            name if name.contains(&b'/') || name.contains(&0) => return None,
            name if name[0] == b'.' && !dot_files => return None,
            _ => {}
        }
        if !last {
            path.push(b'/');
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests;
