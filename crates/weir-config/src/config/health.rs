//! Health checks and ejection.

use std::time::Duration;
use weir_document::settings;
use weir_document::shape::Kind;

settings! {
    /// Ejection of unhealthy targets from load balancing, and their return. If all targets are
    /// ejected, requests go to all.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Health is "the health checks of an upstream" {
        /// Passive health check: consecutive failures (no connection, closed connection, timeout,
        /// invalid HTTP) that eject a target; 0 turns it off.
        pub failures: u32 = integer(0, 1_000_000).default("3"),
        /// Passive health check: error rate (responses with a status of 500 or above) that ejects a
        /// target.
        pub errors: Option<ErrorShare> = object().absent("off"),
        /// Ejection time after failures or a high error rate; then one request probes the target.
        pub pause: Duration = positive().default("10s"),
        /// Active health checks: requests of weir itself to each target.
        pub check: Option<Check> = by_hand(Kind::Object(Check::SHAPE)).absent("off"),
        /// Maximum share of ejected targets, whatever the reason.
        // In hundredths of a percent.
        pub max_ejected: u32 = percent().name("most_out").default("100%"),
    }
}

settings! {
    /// Ejection by error rate: responses with a status of 500 or above.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ErrorShare is "the error-rate ejection" {
        /// Error rate from which a target is ejected.
        // In hundredths of a percent.
        pub share: u32 = percent().default("50%"),
        /// Minimum number of responses for the rate to apply.
        pub requests: u32 = integer(1, 1_000_000).default("20"),
        /// Window of the count; each window begins at zero.
        pub window: Duration = positive().default("10s"),
    }
}

settings! {
    /// A GET to each target over a connection of its own, sent by one worker of the process.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Check is "an active health check" {
        /// Path and query of the request.
        pub path: String = by_hand(Kind::Text).required(),
        /// Interval between checks; minimum 1s.
        pub every: Duration = positive().default("5s"),
        /// Time for the entire check.
        pub timeout: Duration = positive().default("1s"),
        /// Consecutive successful checks that return a target to service.
        pub healthy: u32 = integer(1, 1_000_000).default("2"),
        /// Consecutive failed checks that eject a target.
        pub unhealthy: u32 = integer(1, 1_000_000).default("3"),
        /// Statuses of a healthy target.
        pub statuses: Vec<u16> =
            integers(Kind::OneOrMany(&Kind::Integer(200, 599))).absent("200 to 299"),
    },
    misspellings: &[
        ("interval", "write `every`"),
        ("status", "write `statuses`"),
        ("rise", "write `healthy`"),
        ("fall", "write `unhealthy`"),
    ],
}
