//! Redaction: removes credentials, and the values listed in `tracker.mask`, from headers, targets
//! and bodies before they are recorded.

mod urls;

use std::borrow::Cow;
use std::sync::Arc;
use weir_config::{Carrier, Config, Tracker};
use weir_expr::BodyMask;
use weir_wire::{Headers, Known};

/// Replacement of a value that is not recorded.
const MASKED: &[u8] = b"***";

/// Headers and parameters that must not be recorded.
#[derive(Debug, Default)]
pub struct Redaction {
    /// Masked headers, lower case, in addition to those that always carry credentials.
    headers: Vec<String>,
    /// Masked query parameters.
    parameters: Vec<String>,
}

impl Redaction {
    /// Masks the credentials of every `auth`, and the values listed in `tracker.mask`.
    pub fn new(config: &Config) -> Self {
        let mut masks = Self {
            headers: config.tracker.masked_headers.clone(),
            parameters: config.tracker.masked_parameters.clone(),
        };
        for auth in &config.auths {
            match auth.kind.carrier() {
                // Part of `CREDENTIALS`, which are found without a search by name.
                None | Some(Carrier::Header("authorization")) => {}
                Some(Carrier::Header(name)) => masks.headers.push(name.to_owned()),
                Some(Carrier::Query(name)) => masks.parameters.push(name.to_owned()),
            }
        }
        masks
    }

    /// Appends header lines in wire format.
    pub fn write(&self, headers: &Headers, out: &mut Vec<u8>) {
        let credential = CREDENTIALS.iter().any(|&known| headers.may_have(known));
        if !credential && self.headers.is_empty() && self.parameters.is_empty() {
            return weir_wire::encode::fields(out, headers);
        }
        for (known, name, value) in headers.iter() {
            match self.is_masked(known, name) {
                true => weir_wire::encode::field(out, name, MASKED),
                false => weir_wire::encode::field(out, name, &self.value(value)),
            }
        }
    }

    /// Whether a header carries a credential, or is listed in `tracker.mask`.
    pub fn is_masked(&self, known: Known, name: &str) -> bool {
        CREDENTIALS.contains(&known) || self.headers.iter().any(|m| m.eq_ignore_ascii_case(name))
    }

    /// A header's value with the values of masked parameters replaced in its URLs.
    pub fn value<'v>(&self, value: &'v [u8]) -> Cow<'v, [u8]> {
        urls::masked(value, &self.parameters)
    }

    /// A request target with the values of masked parameters replaced.
    pub fn target<'t>(&self, target: &'t str) -> Cow<'t, str> {
        if self.parameters.is_empty() {
            return Cow::Borrowed(target);
        }
        let Some((path, query)) = target.split_once('?') else { return Cow::Borrowed(target) };
        let mut masked = format!("{path}?");
        for (index, part) in query.split('&').enumerate() {
            if index > 0 {
                masked.push('&');
            }
            let name = part.split('=').next().unwrap_or_default();
            let decoded = weir_http::path::decode_query(name);
            if self.parameters.iter().any(|parameter| *parameter == decoded) {
                masked.push_str(name);
                masked.push_str("=***");
            } else {
                // The value may contain another URL.
                let part = urls::masked(part.as_bytes(), &self.parameters);
                masked.push_str(&String::from_utf8_lossy(&part));
            }
        }
        Cow::Owned(masked)
    }
}

/// Settings for recording bodies.
#[derive(Debug)]
pub struct BodySettings {
    /// Maximum number of stored bytes of a body.
    pub limit: u64,
    /// Paths that are redacted.
    pub mask: Arc<BodyMask>,
    /// Maximum number of bytes of bodies buffered for redaction, in the whole process.
    pub budget: u64,
}

impl BodySettings {
    /// Redaction of bodies as `tracker` configures.
    pub fn new(tracker: &Tracker) -> Self {
        let mask = Arc::clone(&tracker.masked_bodies);
        Self { limit: tracker.body_limit, mask, budget: tracker.budget }
    }
}

/// Headers that carry credentials, whatever the configuration.
const CREDENTIALS: [Known; 4] =
    [Known::Authorization, Known::ProxyAuthorization, Known::Cookie, Known::SetCookie];

#[cfg(test)]
mod tests {
    use super::*;

    fn masks() -> Redaction {
        Redaction { headers: vec!["x-secret".to_owned()], parameters: vec!["token".to_owned()] }
    }

    #[test]
    fn credentials_and_what_is_masked_leave_only_their_names() {
        let mut headers = Headers::new();
        for (name, value) in [
            ("Host", "a"),
            ("Authorization", "Bearer s3cret"),
            ("Proxy-Authorization", "Basic s3cret"),
            ("Cookie", "s=s3cret"),
            ("Set-Cookie", "s=s3cret"),
            ("X-Secret", "s3cret"),
            ("x-secret", "s3cret too"),
            ("Accept", "*/*"),
        ] {
            headers.push(name, value.as_bytes());
        }
        for masks in [masks(), Redaction::default()] {
            let mut out = Vec::new();
            masks.write(&headers, &mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with("Host: a\r\nAuthorization: ***\r\n"), "{text}");
            assert!(text.ends_with("Accept: */*\r\n") && text.contains("Set-Cookie: ***"));
            assert_eq!(text.contains("s3cret"), masks.headers.is_empty(), "{text}");
        }
    }

    #[test]
    fn masked_parameters_are_found_in_any_spelling() {
        let masks = masks();
        for (target, recorded) in [
            ("/a?token=s&x=1", "/a?token=***&x=1"),
            ("/a?x=1&t%6fken=s&token", "/a?x=1&t%6fken=***&token=***"),
            ("/a?tokens=1", "/a?tokens=1"),
            ("/token=1", "/token=1"),
            ("/a?", "/a?"),
            ("/a?to=%2Fb%3Ftoken%3Ds", "/a?to=%2Fb%3Ftoken%3D***"),
        ] {
            assert_eq!(masks.target(target), recorded);
        }
    }
}
