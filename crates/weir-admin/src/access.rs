//! Authentication and authorization of the admin API: token or session of a request, and the role
//! that an endpoint requires.

use crate::budget::Budget;
use crate::denials::Denials;
use crate::problem::{Denied, Problem};
use crate::role::Role;
use crate::scope::Reach;
use crate::session::{CSRF_HEADER, Holder, Proof, SessionAuth, Sessions};
use crate::tokens::{Caller, Rights, Tokens};
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_fleet::Handle;
use weir_fleet::peers::{SCHEME, Verified};
use weir_store::audit::AuditLog;
use weir_store::revoked_keys::RevokedKeys;
use weir_store::views::Views;

/// Path of the admin API; its own paths go on from there.
pub(crate) const BASE: &str = "/v1";
/// Name of the query parameter with a ticket.
const TICKET: &str = "ticket";
/// Longest request body of the admin API.
pub(crate) const MAX_BODY_BYTES: usize = 8 << 20;
/// Wrong tokens answered with 401 at once; further ones get 429.
const MAX_WRONG_TOKENS: u32 = 20;
/// Interval after which one more wrong token gets 401.
const REFILL_INTERVAL: Duration = Duration::from_secs(1);
/// Delay of the response to a wrong token.
const REJECTION_DELAY: Duration = Duration::from_millis(100);

/// The certificate of the client of a connection, as an extension of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeCertificate {
    /// TLS between nodes is not mutual.
    NotRequested,
    /// The client has sent none: people have none.
    Missing,
    /// Of the authority `fleet.tls.ca`.
    Verified,
}

/// Tokens and audit of the admin API.
pub struct Access {
    /// The tokens.
    pub tokens: Arc<Tokens>,
    /// The audit.
    pub audit: Arc<AuditLog>,
    /// The named views of this node.
    pub views: Arc<Views>,
    /// The API keys of consumers that are revoked.
    pub revoked_keys: Arc<RevokedKeys>,
}

/// Authenticates requests; limits wrong tokens.
pub(crate) struct Guard {
    audit: Arc<AuditLog>,
    tokens: Arc<Tokens>,
    sessions: Arc<Sessions>,
    fleet: Option<Handle>,
    denials: Denials,
    /// Wrong tokens that get 401.
    wrong: Mutex<Budget>,
}

/// The right to a long response: ends with the admin token or the session.
pub(crate) struct Grant {
    tokens: Arc<Tokens>,
    sessions: Arc<Sessions>,
    caller: Caller,
}

impl Grant {
    pub(crate) fn new(tokens: Arc<Tokens>, sessions: Arc<Sessions>, caller: Caller) -> Self {
        Self { tokens, sessions, caller }
    }

    /// Whether the token is not revoked and the session has not ended. That of a request of another node is
    /// checked there: the node closes the connection.
    pub(crate) fn holds(&self) -> bool {
        if self.caller.via.is_some() {
            return true;
        }
        match &self.caller.session {
            None => self.tokens.holder(&self.caller.id).is_some(),
            Some(session) => {
                let holder = self.sessions.holder(session, Instant::now());
                holder.is_some_and(|holder| caller(&self.tokens, &holder).is_some())
            }
        }
    }
}

impl Guard {
    pub(crate) fn new(access: &Access, sessions: Arc<Sessions>, fleet: Option<Handle>) -> Self {
        let wrong = Budget::new(MAX_WRONG_TOKENS, REFILL_INTERVAL, Instant::now());
        let (audit, tokens) = (Arc::clone(&access.audit), Arc::clone(&access.tokens));
        let (denials, wrong) = (Denials::default(), Mutex::new(wrong));
        Self { audit, tokens, sessions, fleet, denials, wrong }
    }

    /// The caller of a request that another node has sent and signed.
    ///
    /// # Errors
    /// The signature is wrong; the text has the reason.
    async fn signed(&self, request: &mut Request) -> Result<Caller, String> {
        let credential = credential(request.headers(), SCHEME).unwrap_or_default();
        let path = request.uri().path_and_query().map_or("", |path| path.as_str());
        let fleet = self.fleet.as_ref().ok_or("This node is not a member of a fleet.")?;
        let verified = fleet.verify_peer(request.method(), &format!("{BASE}{path}"), credential);
        let verified = verified.map_err(|error| format!("{error}."))?;
        if request.extensions().get() == Some(&NodeCertificate::Missing) {
            return Err("The node has no certificate of the authority `fleet.tls.ca`.".to_owned());
        }
        // Only a node with the key gets this far: the body is read for no one else.
        let body = to_bytes(std::mem::take(request.body_mut()), MAX_BODY_BYTES).await;
        let body = body.map_err(|error| format!("The body cannot be read: {error}."))?;
        if !verified.is_body(&body) {
            return Err("The body is not the one that was signed.".to_owned());
        }
        *request.body_mut() = Body::from(body);
        let Verified { from, person, .. } = verified;
        let rights = person.role.parse().map_err(|error| format!("Unknown role: {error}."))?;
        let Rights { role, scope, .. } = rights;
        let (id, name) = (person.token, person.name);
        Ok(Caller { id, name, role, scope, session: None, via: Some(from) })
    }

