//! Resubmission (replay) of transactions.

use super::route::ROUTE;
use super::{Fields, Resolver};
use crate::config::{HeaderEdits, Resubmit};
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::settings::Settings as _;
use weir_document::shape::{Key, Kind};

/// `resubmit` of an API or a route.
pub(super) const RESUBMIT_KEY: Key = Key::new(
    "resubmit",
    Kind::Object(Resubmit::SHAPE),
    "Resubmission (replay) of recorded transactions; a route inherits the values that it does not set from its API.",
);

/// The values of `resubmit`, on top of the inherited ones.
pub(super) fn resubmit(fields: &Fields<'_>, outer: &Resubmit) -> Resubmit {
    let Some(own) = fields.object("resubmit", Resubmit::SHAPE) else { return outer.clone() };
    let edits = HeaderEdits::read(&own.object_or_empty("headers", HeaderEdits::SHAPE));
    let headers = outer.headers.then(edits);
    Resubmit { headers, ..Resubmit::read_over(outer.clone(), &own) }
}

impl Resolver<'_> {
    /// Reports targets that are not an `op` of the API; `routes` are its routes as written.
    pub(super) fn resubmit_targets(&mut self, api: &Fields<'_>, routes: &[Node]) {
        let operations: Vec<&str> = routes.iter().filter_map(|r| r.get("op")?.text()).collect();
        let of_route = |route| Fields::new(route, &ROUTE);
        for fields in std::iter::once(*api).chain(routes.iter().map(of_route)) {
            let Some(own) = fields.object("resubmit", Resubmit::SHAPE) else { continue };
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
