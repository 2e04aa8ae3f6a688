//! Sessions of the console: who signed in with an admin token, and may go on without sending it.
//!
//! A session is 256 random bits in a cookie that scripts cannot read (`HttpOnly`) and other sites
//! cannot send (`SameSite=Strict`). Only its SHA-256 is here, in memory: a restart signs everybody
//! out. It is bound to its token, so it ends when that is revoked, and can do what that can.
//!
//! Other ports of the same machine are the same site, so the cookie alone proves nothing: what
//! changes something needs the header [`HEADER`], too, which no other origin can send without being
//! allowed to, and nobody is. Browsers that say where a request comes from are believed.

use crate::tokens::{self, TokenError};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::http::{HeaderMap, HeaderName, Method, header};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most sessions; who was away for longest is signed out for a new one.
const MOST: usize = 256;
/// Most sessions of one token, so that nobody signs out all others.
const MOST_OF_TOKEN: usize = 32;
/// Time without a request after which a session ends.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// Time after which a session ends in any case.
pub(crate) const LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// What the console says with everything that changes something.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("weir-console");
/// Where the browser says a request comes from (Fetch Metadata).
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What is kept of a session.
struct Session {
    sha256: String,
    /// Id of the token.
    token: String,
    began: Instant,
    used: Instant,
}

/// Everybody who is signed in.
pub(crate) struct Sessions {
    /// Cookies do not know ports: two servers of one machine need two names.
    cookie: String,
    all: Mutex<Vec<Session>>,
}

impl Sessions {
    /// Nobody, at the admin listener with this port.
    pub(crate) fn new(port: u16) -> Self {
        Self { cookie: format!("weir-session-{port}"), all: Mutex::default() }
    }

    /// Begins a session for a token; gives the cookie to be set.
    pub(crate) fn begin(&self, token: &str, now: Instant) -> Result<String, TokenError> {
        let secret = tokens::secret()?;
        let mut all = self.lock(now);
        let own = all.iter().filter(|session| session.token == token).count();
        let among = |session: &&Session| own < MOST_OF_TOKEN || session.token == token;
        if own >= MOST_OF_TOKEN || all.len() >= MOST {
            let oldest = all.iter().filter(among).map(|session| session.used).min();
            if let Some(at) = all.iter().position(|s| Some(s.used) == oldest && among(&s)) {
                all.swap_remove(at);
            }
        }
        all.push(Session {
            sha256: tokens::hash(&secret),
            token: token.to_owned(),
            began: now,
            used: now,
        });
        Ok(self.set_cookie(&secret, LIFE.as_secs()))
    }

    /// The token whose session a request has.
    pub(crate) fn recognise(&self, headers: &HeaderMap, now: Instant) -> Option<String> {
        let hash = tokens::hash(self.secret(headers)?);
        let mut all = self.lock(now);
        let session = all.iter_mut().find(|session| is(session, &hash))?;
        session.used = now;
        Some(session.token.clone())
    }

    /// Ends the session that a request has; gives the cookie to be set.
    pub(crate) fn end(&self, headers: &HeaderMap, now: Instant) -> String {
        if let Some(hash) = self.secret(headers).map(tokens::hash) {
            self.lock(now).retain(|session| !is(session, &hash));
        }
        self.set_cookie("", 0)
    }

    fn set_cookie(&self, value: &str, seconds: u64) -> String {
        format!("{}={value}; Path=/v1; HttpOnly; SameSite=Strict; Max-Age={seconds}", self.cookie)
    }

    fn secret<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let lines = headers.get_all(header::COOKIE).iter();
        lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(';')).find_map(
            |pair| {
                let (name, value) = pair.trim().split_once('=')?;
                (name == self.cookie).then_some(value)
            },
        )
    }

    /// Those that have not ended.
    fn lock(&self, now: Instant) -> MutexGuard<'_, Vec<Session>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|session| {
            now.duration_since(session.used) < IDLE && now.duration_since(session.began) < LIFE
        });
        all
    }
}

