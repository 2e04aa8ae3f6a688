//! One-time codes that hand a sign-in over to the console.
//!
//! The return from the provider is a navigation: its response cannot give the console a CSRF token. It
//! redirects to the console with a code in the fragment, which no server sees, and the console exchanges the
//! code by a POST. A code is valid once, for a minute, and only with the cookie of the browser that has
//! signed in: a link with somebody else's code signs nobody in.

use crate::session::Person;
use crate::tokens::{self, TokenError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Validity of a code.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of codes; a new one replaces the oldest.
const MAX_CODES: usize = 64;

/// The codes that were not exchanged yet.
#[derive(Default)]
pub(crate) struct Codes(Mutex<Vec<Pending>>);

struct Pending {
    /// Hashes of the code and of the cookie.
    code: String,
    cookie: String,
    person: Person,
    created: Instant,
}

/// A new code, and the cookie that it needs.
pub(crate) struct NewCode {
    pub(crate) code: String,
    pub(crate) cookie: String,
}

impl Codes {
    /// A code for somebody whom the provider has authenticated.
    pub(crate) fn add(&self, person: Person, now: Instant) -> Result<NewCode, TokenError> {
        let (code, cookie) = (tokens::secret()?, tokens::secret()?);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| now.duration_since(one.created) < TIMEOUT);
        if all.len() >= MAX_CODES {
            all.remove(0);
        }
        let hashes = (tokens::hash(&code), tokens::hash(&cookie));
        all.push(Pending { code: hashes.0, cookie: hashes.1, person, created: now });
        Ok(NewCode { code, cookie })
    }

    /// Exchanges a code; it is used up by any attempt.
    pub(crate) fn take(&self, code: &str, cookie: &str, now: Instant) -> Option<Person> {
        let hash = tokens::hash(code);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| now.duration_since(one.created) < TIMEOUT);
        let at = all.iter().position(|one| super::is_same(&one.code, &hash))?;
        let found = all.remove(at);
        super::is_same(&found.cookie, &tokens::hash(cookie)).then_some(found.person)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;
    use crate::scope::TokenScope;

    #[test]
    fn a_code_is_good_once_for_a_minute_in_the_browser_that_has_signed_in() {
        let (codes, now) = (Codes::default(), Instant::now());
        let person = Person {
            id: "oidc:1".to_owned(),
            name: "Ann".to_owned(),
            role: Role::Viewer,
            scope: TokenScope::default(),
            account: serde_json::from_str(r#"{"issuer":"i","groups":[]}"#).unwrap(),
            id_token: String::new(),
        };
        let add = || codes.add(person.clone(), now).unwrap();
        let one = add();
        assert_eq!(codes.take(&one.code, &one.cookie, now), Some(person.clone()));
        assert_eq!(codes.take(&one.code, &one.cookie, now), None, "it was used");
        let (one, other) = (add(), add());
        assert_eq!(codes.take(&one.code, &other.cookie, now), None, "another browser");
        assert_eq!(codes.take(&one.code, &one.cookie, now), None, "it was tried");
        assert_eq!(codes.take(&other.code, &other.cookie, now + TIMEOUT), None, "too late");
        let first = add();
        (0..MAX_CODES).for_each(|_| drop(add()));
        assert_eq!(codes.take(&first.code, &first.cookie, now), None);
    }
}
