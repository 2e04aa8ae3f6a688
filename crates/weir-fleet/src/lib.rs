//! The fleet: several nodes with shared state in PostgreSQL.
//!
//! A node has an [identity] in its data folder, and a row with a lease in the database, which its
//! [`Member`] renews. Nodes replicate state, not events: each row has one writer, a node, and every
//! write checks the node's boot number and lease. No request waits for the database; while the
//! database is down, a node works on its own.
//!
//! The modules: [`database`] connects, [`schema`] migrates, `membership` has the statements about
//! nodes, [`Member`] runs them in a thread, [`status`] has the documents that others show, [`peers`] sends
//! requests to other nodes. The [`RateLeaser`] leases tokens of rates from Redis, if there is one.

mod alerts;
mod audit;
pub mod claim;
pub mod collect;
mod copiers;
mod copy_error;
pub mod database;
mod handle;
mod host;
pub mod identity;
pub mod jobs;
mod member_state;
mod membership;
mod node;
pub mod peers;
mod query;
mod quota_grants;
mod rates;
mod redis;
mod replicate;
pub mod resolutions;
mod revoked_keys;
pub mod rollout;
pub mod schema;
mod slice;
pub mod status;
mod task;
pub mod tokens;
mod unreplicated;
pub mod verify;
pub mod versions;
mod views;

pub use handle::{CommandError, Handle};
pub use host::Host;
pub use member_state::{FleetTls, Health, ReadHealth, Settings, Statistics};
pub use membership::{HEARTBEAT, Retirement};
pub use node::{Member, OpenError};
pub use query::PeerResponses;
pub use rates::RateLeaser;
