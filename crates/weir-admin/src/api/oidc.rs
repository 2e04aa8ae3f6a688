//! Sign-in with accounts of an identity provider. These endpoints need no token: they make one, or a session.

pub(super) mod device;

use super::{Api, Call, busy};
use crate::host::Arrived;
use crate::oidc::{self, Exchange, ProviderError, SignIn};
use crate::problem::{Params, Problem, Result};
use crate::session::{Holder, Person};
use crate::tokens::{self, Caller};
use aws_lc_rs::digest::{SHA256, digest};
use axum::Extension;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use maud::{DOCTYPE, html};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use utoipa::{IntoParams, ToSchema};
use weir_config::Oidc;
use weir_store::audit::AuditEvent;
use weir_store::clock;

/// Path of the endpoints of a browser's sign-in, for its cookie.
const PATH: &str = "/v1/oidc";
/// Page of the console that a sign-in returns to by default.
const CONSOLE: &str = "/console/";
/// Longest path to return to.
const MAX_FROM_BYTES: usize = 1024;
/// The page has no scripts, styles or images, and no other page may embed it.
const PAGE_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'";

/// The ways to sign in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SignInWays {
    /// Name of the identity provider; absent: there is none, and a token is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
}

/// Show how to sign in
#[utoipa::path(get, path = "/v1/oidc", tag = "session", security(()),
    responses((status = 200, description = "The identity provider, if there is one.", body = SignInWays)))]
pub(super) async fn ways(State(api): State<Arc<Api>>) -> Json<SignInWays> {
    Json(SignInWays { provider: api.provider().ok().map(|to| oidc::name(&to.settings)) })
}

/// Where to return to.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StartParams {
    /// Path of the console to return to; default: `/console/`.
    from: Option<String>,
}

/// Sign in with an account: redirects the browser to the identity provider
#[utoipa::path(get, path = "/v1/oidc/start", tag = "session", security(()), params(StartParams),
    responses(
        (status = 303, description = "The authorization endpoint of the provider."),
        (status = 404, description = "There is no identity provider."),
        (status = 503, description = "The provider does not respond; the page says why.")))]
pub(super) async fn start(
    State(api): State<Arc<Api>>,
    arrived: Option<Extension<Arrived>>,
    Params(params): Params<StartParams>,
    headers: HeaderMap,
) -> Result<Response> {
    let to = api.provider()?;
    if !api.oidc.starts.take(arrived.map(|arrived| arrived.peer), Instant::now()) {
        return Err(busy("sign-ins"));
    }
    let discovery = match api.oidc.provider.discovery(&to).await {
        Ok(discovery) => discovery,
        Err(error) => return Ok(unavailable(&error)),
    };
    let sign_in = SignIn {
        state: tokens::secret()?,
        nonce: tokens::secret()?,
        verifier: tokens::secret()?,
        redirect_uri: format!("{}{PATH}/callback", api.base(&to.settings, &headers)),
        issuer: to.settings.issuer.clone(),
        from: params.from.filter(|from| is_console(from)).unwrap_or_else(|| CONSOLE.to_owned()),
        at: clock::now().as_secs(),
    };
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, sign_in.verifier.as_bytes()));
    let scope = scope(&to.settings);
    let query = [
        ("response_type", "code"),
        ("client_id", to.settings.client_id.as_str()),
        ("redirect_uri", sign_in.redirect_uri.as_str()),
        ("scope", scope.as_str()),
        ("state", sign_in.state.as_str()),
        ("nonce", sign_in.nonce.as_str()),
        ("code_challenge", challenge.as_str()),
        ("code_challenge_method", "S256"),
    ];
    let endpoint = &discovery.authorization_endpoint;
    let url = match oidc::browser_url(endpoint, &to.settings.issuer, &query) {
        Ok(url) => url,
        Err(error) => return Ok(unavailable(&error)),
    };
    let cookie = api.oidc_cookie(&api.oidc.sealer.seal(&sign_in)?, "Lax", oidc::MAX_AGE_SECONDS);
    Ok((StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, url)])
        .into_response())
}

/// What the provider returns with the browser (RFC 6749 section 4.1.2, RFC 9207). Others are ignored.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct CallbackParams {
    /// The code.
    code: Option<String>,
    /// The state of the start.
    state: Option<String>,
    /// The issuer.
    iss: Option<String>,
    /// An error code in place of the code.
    error: Option<String>,
}

/// Return from the identity provider: redirects to the console with a one-time code in the fragment
#[utoipa::path(get, path = "/v1/oidc/callback", tag = "session", security(()), params(CallbackParams),
    responses(
        (status = 303, description = "The console, with `#sign-in=CODE`."),
        (status = 400, description = "The sign-in was not started in this browser, or is too old."),
        (status = 403, description = "The account has no group with a role, or the provider denies it."),
        (status = 404, description = "There is no identity provider."),
        (status = 503, description = "The provider does not respond.")))]
