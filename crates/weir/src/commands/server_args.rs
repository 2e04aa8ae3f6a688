//! Which running server a command talks to, with which token.
//!
//! An option precedes the environment, that the context in use, and that the configuration.

use crate::admin_client::{AdminClient, ClientCertificate, ClientTls, Trusted};
use crate::contexts::{Context, Contexts, NONE};
use crate::logins::Logins;
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
    /// File with the admin token [default: $WEIR_TOKEN, else that of `weir login`, else the token of the context, else
    /// `admin.token` in the data folder]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// CA certificates (PEM) for the admin listener's certificate [default: those of the context, else
    /// the system's, and weir's own for `tls: self-signed`]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate (PEM) to present to a listener with `client_certificates` [default: $WEIR_CERT, else that of
    /// the context]
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate [default: that of the same source ($WEIR_KEY, the context), else in
    /// the file of the certificate]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
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

/// A selected server.
struct Server {
    url: String,
    /// The context that selected it; otherwise an empty one.
    context: Context,
    /// Its configuration, if the server is certainly on this machine.
    local: Option<Config>,
}

impl ServerArgs {
    /// A client of the server.
    ///
    /// # Errors
    /// No such context, or no token for this server.
    pub(crate) fn client(&self) -> anyhow::Result<AdminClient> {
        let server = self.server(self.has_token())?;
        let data = server.local.as_ref().map(|config| config.data.as_path());
        let token = self.token(&server.url, &server.context, data)?;
        AdminClient::new(&server.url, Some(token), &self.tls(&server))
    }

    /// URL of the server.
    ///
    /// # Errors
    /// No such context, or a configuration with errors.
    pub(crate) fn url(&self) -> anyhow::Result<String> {
        Ok(self.server(true)?.url)
    }

    /// A client of the server with this token.
    ///
    /// # Errors
    /// No such context, or an invalid URL.
    pub(crate) fn client_with_token(&self, token: String) -> anyhow::Result<AdminClient> {
        let server = self.server(true)?;
        AdminClient::new(&server.url, Some(token), &self.tls(&server))
    }

    /// A client of the endpoints that need no token.
    ///
    /// # Errors
    /// No such context, or an invalid URL.
    pub(crate) fn client_without_token(&self) -> anyhow::Result<AdminClient> {
        let server = self.server(true)?;
        AdminClient::new(&server.url, None, &self.tls(&server))
    }

    /// The server. Errors in its configuration matter only if the URL or the token comes from there.
    fn server(&self, has_token: bool) -> anyhow::Result<Server> {
        let (url, context) = match self.target()? {
            Target::Configured => {
                let config = self.load()?;
                let scheme = if config.admin.tls.is_some() { "https" } else { "http" };
                let url = format!("{scheme}://{}", listen::reachable(config.admin.addr));
                let local = Some(config).filter(|_| is_local(&url));
                return Ok(Server { url, context: Context::default(), local });
            }
            Target::Url(url) => (url, Context::default()),
            Target::Context(context) => (context.admin.clone(), context),
        };
        let loaded = is_local(&url).then(|| self.load()).transpose();
        let has_token = has_token || Logins::load()?.token(&url).is_some();
        let is_enough = has_token || context.token.is_some() || context.token_file.is_some();
        let local = if is_enough { loaded.unwrap_or_default() } else { loaded? };
        Ok(Server { url, context, local })
    }

    /// TLS to a server.
    fn tls(&self, server: &Server) -> ClientTls {
        ClientTls { trusted: self.trusted(server), certificate: self.certificate(&server.context) }
    }

    /// The certificate to present: that of the first that has one, with its key.
    fn certificate(&self, context: &Context) -> Option<ClientCertificate> {
        let of_environment = || variable("WEIR_CERT").map(PathBuf::from);
        let (cert, key) = if let Some(cert) = &self.cert {
            (cert.clone(), self.key.clone())
        } else if let Some(cert) = of_environment() {
            (cert, variable("WEIR_KEY").map(PathBuf::from))
        } else {
            (context.cert.clone()?, context.key.clone())
        };
        let key = key.unwrap_or_else(|| cert.clone());
        Some(ClientCertificate { cert, key })
    }

    /// The certificates that a server may have.
    fn trusted(&self, server: &Server) -> Trusted {
        let is_self_signed = |config: &&Config| matches!(config.admin.tls, Some(Tls::SelfSigned));
        match (self.ca.as_ref().or(server.context.ca.as_ref()), &server.local) {
            (Some(ca), _) => Trusted::Only(ca.clone()),
            (None, local) => match local.as_ref().filter(is_self_signed) {
                Some(config) => Trusted::Only(self_signed_certificate(&config.data)),
                None => Trusted::System,
            },
        }
    }

    /// Whether an option or the environment has the token.
    fn has_token(&self) -> bool {
        self.token_file.is_some() || variable("WEIR_TOKEN").is_some()
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
            weir_gateway::configuration::load(&Source { path, overrides, ..Default::default() })
        } else {
            weir_gateway::configuration::load_text("weir.yaml", "{}")
        };
        let at = || format!("{} has errors; see `weir check`", path.display());
        loaded.map(|loaded| loaded.config).map_err(|_| anyhow::anyhow!(at()))
    }

    /// The token. It is never an argument, because other users of the machine could see it.
    fn token(&self, url: &str, context: &Context, data: Option<&Path>) -> anyhow::Result<String> {
        let given = variable("WEIR_TOKEN");
        if self.token_file.is_none()
            && given.is_none()
            && let Some(token) = Logins::load()?.token(url)
        {
            return Ok(token.to_owned());
        }
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
