//! Authentication: the principal of a request, by what is known and by what authorization servers say.

use super::moment;
use crate::auth::{self, AuthFailure, FailureKind};
use crate::authorization_server;
use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::rejection::Rejection;
use std::rc::Rc;
use weir_config::{AuthId, Config, Route};
use weir_journal::stage;

/// Finds out who calls.
pub(super) async fn authenticate(exchange: &mut Exchange, route: &Route) -> Result<(), Rejection> {
    let Err(mut failure) = authenticate_now(exchange, route) else { return Ok(()) };
    // Each way in may need something from elsewhere, once.
    for _ in 0..=route.access.any_of.len() {
        if !fetch_missing(exchange, route, failure).await {
            break;
        }
        match authenticate_now(exchange, route) {
            Ok(()) => return Ok(()),
            Err(second) if second == failure => break,
            Err(other) => failure = other,
        }
    }
    Err(unauthenticated(exchange, route, failure))
}

/// What the client is told; a failure beyond the limit of its address is 429.
fn unauthenticated(exchange: &Exchange, route: &Route, failure: AuthFailure) -> Rejection {
    let site = &exchange.live().site;
    let (address, now) = (exchange.client.address, moment(exchange));
    let kind = failure.kind();
    let throttled = if kind == FailureKind::Throttled {
        // There may be room by now, for the next one.
        Err(site.limits.may_authenticate(address, now).err().unwrap_or(1))
    } else if kind.is_counted() && exchange.trace.is_none() {
        site.limits.authentication_failed(address, now)
    } else {
        Ok(())
    };
    if let Err(seconds) = throttled {
        exchange.worker.stats.auth_throttled.add(1);
        return Rejection::new(Problem::AuthenticationThrottled)
            .header("retry-after", seconds.to_string());
    }
    let challenge = failure.challenge(&site.config, &route.access);
    let rejection = Rejection::new(failure.problem()).header("www-authenticate", challenge);
    rejection.recorded(rejected_by(failure, &site.config, route))
}

/// Which auth did not let the request in, and why.
fn rejected_by(failure: AuthFailure, config: &Config, route: &Route) -> String {
    let name = |auth: AuthId| config.auths[auth.0].name.as_str();
    let Some(auth) = failure.auth() else {
        let ways: Vec<&str> = route.access.any_of.iter().map(|rule| name(rule.auth)).collect();
        return format!("no credential for {}", ways.join(", "));
    };
    match failure.kind() {
        FailureKind::Repeated => format!("auth {}: the credential is repeated", name(auth)),
        FailureKind::InsufficientScope => {
            let rules = route.access.any_of.iter().filter(|rule| rule.auth == auth);
            let own = config.auths[auth.0].kind.token().map_or(&[][..], |token| &token.scopes);
            let wanted = own.iter().chain(rules.flat_map(|rule| &rule.scopes));
            let wanted: Vec<&str> = wanted.map(String::as_str).collect();
            format!("auth {}: required scopes: {}", name(auth), wanted.join(" "))
        }
        _ => format!("auth {}", name(auth)),
    }
}

/// Fetches what is not known and may let the request in: another key set may have the key, and the
/// server may know the token. Says whether to try again.
async fn fetch_missing(exchange: &Exchange, route: &Route, failure: AuthFailure) -> bool {
    let Some(auth) = failure.auth().filter(|_| exchange.trace.is_none()) else { return false };
    let live = Rc::clone(exchange.live());
    let latest = route.timeout.map(|timeout| exchange.started + timeout);
    match failure.kind() {
        FailureKind::UnknownKey | FailureKind::NoKeys => {
            Box::pin(authorization_server::wait_for_keys(&live, auth, latest)).await
        }
        FailureKind::NotAsked => {
            let Ok(Some(token)) = auth::bearer(&exchange.request.headers) else { return false };
            Box::pin(authorization_server::introspect(&live, auth, token, exchange.unix, latest))
                .await
        }
        _ => false,
    }
}

/// By what is known.
fn authenticate_now(exchange: &mut Exchange, route: &Route) -> Result<(), AuthFailure> {
    if let Some(replay) = &exchange.resubmission {
        // Who sent it was verified then; whether the route lets him in now was found out.
        exchange.principal = Some(Rc::clone(&replay.principal));
        return Ok(());
    }
    let live = Rc::clone(exchange.live());
    let config = &live.site.config;
    let request = &exchange.request;
    let shown = auth::Shown {
        headers: &request.headers,
        query: request.query().map(str::as_bytes),
        certificate: exchange.certificate.as_deref(),
        may_verify: &|| {
            let (address, now) = (exchange.client.address, moment(exchange));
            live.site.limits.may_authenticate(address, now).is_ok()
        },
    };
    let authenticated =
        live.authenticator.authenticate(config, &route.access, shown, exchange.unix);
    match authenticated {
        Ok(principal) => {
            exchange.principal = Some(principal);
            if !route.access.any_of.is_empty() {
                exchange.recording.stage_ended(stage::AUTH, exchange.started);
            }
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}
