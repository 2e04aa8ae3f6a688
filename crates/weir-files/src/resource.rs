//! Lookup of a path beneath a folder: a file with its compressed siblings, a folder, or nothing.

use super::disk::{self, IoMode, ReadError};
use super::stored::{self, Stored};
use super::types;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use weir_config::{ContentCoding, Files};

/// A sibling that is older than its original by more seconds was made from an earlier one. Copying
/// a tree may give the original a slightly later time.
const MAX_AGE_DIFFERENCE: i64 = 60;

/// Content codings of siblings, the densest first: coding, end of the file name, end of the tag.
pub const CODINGS: [(ContentCoding, &str, &str); 3] = [
    (ContentCoding::Br, ".br", "-br"),
    (ContentCoding::Zstd, ".zst", "-zst"),
    (ContentCoding::Gzip, ".gz", "-gz"),
];

/// A file and its compressed siblings.
#[derive(Debug)]
pub struct Resource {
    /// The file itself.
    pub plain: Arc<Stored>,
    /// Its siblings, in the order of [`CODINGS`].
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

/// Result of a lookup.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// No file to be served.
    NotFound,
    /// A folder with an index file, requested without a slash at the end.
    Folder,
    /// A file.
    File(Arc<Resource>),
}

/// Looks up `path` (see [`decode_path`]) beneath a folder; unchanged parts of `before` are reused.
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
    // Only a folder has files beneath it.
    Ok(match index(files, folder, name, None, mode)? {
        Lookup::File(_) => Lookup::Folder,
        other => other,
    })
}

/// The index file of a folder.
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
        for (index, (_, end, tag)) in CODINGS.into_iter().enumerate() {
            let path = [name, end.as_bytes()].concat();
            let Some(file) = disk::open_beneath(folder, &path, mode)? else { continue };
            let stat = disk::stat(&file)?;
            if !stored::is_file(&stat) {
                continue;
            }
            let before = before.and_then(|before| before.coded[index].as_ref());
            let sibling = Stored::load(file, &stat, before, tag, mode)?;
            if plain.modified.saturating_sub(sibling.modified) <= MAX_AGE_DIFFERENCE {
                coded[index] = Some(sibling);
            }
        }
    }
    let content_type = types::content_type(name, &files.types);
    Ok(Arc::new(Resource { plain, coded, content_type }))
}

/// The path of a file, segments decoded. `None` for a path that is never served: with an empty
/// segment before its end, an escaped slash, or a segment with a leading dot, unless dot files are
/// served.
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
