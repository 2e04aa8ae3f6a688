//! Authentication: the principal of a request, by known keys and by authorization servers.

use super::Effects;
use crate::authorization_server;
use crate::worker::Live;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;
use weir_auth::certificate::Certificate;
use weir_auth::{
    AuthFailure, FailureKind, MethodOutcome, Missing, PresentedCredentials, Principal,
};
use weir_config::{AccessRule, AuthId, Config, Route};
use weir_http::counter::Counter;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_limit::Moment;
use weir_wire::RequestHead;

/// A request to authenticate.
pub(crate) struct Authentication<'x> {
    /// The Site of this worker.
    pub live: &'x Rc<Live>,
    /// The route.
    pub route: &'x Route,
    /// Head of the request.
    pub request: &'x RequestHead,
    /// The client certificate, from the TLS handshake.
    pub certificate: Option<&'x Certificate>,
    /// Address of the client.
    pub address: IpAddr,
    /// Monotonic time of arrival.
    pub started: Instant,
    /// Wall-clock time of arrival.
    pub now: Moment,
}

impl Authentication<'_> {
    /// Determines the principal. `throttled` counts failures beyond the limit of their address.
    ///
    /// # Errors
    /// The rejection, and the holder of the API key if it has expired or is revoked.
    pub(super) async fn run<E: Effects>(
        &self,
        fx: &mut E,
        throttled: &Counter,
    ) -> Result<Rc<Principal>, (Rejection, Option<Rc<Principal>>)> {
        let mut failure = match self.authenticate() {
            Ok(principal) => return Ok(principal),
            Err(failure) => failure,
        };
        // Data may be missing once for each auth.
        for _ in 0..=self.route.access.any_of.len() {
            let Some(missing) = failure.missing() else { break };
            if !fx.fetch_missing(self, missing).await {
                break;
            }
            match self.authenticate() {
                Ok(principal) => return Ok(principal),
                Err(again) if again == failure => break,
                Err(other) => failure = other,
            }
        }
        let refused = self.live.authenticator.refused(failure);
        Err((self.reject(failure, fx, throttled), refused))
    }

    /// Authenticates with the known keys and tokens.
    fn authenticate(&self) -> Result<Rc<Principal>, AuthFailure> {
        let Self { live, route, now, .. } = self;
        let config = &live.site.config;
        self.with_credentials(|presented| {
            live.authenticator.authenticate(config, &route.access, presented, now.unix)
        })
    }

    /// Tries one auth.
    pub(crate) fn try_method(&self, rule: &AccessRule) -> MethodOutcome {
        let Self { live, now, .. } = self;
        let config = &live.site.config;
        self.with_credentials(|presented| {
            live.authenticator.try_method(config, rule, presented, now.unix)
        })
    }

    fn with_credentials<T>(&self, authenticate: impl FnOnce(PresentedCredentials<'_>) -> T) -> T {
        let request = self.request;
        authenticate(PresentedCredentials {
            headers: &request.headers,
            query: request.query().map(str::as_bytes),
            certificate: self.certificate,
            may_verify: &|| self.may_verify().is_ok(),
        })
    }

    /// Whether the address may verify another credential, which is expensive.
    fn may_verify(&self) -> Result<(), u64> {
        self.live.site.limits.may_authenticate(self.address, self.now)
    }

    /// Counts a failed authentication of the client.
    ///
    /// # Errors
    /// Too many have failed; the seconds until the next one is allowed, at least 1.
    pub(super) fn count_failure(&self) -> Result<(), u64> {
        self.live.site.limits.authentication_failed(self.address, self.now)
    }

    /// Fetches the key set or introspects the token; returns whether to try again.
    pub(super) async fn fetch(&self, missing: Missing) -> bool {
        let latest = self.route.timeout.map(|timeout| self.started + timeout);
        match missing {
            Missing::Keys(auth) => {
                Box::pin(authorization_server::wait_for_keys(self.live, auth, latest)).await
            }
            Missing::Introspection(auth) => {
                let Ok(Some(token)) = weir_auth::bearer(&self.request.headers) else {
                    return false;
                };
                let unix = self.now.unix;
                Box::pin(authorization_server::introspect(self.live, auth, token, unix, latest))
                    .await
            }
        }
    }

    /// The response to a failure; 429 beyond the limit of the address.
    fn reject<E: Effects>(
        &self,
        failure: AuthFailure,
        fx: &mut E,
        throttled: &Counter,
    ) -> Rejection {
        let (config, kind) = (&self.live.site.config, failure.kind());
        let allowed = if kind == FailureKind::Throttled {
            Err(self.may_verify().err().unwrap_or(1))
        } else if kind.is_counted() {
            fx.count_failure(self)
        } else {
            Ok(())
        };
        if let Err(seconds) = allowed {
            throttled.add(1);
            return Rejection::new(Problem::AuthenticationThrottled)
                .header("retry-after", seconds.to_string());
        }
        let challenge = failure.challenge(config, &self.route.access);
        let rejection = Rejection::new(failure.problem()).header("www-authenticate", challenge);
        rejection.recorded(rejected_by(failure, config, self.route))
    }
}

/// The auth that rejected the request, and the reason.
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
            let required = own.iter().chain(rules.flat_map(|rule| &rule.scopes));
            let required: Vec<&str> = required.map(String::as_str).collect();
            format!("auth {}: required scopes: {}", name(auth), required.join(" "))
        }
        _ => format!("auth {}", name(auth)),
    }
}
