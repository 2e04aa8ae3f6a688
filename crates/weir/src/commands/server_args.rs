//! Which running server a command talks to, with which token.
//!
//! An option precedes the environment, that the context in use, and that the configuration.

use crate::admin_client::{AdminClient, Trusted};
use crate::contexts::{Context, Contexts, NONE};
use anyhow::{Context as _, ensure};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use weir_config::{Config, Source, Tls, secret_file};
use weir_net::listen;
use weir_net::tls::self_signed_certificate;

/// Arguments of a running server.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// Admin listener of the weir to query, http[s]://HOST:PORT [default: $WEIR_ADMIN, else the
    /// context in use, else the configured one]
    #[arg(long, value_name = "URL")]
    pub(crate) admin: Option<String>,
    /// Context to use (see `weir context`); `none` for no context [default: $WEIR_CONTEXT, else the
    /// context in use]
    #[arg(long, value_name = "NAME", conflicts_with = "admin")]
    context: Option<String>,
    /// File with the admin token [default: $WEIR_TOKEN, else the token of the context, else
    /// `admin.token` in the data folder]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// CA certificates (PEM) for the admin listener's certificate [default: those of the context, else
    /// the system's, and weir's own for `tls: self-signed`]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Configuration with the admin listener and the data folder [default: weir.yaml]
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
}

/// What selects the server.
enum Target {
    /// A URL on the command line or in the environment.
    Url(String),
    Context(Context),
    /// The admin listener of the configuration.
    Configured,
}

impl ServerArgs {
    /// A client of the server.
    ///
    /// # Errors
    /// No such context, or no token for this server.
    pub(crate) fn client(&self) -> anyhow::Result<AdminClient> {
        let (url, context, config) = match self.target()? {
            Target::Configured => {
                let config = self.load()?;
                let scheme = if config.admin.tls.is_some() { "https" } else { "http" };
                let url = format!("{scheme}://{}", listen::reachable(config.admin.addr));
                (url, Context::default(), Some(config))
            }
            Target::Url(url) => {
                let config = self.load_for(&url, &Context::default())?;
                (url, Context::default(), config)
            }
            Target::Context(context) => {
                let config = self.load_for(&context.admin, &context)?;
                (context.admin.clone(), context, config)
            }
        };
        let local = config.filter(|_| is_local(&url));
        let is_self_signed = |config: &&Config| matches!(config.admin.tls, Some(Tls::SelfSigned));
        let trusted = match (self.ca.as_ref().or(context.ca.as_ref()), &local) {
            (Some(ca), _) => Trusted::Only(ca.clone()),
            (None, local) => match local.as_ref().filter(is_self_signed) {
                Some(config) => Trusted::Only(self_signed_certificate(&config.data)),
                None => Trusted::System,
            },
        };
        let data = local.as_ref().map(|config| config.data.as_path());
        AdminClient::new(&url, self.token(&url, &context, data)?, &trusted)
    }

    /// The configuration, if the server may be on this machine. Errors in it matter only if the
    /// token is in its data folder.
    fn load_for(&self, url: &str, context: &Context) -> anyhow::Result<Option<Config>> {
        let loaded = is_local(url).then(|| self.load()).transpose();
        let has_token = self.token_file.is_some()
            || variable("WEIR_TOKEN").is_some()
            || context.token.is_some()
            || context.token_file.is_some();
        if has_token { Ok(loaded.unwrap_or_default()) } else { loaded }
    }

    /// Whether an option, the environment or a context selects the server.
    ///
    /// # Errors
    /// The contexts cannot be read, or there is no such context.
    pub(crate) fn is_selected(&self) -> anyhow::Result<bool> {
        Ok(!matches!(self.target()?, Target::Configured))
    }

    fn target(&self) -> anyhow::Result<Target> {
        if let Some(url) = &self.admin {
            return Ok(Target::Url(url.clone()));
        }
        // A configuration on the command line is an option, too.
        let named = match (&self.context, &self.config) {
            (Some(name), _) => Some(name.clone()),
            (None, Some(_)) => return Ok(Target::Configured),
            (None, None) => None,
        };
        if let (None, Some(url)) = (&named, variable("WEIR_ADMIN")) {
            return Ok(Target::Url(url));
        }
        let contexts = Contexts::load()?;
        let named = named.or_else(|| variable("WEIR_CONTEXT")).or_else(|| contexts.current.clone());
        match named.filter(|name| name != NONE) {
            Some(name) => contexts.get(&name).cloned().map(Target::Context),
            None => Ok(Target::Configured),
        }
    }

    /// Path of the configuration.
    pub(crate) fn config(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new("weir.yaml"))
    }

    /// The configuration.
    ///
    /// # Errors
    /// The configuration has errors.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let path = self.config();
        let loaded = if path.exists() {
            let (path, overrides) = (path.to_owned(), Vec::new());
            weir_gateway::configuration::load(&Source { path, overrides })
        } else {
            weir_gateway::configuration::load_text("weir.yaml", "{}")
        };
        let at = || format!("{} has errors; see `weir check`", path.display());
        loaded.map(|loaded| loaded.config).map_err(|_| anyhow::anyhow!(at()))
    }

    /// The token. It is never an argument, because other users of the machine could see it.
    fn token(&self, url: &str, context: &Context, data: Option<&Path>) -> anyhow::Result<String> {
        let given = variable("WEIR_TOKEN");
        let (path, read) = match (&self.token_file, given, &context.token, &context.token_file) {
            (Some(path), ..) => (path.clone(), std::fs::read(path)),
            (None, Some(token), ..) => return Ok(token),
            (None, None, Some(token), _) => return Ok(token.clone()),
            (None, None, None, Some(path)) => (path.clone(), std::fs::read(path)),
            (None, None, None, None) => {
                // The token in the data folder is for this machine; it is sent nowhere else.
                let path = data.map(weir_admin::first_token).with_context(|| {
                    format!("no token for {url}: set WEIR_TOKEN or --token-file, or add a context")
                })?;
                let read = secret_file::read(&path);
                (path, read)
            }
        };
        let cannot = || format!("cannot read the admin token in {}", path.display());
        let text = String::from_utf8(read.with_context(cannot)?).with_context(cannot)?;
        let token = text.trim();
        ensure!(!token.is_empty(), "there is no admin token in {}", path.display());
        Ok(token.to_owned())
    }
}

/// An environment variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether a URL certainly belongs to this machine.
fn is_local(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.rsplit_once(':'));
    let host = host.map_or("", |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_s_token_stays_on_this_machine() {
        for url in ["http://127.0.0.1:9080", "https://[::1]:1", "http://localhost:1/"] {
            assert!(is_local(url), "{url}");
        }
        for url in ["http://10.0.0.1:9080", "http://a:1", "http://localhost.a.com:1", "x"] {
            assert!(!is_local(url), "{url}");
        }
    }
}
