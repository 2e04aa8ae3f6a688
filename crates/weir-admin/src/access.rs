//! Who may ask what: the token of a request, or its session, and the role that an endpoint needs.

use crate::problem::Problem;
use crate::role::Role;
use crate::session::{Sessions, is_from_console};
use crate::tokens::{Caller, Tokens};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong tokens in a row that are answered with 401; those beyond get 429.
const BURST: u32 = 20;
/// Time after which one more is.
const REFILL: Duration = Duration::from_secs(1);
/// How long the answer to a wrong token is held back.
const SLOWED: Duration = Duration::from_millis(100);

/// The tokens, and how many wrong ones came lately.
pub(crate) struct Guard {
    tokens: Arc<Tokens>,
    sessions: Arc<Sessions>,
    wrong: Mutex<Wrong>,
}

struct Wrong {
    left: u32,
    since: Instant,
}

impl Wrong {
    /// Takes one; false if there is none left.
    fn take(&mut self, now: Instant) -> bool {
        let refilled = now.duration_since(self.since).as_secs() / REFILL.as_secs();
        if refilled > 0 {
            self.left = self.left.saturating_add(refilled.try_into().unwrap_or(BURST)).min(BURST);
            self.since = now;
        }
        let any = self.left > 0;
        self.left = self.left.saturating_sub(1);
        any
    }
}

impl Guard {
    pub(crate) fn new(tokens: Arc<Tokens>, sessions: Arc<Sessions>) -> Self {
        let wrong = Wrong { left: BURST, since: Instant::now() };
        Self { tokens, sessions, wrong: Mutex::new(wrong) }
    }

    /// Whose session a request without a token has, if it comes from the console.
    fn signed_in(&self, request: &Request) -> Option<Caller> {
        if !is_from_console(request.method(), request.headers()) {
            return None;
        }
        let token = self.sessions.recognise(request.headers(), Instant::now())?;
        self.tokens.holder(&token)
    }
}

/// Lets requests with a token pass, and says whose it is. A right token is never made to wait for
/// those who try wrong ones; there is nothing to be guessed in 256 bits.
pub(crate) async fn authenticate(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match token(request.headers()) {
        None => match guard.signed_in(&request) {
            None => {
                return unauthorized("This needs an admin token: `Authorization: Bearer wadm_…`.");
            }
            signed_in => signed_in,
        },
        Some(token) => guard.tokens.recognise(token),
    };
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
        return next.run(request).await;
    }
    let few = guard.wrong.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
    tokio::time::sleep(SLOWED).await;
    if few {
        return unauthorized("This admin token is not known here.");
    }
    let problem = Problem {
        status: StatusCode::TOO_MANY_REQUESTS,
        kind: "too-many-wrong-tokens",
        title: "Too many wrong admin tokens came",
        place: None,
        detail: "Try again later; right ones are still taken.".to_owned(),
    };
    with(problem, header::RETRY_AFTER, "1")
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn unauthorized(detail: &str) -> Response {
    let problem = Problem {
        status: StatusCode::UNAUTHORIZED,
        kind: "unauthorized",
        title: "The admin API needs a token",
        place: None,
        detail: detail.to_owned(),
    };
    with(problem, header::WWW_AUTHENTICATE, "Bearer")
}

fn with(problem: Problem, name: header::HeaderName, value: &'static str) -> Response {
    let mut response = problem.into_response();
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

/// The endpoint, for callers with this role or a higher one.
pub(crate) fn needs<S>(role: Role, endpoint: MethodRouter<S>) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    endpoint.route_layer(middleware::from_fn_with_state(role, authorize))
}

async fn authorize(State(role): State<Role>, request: Request, next: Next) -> Response {
    match request.extensions().get::<Caller>() {
        Some(caller) if caller.role >= role => next.run(request).await,
        _ => forbidden(role, "This").into_response(),
    }
}

/// What `what` asks for needs another role.
pub(crate) fn forbidden(role: Role, what: &str) -> Problem {
    Problem {
        status: StatusCode::FORBIDDEN,
        kind: "forbidden",
        title: "The admin token does not allow this",
        place: None,
        detail: format!("{what} needs a token with the role {}.", role.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tokens_are_limited_and_forgiven_with_time() {
        let now = Instant::now();
        let mut wrong = Wrong { left: BURST, since: now };
        assert!((0..BURST).all(|_| wrong.take(now)));
        assert!(!wrong.take(now));
        assert!(wrong.take(now + REFILL));
        assert!(!wrong.take(now + REFILL));
        let later = now + Duration::from_secs(1_000_000);
        assert_eq!((0..100).filter(|_| wrong.take(later)).count(), BURST as usize);
    }

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
        assert_eq!(token(&headers(&["bearer wadm_a"])), Some("wadm_a"));
        for values in [&[][..], &["wadm_a"], &["Basic a"], &["Bearer a", "Bearer b"]] {
            assert_eq!(token(&headers(values)), None, "{values:?}");
        }
    }
}
