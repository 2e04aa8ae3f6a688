//! A user's cache of validators, as JMeter's HTTP Cache Manager keeps them. Bodies are not kept.

use super::encode::{Validators, varied};
use crate::program::CacheOptions;
use jiff::Timestamp;
use std::collections::HashMap;
use weir_wire::Headers;

/// Most URLs of a user, as in JMeter.
const MAX_URLS: usize = 5000;
/// Expiry of a response that says nothing about it.
const ONE_YEAR_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Validators and expiry by URL.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: HashMap<String, (Validators, Option<Timestamp>)>,
    each_iteration: bool,
}

impl Cache {
    /// The validators for a URL.
    pub(super) fn validators(&self, url: &str) -> Option<Validators> {
        self.entries.get(url).map(|(validators, _)| validators.clone())
    }

    /// Whether the last response of a URL has not expired, for a request with this head.
    pub(super) fn is_fresh(&self, url: &str, head: &[u8]) -> bool {
        self.entries.get(url).is_some_and(|(validators, expires)| {
            expires.is_some_and(|expires| expires > Timestamp::now()) && validators.apply_to(head)
        })
    }

    /// Keeps the validators of a response to a request with this head.
    pub(super) fn store(
        &mut self,
        url: String,
        head: &[u8],
        (status, headers): (u16, &Headers),
        options: CacheOptions,
    ) {
        self.each_iteration = options.each_iteration;
        let text = |name: &str| {
            headers.get(name).map(|value| String::from_utf8_lossy(value).trim().to_owned())
        };
        let is_kept = (200..300).contains(&status) || status == 304;
        let says_something = ["last-modified", "expires", "etag", "cache-control"];
        let is_kept = is_kept && says_something.iter().any(|name| headers.get(name).is_some());
        let vary = text("vary");
        if !is_kept || vary.as_deref() == Some("*") {
            return;
        }
        let vary = vary.map(|names| {
            let lines = varied(head, &names);
            (names, lines)
        });
        let (etag, last_modified) = (text("etag"), text("last-modified"));
        let validators = Validators { etag, last_modified, vary };
        let expires = if options.expires { expiry(&text) } else { None };
        if options.expires && text("cache-control").is_some_and(|c| c.contains("no-store")) {
            return;
        }
        if self.entries.len() >= MAX_URLS && !self.entries.contains_key(&url) {
            self.entries.clear();
        }
        // Of a variant, JMeter's entry is that of its request.
        if self.entries.get(&url).is_some_and(|(known, _)| !known.apply_to(head)) {
            self.entries.remove(&url);
        }
        // JMeter keeps the first ones.
        self.entries.entry(url).or_insert((validators, expires));
    }

    /// An iteration starts.
    pub(super) fn start_iteration(&mut self, new_user: bool) {
        if self.each_iteration || new_user {
            self.entries.clear();
        }
    }
}

/// Expiry by `Cache-Control`, by `Expires`, or a tenth of the age of the resource.
fn expiry(text: &dyn Fn(&str) -> Option<String>) -> Option<Timestamp> {
    let time = |name: &str| {
        let text = text(name)?;
        jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(&text).ok()
    };
    let control = text("cache-control").unwrap_or_default();
    if control.contains("no-cache") {
        return None;
    }
    let seconds = match control.split_once("max-age=") {
        Some((_, age)) => {
            let digits = age.find(|c: char| !c.is_ascii_digit()).unwrap_or(age.len());
            age[..digits].parse().ok()?
        }
        None => match text("expires") {
            // A text that is no time, such as 0, has expired.
            Some(_) => return time("expires"),
            None => match (time("date"), time("last-modified")) {
                (Some(date), Some(modified)) => date.duration_since(modified).as_secs() / 10,
                _ => ONE_YEAR_SECONDS,
            },
        },
    };
    Timestamp::now().checked_add(jiff::SignedDuration::from_secs(seconds)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(fields: &[(&str, &str)], status: u16, expires: bool) -> Cache {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
        let mut cache = Cache::default();
        let options = CacheOptions { expires, each_iteration: false };
        cache.store("u".to_owned(), b"", (status, &headers), options);
        cache
    }

    #[test]
    fn validators_are_kept_and_expire() {
        let kept = stored(&[("ETag", "\"1\"")], 200, false);
        assert_eq!(kept.validators("u").and_then(|v| v.etag).as_deref(), Some("\"1\""));
        assert!(!kept.is_fresh("u", b"") && kept.validators("other").is_none());
        assert!(stored(&[("ETag", "1")], 404, false).validators("u").is_none());
        assert!(stored(&[("ETag", "1"), ("Vary", "*")], 200, false).validators("u").is_none());
        assert!(stored(&[("Cache-Control", "public, max-age=60")], 200, true).is_fresh("u", b""));
        assert!(!stored(&[("Cache-Control", "max-age=60")], 200, false).is_fresh("u", b""));
        assert!(
            !stored(&[("Cache-Control", "no-store, max-age=60")], 200, true).is_fresh("u", b"")
        );
        let date = ("Date", "Sat, 28 Nov 2026 20:00:00 GMT");
        let old = ("Last-Modified", "Sat, 28 Nov 2020 20:00:00 GMT");
        assert!(stored(&[date, old], 200, true).is_fresh("u", b""));
        assert!(stored(&[("ETag", "1")], 200, true).is_fresh("u", b""));
        assert!(
            !stored(&[("Expires", "Sat, 28 Nov 2020 20:00:00 GMT")], 200, true).is_fresh("u", b"")
        );
        let mut kept = stored(&[("ETag", "1")], 200, false);
        kept.start_iteration(false);
        assert!(kept.validators("u").is_some());
        kept.start_iteration(true);
        assert!(kept.validators("u").is_none());
    }

    #[test]
    fn a_response_without_a_valid_time_is_stale_or_not_kept() {
        let date = ("Date", "Sat, 28 Nov 2026 20:00:00 GMT");
        let old = ("Last-Modified", "Sat, 28 Nov 2020 20:00:00 GMT");
        for expires in ["0", "-1", "soon", ""] {
            let kept = stored(&[date, old, ("Expires", expires)], 200, true);
            assert!(!kept.is_fresh("u", b""), "{expires}");
            assert!(kept.validators("u").is_some());
        }
        let kept = stored(&[("Expires", "0"), ("Cache-Control", "max-age=60")], 200, true);
        assert!(kept.is_fresh("u", b""));
        assert!(stored(&[date, ("Content-Type", "text/plain")], 200, true).entries.is_empty());
    }

    #[test]
    fn a_variant_is_used_for_its_request_only() {
        let head = |language: &str| {
            format!("GET / HTTP/1.1\r\nHost: h\r\naccept-language: {language}\r\n").into_bytes()
        };
        let mut cache = Cache::default();
        let options = CacheOptions { expires: true, each_iteration: false };
        let mut store = |language: &str, etag: &str| {
            let mut headers = Headers::new();
            headers.push("Vary", b"Accept-Language, X-Other");
            headers.push("Cache-Control", b"max-age=60");
            headers.push("ETag", etag.as_bytes());
            cache.store("u".to_owned(), &head(language), (200, &headers), options);
            let is_fresh = ["de", "en"].map(|language| cache.is_fresh("u", &head(language)));
            (is_fresh, cache.validators("u").and_then(|known| known.etag))
        };
        assert_eq!(store("de", "1"), ([true, false], Some("1".to_owned())));
        assert_eq!(store("en", "2"), ([false, true], Some("2".to_owned())));
        assert!(!cache.is_fresh("u", b"GET / HTTP/1.1\r\nHost: h\r\n"));
    }
}
