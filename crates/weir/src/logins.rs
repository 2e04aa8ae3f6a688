//! Tokens of `weir login`, by the URL of the admin listener, kept in `$XDG_CONFIG_HOME/weir/logins.json`
//! (0600, its folder 0700).

use crate::contexts;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use weir_config::secret_file;
use weir_model::UnixSeconds;
use weir_store::clock;

/// Name of the file.
const FILE: &str = "logins.json";

/// The token of an account.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Login {
    /// The token.
    pub(crate) token: String,
    /// When it expires.
    pub(crate) expires: UnixSeconds,
}

/// The tokens of a user.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Logins(BTreeMap<String, Login>);

impl Logins {
    /// Those in the user's file that have not expired; none if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or is not one of weir's.
    pub(crate) fn load() -> anyhow::Result<Self> {
        match path() {
            Some(path) => Self::read(&path),
            None => Ok(Self::default()),
        }
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let at = || format!("cannot read the logins in {}", path.display());
        let mut logins: Self = match secret_file::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(at)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Self::default(),
            Err(error) => return Err(error).with_context(at),
        };
        let now = clock::now().as_secs();
        logins.0.retain(|_, login| login.expires.0 > now);
        Ok(logins)
    }

    /// The token for the admin listener at this URL.
    pub(crate) fn token(&self, url: &str) -> Option<&str> {
        self.0.get(key(url)).map(|login| login.token.as_str())
    }

    /// Keeps a token.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep(&mut self, url: &str, login: Login) -> anyhow::Result<()> {
        self.0.insert(key(url).to_owned(), login);
        self.save()
    }

    /// Removes a token.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn remove(&mut self, url: &str) -> anyhow::Result<()> {
        self.0.remove(key(url));
        self.save()
    }

    fn save(&self) -> anyhow::Result<()> {
        contexts::write_private(&path().context(contexts::NO_FOLDER)?, self)
    }
}

fn path() -> Option<PathBuf> {
    contexts::path(FILE, |name| std::env::var_os(name))
}

/// The URL without a slash at its end.
fn key(url: &str) -> &str {
    url.strip_suffix('/').unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_logins_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let now = clock::now().as_secs();
        let login = |seconds| Login { token: "wadm_x".to_owned(), expires: UnixSeconds(seconds) };
        let all = [("http://a:1", login(now + 60)), ("http://b:1", login(now - 1))];
        let logins = Logins(all.map(|(url, login)| (url.to_owned(), login)).into());
        contexts::write_private(&path, &logins).unwrap();
        let read = Logins::read(&path).unwrap();
        assert_eq!(read.token("http://a:1/"), Some("wadm_x"));
        assert_eq!(read.token("http://b:1"), None);
    }
}
