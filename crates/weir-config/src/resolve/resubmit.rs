//! Resubmission.

use super::keys;
use super::{Fields, Resolver, headers};
use crate::config::Resubmit;
use crate::draft::Node;
use crate::finding::codes;

/// What `resubmit` says, on top of what stands further out.
pub(super) fn resubmit(fields: &Fields<'_>, outer: &Resubmit) -> Resubmit {
    let Some(own) = fields.object("resubmit", &keys::RESUBMIT) else { return outer.clone() };
    Resubmit {
        targets: own.get("targets").map_or_else(|| outer.targets.clone(), |_| own.texts("targets")),
        headers: headers::merge(&outer.headers, headers::edits(Some(own))),
        idempotency_key: own.bool("idempotency_key").unwrap_or(outer.idempotency_key),
        billed: own.bool("billed").unwrap_or(outer.billed),
    }
}

impl Resolver<'_> {
    /// Reports targets that are no `op` of the API; `routes` are its routes as written.
    pub(super) fn resubmit_targets(&mut self, api: &Fields<'_>, routes: &[Node]) {
        let operations: Vec<&str> = routes.iter().filter_map(|r| r.get("op")?.text()).collect();
        let of_route = |route| Fields::new(route, &keys::ROUTE);
        for fields in std::iter::once(*api).chain(routes.iter().map(of_route)) {
            let Some(own) = fields.object("resubmit", &keys::RESUBMIT) else { continue };
            for node in own.many("targets") {
                let Some(name) = node.text().filter(|name| !operations.contains(name)) else {
                    continue;
                };
                let near = self.report.suggestion(name, operations.iter().copied());
                let message = format!("unknown `op` `{name}` in this API");
                self.report
                    .error(codes::UNKNOWN_NAME, node.at, message)
                    .help(near.unwrap_or_else(|| "name the route: `op: NAME`".to_owned()));
            }
        }
    }
}
