//! Token introspection: opaque tokens that an authorization server verifies.

use super::{Fields, Resolver};
use crate::config::credential::{BASIC, CREDENTIAL};
use crate::config::{Credential, IntrospectAuth};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::Duration;
use weir_document::finding::{Fault, codes};
use weir_document::settings;
use weir_document::shape::Kind;

settings! {
    /// Token introspection (RFC 7662): opaque tokens that an authorization server verifies.
    pub(super) struct IntrospectKeys is "a token introspection auth" {
        /// URL of the introspection endpoint (`https`; on this machine also `http`).
        url = by_hand(Kind::Text).required(),
        /// Credential of weir at the authorization server. `basic` takes the client id and the
        /// client secret, which are sent form-encoded (RFC 6749 section 2.3.1).
        auth = by_hand(Kind::Object(&CREDENTIAL)).required(),
        /// Accepted values of `iss`.
        issuer = by_hand(Kind::OneOrMany(&Kind::Text)).absent("any"),
        /// Accepted values of `aud`; the token must have one of them.
        audience = by_hand(Kind::OneOrMany(&Kind::Text)).absent("any"),
        /// Members that the introspection response must have.
        required_claims = by_hand(Kind::OneOrMany(&Kind::Text)),
        /// Scopes that `scope` or `scp` must grant.
        scopes = by_hand(Kind::OneOrMany(&Kind::Text)),
        /// Clock tolerance for `exp` and `nbf`; maximum 60s.
        leeway: Duration = duration().default("0s"),
        /// Time for which a result is cached, from 1s to 5m and never beyond the token's `exp`. A
        /// revoked token is accepted for this time.
        remember: Duration = positive().default("60s"),
        /// Timeout of the introspection request; maximum 10s. After a timeout the request is
        /// rejected.
        timeout: Duration = positive().default("2s"),
    },
    misspellings: &[
        ("endpoint", "write `url`"),
        ("client_id", "write `auth: {basic: {user: ID, password: \"file:secret\"}}`"),
        ("client_secret", "write `auth: {basic: {user: ID, password: \"file:secret\"}}`"),
        ("cache", "write `remember`"),
    ],
}

/// Maximum time for which a result is cached; each worker drops verified tokens after 5 minutes in
/// any case.
const REMEMBERED: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(300);
/// Maximum timeout of an introspection request.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);

impl Resolver<'_> {
    pub(super) fn introspect(&mut self, fields: &Fields<'_>) -> Option<IntrospectAuth> {
        let IntrospectKeys { leeway, remember, timeout } = IntrospectKeys::read(fields);
        let rules = self.token_rules(fields, leeway, false);
        for (key, fits, range) in [
            ("remember", REMEMBERED.contains(&remember), "from 1s to 5m"),
            ("timeout", timeout <= MAX_TIMEOUT, "at most 10s"),
        ] {
            if let (Some(node), false) = (fields.get(key), fits) {
                self.report.error(codes::BAD_VALUE, node.at, format!("`{key}` must be {range}"));
            }
        }
        let node = fields.get("url")?;
        let url = node.text()?.trim_end();
        let place = url.starts_with("https://") || url.starts_with("http://");
        if !place {
            let fault = Fault::value("not a URL").help("write `https://…`");
            self.fault(node, fault);
            return None;
        }
        let (upstream, target) = self.url(url, node, "introspect")?;
        let proof = fields.object("auth", &CREDENTIAL)?;
        let credential = match proof.object("basic", &BASIC) {
            // RFC 6749 section 2.3.1: id and secret are form-encoded first.
            Some(basic) => {
                let (id, secret) = (basic.line("user")?, basic.line("password")?);
                let pair = format!("{}:{}", form_encoded(id), form_encoded(secret));
                let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
                Credential { header: "authorization".to_owned(), value }
            }
            None => self.credential(&proof)?,
        };
        let url = url.to_owned();
        Some(IntrospectAuth { url, upstream, target, credential, rules, remember, timeout })
    }
}

fn form_encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
