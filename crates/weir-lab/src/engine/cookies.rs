//! Cookies of a user (RFC 6265). Public suffixes are not checked: servers under test have any name.

use crate::program::Origin;
use cookie_store::{Cookie, CookieStore, StoreAction};
use std::collections::BTreeMap;
use std::convert::Infallible;
use url::Url;
use weir_wire::{Headers, Known};

/// Largest number of cookies of a user; an expired or the first one is evicted for another one.
const MAX_COOKIES: usize = 100;

/// A user's cookies.
#[derive(Clone, Debug, Default)]
pub(super) struct Jar {
    cookies: CookieStore,
    /// Number of responses that set cookies.
    changes: u64,
}

impl Jar {
    pub(super) fn is_empty(&self) -> bool {
        self.cookies.iter_unexpired().next().is_none()
    }

    pub(super) fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Value of `Cookie` for a request; `None` without a matching cookie.
    pub(super) fn header(&self, origin: &Origin, target: &str) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let url = url(origin, target)?;
        let mut line = String::new();
        let mut cookies = self.cookies.matches(&url);
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
        self.changes += 1;
        for field in fields.filter_map(|field| std::str::from_utf8(field).ok()) {
            self.set(field, &url);
        }
        self.limit();
    }

    fn set(&mut self, field: &str, url: &Url) {
        let Ok(cookie) = Cookie::parse(field, url).map(Cookie::into_owned) else { return };
        let (domain, path, name) = place(&cookie);
        if let Ok(StoreAction::UpdatedExisting) = self.cookies.insert(cookie, url) {
            // As in JMeter: a cookie that is set again is the last one.
            if let Some(cookie) = self.cookies.remove(&domain, &path, &name) {
                let _ = self.cookies.insert(cookie, url);
            }
        }
    }

    /// Adds the cookies of another jar, as if they were set again.
    fn add(&mut self, other: &Self) {
        let is_kept = |cookie: &&Cookie<'static>| {
            let (domain, path, name) = place(cookie);
            !other.cookies.contains(&domain, &path, &name)
        };
        let kept = self.cookies.iter_unexpired().filter(is_kept);
        let all = kept.chain(other.cookies.iter_unexpired()).cloned();
        let Ok(cookies) = CookieStore::from_cookies(all.map(Ok::<_, Infallible>), false);
        self.cookies = cookies;
        self.limit();
    }

    fn limit(&mut self) {
        while self.cookies.iter_any().count() > MAX_COOKIES {
            self.evict();
        }
    }

    /// Adds a cookie in the format of `Set-Cookie`, as if it came from a URL.
    pub(super) fn preset(&mut self, url: &str, field: &str) {
        if let Ok(url) = Url::parse(url) {
            // As in JMeter, an invalid cookie is never sent.
            let _ = self.cookies.parse(field, &url);
        }
    }

    fn evict(&mut self) {
        let expired = self.cookies.iter_any().find(|cookie| cookie.is_expired());
        let Some(cookie) = expired.or_else(|| self.cookies.iter_any().next()) else { return };
        let (domain, path, name) = place(cookie);
        self.cookies.remove(&domain, &path, &name);
    }
}

/// Cookies of resources that were requested at the same time, by the number of the resource, each with the
/// number of the page or frame that has it; the page is 0. Returns those of the page.
///
/// As in JMeter: each resource starts with the cookies of its page. At the end all of its cookies are set
/// again, also those that it got from the page: a change or an end of these is lost unless the last
/// resource has made it.
pub(super) fn merged(jars: BTreeMap<usize, (usize, Jar)>) -> Jar {
    let changes = |number: usize| jars.get(&number).map_or(0, |(_, jar)| jar.changes);
    let is_changed = jars.values().any(|(page, jar)| jar.changes != changes(*page));
    let mut inside: BTreeMap<usize, Vec<Jar>> = BTreeMap::new();
    // A resource has a larger number than its page.
    for (number, (page, mut jar)) in jars.into_iter().rev() {
        let resources = inside.remove(&number).unwrap_or_default();
        if is_changed {
            resources.iter().rev().for_each(|resource| jar.add(resource));
        }
        if number == 0 {
            return jar;
        }
        inside.entry(page).or_default().push(jar);
    }
    Jar::default()
}

/// Domain, path and name.
fn place(cookie: &Cookie<'_>) -> (String, String, String) {
    let (domain, path) = (String::from(&cookie.domain), String::from(&cookie.path));
    (domain, path, cookie.name().to_owned())
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
        set(&mut jar, "/", "c=4; path=/");
        assert_eq!(header(&jar, "/").as_deref(), Some("a=3; c=4"));
        set(&mut jar, "/", "a=3; path=/");
        assert_eq!(header(&jar, "/").as_deref(), Some("c=4; a=3"), "the last one set");
        set(&mut jar, "/", "c=; path=/; Max-Age=0");
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
    #[test]
    fn those_of_resources_are_set_again_in_their_order() {
        let mut page = Jar::default();
        set(&mut page, "/", "a=0");
        set(&mut page, "/", "b=0");
        let resource = |page: &Jar, fields: &[&str]| {
            let mut jar = page.clone();
            fields.iter().for_each(|field| set(&mut jar, "/", field));
            jar
        };
        let merged = |jars: &[(usize, Jar)]| {
            let jars = std::iter::once((0, page.clone())).chain(jars.iter().cloned());
            merged(jars.enumerate().collect()).header(&origin("a.example", false), "/")
        };
        let (one, none) = (resource(&page, &["a=1", "n=1"]), resource(&page, &[]));
        assert_eq!(merged(&[]).as_deref(), Some("a=0; b=0"));
        // The second one has the cookies of the page.
        assert_eq!(merged(&[(0, one.clone()), (0, none)]).as_deref(), Some("n=1; a=0; b=0"));
        let gone = resource(&page, &["a=; Max-Age=0", "n=2"]);
        assert_eq!(merged(&[(0, one.clone()), (0, gone)]).as_deref(), Some("a=1; b=0; n=2"));
        // One in a frame starts with the cookies of the frame.
        let inner = resource(&one, &["b=3"]);
        assert_eq!(merged(&[(0, one), (1, inner)]).as_deref(), Some("a=1; n=1; b=3"));
    }
}