pub(super) async fn callback(
    State(api): State<Arc<Api>>,
    arrived: Option<Extension<Arrived>>,
    Params(params): Params<CallbackParams>,
    headers: HeaderMap,
) -> Result<Response> {
    let to = api.provider()?;
    if !api.oidc.returns.take(arrived.map(|arrived| arrived.peer), Instant::now()) {
        return Err(busy("sign-ins"));
    }
    let cookie = api.read_oidc_cookie(&headers);
    let started = cookie.and_then(|cookie| api.oidc.sealer.open(cookie));
    let is_of = |started: &SignIn| {
        let state = params.state.as_deref().unwrap_or_default();
        oidc::is_same(state, &started.state) && started.issuer == to.settings.issuer
    };
    // Each works once: whoever has the cookie does not have weir ask the provider again and again.
    let is_first = |started: &SignIn| api.oidc.use_state(started);
    let Some(started) = started.filter(is_of).filter(is_first) else {
        return Ok(page(StatusCode::BAD_REQUEST, "The sign-in has ended", NOT_STARTED));
    };
    let forget = [(header::SET_COOKIE, api.oidc_cookie("", "Lax", 0))];
    match finish(&api, &to, &started, &params).await? {
        Err(response) => Ok((forget, response).into_response()),
        Ok(person) => {
            let new = api.oidc.codes.add(person, Instant::now())?;
            let seconds = oidc::CODE_TIMEOUT.as_secs();
            let cookie = api.oidc_cookie(&new.cookie, "Strict", seconds);
            let location = format!("{}#sign-in={}", started.from, new.code);
            let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, location)];
            Ok((StatusCode::SEE_OTHER, headers).into_response())
        }
    }
}

/// The person of a sign-in, or the page that says why there is none.
async fn finish(
    api: &Arc<Api>,
    to: &Exchange,
    started: &SignIn,
    params: &CallbackParams,
) -> Result<std::result::Result<Person, Response>> {
    let discovery = match api.oidc.provider.discovery(to).await {
        Ok(discovery) => discovery,
        Err(error) => return Ok(Err(unavailable(&error))),
    };
    // RFC 9207: against a mix-up of providers.
    let is_own = match &params.iss {
        Some(issuer) => *issuer == to.settings.issuer,
        None => !discovery.authorization_response_iss_parameter_supported,
    };
    if !is_own {
        return Ok(Err(page(StatusCode::BAD_REQUEST, "The sign-in has ended", OTHER_ISSUER)));
    }
    let Some(code) = params.code.as_deref().filter(|_| params.error.is_none()) else {
        let title = "The identity provider has not signed you in";
        let code: String = params.error.as_deref().unwrap_or("no code").chars().take(100).collect();
        return Ok(Err(page(StatusCode::FORBIDDEN, title, &format!("It responded: {code}."))));
    };
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", started.redirect_uri.as_str()),
        ("code_verifier", started.verifier.as_str()),
    ];
    match api.oidc.provider.exchange(to, &form, Some(&started.nonce)).await {
        Err(error) => Ok(Err(unavailable(&error))),
        Ok((claims, id_token)) => match oidc::person(&to.settings, &claims, id_token) {
            Ok(person) => Ok(Ok(person)),
            Err(who) => {
                let text = format!(
                    "{} is signed in, but none of its groups has access to weir. {}",
                    who.1, ASK
                );
                api.audit_rejected(who).await?;
                Ok(Err(page(StatusCode::FORBIDDEN, "No access", &text)))
            }
        },
    }
}

/// A code of the fragment.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OneTimeCode {
    /// The code.
    code: String,
}

/// Exchange the one-time code of a sign-in for a session
///
/// Sets the cookie of the session and returns the CSRF token, as the sign-in with a token does.
#[utoipa::path(post, path = "/v1/oidc/session", tag = "session", security(()), request_body = OneTimeCode,
    responses(
        (status = 200, description = "The session.", body = super::session::Session),
        (status = 401, description = "The code was used, is too old, or of another browser."),
        (status = 503, description = "The audit log cannot be written.")))]
