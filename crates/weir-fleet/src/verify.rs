//! Verification of replicated usage: the days of this node, compared with those in the database.

use crate::collect::CollectError;
use crate::database::Connection;
use crate::replicate::day_sums;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use utoipa::ToSchema;
use uuid::Uuid;
use weir_model::UnixSeconds;
use weir_monitor::DAY;
use weir_monitor::replica::{DaySums, Replica};

/// Usage of a node, compared with the database of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageVerification {
    /// Id of the node.
    pub node: String,
    /// Its display name.
    #[serde(default)]
    pub name: String,
    /// Buckets of any time that the node has not replicated yet: differences of their days are normal.
    pub waiting: u64,
    /// Calls that the node has counted in the period, by the day.
    pub calls: u64,
    /// Days that differ.
    pub differences: Vec<UsageDifference>,
}

/// A day whose usage differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageDifference {
    /// The day (UTC), as its first second (RFC 3339).
    #[schema(value_type = String)]
    pub day: UnixSeconds,
    /// Length of the buckets in seconds.
    pub step: u64,
    /// Calls that the node has counted.
    pub counted: u64,
    /// Calls of the node in the database.
    pub replicated: u64,
}

/// Compares the days of a period, in seconds since 1970.
pub(crate) async fn verify(
    connection: &Connection,
    replica: &Replica,
    (node, name): (Uuid, String),
    period: &Range<u64>,
) -> Result<UsageVerification, CollectError> {
    let since = period.start - period.start % DAY;
    let stored = day_sums(connection, node, since).await?;
    let own = replica.days(since)?.into_iter().map(|day| ((day.step, day.day), day));
    let own: HashMap<(u64, u64), DaySums> = own.collect();
    let days: BTreeSet<(u64, u64)> = own.keys().chain(stored.keys()).copied().collect();
    let (mut differences, mut calls) = (Vec::new(), 0);
    for (step, day) in days.into_iter().filter(|(_, day)| *day < period.end) {
        let here = own.get(&(step, day));
        let counted = here.map_or(0, |day| day.calls);
        if step == DAY {
            calls += counted;
        }
        // What this node does not keep any more cannot be compared.
        if here.is_some() && here != stored.get(&(step, day)) {
            let replicated = stored.get(&(step, day)).map_or(0, |day| day.calls);
            differences.push(UsageDifference { day: UnixSeconds(day), step, counted, replicated });
        }
    }
    Ok(UsageVerification {
        node: node.to_string(),
        name,
        waiting: replica.waiting()?,
        calls,
        differences,
    })
}
