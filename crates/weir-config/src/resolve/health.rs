//! What takes targets out of service.

use super::fields::nothing;
use super::keys;
use super::{Fields, Resolver};
use crate::config::{Check, ErrorShare, Health};
use crate::finding::{Fault, codes};
use crate::units;
use std::time::Duration;

impl Resolver<'_> {
    /// `health` of an upstream with so many targets.
    pub(super) fn health(&mut self, upstream: &Fields<'_>, targets: usize) -> Health {
        let fields = upstream.object("health", &keys::HEALTH);
        let fields = fields.unwrap_or_else(|| Fields::new(nothing(), &keys::HEALTH));
        let most_out = fields.text("most_out").and_then(|text| units::percent(text).ok());
        if let Some(node) = fields.get("most_out")
            && let Some(share) = most_out
            && targets as u64 * u64::from(share) < 10_000
        {
            let message = "no target is ever ejected: the share is less than one target";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        let errors = fields.object("errors", &keys::ERROR_SHARE).map(|errors| ErrorShare {
            share: errors.text("share").and_then(|t| units::percent(t).ok()).unwrap_or(5000),
            requests: errors.number("requests", 20),
            window: errors.seconds("window", 10),
        });
        Health {
            failures: fields.number("failures", 3),
            errors,
            pause: fields.seconds("pause", 10),
            check: fields
                .object("check", &keys::CHECK)
                .and_then(|fields| self.health_check(&fields)),
            most_out: most_out.unwrap_or(10_000),
        }
    }

    fn health_check(&mut self, fields: &Fields<'_>) -> Option<Check> {
        let node = fields.get("path")?;
        let path = node.text()?;
        if !path.starts_with('/') || !path.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
            let fault =
                Fault::value(format!("`{path}` is not a request path")).code(codes::BAD_PATH).help(
                    "begin with `/`, and percent-encode characters that are not allowed in URLs \
                     (`%20`)",
                );
            self.fault(node, fault);
            return None;
        }
        let every = fields.seconds("every", 5);
        if let Some(node) = fields.get("every").filter(|_| every < Duration::from_secs(1)) {
            self.fault(node, Fault::value("health checks run at most once a second"));
        }
        let statuses = fields.numbers("statuses").unwrap_or_default();
        Some(Check {
            path: path.to_owned(),
            every,
            timeout: fields.seconds("timeout", 1),
            healthy: fields.number("healthy", 2),
            unhealthy: fields.number("unhealthy", 3),
            statuses,
        })
    }
}