pub(super) async fn session(
    State(api): State<Arc<Api>>,
    arrived: Option<Extension<Arrived>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    api.provider()?;
    let OneTimeCode { code } = super::resubmit::read(&body)?;
    let cookie = api.read_oidc_cookie(&headers).unwrap_or_default();
    let is_own = crate::session::is_own_site(&headers);
    let person = api.oidc.codes.take(&code, cookie, Instant::now()).filter(|_| is_own);
    let person = Arc::new(person.ok_or(USED)?);
    let forget = [(header::SET_COOKIE, api.oidc_cookie("", "Strict", 0))];
    let call = Call { caller: caller(&person), api };
    let peer = arrived.map(|arrived| arrived.peer);
    let mut response = call.start_session(Holder::Person(person), peer, &headers).await?;
    for (name, value) in forget {
        if let Ok(value) = value.parse() {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

fn caller(person: &Person) -> Caller {
    Caller {
        id: person.id.clone(),
        name: person.name.clone(),
        role: person.role,
        scope: person.scope.clone(),
        session: None,
        via: None,
    }
}

impl Api {
    /// The identity provider of the configuration in force.
    fn provider(&self) -> Result<Exchange> {
        let site = self.sources.gateway.site();
        let settings = site.config.admin.oidc.as_deref().ok_or(NO_PROVIDER)?;
        let tls = site.upstream_clients.oidc().cloned();
        Ok(Exchange { settings: Arc::new(settings.clone()), tls })
    }

    /// URL of the admin listener as browsers reach it. The Host of a request was checked.
    fn base(&self, settings: &Oidc, headers: &HeaderMap) -> String {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let scheme = if self.sessions.is_secure() { "https" } else { "http" };
        let own = || format!("{scheme}://{}", host.unwrap_or("localhost"));
        settings.url.clone().unwrap_or_else(own)
    }

    /// Whether browsers reach the admin listener with TLS only: its own, or that of a proxy.
    pub(super) fn is_https(&self) -> bool {
        let is_https =
            |to: &Exchange| to.settings.url.as_ref().is_some_and(|url| url.starts_with("https://"));
        self.sessions.is_secure() || self.provider().is_ok_and(|to| is_https(&to))
    }

    fn oidc_cookie(&self, value: &str, same_site: &str, seconds: u64) -> String {
        let secure = if self.is_https() { "; Secure" } else { "" };
        let name = self.sessions.oidc_cookie_name();
        format!(
            "{name}={value}; Path={PATH}; HttpOnly; SameSite={same_site}; Max-Age={seconds}{secure}"
        )
    }

    fn read_oidc_cookie<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        crate::session::cookie(headers, &self.sessions.oidc_cookie_name())
    }

    /// URL at which the browser signs out of the provider, if the provider has one and is known.
    pub(super) fn sign_out_url(&self, person: &Person, headers: &HeaderMap) -> Option<String> {
        let to = self.provider().ok()?;
        let discovery = self.oidc.provider.known_discovery(&to)?;
        let back = format!("{}{CONSOLE}", self.base(&to.settings, headers));
        let query = [
            ("id_token_hint", person.id_token.as_str()),
            ("client_id", to.settings.client_id.as_str()),
            ("post_logout_redirect_uri", back.as_str()),
        ];
        let endpoint = discovery.end_session_endpoint.as_deref()?;
        oidc::browser_url(endpoint, &to.settings.issuer, &query).ok()
    }

    /// Audits an account without a role.
    async fn audit_rejected(&self, (id, name): (String, String)) -> Result<()> {
        let event = AuditEvent {
            time: weir_model::UnixMicros(weir_store::clock::now_us()),
            token: id,
            name,
            role: "none".to_owned(),
            action: "denied".to_owned(),
            about: "session".to_owned(),
            details: "no group with a role".to_owned(),
            ..AuditEvent::default()
        };
        let log = Arc::clone(&self.access()?.audit);
        // The account is rejected in any case.
        let _ = tokio::task::spawn_blocking(move || log.record(&event)).await;
        Ok(())
    }
}

/// Whether a path is one of the console: a browser stays on this server.
fn is_console(from: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_graphic() && !b"\\#<>\"".contains(&byte);
    from.starts_with(CONSOLE) && from.len() <= MAX_FROM_BYTES && from.bytes().all(fits)
}

/// The requested scopes.
fn scope(settings: &Oidc) -> String {
    let others = settings.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
    ["openid"].into_iter().chain(others).collect::<Vec<_>>().join(" ")
}

/// A page for the person at the browser.
fn page(status: StatusCode, title: &str, text: &str) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { (title) " · weir" } }
            body {
                main {
                    h1 { (title) }
                    p { (text) }
                    p { a href=(CONSOLE) { "Back to the sign-in page" } }
                }
            }
        }
    };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (status, headers, page.into_string()).into_response()
}

fn unavailable(error: &ProviderError) -> Response {
    let text = format!("{error}. Sign in with an admin token in the meantime.");
    page(StatusCode::SERVICE_UNAVAILABLE, "The identity provider cannot be used", &text)
}

fn failed(error: ProviderError) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "no-provider",
        "The identity provider cannot be used",
        format!("{error}."),
    )
}

const ASK: &str = "Somebody who manages weir can give a group access: `admin.oidc.roles`.";
const NOT_STARTED: &str =
    "It was not started in this browser, or too long ago. Start again from the sign-in page.";
const OTHER_ISSUER: &str = "The response is of another identity provider.";

const NO_PROVIDER: Problem = Problem::not_found(
    "There is no identity provider",
    "`admin.oidc` is not set; sign in with an admin token.",
);

const USED: Problem = Problem::fixed(
    StatusCode::UNAUTHORIZED,
    "used-code",
    "The sign-in has ended",
    "The code was used, is older than a minute, or of another browser; sign in again.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_returns_to_the_console_only() {
        for from in ["/console/", "/console/tracker?q=a&b=c"] {
            assert!(is_console(from), "{from}");
        }
        for from in [
            "",
            "/",
            "/consoles",
            "//evil.example.com/console/",
            "https://evil.example.com/console/",
            "/console/\\evil",
            "/console/\r\nset-cookie: a=b",
            "/console/#x",
        ] {
            assert!(!is_console(from), "{from:?}");
        }
    }
}
