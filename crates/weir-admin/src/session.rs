//! Sessions of the console, which replace the admin token after sign-in.
//!
//! A session needs two secrets of 256 random bits. One is a cookie that scripts cannot read
//! (`HttpOnly`) and other sites cannot send (`SameSite=Strict`). The other one, the CSRF token, is
//! not a cookie: it is in the response to the sign-in, and the console sends it in the header
//! [`CSRF_HEADER`] with every call, reads included. Browsers send cookies to all ports of a host,
//! so a server on another port may see the first secret. The second one is stored by origin, which
//! includes the port. A link that is opened cannot send a header: it has a ticket instead, which is
//! valid for one URL, once, for a minute.
//!
//! Only hashes (SHA-256) are stored, in memory: a restart ends all sessions. A session is bound to
//! its admin token: it has the token's role and ends when the token is revoked. The browser's
//! information about the origin of a request is trusted.

use crate::tokens::{self, TokenError};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::http::{HeaderMap, HeaderName, header};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of sessions; a new one replaces the one that was idle for longest.
const MAX_SESSIONS: usize = 256;
/// Maximum number of sessions of a token, so that one user cannot end the sessions of all others.
const MAX_SESSIONS_OF_TOKEN: usize = 32;
/// Idle timeout of a session.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Longest life of a session.
pub(crate) const MAX_SESSION_AGE: Duration = Duration::from_secs(12 * 60 * 60);
/// Header with the CSRF token of a session.
pub(crate) const CSRF_HEADER: HeaderName = HeaderName::from_static("weir-csrf-token");
/// Header with the relation of a request to its origin (Fetch Metadata).
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Validity of a ticket.
const TICKET_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of unused tickets of a session; a new one replaces the oldest.
const MAX_TICKETS: usize = 8;

/// Stored state of a session.
struct Session {
    /// Hash of the cookie, the key of the session.
    id: Arc<str>,
    /// Hash of the CSRF token.
    csrf: String,
    /// Id of the admin token.
    token: String,
    started: Instant,
    used: Instant,
    tickets: Vec<Ticket>,
}

/// A link that may be opened once.
struct Ticket {
    sha256: String,
    /// Path and query for which the ticket is valid.
    target: String,
    created: Instant,
}

/// The secrets of a new session.
pub(crate) struct NewSession {
    /// Value of `Set-Cookie`.
    pub(crate) cookie: String,
    /// The CSRF token, which the console sends with every call.
    pub(crate) csrf_token: String,
}

/// The proof that a request has in addition to the cookie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof<'r> {
    /// None.
    None,
    /// A CSRF token.
    Csrf(&'r str),
    /// A ticket, with path and query of the request.
    Ticket(&'r str, &'r str),
}

/// Result of looking up the cookie of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionAuth {
    /// No session.
    None,
    /// The session of this admin token, but the second secret is missing or wrong.
    Unproven(String),
    /// The session of this admin token, with its id.
    Session(String, Arc<str>),
}

/// All sessions.
pub(crate) struct Sessions {
    /// Name of the cookie. Cookies ignore ports: two servers of one machine need two names.
    cookie: String,
    /// The admin listener uses TLS, so the cookie is sent over TLS only.
    secure: bool,
    all: Mutex<Vec<Session>>,
}

impl Sessions {
    /// No sessions, for the admin listener with this port.
    pub(crate) fn new(port: u16, secure: bool) -> Self {
        let cookie = format!("{}{port}", weir_http::console_cookie::PREFIX);
        Self { cookie, secure, all: Mutex::default() }
    }

    /// Starts a session for a token.
    pub(crate) fn start(&self, token: &str, now: Instant) -> Result<NewSession, TokenError> {
        let (secret, csrf_token) = (tokens::secret()?, tokens::secret()?);
        let mut all = self.lock(now);
        let own = all.iter().filter(|session| session.token == token).count();
        let among = |session: &&Session| own < MAX_SESSIONS_OF_TOKEN || session.token == token;
        if own >= MAX_SESSIONS_OF_TOKEN || all.len() >= MAX_SESSIONS {
            let oldest = all.iter().filter(among).map(|session| session.used).min();
            if let Some(at) = all.iter().position(|s| Some(s.used) == oldest && among(&s)) {
                all.swap_remove(at);
            }
        }
        all.push(Session {
            id: tokens::hash(&secret).into(),
            csrf: tokens::hash(&csrf_token),
            token: token.to_owned(),
            started: now,
            used: now,
            tickets: Vec::new(),
        });
        Ok(NewSession { cookie: self.set_cookie(&secret, MAX_SESSION_AGE.as_secs()), csrf_token })
    }

