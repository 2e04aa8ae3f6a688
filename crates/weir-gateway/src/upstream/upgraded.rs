//! A connection that has become something else.

use super::Connection;
use weir_config::Upgrade;

/// A connection to an upstream that has agreed to another protocol.
#[derive(Debug)]
pub(crate) struct Upgraded {
    pub(crate) connection: Box<Connection>,
    /// As it was asked for, lower case.
    pub(crate) protocol: String,
    pub(crate) settings: Upgrade,
}
