//! Contexts: named admin listeners of the user, kept in `$XDG_CONFIG_HOME/weir/contexts.json`.
//!
//! The file may have tokens, so only its owner can read it (0600, its folder 0700).

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use weir_config::secret_file;

/// The name that stands for no context.
pub(crate) const NONE: &str = "none";
/// Name of the file.
const FILE: &str = "contexts.json";
/// There is no file of the user.
pub(crate) const NO_FOLDER: &str = "no folder for your settings: set XDG_CONFIG_HOME or HOME";
/// Longest name.
const MAX_NAME: usize = 64;
/// Most contexts.
const MAX_CONTEXTS: usize = 1000;

/// An admin listener, and how to reach it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    /// `http[s]://HOST:PORT`.
    pub(crate) admin: String,
    /// File with the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// The token itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// CA certificates of the listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
    /// Certificate to present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key; absent: in the same file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<PathBuf>,
}

/// The contexts of a user.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// Name of the one that commands use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// By name.
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

impl Contexts {
    /// Those in the user's file; none if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or is not one of weir's.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var_os(name);
        let Some(path) = path(FILE, variable) else { return Ok(Self::default()) };
        Self::read(&path)
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let at = || format!("cannot read the contexts in {}", path.display());
        match secret_file::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(at),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(at),
        }
    }

    /// Replaces the user's file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn save(&self) -> anyhow::Result<()> {
        let path = path(FILE, |name| std::env::var_os(name));
        self.write(&path.context(NO_FOLDER)?)
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        ensure!(
            self.contexts.len() <= MAX_CONTEXTS,
            "at most {MAX_CONTEXTS} contexts are possible"
        );
        write_private(path, self)
    }

    /// The context with a name.
    ///
    /// # Errors
    /// There is none; the message has the existing ones.
    pub(crate) fn get(&self, name: &str) -> anyhow::Result<&Context> {
        self.contexts.get(name).with_context(|| {
            let names: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            match weir_document::finding::nearest(name, names.iter().copied()) {
                Some(near) => format!("unknown context `{name}`; did you mean `{near}`?"),
                None if names.is_empty() => {
                    format!("unknown context `{name}`; `weir context add` adds one")
                }
                None => format!("unknown context `{name}`; there are: {}", names.join(", ")),
            }
        })
    }
}

/// Replaces a file that only its user can read (0600), in a folder for the user alone (0700).
///
/// # Errors
/// It cannot be written.
pub(crate) fn write_private(path: &Path, content: &impl Serialize) -> anyhow::Result<()> {
    let at = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(at)?;
    }
    let mut bytes = serde_json::to_vec_pretty(content)?;
    bytes.push(b'\n');
    secret_file::replace(path, &bytes).with_context(at)
}

/// A file of the user, by the XDG Base Directory Specification: a relative `XDG_CONFIG_HOME` is ignored.
pub(crate) fn path(file: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(folder.join("weir").join(file))
}

/// Checks a new name, for clap.
///
/// # Errors
/// It is empty, too long, `none`, or has other characters than letters, digits, `-`, `_` and `.`.
pub(crate) fn parse_name(name: &str) -> Result<String, String> {
    let letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(letter) {
        let most = MAX_NAME;
        return Err(format!("a name has 1 to {most} letters, digits, `-`, `_` and `.`"));
    }
    if name == NONE {
        return Err(format!("`{NONE}` stands for no context"));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_private_and_keeps_everything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/weir/contexts.json");
        assert!(Contexts::read(&path).unwrap().contexts.is_empty());
        let context = Context {
            admin: "https://gateway:9080".to_owned(),
            token: Some("wadm_x".to_owned()),
            ..Context::default()
        };
        let mut contexts = Contexts { current: Some("prod".to_owned()), ..Contexts::default() };
        contexts.contexts.insert("prod".to_owned(), context.clone());
        contexts.write(&path).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let read = Contexts::read(&path).unwrap();
        assert!(read.get("prod").unwrap() == &context);
        assert_eq!(read.current.as_deref(), Some("prod"));
        let error = read.get("prd").err().unwrap().to_string();
        assert!(error.contains("did you mean `prod`?"), "{error}");
        std::fs::write(&path, "{").unwrap();
        let error = Contexts::read(&path).err().unwrap().to_string();
        assert!(error.contains("contexts.json"), "{error}");
    }

    #[test]
    fn the_folder_follows_xdg() {
        let of = |config: Option<&str>, home: Option<&str>| {
            let variable =
                |name: &str| if name == "HOME" { home } else { config }.map(OsString::from);
            path(FILE, variable).map(|path| path.display().to_string())
        };
        assert_eq!(of(Some("/c"), Some("/h")).unwrap(), "/c/weir/contexts.json");
        assert_eq!(of(Some("c"), Some("/h")).unwrap(), "/h/.config/weir/contexts.json");
        assert_eq!(of(None, Some("/h")).unwrap(), "/h/.config/weir/contexts.json");
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn names_are_plain() {
        assert!(parse_name("prod-1.eu_west").is_ok());
        for wrong in ["", "none", "a b", "a/b", "é"] {
            assert!(parse_name(wrong).is_err(), "{wrong}");
        }
    }
}