    /// The session of a request without a token. A ticket is removed from the request's URL.
    ///
    /// # Errors
    /// The request has no session, or only its cookie.
    fn signed_in(&self, request: &mut Request) -> Result<Caller, Unauthenticated> {
        let headers = request.headers();
        let csrf = headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok());
        let linked = match csrf {
            None if request.method() == Method::GET => Linked::of(request),
            _ => None,
        };
        let proof = match (csrf, &linked) {
            (Some(csrf), _) => Proof::Csrf(csrf),
            (None, Some(linked)) => Proof::Ticket(&linked.ticket, &linked.target),
            (None, None) => Proof::None,
        };
        match self.sessions.authenticate(headers, proof, Instant::now()) {
            SessionAuth::None => Err(Unauthenticated::Nothing),
            SessionAuth::Unproven(holder) => {
                Err(Unauthenticated::Unproven(caller(&self.tokens, &holder)))
            }
            SessionAuth::Session(holder, id) => {
                let holder = caller(&self.tokens, &holder).ok_or(Unauthenticated::Nothing)?;
                if let Some(linked) = linked {
                    *request.uri_mut() = linked.plain;
                }
                Ok(Caller { session: Some(id), ..holder })
            }
        }
    }

    /// Audits a denied call, within the rate limit of such entries. An audit error does not matter:
    /// the call is denied in any case.
    async fn denied(&self, caller: Option<&Caller>, request: &str, reason: &str) {
        if let Some(event) = self.denials.event(caller, request, reason, Instant::now()) {
            let audit = Arc::clone(&self.audit);
            let _ = tokio::task::spawn_blocking(move || audit.record(&event)).await;
        }
    }
}

/// The caller behind a session; `None` if its token is revoked or has expired, or its account has no rights.
pub(crate) fn caller(tokens: &Tokens, holder: &Holder) -> Option<Caller> {
    match holder {
        Holder::Token(id) => tokens.holder(id),
        Holder::Person(person) => {
            let (role, scope) = tokens.rights_of(&person.account)?;
            let (id, name) = (person.id.clone(), person.name.clone());
            Some(Caller { id, name, role, scope, session: None, via: None })
        }
    }
}

/// Why a request without a token is not authenticated.
enum Unauthenticated {
    /// It has no session.
    Nothing,
    /// It has the cookie of a session, of this token, but no second secret.
    Unproven(Option<Caller>),
}

/// A link with a ticket at the end.
struct Linked {
    ticket: String,
    /// Path and query without the ticket.
    target: String,
    /// The same for the router, without the base path of the API.
    plain: Uri,
}

impl Linked {
    fn of(request: &Request) -> Option<Self> {
        let (rest, ticket) = request.uri().query()?.rsplit_once('=')?;
        let query = rest.strip_suffix(TICKET)?;
        let query = match query.strip_suffix('&') {
            None if query.is_empty() => String::new(),
            None => return None,
            Some(query) => format!("?{query}"),
        };
        let plain = format!("{}{query}", request.uri().path()).parse().ok()?;
        let target = format!("{BASE}{}{query}", request.uri().path());
        Some(Self { ticket: ticket.to_owned(), target, plain })
    }
}

/// Authenticates requests by token or session. Valid tokens are never delayed because of wrong
/// ones: 256 bits cannot be guessed.
pub(crate) async fn authenticate(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let request_line = format!("{} {BASE}{}", request.method(), request.uri().path());
    let authenticated = if credential(request.headers(), SCHEME).is_some() {
        guard.signed(&mut request).await
    } else if let Some(token) = credential(request.headers(), "Bearer") {
        guard.tokens.authenticate(token).map_err(|error| error.to_string())
    } else {
        match guard.signed_in(&mut request) {
            Ok(caller) => Ok(caller),
            Err(Unauthenticated::Nothing) => {
                return unauthorized("An admin token is required: `Authorization: Bearer wadm_…`.");
            }
            Err(Unauthenticated::Unproven(holder)) => {
                let reason = "session cookie without CSRF token";
                guard.denied(holder.as_ref(), &request_line, reason).await;
                return unauthorized(
                    "The CSRF token of the session is required: `weir-csrf-token: …`.",
                );
            }
        }
    };
    let rejection = match authenticated {
        Ok(caller) => {
            guard.note_use(&caller);
            request.extensions_mut().insert(caller.clone());
            let response = next.run(request).await;
            let denied = response.extensions().get::<Denied>().cloned();
            if let Some(Denied(reason)) = denied {
                guard.denied(Some(&caller), &request_line, &reason).await;
            }
            return response;
        }
        Err(rejection) => rejection,
    };
    guard.reject(&request_line, &rejection).await
}

