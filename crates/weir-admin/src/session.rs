//! Sessions of the console, which replace the admin token, or the identity provider, after sign-in.
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
//! its admin token: it has the token's role and ends when the token is revoked or expires. A session of an
//! account of the identity provider has the role of its groups at sign-in under the configuration in force. The browser's information about
//! the origin of a request is trusted.

use crate::account::Account;
use crate::role::Role;
use crate::scope::TokenScope;
use crate::tokens::{self, TokenError};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::http::{HeaderMap, HeaderName, header};
use serde::Serialize;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use utoipa::ToSchema;
use weir_model::UnixSeconds;
use weir_store::clock;

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

/// Longest stored name of a browser, in characters.
const MAX_AGENT_CHARS: usize = 200;

/// Whose session it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// That of the admin token with this id.
    Token(String),
    /// Somebody whom the identity provider has authenticated.
    Person(Arc<Person>),
}

/// Somebody whom the identity provider has authenticated.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Person {
    /// `oidc:` and the subject; ids of tokens have no colon.
    pub(crate) id: String,
    /// Name for people.
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) scope: TokenScope,
    /// What its rights depend on; role and scope are those of the sign-in.
    pub(crate) account: Account,
    /// The ID token, for sign-out at the provider.
    pub(crate) id_token: String,
}

impl std::fmt::Debug for Person {
    /// Does not print the ID token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Person").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Holder {
    /// Id of the token or the person.
    fn id(&self) -> &str {
        match self {
            Self::Token(id) => id,
            Self::Person(person) => &person.id,
        }
    }
}

/// Where a session is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    pub(crate) address: Option<IpAddr>,
    /// The header `User-Agent`.
    pub(crate) agent: String,
}

impl Client {
    pub(crate) fn new(address: Option<IpAddr>, headers: &HeaderMap) -> Self {
        let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let agent = agent.unwrap_or_default().chars().filter(|c| !c.is_control());
        Self { address, agent: agent.take(MAX_AGENT_CHARS).collect() }
    }
}

/// A session, for those who manage access.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SessionInfo {
    /// Id, not secret.
    pub(crate) id: String,
    /// Id of the admin token, or `oidc:` and the subject of an account.
    pub(crate) holder: String,
    /// Name of the token or the account.
    pub(crate) name: String,
    /// Role.
    pub(crate) role: Role,
    /// What narrows the role.
    pub(crate) scope: TokenScope,
    /// Time of sign-in (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub(crate) started: UnixSeconds,
    /// Time of the last request (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub(crate) used: UnixSeconds,
    /// Address of the client that has signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) address: Option<IpAddr>,
    /// The browser, as it calls itself.
    pub(crate) agent: String,
    /// It is the session of the caller.
    pub(crate) own: bool,
}

/// An open session, without the rights of its holder.
pub(crate) struct OpenSession {
    pub(crate) public: String,
    pub(crate) holder: Holder,
    pub(crate) client: Client,
    pub(crate) started: UnixSeconds,
    pub(crate) used: UnixSeconds,
    pub(crate) own: bool,
}

/// Stored state of a session.
struct Session {
    /// Id for people, not secret.
    public: String,
    /// Hash of the cookie, the key of the session.
    id: Arc<str>,
    /// Hash of the CSRF token.
    csrf: String,
    holder: Holder,
    client: Client,
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
    /// The session of this holder, but the second secret is missing or wrong.
    Unproven(Holder),
    /// The session of this holder, with its id.
    Session(Holder, Arc<str>),
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

