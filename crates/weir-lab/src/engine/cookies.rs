//! Cookies of a user (RFC 6265), as far as a load test needs them: nothing expires while a run
//! lasts, but `Max-Age=0` and the year 1970, by which servers remove cookies, remove one.

use crate::program::Origin;
use weir_wire::{Headers, Known};

/// Most cookies of a user; the oldest goes for another one.
const MOST: usize = 100;

/// A user's cookies.
#[derive(Debug, Default)]
pub(super) struct Jar {
    cookies: Vec<Cookie>,
}

#[derive(Debug)]
struct Cookie {
    name: String,
    value: String,
    /// Host it is for.
    domain: String,
    /// And all hosts below.
    below: bool,
    path: String,
    secure: bool,
}

impl Jar {
    pub(super) fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Value of `Cookie` for a request; `None` if there is none to send.
    pub(super) fn header(&self, origin: &Origin, target: &str) -> Option<String> {
        let path = target.split('?').next().unwrap_or_default();
        let mut line = String::new();
        for cookie in self.cookies.iter().filter(|cookie| cookie.is_for(origin, path)) {
            if !line.is_empty() {
                line.push_str("; ");
            }
            line.push_str(&cookie.name);
            line.push('=');
            line.push_str(&cookie.value);
        }
        (!line.is_empty()).then_some(line)
    }

    /// Takes what an answer sets.
    pub(super) fn take(&mut self, origin: &Origin, target: &str, headers: &Headers) {
        for field in headers.known_all(Known::SetCookie) {
            let Ok(text) = std::str::from_utf8(field) else { continue };
            let Some((cookie, removed)) = Cookie::parse(text, origin, target) else { continue };
            let same = |other: &Cookie| {
                (&other.name, &other.domain, &other.path)
                    == (&cookie.name, &cookie.domain, &cookie.path)
            };
            let known = self.cookies.iter().position(same);
            match (known, removed) {
                (Some(at), true) => drop(self.cookies.remove(at)),
                (None, true) => {}
                (Some(at), false) => self.cookies[at] = cookie,
                (None, false) => {
                    if self.cookies.len() >= MOST {
                        self.cookies.remove(0);
                    }
                    self.cookies.push(cookie);
                }
            }
        }
    }
}

impl Cookie {
    /// A cookie, and whether it is to be removed.
    fn parse(text: &str, origin: &Origin, target: &str) -> Option<(Self, bool)> {
        let mut parts = text.split(';').map(str::trim);
        let (name, value) = parts.next()?.split_once('=')?;
        let path = target.split('?').next().unwrap_or_default();
        let folder = path.rfind('/').filter(|at| *at > 0).map_or("/", |at| &path[..at]);
        let mut cookie = Self {
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
            domain: origin.host.to_ascii_lowercase(),
            below: false,
            path: folder.to_owned(),
            secure: false,
        };
        let mut removed = false;
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key.trim().to_ascii_lowercase().as_str() {
                "domain" => {
                    let domain = value.trim().trim_start_matches('.').to_ascii_lowercase();
                    if !domain.is_empty() {
                        // RFC 6265 section 5.3: nobody sets cookies of others.
                        if !is_below(&cookie.domain, &domain) {
                            return None;
                        }
                        cookie.domain = domain;
                        cookie.below = true;
                    }
                }
                "path" if value.trim().starts_with('/') => cookie.path = value.trim().to_owned(),
                "secure" => cookie.secure = true,
                "max-age" => {
                    removed = value.trim().parse::<i64>().is_ok_and(|seconds| seconds <= 0);
                }
                "expires" => removed |= value.contains("1970"),
                _ => {}
            }
        }
        (!cookie.name.is_empty()).then_some((cookie, removed))
    }

    fn is_for(&self, origin: &Origin, path: &str) -> bool {
        let host = origin.host.to_ascii_lowercase();
        let host_fits = host == self.domain || self.below && is_below(&host, &self.domain);
        let path_fits = path.strip_prefix(self.path.as_str()).is_some_and(|rest| {
            rest.is_empty() || self.path.ends_with('/') || rest.starts_with('/')
        });
        host_fits && path_fits && (origin.tls || !self.secure)
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
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
        jar.take(&origin("a.example", false), target, &headers);
    }

    #[test]
    fn cookies_are_kept_replaced_and_removed() {
        let mut jar = Jar::default();
        let header = |jar: &Jar, target: &str| jar.header(&origin("A.example", false), target);
        set(&mut jar, "/", "a=1; Path=/");
        set(&mut jar, "/shop/list?x", "b=2; HttpOnly");
        assert_eq!(header(&jar, "/").as_deref(), Some("a=1"));
        assert_eq!(header(&jar, "/shop/cart?y").as_deref(), Some("a=1; b=2"));
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
        assert_eq!(header("a.example", true), "own=1; wide=2; secure=4");
        assert_eq!(header("other", true), "");
    }
}
