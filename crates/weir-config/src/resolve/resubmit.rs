//! Resubmission (replay) of transactions.

use super::headers::EDITS;
use super::route::ROUTE;
use super::{Fields, Resolver, headers};
use crate::config::Resubmit;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, boolean};
use weir_document::shape::{Key, Kind, Shape, format};

/// `resubmit` of an API or a route.
pub(super) const RESUBMIT_KEY: Key = Key::new(
    "resubmit",
    Kind::Object(&RESUBMIT),
    "Resubmission (replay) of recorded transactions; a route inherits the values that it does not set from its API.",
);

const IDEMPOTENCY_KEY: Defaulted<bool> = boolean("idempotency_key", "Send `Idempotency-Key` to the upstream: the same value in every attempt at a request, unless the request has the header itself.").default("false");
const BILLED: Defaulted<bool> =
    boolean("billed", "Bill resubmitted calls like other calls.").default("false");

/// `resubmit`.
pub(super) static RESUBMIT: Shape = Shape {
    misspellings: &[
        ("target", "write `targets`"),
        ("auth", "write `headers: {set: {authorization: \"file:…\"}}`"),
        ("credentials", "write `headers: {set: {authorization: \"file:…\"}}`"),
    ],
    ..Shape::new(
        "the resubmission",
        "Resubmission (replay) of recorded transactions.",
        &[
            Key::new("targets", Kind::OneOrMany(&Kind::Format(format::NAME)), "Other routes of the same API, by their `op`, to which a transaction may be resubmitted.").absent("its own route only"),
            Key::new("headers", Kind::Object(&EDITS), "Header edits, applied last: for example credentials for the upstream, as recorded ones are never replayed."),
            IDEMPOTENCY_KEY.key,
            BILLED.key,
        ],
    )
};

/// The values of `resubmit`, on top of the inherited ones.
pub(super) fn resubmit(fields: &Fields<'_>, outer: &Resubmit) -> Resubmit {
    let Some(own) = fields.object("resubmit", &RESUBMIT) else { return outer.clone() };
    Resubmit {
        targets: own.get("targets").map_or_else(|| outer.targets.clone(), |_| own.texts("targets")),
        headers: headers::merge(&outer.headers, headers::edits(Some(own))),
        idempotency_key: own.written(&IDEMPOTENCY_KEY).unwrap_or(outer.idempotency_key),
        billed: own.written(&BILLED).unwrap_or(outer.billed),
    }
}

impl Resolver<'_> {
    /// Reports targets that are not an `op` of the API; `routes` are its routes as written.
    pub(super) fn resubmit_targets(&mut self, api: &Fields<'_>, routes: &[Node]) {
        let operations: Vec<&str> = routes.iter().filter_map(|r| r.get("op")?.text()).collect();
        let of_route = |route| Fields::new(route, &ROUTE);
        for fields in std::iter::once(*api).chain(routes.iter().map(of_route)) {
            let Some(own) = fields.object("resubmit", &RESUBMIT) else { continue };
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
