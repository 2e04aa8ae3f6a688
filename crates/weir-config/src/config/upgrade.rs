//! Upgrades of connections, such as WebSocket.

use super::Origins;
use std::time::Duration;
use weir_document::settings;
use weir_document::shape::{Kind, format};

settings! {
    /// Protocol upgrades: after client and upstream agree, bytes are forwarded in both directions,
    /// without policies.
    // RFC 9110 section 7.8.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Upgrade is "a connection upgrade" {
        /// Accepted protocols.
        // In lower case; never empty.
        pub protocols: Vec<String> =
            names(Kind::OneOrMany(&Kind::Format(format::PROTOCOL))).required(),
        /// Origins whose pages may open WebSockets (the `Origin` header of browsers), in addition
        /// to the host of the request; `*` for all.
        pub origins: Option<Origins> = by_hand(Kind::OneOrMany(&Kind::Format(format::ORIGIN)))
            .absent("pages of the same host"),
        /// Idle time without a byte in either direction.
        pub idle: Duration = positive().default("5m"),
        /// Maximum duration of an upgraded connection.
        pub lifetime: Option<Duration> = positive().absent("unlimited"),
        /// Time for which a connection continues with its old configuration after a reload.
        /// Connections end at random times in the second half of it.
        pub reload: Duration = positive().default("10m"),
    },
    misspellings: &[
        ("idle_timeout", "write `idle`"),
        ("timeout", "write `idle`, or `lifetime` for the entire connection"),
        ("websocket", "write `protocols: websocket`"),
    ],
}
