//! A user's cache of validators, as JMeter's HTTP Cache Manager keeps them. Bodies are not kept.

use super::encode::Validators;
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

    /// Whether the last response of a URL has not expired.
    pub(super) fn is_fresh(&self, url: &str) -> bool {
        let expires = self.entries.get(url).and_then(|(_, expires)| *expires);
        expires.is_some_and(|expires| expires > Timestamp::now())
    }

    /// Keeps the validators of a response.
    pub(super) fn store(
        &mut self,
        url: String,
        status: u16,
        headers: &Headers,
        options: CacheOptions,
    ) {
        self.each_iteration = options.each_iteration;
        let text = |name: &str| {
            headers.get(name).map(|value| String::from_utf8_lossy(value).trim().to_owned())
        };
        let is_kept = (200..300).contains(&status) || status == 304;
        if !is_kept || text("vary").as_deref() == Some("*") {
            return;
        }
        let validators = Validators { etag: text("etag"), last_modified: text("last-modified") };
        let expires = if options.expires { expiry(&text) } else { None };
        if options.expires && text("cache-control").is_some_and(|c| c.contains("no-store")) {
            return;
        }
        if self.entries.len() >= MAX_URLS && !self.entries.contains_key(&url) {
            self.entries.clear();
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
        None => match time("expires") {
            Some(expires) => return Some(expires),
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
        cache.store("u".to_owned(), status, &headers, options);
        cache
    }

    #[test]
    fn validators_are_kept_and_expire() {
        let kept = stored(&[("ETag", "\"1\"")], 200, false);
        assert_eq!(kept.validators("u").and_then(|v| v.etag).as_deref(), Some("\"1\""));
        assert!(!kept.is_fresh("u") && kept.validators("other").is_none());
        assert!(stored(&[("ETag", "1")], 404, false).validators("u").is_none());
        assert!(stored(&[("ETag", "1"), ("Vary", "*")], 200, false).validators("u").is_none());
        assert!(stored(&[("Cache-Control", "public, max-age=60")], 200, true).is_fresh("u"));
        assert!(!stored(&[("Cache-Control", "max-age=60")], 200, false).is_fresh("u"));
        assert!(!stored(&[("Cache-Control", "no-store, max-age=60")], 200, true).is_fresh("u"));
        let date = ("Date", "Sat, 28 Nov 2026 20:00:00 GMT");
        let old = ("Last-Modified", "Sat, 28 Nov 2020 20:00:00 GMT");
        assert!(stored(&[date, old], 200, true).is_fresh("u"));
        assert!(stored(&[("ETag", "1")], 200, true).is_fresh("u"));
        assert!(!stored(&[("Expires", "Sat, 28 Nov 2020 20:00:00 GMT")], 200, true).is_fresh("u"));
        let mut kept = stored(&[("ETag", "1")], 200, false);
        kept.start_iteration(false);
        assert!(kept.validators("u").is_some());
        kept.start_iteration(true);
        assert!(kept.validators("u").is_none());
    }
}