    /// The session of a request. A ticket is used up by any attempt.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        proof: Proof<'_>,
        now: Instant,
    ) -> SessionAuth {
        let Some(hash) = self.secret(headers).map(tokens::hash) else { return SessionAuth::None };
        let mut all = self.lock(now);
        let Some(session) = all.iter_mut().find(|session| equal(&session.id, &hash)) else {
            return SessionAuth::None;
        };
        let is_proven = match proof {
            Proof::None => false,
            Proof::Csrf(token) => equal(&session.csrf, &tokens::hash(token)),
            Proof::Ticket(ticket, target) => session.use_ticket(ticket, now) == Some(target.into()),
        };
        if !is_proven || !is_own_site(headers) {
            return SessionAuth::Unproven(session.token.clone());
        }
        session.used = now;
        SessionAuth::Session(session.token.clone(), Arc::clone(&session.id))
    }

    /// Creates a ticket for a path and query; `None` if the session has ended.
    pub(crate) fn ticket(
        &self,
        session: &str,
        target: String,
        now: Instant,
    ) -> Result<Option<String>, TokenError> {
        let ticket = tokens::secret()?;
        let mut all = self.lock(now);
        let Some(session) = all.iter_mut().find(|one| equal(&one.id, session)) else {
            return Ok(None);
        };
        if session.tickets.len() >= MAX_TICKETS {
            session.tickets.remove(0);
        }
        session.tickets.push(Ticket { sha256: tokens::hash(&ticket), target, created: now });
        Ok(Some(ticket))
    }

    /// Whether the session with this id has not ended.
    pub(crate) fn is_open(&self, session: &str, now: Instant) -> bool {
        self.lock(now).iter().any(|one| equal(&one.id, session))
    }

    /// Ends the session of a request; returns the cookie to be set.
    pub(crate) fn end(&self, headers: &HeaderMap, now: Instant) -> String {
        if let Some(hash) = self.secret(headers).map(tokens::hash) {
            self.lock(now).retain(|session| !equal(&session.id, &hash));
        }
        self.set_cookie("", 0)
    }

    fn set_cookie(&self, value: &str, seconds: u64) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        format!(
            "{}={value}; Path=/v1; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}",
            self.cookie
        )
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

    /// Sessions that have not ended.
    fn lock(&self, now: Instant) -> MutexGuard<'_, Vec<Session>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|session| {
            now.duration_since(session.used) < IDLE_TIMEOUT
                && now.duration_since(session.started) < MAX_SESSION_AGE
        });
        all
    }
}

impl Session {
    /// The target of a ticket, which becomes invalid.
    fn use_ticket(&mut self, ticket: &str, now: Instant) -> Option<String> {
        let hash = tokens::hash(ticket);
        self.tickets.retain(|one| now.duration_since(one.created) < TICKET_TIMEOUT);
        let at = self.tickets.iter().position(|one| equal(&one.sha256, &hash))?;
        Some(self.tickets.remove(at).target)
    }
}

