//! Token introspection: opaque tokens that an authorization server verifies.

use super::credential::{BASIC, CREDENTIAL};
use super::{Fields, Resolver};
use crate::config::{Credential, IntrospectAuth};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::Duration;
use weir_document::finding::{Fault, codes};
use weir_document::shape::typed::{Defaulted, duration, positive};
use weir_document::shape::{Key, Kind, Shape};

const LEEWAY: Defaulted<Duration> =
    duration("leeway", "Clock tolerance for `exp` and `nbf`; maximum 60s.").default("0s");
const REMEMBER: Defaulted<Duration> = positive("remember", "Time for which a result is cached, from 1s to 5m and never beyond the token's `exp`. A revoked token is accepted for this time.").default("60s");
const TIMEOUT: Defaulted<Duration> = positive(
    "timeout",
    "Timeout of the introspection request; maximum 10s. After a timeout the request is rejected.",
)
.default("2s");

/// `introspect` of an auth.
pub(super) static INTROSPECT: Shape = Shape {
    misspellings: &[
        ("endpoint", "write `url`"),
        ("client_id", "write `auth: {basic: {user: ID, password: \"file:secret\"}}`"),
        ("client_secret", "write `auth: {basic: {user: ID, password: \"file:secret\"}}`"),
        ("cache", "write `remember`"),
    ],
    ..Shape::new(
        "a token introspection auth",
        "Token introspection (RFC 7662): opaque tokens that an authorization server verifies.",
        &[
            Key::new("url", Kind::Text, "URL of the introspection endpoint (`https`; on this machine also `http`).").required(),
            Key::new("auth", Kind::Object(&CREDENTIAL), "Credential of weir at the authorization server. `basic` takes the client id and the client secret, which are sent form-encoded (RFC 6749 section 2.3.1).").required(),
            Key::new("issuer", Kind::OneOrMany(&Kind::Text), "Accepted values of `iss`.").absent("any"),
            Key::new("audience", Kind::OneOrMany(&Kind::Text), "Accepted values of `aud`; the token must have one of them.").absent("any"),
            Key::new("required_claims", Kind::OneOrMany(&Kind::Text), "Members that the introspection response must have."),
            Key::new("scopes", Kind::OneOrMany(&Kind::Text), "Scopes that `scope` or `scp` must grant."),
            LEEWAY.key,
            REMEMBER.key,
            TIMEOUT.key,
        ],
    )
};

/// Maximum time for which a result is cached; each worker drops verified tokens after 5 minutes in
/// any case.
const REMEMBERED: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(300);
/// Maximum timeout of an introspection request.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);

impl Resolver<'_> {
    pub(super) fn introspect(&mut self, fields: &Fields<'_>) -> Option<IntrospectAuth> {
        let rules = self.token_rules(fields, false);
        let remember = fields.read(&REMEMBER);
        let timeout = fields.read(&TIMEOUT);
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
