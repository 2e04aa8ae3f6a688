//! Sign-in of a command line with an account: device codes.

use super::{caller, failed, scope};
use crate::api::{Api, Call, busy, resubmit};
use crate::host::Arrived;
use crate::oidc::{self, DeviceOrigin, DeviceStart, Exchange, Polled, ProviderError};
use crate::problem::{Problem, Result};
use crate::role::Role;
use crate::scope::TokenScope;
use crate::session::Person;
use crate::tokens::{NewToken, TokenInfo};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use utoipa::ToSchema;
use weir_config::Oidc;
use weir_model::UnixSeconds;
use weir_store::clock;

/// A sign-in of the command line.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct DeviceSignIn {
    /// Secret by which the command asks for the result.
    handle: String,
    /// The code to be entered, or compared.
    user_code: String,
    /// Page of the provider.
    verification_uri: String,
    /// The same with the code, if the provider has such a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    verification_uri_complete: Option<String>,
    /// Seconds between two requests for the result.
    interval: u64,
    /// Seconds until the sign-in ends.
    expires_in: u64,
}

/// Start the sign-in of a command line with a device code (RFC 8628)
#[utoipa::path(post, path = "/v1/oidc/device", tag = "session", security(()),
    responses(
        (status = 201, description = "What to show to the person.", body = DeviceSignIn),
        (status = 404, description = "There is no identity provider."),
        (status = 503, description = "The provider does not respond, or has no device codes.")))]
pub(in crate::api) async fn start_device(
    State(api): State<Arc<Api>>,
    arrived: Option<Extension<Arrived>>,
) -> Result<Response> {
    let to = provider(&api)?;
    let address = arrived.map(|arrived| arrived.peer);
    if !api.oidc.device_starts.take(address, Instant::now()) {
        return Err(busy("sign-ins"));
    }
    let code = api.oidc.provider.start_device(&to, &scope(&to.settings)).await.map_err(failed)?;
    let issuer = &to.settings.issuer;
    let verification_uri =
        oidc::browser_url(&code.verification_uri, issuer, &[]).map_err(failed)?;
    let complete = code.verification_uri_complete.as_deref();
    let complete = complete.and_then(|url| oidc::browser_url(url, issuer, &[]).ok());
    let (issuer, client_id) = (issuer.clone(), to.settings.client_id.clone());
    let origin = DeviceOrigin { issuer, client_id, address };
    let Some(DeviceStart { handle, interval, expires_in }) =
        api.oidc.devices.add(&code, origin, Instant::now())?
    else {
        return Err(busy("sign-ins"));
    };
    let sign_in = DeviceSignIn {
        handle,
        user_code: code.user_code,
        verification_uri,
        verification_uri_complete: complete,
        interval,
        expires_in,
    };
    Ok((StatusCode::CREATED, Json(sign_in)).into_response())
}

/// The sign-in that a command asks for.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct DeviceHandle {
    /// The handle.
    handle: String,
}

/// A sign-in that is not complete.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct DevicePending {
    /// Seconds until the next request.
    interval: u64,
}

/// The token of a command line.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct DeviceToken {
    /// The token. It is returned only here.
    token: String,
    /// Its id.
    id: String,
    /// Name of the account.
    name: String,
    /// Role.
    role: Role,
    /// What narrows the role.
    scope: TokenScope,
    /// When it expires (RFC 3339, UTC).
    #[schema(value_type = String)]
    expires: UnixSeconds,
}

/// Ask for the result of the sign-in of a command line
#[utoipa::path(post, path = "/v1/oidc/device/token", tag = "session", security(()),
    request_body = DeviceHandle,
    responses(
        (status = 200, description = "A token of the account.", body = DeviceToken),
        (status = 202, description = "The person has not signed in yet.", body = DevicePending),
        (status = 403, description = "The person has declined, or has no group with a role."),
        (status = 410, description = "The sign-in has ended."),
        (status = 503, description = "The provider does not respond.")))]