fn equal(one: &str, other: &str) -> bool {
    verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// Whether a request comes from the console itself, according to the browser.
fn is_own_site(headers: &HeaderMap) -> bool {
    let site = headers.get(SITE).map(axum::http::HeaderValue::as_bytes);
    matches!(site, None | Some(b"same-origin" | b"none"))
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

    impl Sessions {
        /// The caller of a new session's requests.
        fn of(&self, session: &NewSession, now: Instant) -> Option<String> {
            let proof = Proof::Csrf(&session.csrf_token);
            match self.authenticate(&with(&session.cookie), proof, now) {
                SessionAuth::Session(token, _) => Some(token),
                _ => None,
            }
        }
    }

    #[test]
    fn a_session_is_its_tokens_until_it_ends() {
        let (sessions, now) = (Sessions::new(9080, false), Instant::now());
        let session = sessions.start("t", now).unwrap();
        let cookie = &session.cookie;
        assert!(cookie.starts_with("weir-session-9080="), "{cookie}");
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Max-Age=43200"), "{cookie}");
        assert!(!cookie.contains(&session.csrf_token));
        assert_eq!(sessions.of(&session, now).as_deref(), Some("t"));
        let proof = Proof::Csrf(&session.csrf_token);
        for headers in [with("weir-session-9080=wrong"), HeaderMap::new()] {
            assert_eq!(sessions.authenticate(&headers, proof, now), SessionAuth::None);
        }
        assert!(sessions.end(&with(cookie), now).contains("=; "));
        assert_eq!(sessions.of(&session, now), None);
        let secure = Sessions::new(9080, true).start("t", now).unwrap();
        assert!(secure.cookie.ends_with("; Secure"), "{}", secure.cookie);
    }

    #[test]
    fn a_cookie_alone_or_from_elsewhere_is_not_enough() {
        let (sessions, now) = (Sessions::new(9080, false), Instant::now());
        let (session, other) =
            (sessions.start("t", now).unwrap(), sessions.start("u", now).unwrap());
        let unproven = SessionAuth::Unproven("t".to_owned());
        let mut headers = with(&session.cookie);
        for proof in [Proof::None, Proof::Csrf(""), Proof::Csrf(&other.csrf_token)] {
            assert_eq!(sessions.authenticate(&headers, proof, now), unproven, "{proof:?}");
        }
        for (site, own) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            headers.insert(SITE, HeaderValue::from_static(site));
            let proof = Proof::Csrf(&session.csrf_token);
            assert_eq!(sessions.authenticate(&headers, proof, now) != unproven, own, "{site}");
        }
    }

    #[test]
    fn a_ticket_is_good_once_for_one_url_and_for_a_minute() {
        let (sessions, now) = (Sessions::new(9080, false), Instant::now());
        let session = sessions.start("t", now).unwrap();
        let headers = with(&session.cookie);
        let id = match sessions.authenticate(&headers, Proof::Csrf(&session.csrf_token), now) {
            SessionAuth::Session(_, id) => id,
            other => panic!("{other:?}"),
        };
        let ticket = || sessions.ticket(&id, "/v1/a?b=c".to_owned(), now).unwrap().unwrap();
        let good = |ticket: &str, target: &str, now| {
            let proof = Proof::Ticket(ticket, target);
            matches!(sessions.authenticate(&headers, proof, now), SessionAuth::Session(..))
        };
        let once = ticket();
        assert!(good(&once, "/v1/a?b=c", now));
        assert!(!good(&once, "/v1/a?b=c", now), "it was used");
        let elsewhere = ticket();
        assert!(!good(&elsewhere, "/v1/a?b=d", now));
        assert!(!good(&elsewhere, "/v1/a?b=c", now), "it was tried");
        let late = ticket();
        assert!(!good(&late, "/v1/a?b=c", now + TICKET_TIMEOUT));
        let many: Vec<_> = (0..=MAX_TICKETS).map(|_| ticket()).collect();
        assert!(!good(&many[0], "/v1/a?b=c", now) && good(&many[1], "/v1/a?b=c", now));
        assert_eq!(sessions.ticket("wrong", String::new(), now).unwrap(), None);
    }

    #[test]
    fn sessions_end_when_they_are_not_used_and_after_half_a_day() {
        let (sessions, mut now) = (Sessions::new(1, false), Instant::now());
        let session = sessions.start("t", now).unwrap();
        assert_eq!(Sessions::new(1, false).of(&session, now), None);
        let mut hours = 0;
        while sessions.of(&session, now).is_some() {
            now += Duration::from_secs(30 * 60);
            hours += 1;
        }
        assert_eq!(hours, 24, "halves of an hour");
        let session = sessions.start("t", now).unwrap();
        assert_eq!(sessions.of(&session, now + IDLE_TIMEOUT), None);
    }

    #[test]
    fn there_are_only_so_many() {
        let (sessions, mut now) = (Sessions::new(1, false), Instant::now());
        let first = sessions.start("first", now).unwrap();
        let mut own = Vec::new();
        for _ in 0..=MAX_SESSIONS_OF_TOKEN {
            now += Duration::from_millis(1);
            own.push(sessions.start("t", now).unwrap());
        }
        assert_eq!(sessions.of(&own[0], now), None, "its own oldest one is gone");
        assert!(sessions.of(&own[1], now).is_some());
        assert!(sessions.of(&first, now).is_some());
        for number in 0..2 * MAX_SESSIONS {
            now += Duration::from_millis(1);
            sessions.start(&number.to_string(), now).unwrap();
        }
        assert_eq!(sessions.lock(now).len(), MAX_SESSIONS);
    }
}