    /// Starts a session. With `is_https`, its cookie is sent over TLS only, whatever this listener uses.
    pub(crate) fn start(
        &self,
        holder: Holder,
        client: Client,
        is_https: bool,
        now: Instant,
    ) -> Result<NewSession, TokenError> {
        let (secret, csrf_token) = (tokens::secret()?, tokens::secret()?);
        let public = tokens::short_id()?;
        let mut all = self.lock(now);
        let is_own = |session: &Session| session.holder.id() == holder.id();
        let own = all.iter().filter(|session| is_own(session)).count();
        let among = |session: &&Session| own < MAX_SESSIONS_OF_TOKEN || is_own(session);
        if own >= MAX_SESSIONS_OF_TOKEN || all.len() >= MAX_SESSIONS {
            let oldest = all.iter().filter(among).map(|session| session.used).min();
            if let Some(at) = all.iter().position(|s| Some(s.used) == oldest && among(&s)) {
                all.swap_remove(at);
            }
        }
        all.push(Session {
            public,
            id: tokens::hash(&secret).into(),
            csrf: tokens::hash(&csrf_token),
            holder,
            client,
            started: now,
            used: now,
            tickets: Vec::new(),
        });
        let cookie = self.set_cookie(&secret, MAX_SESSION_AGE.as_secs(), is_https);
        Ok(NewSession { cookie, csrf_token })
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
            return SessionAuth::Unproven(session.holder.clone());
        }
        session.used = now;
        SessionAuth::Session(session.holder.clone(), Arc::clone(&session.id))
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

    /// The holder of the session with this id, unless it has ended.
    pub(crate) fn holder(&self, session: &str, now: Instant) -> Option<Holder> {
        let all = self.lock(now);
        all.iter().find(|one| equal(&one.id, session)).map(|one| one.holder.clone())
    }

    /// All open sessions, the last used first; `own` is the id of that of the caller.
    pub(crate) fn list(&self, own: Option<&str>, now: Instant) -> Vec<OpenSession> {
        let clock = clock::now().as_secs();
        let at = |instant: Instant| {
            UnixSeconds(clock.saturating_sub(now.saturating_duration_since(instant).as_secs()))
        };
        let mut open: Vec<OpenSession> = self
            .lock(now)
            .iter()
            .map(|one| OpenSession {
                public: one.public.clone(),
                holder: one.holder.clone(),
                client: one.client.clone(),
                started: at(one.started),
                used: at(one.used),
                own: own.is_some_and(|own| equal(own, &one.id)),
            })
            .collect();
        open.sort_by_key(|one| std::cmp::Reverse((one.used, one.started)));
        open
    }

    /// Ends a session by its public id; false if there is none.
    pub(crate) fn revoke(&self, public: &str, now: Instant) -> bool {
        let mut all = self.lock(now);
        let before = all.len();
        all.retain(|session| session.public != public);
        all.len() < before
    }

    /// Ends the session of a request; returns the cookie to be set.
    pub(crate) fn end(&self, headers: &HeaderMap, now: Instant) -> String {
        if let Some(hash) = self.secret(headers).map(tokens::hash) {
            self.lock(now).retain(|session| !equal(&session.id, &hash));
        }
        self.set_cookie("", 0, false)
    }

    fn set_cookie(&self, value: &str, seconds: u64, is_https: bool) -> String {
        let secure = if self.secure || is_https { "; Secure" } else { "" };
        format!(
            "{}={value}; Path=/v1; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}",
            self.cookie
        )
    }

    fn secret<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        cookie(headers, &self.cookie)
    }

    /// Whether cookies are sent over TLS only.
    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Name of the cookie of a sign-in with an account; it has the prefix of all cookies of the console.
    pub(crate) fn oidc_cookie_name(&self) -> String {
        let prefix = weir_http::console_cookie::PREFIX;
        self.cookie.replacen(prefix, &format!("{prefix}oidc-"), 1)
    }

    /// Whose session a request has the cookie of.
    pub(crate) fn of_cookie(&self, headers: &HeaderMap, now: Instant) -> Option<Holder> {
        let hash = self.secret(headers).map(tokens::hash)?;
        self.holder(&hash, now)
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

/// The value of a cookie.
pub(crate) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(header::COOKIE).iter();
    lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(';')).find_map(|pair| {
        let (found, value) = pair.trim().split_once('=')?;
        (found == name).then_some(value)
    })
}