impl Guard {
    /// Notes that a token was used on this node. The file is written at most once a minute, by another thread.
    fn note_use(&self, caller: &Caller) {
        let is_token = caller.via.is_none() && !caller.id.contains(':');
        if is_token && self.tokens.touch(&caller.id) {
            let tokens = Arc::clone(&self.tokens);
            tokio::task::spawn_blocking(move || tokens.write_use());
        }
    }

    /// The response to a wrong token or signature.
    async fn reject(&self, request: &str, reason: &str) -> Response {
        self.denied(None, request, reason.trim_end_matches('.')).await;
        let few = self.wrong.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        tokio::time::sleep(REJECTION_DELAY).await;
        if few {
            return unauthorized(reason);
        }
        let problem = Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-wrong-tokens",
            "Too many wrong admin tokens",
            "Try again later; valid tokens are still accepted.",
        );
        ([(header::RETRY_AFTER, "1")], problem).into_response()
    }
}

/// The credential of the only header `Authorization`, if it has this scheme.
fn credential<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return None };
    let (found, credential) = value.to_str().ok()?.split_once(' ')?;
    found.eq_ignore_ascii_case(scheme).then(|| credential.trim())
}

fn unauthorized(detail: &str) -> Response {
    let problem = Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "Authentication required",
        detail.to_owned(),
    );
    ([(header::WWW_AUTHENTICATE, "Bearer")], problem).into_response()
}

/// The endpoint, restricted to callers with this role or a higher one, and to scopes that permit this reach.
pub(crate) fn needs<S>(role: Role, reach: Reach, endpoint: MethodRouter<S>) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    endpoint.route_layer(middleware::from_fn_with_state((role, reach), authorize))
}

async fn authorize(
    State((role, reach)): State<(Role, Reach)>,
    request: Request,
    next: Next,
) -> Response {
    match request.extensions().get::<Caller>() {
        Some(caller) if caller.role >= role => match caller.scope.rejection(reach) {
            None => next.run(request).await,
            Some(reason) => out_of_scope(reason).into_response(),
        },
        _ => forbidden(role, "This endpoint").into_response(),
    }
}

impl Caller {
    /// Whether it may read headers, bodies and business keys.
    pub(crate) fn reads_payloads(&self) -> bool {
        self.role >= Role::PayloadViewer && self.scope.rejection(Reach::Payloads).is_none()
    }

    /// The problem that `what` needs payloads, which this caller may not read.
    pub(crate) fn no_payloads(&self, what: &str) -> Problem {
        match self.scope.rejection(Reach::Payloads) {
            Some(reason) if self.role >= Role::PayloadViewer => out_of_scope(reason),
            _ => forbidden(Role::PayloadViewer, what),
        }
    }
}

/// The problem that the scope of a token does not permit something.
pub(crate) fn out_of_scope(reason: String) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "out-of-scope", "Scope not sufficient", reason)
}

/// The problem that `what` requires another role.
pub(crate) fn forbidden(role: Role, what: &str) -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "Role not sufficient",
        format!("{what} requires a token with the role {}.", role.name()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_token_is_one_bearer() {
        let headers = |values: &[&'static str]| {
            let pair =
                |value: &&'static str| (header::AUTHORIZATION, HeaderValue::from_static(value));
            let mut headers = HeaderMap::new();
            for (name, value) in values.iter().map(pair) {
                headers.append(name, value);
            }
            headers
        };
        let one = headers(&["bearer wadm_a"]);
        assert_eq!(credential(&one, "Bearer"), Some("wadm_a"));
        assert_eq!(credential(&one, SCHEME), None);
        for values in [&[][..], &["wadm_a"], &["Basic a"], &["Bearer a", "Bearer b"]] {
            assert_eq!(credential(&headers(values), "Bearer"), None, "{values:?}");
        }
    }
}