fn is(session: &Session, hash: &str) -> bool {
    verify_slices_are_equal(session.sha256.as_bytes(), hash.as_bytes()).is_ok()
}

/// Whether a request that shows no more than a cookie comes from the console itself.
pub(crate) fn is_from_console(method: &Method, headers: &HeaderMap) -> bool {
    let site = headers.get(SITE).map(axum::http::HeaderValue::as_bytes);
    let is_own = matches!(site, None | Some(b"same-origin" | b"none"));
    is_own && (method.is_safe() || headers.contains_key(HEADER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn with(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().unwrap();
        let line = format!("other=1; {pair}; weir-session-1=x");
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(&line).unwrap())])
    }

    #[test]
    fn a_session_is_its_tokens_until_it_ends() {
        let (sessions, now) = (Sessions::new(9080), Instant::now());
        let cookie = sessions.begin("t", now).unwrap();
        assert!(cookie.starts_with("weir-session-9080="), "{cookie}");
        assert!(cookie.contains("; HttpOnly; SameSite=Strict; Max-Age=43200"), "{cookie}");
        assert_eq!(sessions.recognise(&with(&cookie), now).as_deref(), Some("t"));
        assert_eq!(sessions.recognise(&with("weir-session-9080=wrong"), now), None);
        assert_eq!(sessions.recognise(&HeaderMap::new(), now), None);
        assert!(sessions.end(&with(&cookie), now).contains("=; "));
        assert_eq!(sessions.recognise(&with(&cookie), now), None);
    }

    #[test]
    fn sessions_end_when_they_are_not_used_and_after_half_a_day() {
        let (sessions, mut now) = (Sessions::new(1), Instant::now());
        let cookie = sessions.begin("t", now).unwrap();
        assert_eq!(Sessions::new(1).recognise(&with(&cookie), now), None);
        let cookie = with(&sessions.begin("t", now).unwrap());
        let mut hours = 0;
        while sessions.recognise(&cookie, now).is_some() {
            now += Duration::from_secs(30 * 60);
            hours += 1;
        }
        assert_eq!(hours, 24, "halves of an hour");
        let cookie = with(&sessions.begin("t", now).unwrap());
        assert_eq!(sessions.recognise(&cookie, now + IDLE), None);
    }

    #[test]
    fn there_are_only_so_many() {
        let (sessions, mut now) = (Sessions::new(1), Instant::now());
        let first = with(&sessions.begin("first", now).unwrap());
        let mut own = Vec::new();
        for _ in 0..=MOST_OF_TOKEN {
            now += Duration::from_millis(1);
            own.push(with(&sessions.begin("t", now).unwrap()));
        }
        assert_eq!(sessions.recognise(&own[0], now), None, "its own oldest one is gone");
        assert!(sessions.recognise(&own[1], now).is_some());
        assert!(sessions.recognise(&first, now).is_some());
        for number in 0..2 * MOST {
            now += Duration::from_millis(1);
            sessions.begin(&number.to_string(), now).unwrap();
        }
        assert_eq!(sessions.lock(now).len(), MOST);
    }

    #[test]
    fn only_the_console_is_the_console() {
        let headers = |all: &[(HeaderName, &'static str)]| {
            all.iter().map(|(n, v)| (n.clone(), HeaderValue::from_static(v))).collect::<HeaderMap>()
        };
        let console = || (HEADER, "1");
        assert!(is_from_console(&Method::GET, &headers(&[])));
        assert!(!is_from_console(&Method::POST, &headers(&[])));
        assert!(is_from_console(&Method::POST, &headers(&[console()])));
        for (site, own) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            let all = headers(&[console(), (SITE, site)]);
            assert_eq!(is_from_console(&Method::GET, &all), own, "{site}");
            assert_eq!(is_from_console(&Method::DELETE, &all), own, "{site}");
        }
    }
}
