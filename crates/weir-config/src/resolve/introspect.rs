//! Tokens that an authorization server is asked about.

use super::keys;
use super::{Fields, Resolver};
use crate::config::{Credential, IntrospectAuth};
use crate::finding::{Fault, codes};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::Duration;

/// How long an answer is believed; every worker forgets what it verified after 5 minutes anyway.
const REMEMBER: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(300);
/// Longest that a question may take.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Resolver<'_> {
    pub(super) fn introspect(&mut self, fields: &Fields<'_>) -> Option<IntrospectAuth> {
        let rules = self.token_rules(fields, false);
        let remember = fields.seconds("remember", 60);
        let timeout = fields.seconds("timeout", 2);
        for (key, fits, range) in [
            ("remember", REMEMBER.contains(&remember), "from 1s to 5m"),
            ("timeout", timeout <= TIMEOUT, "at most 10s"),
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
        let proof = fields.object("auth", &keys::CREDENTIAL)?;
        let credential = match proof.object("basic", &keys::BASIC) {
            // RFC 6749 section 2.3.1 has id and secret form-encoded first.
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
