//! Commands that run to their end before servers start: certificates, generated configurations.

use super::fields::SCALARS;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::settings;
use weir_document::shape::Kind;
use weir_document::shape::fields::Fields;
use weir_document::shape::settings::texts_of;

settings! {
    /// A command that runs to its end before a server starts.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Preparation is "a preparation" {
        /// Program and arguments.
        pub command: Vec<String> = texts(SCALARS).required(),
        /// Time to end.
        pub timeout: Duration = positive().default("60s"),
    }
}

/// Commands: program and arguments, or with a time.
pub(super) const PREPARE: Kind =
    Kind::List(&Kind::Either(&[SCALARS, Kind::Object(Preparation::SHAPE)]));

/// The commands of `prepare`, in their order.
pub(super) fn preparations(nodes: &[Node]) -> Vec<Preparation> {
    let preparation = |node: &Node| match node.members() {
        Some(_) => Preparation::read(&Fields::new(node, Preparation::SHAPE)),
        None => {
            Preparation { command: texts_of(node).unwrap_or_default(), ..Preparation::default() }
        }
    };
    nodes.iter().map(preparation).collect()
}
