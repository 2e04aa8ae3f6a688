//! A connection after an upgrade.

use super::Connection;
use weir_config::Upgrade;

/// A connection to an upstream that accepted an upgrade.
#[derive(Debug)]
pub struct Upgraded {
    /// The connection to the target.
    pub connection: Box<Connection>,
    /// As requested, lower case.
    pub protocol: String,
    /// Settings of the route.
    pub settings: Upgrade,
}
