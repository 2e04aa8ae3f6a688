//! Handover from a running process to its successor: `weir upgrade`.
//!
//! The running process starts the successor with one end of a socket as its standard input, and
//! they talk over this socket: the successor checks the configuration, receives the listening
//! sockets and, when everything else is ready, the data folder. From then on the successor accepts
//! all connections, and the predecessor completes its requests. `docs/decisions/upgrade.md` explains
//! the order.

pub(super) mod predecessor;
pub(super) mod successor;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use weir_config::QuotaPeriod;
use weir_journal::{LaneProgress, Position};
use weir_limit::QuotaCount;
use weir_net::channel::Channel;

/// Messages of the successor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FromSuccessor {
    /// The configuration is valid.
    Loaded { version: String, data: PathBuf },
    /// Everything but the data folder is ready. `left` are the addresses of sockets that the new
    /// configuration does not have.
    Prepared { left: Vec<SocketAddr> },
    /// Connections are accepted.
    Serving,
    /// The start has failed.
    Failed { reason: String },
}

/// Messages of the predecessor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FromPredecessor {
    /// Sockets of one address, one for each descriptor of the message; with `more`, the next
    /// message has more of them.
    Sockets { configured: SocketAddr, addr: SocketAddr, admin: bool, permanent: bool, more: bool },
    /// All sockets were sent.
    NoMoreSockets,
    /// The data folder; the descriptor is the lock of the journal, if it has one.
    Folder(Progress),
    /// The predecessor has continued.
    Progress(Progress),
}

/// How far the predecessor has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    lanes: Vec<LaneRow>,
    quotas: Vec<QuotaRow>,
}

/// A lane, the bits of its end, and its next sequence number.
type LaneRow = (u16, u64, u64);

/// Calls of a consumer that count against a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct QuotaRow {
    plan: String,
    consumer: String,
    start: u64,
    calls: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rolling: Option<String>,
}

impl Progress {
    pub(super) fn new(lanes: &[LaneProgress], quotas: Vec<QuotaCount>) -> Self {
        let lane = |one: &LaneProgress| (one.lane, one.end.to_bits(), one.next_sequence);
        let quota = |one: QuotaCount| QuotaRow {
            plan: one.plan,
            consumer: one.consumer,
            start: one.window_start,
            calls: one.calls,
            rolling: one.rolling.map(|per| per.to_string()),
        };
        Self {
            lanes: lanes.iter().map(lane).collect(),
            quotas: quotas.into_iter().map(quota).collect(),
        }
    }

    pub(super) fn lanes(&self) -> Vec<LaneProgress> {
        let lane = |&(lane, end, next_sequence): &LaneRow| LaneProgress {
            lane,
            end: Position::from_bits(end),
            next_sequence,
        };
        self.lanes.iter().map(lane).collect()
    }

    /// The counts of quotas; a period that this version does not know is left out.
    pub(super) fn quotas(&self) -> Vec<QuotaCount> {
        let quota = |one: &QuotaRow| {
            let rolling = match &one.rolling {
                Some(per) => Some(per.parse::<QuotaPeriod>().ok()?),
                None => None,
            };
            let (plan, consumer) = (one.plan.clone(), one.consumer.clone());
            Some(QuotaCount { plan, consumer, window_start: one.start, calls: one.calls, rolling })
        };
        self.quotas.iter().filter_map(quota).collect()
    }

    /// The rows of quotas that are not in `before`.
    fn changed(mut self, before: &Self) -> Self {
        self.quotas.retain(|row| !before.quotas.contains(row));
        self
    }
}

fn send(
    channel: &Channel,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    channel.send(&serde_json::to_vec(message)?, descriptors)
}

/// The next message and its descriptors; `None` at the end.
fn receive<M: DeserializeOwned>(
    channel: &Channel,
    timeout: Option<Duration>,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let Some((bytes, descriptors)) = channel.receive(timeout)? else { return Ok(None) };
    Ok(Some((serde_json::from_slice(&bytes)?, descriptors)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_keeps_its_values_over_the_wire() {
        let count = |calls, rolling| QuotaCount {
            plan: "gold".to_owned(),
            consumer: "acme".to_owned(),
            window_start: 60,
            calls,
            rolling,
        };
        let lane = LaneProgress { lane: 3, end: Position::from_bits(1 << 40), next_sequence: 9 };
        let quotas = vec![count(1, None), count(2, Some(QuotaPeriod::Hour))];
        let progress = Progress::new(&[lane], quotas.clone());
        let text = serde_json::to_string(&progress).unwrap();
        let read: Progress = serde_json::from_str(&text).unwrap();
        assert_eq!((read.lanes(), read.quotas()), (vec![lane], quotas));
        let later = Progress::new(&[lane], vec![count(1, None), count(5, Some(QuotaPeriod::Hour))]);
        assert_eq!(later.changed(&progress).quotas(), [count(5, Some(QuotaPeriod::Hour))]);
    }
}