pub(in crate::api) async fn device_token(
    State(api): State<Arc<Api>>,
    arrived: Option<Extension<Arrived>>,
    body: Bytes,
) -> Result<Response> {
    let to = provider(&api)?;
    let DeviceHandle { handle } = resubmit::read(&body)?;
    let (code, origin) = match api.oidc.devices.poll(&handle, Instant::now()) {
        Polled::Ask(code, origin) if origin.is_of(&to.settings) => (code, origin),
        // The configuration has changed: another provider does not get the code.
        Polled::Ask(..) => {
            api.oidc.devices.end(&handle, Instant::now());
            return Err(GONE);
        }
        Polled::Wait(interval) => return Ok(pending(interval)),
        Polled::Gone => return Err(GONE),
    };
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        ("device_code", code.as_str()),
    ];
    let exchanged = api.oidc.provider.exchange(&to, &form, None).await;
    let (claims, id_token) = match exchanged {
        Ok(exchanged) => exchanged,
        Err(ProviderError::Rejected(code)) if code == "authorization_pending" => {
            return Ok(pending(api.oidc.devices.interval(&handle, Instant::now())));
        }
        Err(ProviderError::Rejected(code)) if code == "slow_down" => {
            return Ok(pending(api.oidc.devices.slow_down(&handle, Instant::now())));
        }
        Err(ProviderError::Rejected(code)) => {
            api.oidc.devices.end(&handle, Instant::now());
            return Err(if code == "expired_token" { GONE } else { DECLINED });
        }
        Err(error) => return Err(failed(error)),
    };
    api.oidc.devices.end(&handle, Instant::now());
    match oidc::person(&to.settings, &claims, id_token) {
        Err(who) => {
            api.audit_rejected(who).await?;
            Err(NO_ROLE)
        }
        Ok(person) => {
            let shown = |address: Option<IpAddr>| {
                address.map_or_else(|| "unknown".to_owned(), |address| address.to_string())
            };
            let (from, to_address) = (shown(origin.address), shown(arrived.map(|at| at.peer)));
            let details = format!("weir login; started from {from}, issued to {to_address}");
            let token = make_token(api, person, &to.settings, details).await?;
            Ok(Json(token).into_response())
        }
    }
}

/// The identity provider, if it is for command lines, too.
fn provider(api: &Api) -> Result<Exchange> {
    let to = api.provider()?;
    if to.settings.device { Ok(to) } else { Err(OFF) }
}

/// A token of an account.
async fn make_token(
    api: Arc<Api>,
    person: Person,
    settings: &Oidc,
    details: String,
) -> Result<DeviceToken> {
    let call = Call { caller: caller(&person), api };
    let Person { id: subject, name, role, scope, account, .. } = person;
    let expires = clock::now().as_secs().saturating_add(settings.login.as_secs());
    let (person, account) = (Some(subject), Some(account));
    let new = NewToken { name, role, scope, expires: Some(expires), person, account };
    let (token, info) = call.make_token(new, details).await?;
    let TokenInfo { id, name, role, scope, .. } = info;
    Ok(DeviceToken { token, id, name, role, scope, expires: UnixSeconds(expires) })
}

fn pending(interval: u64) -> Response {
    (StatusCode::ACCEPTED, Json(DevicePending { interval })).into_response()
}

const GONE: Problem = Problem::fixed(
    StatusCode::GONE,
    "sign-in-ended",
    "The sign-in has ended",
    "It took too long, or is complete already; start another one.",
);

const DECLINED: Problem = Problem::fixed(
    StatusCode::FORBIDDEN,
    "declined",
    "The sign-in was declined",
    "The identity provider has not signed the person in.",
);

const NO_ROLE: Problem = Problem::fixed(
    StatusCode::FORBIDDEN,
    "no-role",
    "No access",
    "None of the groups of the account has a role: see `admin.oidc.roles`.",
);

const OFF: Problem = Problem::not_found(
    "Command lines do not sign in with accounts",
    "`admin.oidc.device` is off; use an admin token.",
);
