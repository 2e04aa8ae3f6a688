//! Cookies of a user (RFC 6265). Public suffixes are not checked: servers under test have any name.

use crate::program::Origin;
use cookie_store::CookieStore;
use url::Url;
use weir_wire::{Headers, Known};

/// Largest number of cookies of a user; an expired or the first one is evicted for another one.
const MAX_COOKIES: usize = 100;

/// A user's cookies.
#[derive(Debug, Default)]
pub(super) struct Jar(CookieStore);

impl Jar {
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter_unexpired().next().is_none()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Value of `Cookie` for a request; `None` without a matching cookie.
    pub(super) fn header(&self, origin: &Origin, target: &str) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let url = url(origin, target)?;
        let mut line = String::new();
        let mut cookies = self.0.matches(&url);
        // Those with longer paths come first (section 5.4).
        cookies.sort_by_key(|cookie| std::cmp::Reverse(String::from(&cookie.path).len()));
        for (name, value) in cookies.iter().map(|cookie| cookie.name_value()) {
            let separator = if line.is_empty() { "" } else { "; " };
            line.extend([separator, name, "=", value]);
        }
        (!line.is_empty()).then_some(line)
    }

    /// Stores the cookies of a response. Invalid ones and those for other hosts are ignored
    /// (section 5.3).
    pub(super) fn store(&mut self, origin: &Origin, target: &str, headers: &Headers) {
        let mut fields = headers.known_all(Known::SetCookie).peekable();
        if fields.peek().is_none() {
            return;
        }
        let Some(url) = url(origin, target) else { return };
        for field in fields.filter_map(|field| std::str::from_utf8(field).ok()) {
            let _ = self.0.parse(field, &url);
        }
        while self.0.iter_any().count() > MAX_COOKIES {
            self.evict();
        }
    }

    /// Adds a cookie in the format of `Set-Cookie`, as if it came from a URL.
    pub(super) fn preset(&mut self, url: &str, field: &str) {
        if let Ok(url) = Url::parse(url) {
            // As in JMeter, an invalid cookie is never sent.
            let _ = self.0.parse(field, &url);
        }
    }

    fn evict(&mut self) {
        let expired = self.0.iter_any().find(|cookie| cookie.is_expired());
        let Some(cookie) = expired.or_else(|| self.0.iter_any().next()) else { return };
        let (domain, path) = (String::from(&cookie.domain), String::from(&cookie.path));
        let name = cookie.name().to_owned();
        self.0.remove(&domain, &path, &name);
    }
}

fn url(origin: &Origin, target: &str) -> Option<Url> {
    Url::parse(&origin.url(target)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(host: &str, tls: bool) -> Origin {
        Origin { tls, host: host.to_owned(), port: 80 }
    }

    fn set(jar: &mut Jar, target: &str, text: &str) {
        let mut headers = Headers::new();
        headers.push("Set-Cookie", text.as_bytes());
        jar.store(&origin("a.example", false), target, &headers);
    }

    #[test]
    fn cookies_are_kept_replaced_and_removed() {
        let mut jar = Jar::default();
        let header = |jar: &Jar, target: &str| jar.header(&origin("A.example", false), target);
        set(&mut jar, "/", "a=1; Path=/");
        set(&mut jar, "/shop/list?x", "b=2; HttpOnly");
        assert_eq!(header(&jar, "/").as_deref(), Some("a=1"));
        assert_eq!(header(&jar, "/shop/cart?y").as_deref(), Some("b=2; a=1"));
        assert_eq!(header(&jar, "/shopping").as_deref(), Some("a=1"));
        set(&mut jar, "/", "a=3; path=/");
        assert_eq!(header(&jar, "/").as_deref(), Some("a=3"));
        set(&mut jar, "/", "a=; path=/; Max-Age=0");
        assert_eq!(header(&jar, "/"), None);
    }

    #[test]
    fn others_do_not_see_them() {
        let mut jar = Jar::default();
        set(&mut jar, "/", "own=1");
        set(&mut jar, "/", "wide=2; Domain=.example");
        set(&mut jar, "/", "foreign=3; Domain=other");
        set(&mut jar, "/", "secure=4; Secure");
        let header = |host, tls| jar.header(&origin(host, tls), "/").unwrap_or_default();
        assert_eq!(header("a.example", false), "own=1; wide=2");
        assert_eq!(header("b.example", true), "wide=2");
        assert_eq!(header("a.example", true), "own=1; secure=4; wide=2");
        assert_eq!(header("other", true), "");
    }

    #[test]
    fn their_number_is_bounded() {
        let mut jar = Jar::default();
        set(&mut jar, "/", "gone=; Max-Age=0");
        for number in 0..=MAX_COOKIES {
            set(&mut jar, "/", &format!("n{number}=1"));
        }
        let line = jar.header(&origin("a.example", false), "/").unwrap_or_default();
        assert_eq!(line.split("; ").count(), MAX_COOKIES);
        assert!(line.starts_with("n1=1;") && line.ends_with("n100=1"), "{line}");
    }
}
