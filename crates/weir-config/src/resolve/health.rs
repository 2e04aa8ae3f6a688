//! Health checks and ejection.

use super::{Fields, Resolver};
use crate::config::{Check, Health};
use std::time::Duration;
use weir_document::finding::{Fault, codes};

impl Resolver<'_> {
    /// `health` of an upstream with this number of targets.
    pub(super) fn health(&mut self, upstream: &Fields<'_>, targets: usize) -> Health {
        let fields = upstream.object_or_empty("health", Health::SHAPE);
        let check = fields.object("check", Check::SHAPE).and_then(|own| self.health_check(&own));
        let health = Health { check, ..Health::read(&fields) };
        if let Some(node) = fields.get("most_out")
            && targets as u64 * u64::from(health.max_ejected) < 10_000
        {
            let message = "no target is ever ejected: the share is less than one target";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        health
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
        let check = Check { path: path.to_owned(), ..Check::read(fields) };
        if let Some(node) = fields.get("every").filter(|_| check.every < Duration::from_secs(1)) {
            self.fault(node, Fault::value("health checks run at most once a second"));
        }
        Some(check)
    }
}
