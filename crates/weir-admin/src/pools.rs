//! Pools in the admin API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_broker::PoolSnapshot;

/// All pools, in the order of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pools {
    /// The pools.
    pub pools: Vec<PoolSnapshot>,
}