/// Whether a request comes from the console itself, according to the browser.
pub(crate) fn is_own_site(headers: &HeaderMap) -> bool {
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
        fn begin(&self, token: &str, now: Instant) -> NewSession {
            self.start(Holder::Token(token.to_owned()), Client::default(), false, now).unwrap()
        }

        fn of(&self, session: &NewSession, now: Instant) -> Option<String> {
            let proof = Proof::Csrf(&session.csrf_token);
            match self.authenticate(&with(&session.cookie), proof, now) {
                SessionAuth::Session(holder, _) => Some(holder.id().to_owned()),
                _ => None,
            }
        }
    }

    #[test]
    fn a_session_is_its_tokens_until_it_ends() {
        let (sessions, now) = (Sessions::new(9080, false), Instant::now());
        let session = sessions.begin("t", now);
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
        let secure = Sessions::new(9080, true).begin("t", now);
        assert!(secure.cookie.ends_with("; Secure"), "{}", secure.cookie);
        let holder = Holder::Token("t".to_owned());
        let proxied = sessions.start(holder, Client::default(), true, now).unwrap();
        assert!(proxied.cookie.ends_with("; Secure"), "behind a proxy that ends TLS");
    }

    #[test]
    fn a_cookie_alone_or_from_elsewhere_is_not_enough() {
        let (sessions, now) = (Sessions::new(9080, false), Instant::now());
        let (session, other) = (sessions.begin("t", now), sessions.begin("u", now));
        let unproven = SessionAuth::Unproven(Holder::Token("t".to_owned()));
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
        let session = sessions.begin("t", now);
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
        let session = sessions.begin("t", now);
        assert_eq!(Sessions::new(1, false).of(&session, now), None);
        let mut hours = 0;
        while sessions.of(&session, now).is_some() {
            now += Duration::from_secs(30 * 60);
            hours += 1;
        }
        assert_eq!(hours, 24, "halves of an hour");
        let session = sessions.begin("t", now);
        assert_eq!(sessions.of(&session, now + IDLE_TIMEOUT), None);
    }

    #[test]
    fn sessions_are_listed_and_ended_by_others() {
        let (sessions, now) = (Sessions::new(1, false), Instant::now());
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static("Browser/1"));
        let client = Client::new(Some([192, 0, 2, 1].into()), &headers);
        let first = sessions.start(Holder::Token("t".to_owned()), client, false, now).unwrap();
        let other = sessions.begin("u", now);
        let of_u = match sessions.authenticate(
            &with(&other.cookie),
            Proof::Csrf(&other.csrf_token),
            now,
        ) {
            SessionAuth::Session(_, id) => id,
            other => panic!("{other:?}"),
        };
        let listed = sessions.list(Some(&of_u), now);
        assert_eq!(listed.iter().filter(|one| one.own).count(), 1);
        let one = listed.iter().find(|one| !one.own).unwrap();
        assert_eq!((one.holder.id(), one.client.agent.as_str()), ("t", "Browser/1"));
        assert!(!of_u.contains(&one.public));
        assert!(sessions.revoke(&one.public, now));
        assert!(!sessions.revoke(&one.public, now));
        assert_eq!(sessions.of(&first, now), None);
        assert!(sessions.of(&other, now).is_some());
    }

    #[test]
    fn there_are_only_so_many() {
        let (sessions, mut now) = (Sessions::new(1, false), Instant::now());
        let first = sessions.begin("first", now);
        let mut own = Vec::new();
        for _ in 0..=MAX_SESSIONS_OF_TOKEN {
            now += Duration::from_millis(1);
            own.push(sessions.begin("t", now));
        }
        assert_eq!(sessions.of(&own[0], now), None, "its own oldest one is gone");
        assert!(sessions.of(&own[1], now).is_some());
        assert!(sessions.of(&first, now).is_some());
        for number in 0..2 * MAX_SESSIONS {
            now += Duration::from_millis(1);
            sessions.begin(&number.to_string(), now);
        }
        assert_eq!(sessions.lock(now).len(), MAX_SESSIONS);
    }
}
