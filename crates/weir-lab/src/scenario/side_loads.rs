//! Loads besides the measured one: `setup` of a server, and `background` during a round.

use super::load::Load;
use super::request::RequestKeys;
use weir_document::settings;
use weir_document::shape::Kind;

settings! {
    /// A load that is not reported.
    pub(super) struct SideLoad is "a load that is not reported" {
        /// Requests of an iteration, in this order.
        requests = by_hand(Kind::List(&Kind::Object(RequestKeys::SHAPE))).required(),
        /// The load.
        load = by_hand(Kind::OneOrMany(&Kind::Object(Load::SHAPE))).required(),
    }
}

/// Keys of side loads.
pub(super) const SIDE_LOADS: [&str; 2] = ["setup", "background"];
