//! Resubmission.

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
    "How recorded transactions are sent again; what a route does not say its API does.",
);

const IDEMPOTENCY_KEY: Defaulted<bool> = boolean("idempotency_key", "The upstream gets `Idempotency-Key`, the same for every attempt at the same request, unless the request has one of its own.").default("false");
const BILLED: Defaulted<bool> =
    boolean("billed", "They are billed like other calls.").default("false");

/// `resubmit`.
pub(super) static RESUBMIT: Shape = Shape {
    slips: &[
        ("target", "write `targets`"),
        ("auth", "write `headers: {set: {authorization: \"file:…\"}}`"),
        ("credentials", "write `headers: {set: {authorization: \"file:…\"}}`"),
    ],
    ..Shape::new(
        "the resubmission",
        "How recorded transactions are sent again.",
        &[
            Key::new("targets", Kind::OneOrMany(&Kind::Format(format::NAME)), "Routes of the same API, by their `op`, that a transaction may be sent to instead of its own.").absent("only its own"),
            Key::new("headers", Kind::Object(&EDITS), "Header edits, the last ones made: what the upstream gets in the place of credentials, which are never replayed."),
            IDEMPOTENCY_KEY.key,
            BILLED.key,
        ],
    )
};

/// What `resubmit` says, on top of what stands further out.
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
    /// Reports targets that are no `op` of the API; `routes` are its routes as written.
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
