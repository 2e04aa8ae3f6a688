//! `weir login` and `weir logout`: the account of an identity provider in place of a token.

use super::server_args::ServerArgs;
use crate::logins::{Login, Logins};
use crate::{escape, output};
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::json;
use std::time::{Duration, Instant};
use weir_admin::TokenScope;
use weir_model::UnixSeconds;

/// Arguments of `weir login`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Shows a page and a code; sign in there with any browser. The token is kept in
$XDG_CONFIG_HOME/weir/logins.json (default ~/.config), which only you can read, and is used for this
admin listener until it expires. It comes before the token of a context.

Examples:
  weir login --admin https://gateway.example.com:9080
  weir login --context prod")]
pub(crate) struct LoginArgs {
    #[command(flatten)]
    server: ServerArgs,
}

/// Arguments of `weir logout`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  weir logout --context prod")]
pub(crate) struct LogoutArgs {
    #[command(flatten)]
    server: ServerArgs,
}

/// A sign-in that has started.
#[derive(Deserialize)]
struct Started {
    handle: String,
    user_code: String,
    verification_uri: String,
    #[serde(default)]
    verification_uri_complete: Option<String>,
    interval: u64,
    expires_in: u64,
}

/// Its result, or the time to wait for it.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
struct Result {
    #[serde(default)]
    interval: Option<u64>,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    role: String,
    #[serde(default)]
    scope: TokenScope,
    #[serde(default)]
    expires: Option<UnixSeconds>,
}

/// Runs `weir login`.
pub(crate) fn login(args: &LoginArgs) -> anyhow::Result<()> {
    let url = args.server.url()?;
    let client = args.server.client_without_token()?;
    let started: Started = client.post("/v1/oidc/device", &json!({}))?;
    let page = started.verification_uri_complete.as_ref().unwrap_or(&started.verification_uri);
    output::note(&format!("open {}", escape::line(page)));
    output::note(&format!("and enter or compare the code {}", escape::line(&started.user_code)));
    let until = Instant::now() + Duration::from_secs(started.expires_in);
    let mut interval = started.interval;
    loop {
        std::thread::sleep(Duration::from_secs(interval.clamp(1, 60)));
        let result: Result =
            client.post("/v1/oidc/device/token", &json!({"handle": started.handle}))?;
        if let Some(token) = result.token {
            let expires = result.expires.context("unexpected response: no `expires`")?;
            Logins::load()?.keep(&url, Login { token, expires })?;
            let (name, role) = (escape::line(&result.name), escape::line(&result.role));
            let scope = escape::line(&result.scope.words());
            output::note(&format!("signed in as {name} ({role}; {scope}) until {expires}"));
            return Ok(());
        }
        ensure!(Instant::now() < until, "nobody has signed in in time");
        interval = result.interval.unwrap_or(interval);
    }
}

/// Runs `weir logout`.
pub(crate) fn logout(args: &LogoutArgs) -> anyhow::Result<()> {
    let url = args.server.url()?;
    let mut logins = Logins::load()?;
    let token = logins.token(&url).with_context(|| format!("not signed in at {url}"))?;
    let client = args.server.client_with_token(token.to_owned())?;
    // Removed here in any case; a token that the server does not know any more is revoked.
    let revoked = client.delete("/v1/session");
    logins.remove(&url)?;
    revoked.context("signed out here, but the token was not revoked")
}
