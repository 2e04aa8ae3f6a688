//! Messages between controller and agent.

use super::interval::WireInterval;
use crate::jmx::KeystoreProperties;
use crate::program::Origin;
use crate::protocol::RoundSize;
use serde::{Deserialize, Serialize};

/// First message, from the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Version of weir.
    pub(super) weir: String,
    /// Random bytes, base64, for the proof of the other end.
    pub(super) nonce: String,
    /// The controller needs a key.
    pub(super) keyed: bool,
}

/// Response to [`Hello`], from the controller.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Introduction {
    pub(super) weir: String,
    pub(super) nonce: String,
    /// Proof that the controller has the key; empty without one.
    pub(super) proof: String,
}

/// End of the handshake, from the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Welcome {
    /// The run may start; with the proof that the agent has the key.
    Accepted { proof: String },
    /// Refused, for this reason.
    Refused { reason: String },
}

/// From the controller.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToAgent {
    /// Measures the round trip: the time of the controller, in nanoseconds.
    Ping { sent: u64 },
    /// The plan of the run.
    Plan(Box<Plan>),
    /// A round.
    Round(Box<Round>),
    /// Starts no further step.
    Stop,
    /// Aborts requests in flight, too.
    StopNow,
}

/// From an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToController {
    /// Response to a ping, with the time of the agent.
    Pong { sent: u64, at: u64 },
    /// The plan is read: the loops that the agent offers.
    Ready { loops: u32 },
    /// The plan cannot be run.
    Rejected { reason: String },
    /// Figures of a second.
    Second(Box<WireInterval>),
    /// The round has ended.
    Ended(Ended),
}

/// A plan and its files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) source: Source,
    /// The scenario or plan, relative to the folder of the files.
    pub(super) main: String,
    pub(super) files: Vec<PlanFile>,
}

/// How a scenario or plan is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Source {
    /// A scenario file.
    Scenario {
        /// `--quick` or `--full`: `quick`, `full` or `usual`.
        level: String,
        /// `--target`.
        target: Option<String>,
        /// `--set`.
        sets: Vec<(String, String)>,
        /// Largest number of requests per second of all agents together.
        max_rate: Option<f64>,
    },
    /// A JMeter plan.
    Jmeter {
        /// `-J`.
        properties: Vec<(String, String)>,
        /// `-D`; the file is relative to the folder of the plan.
        keystore: KeystoreProperties,
        /// Skip unsupported elements.
        lenient: bool,
    },
}

/// A file of a plan.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlanFile {
    /// Relative path, with slashes.
    pub(super) path: String,
    /// Content, base64.
    pub(super) content: String,
}

/// One round of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Round {
    /// Index of the case of a scenario.
    pub(super) cell: usize,
    /// Size of the round; `None` as in the plan.
    pub(super) size: Option<RoundSize>,
    /// Origin in the scenario, and origin of the server of this round.
    pub(super) origins: Option<(WireOrigin, WireOrigin)>,
    pub(super) seed: u64,
    /// Wait for connections by epoll.
    pub(super) epoll: bool,
    pub(super) share: Share,
    /// Start, in nanoseconds of the agent's clock.
    pub(super) start: u64,
}

/// The agent's share of the load.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Share {
    /// Number of its first loop, and number of its loops.
    pub(super) first: u32,
    pub(super) loops: u32,
    /// Loops of all agents.
    pub(super) all: u32,
    /// Number of the agent, and of all agents.
    pub(super) agent: u32,
    pub(super) agents: u32,
}

/// An origin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WireOrigin {
    tls: bool,
    host: String,
    port: u16,
}

impl From<&Origin> for WireOrigin {
    fn from(origin: &Origin) -> Self {
        Self { tls: origin.tls, host: origin.host.clone(), port: origin.port }
    }
}

impl From<&WireOrigin> for Origin {
    fn from(origin: &WireOrigin) -> Self {
        Self { tls: origin.tls, host: origin.host.clone(), port: origin.port }
    }
}

/// End of a round.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    /// Why the engine failed, if so.
    pub(super) error: Option<String>,
    pub(super) stopped: bool,
    pub(super) interrupted: u64,
    /// Nanoseconds from the start to the end.
    pub(super) length: u64,
    pub(super) is_ring: bool,
    /// Nanoseconds by which the agent started late.
    pub(super) late: u64,
}
