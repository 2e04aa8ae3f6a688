//! Agents of a round: what each one measured about itself.

use super::Total;
use crate::validity::{Evidence, MAX_ERROR_SHARE, Violation, violations};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How an agent did in a round.
#[derive(Clone, Debug)]
pub struct AgentRound {
    /// Its address.
    pub agent: String,
    /// Its threads.
    pub loops: u32,
    /// Its seconds.
    pub total: Total,
    /// Its clock minus that of the controller, in milliseconds.
    pub clock_offset: f64,
    /// Shortest round trip, in milliseconds: the offset is accurate to half of it.
    pub round_trip: f64,
    /// Change of the offset during the run, in milliseconds.
    pub drift: f64,
    /// Why the round is invalid: the agent was lost, late, or its clock drifted.
    pub problems: Vec<String>,
    /// The agent cannot be part of another round.
    pub is_lost: bool,
}

/// Figures of an agent in the results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentFigures {
    /// Its address.
    pub agent: String,
    /// Its threads.
    pub loops: u32,
    /// Completed samples.
    pub samples: u64,
    /// Samples per second.
    pub throughput: f64,
    /// CPU of its busiest thread, as a share of a core.
    pub busiest: f64,
    /// 99th percentile of the send lag of an open model, in milliseconds.
    pub send_lag: f64,
    /// Its clock minus that of the controller, in milliseconds.
    pub clock_offset: f64,
    /// Shortest round trip to it, in milliseconds.
    pub round_trip: f64,
    /// Change of the offset during the run, in milliseconds.
    pub drift: f64,
}

impl AgentRound {
    /// An agent at the start of a round.
    #[must_use]
    pub fn new(agent: String, loops: u32, total: Total) -> Self {
        let (clock_offset, round_trip, drift) = (0.0, 0.0, 0.0);
        let (problems, is_lost) = (Vec::new(), false);
        Self { agent, loops, total, clock_offset, round_trip, drift, problems, is_lost }
    }

    /// Why the figures of this agent are invalid. `quantum` and `server` as in [`Evidence`].
    #[must_use]
    pub fn violations(&self, quantum: Duration, server: Option<f64>) -> Vec<Violation> {
        let evidence = Evidence { server, ..self.total.evidence(None, quantum) };
        // Errors and rates are judged for all agents together.
        let own = violations(&evidence, MAX_ERROR_SHARE.max(1.0));
        let own = own.into_iter().filter(Violation::is_of_generator).map(|one| one.to_string());
        let reasons = self.problems.iter().cloned().chain(own);
        reasons.map(|reason| Violation::Agent { agent: self.agent.clone(), reason }).collect()
    }

    /// Figures for the results.
    #[must_use]
    pub fn figures(&self) -> AgentFigures {
        let evidence = self.total.evidence(None, Duration::ZERO);
        AgentFigures {
            agent: self.agent.clone(),
            loops: self.loops,
            samples: evidence.requests,
            throughput: evidence.throughput,
            busiest: evidence.generator,
            send_lag: evidence.send_lag.as_secs_f64() * 1e3,
            clock_offset: self.clock_offset,
            round_trip: self.round_trip,
            drift: self.drift,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::total::tests::second;
    use super::*;

    fn round(busiest: f64) -> AgentRound {
        let mut total = Total::new(2, true);
        for at in 0..4 {
            total.add(&crate::record::Interval { busiest_loop: busiest, ..second(at, 100, 3) });
        }
        total.end_round(0);
        AgentRound::new("b:7070".to_owned(), 2, total)
    }

    #[test]
    fn a_saturated_agent_is_named() {
        let quantum = Duration::from_millis(1);
        assert_eq!(round(0.5).violations(quantum, None), []);
        let found = round(0.97).violations(quantum, None);
        let [found] = &found[..] else { panic!("{found:?}") };
        let text = found.to_string();
        assert!(text.starts_with("agent b:7070: the generator was at its limit"), "{text}");
        let mut lost = round(0.5);
        lost.problems.push("it was lost: closed".to_owned());
        assert_eq!(lost.violations(quantum, None).len(), 1);
    }
}
