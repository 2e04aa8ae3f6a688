//! Observed figures of server and host.

use super::{GENERATOR, PAUSES, SERVER};
use crate::results::{AgentRound, ServerRow, Total};
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

/// Observed figures of server and host in a round. Shares are weighted by the observed time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObservedLoad {
    pub(super) server: f64,
    pub(super) busiest: f64,
    pub(super) cpu: f64,
    /// Seconds that threads of the server waited for a core.
    waited: f64,
    pub(super) memory: u64,
    pub(super) descriptors: u64,
    pub(super) host: f64,
    /// Busy core-seconds of the machine, and of the observed processes.
    pub(super) busy: f64,
    pub(super) watched: f64,
    /// Core-seconds of the Lab with all of its threads, if observed.
    own: Option<f64>,
    /// Core-seconds of the generators of this machine that are not part of them.
    generators: f64,
    pub(super) steal: f64,
    /// Seconds of garbage collection pauses of a JVM, if observed.
    pub(super) paused: Option<f64>,
    /// Time of the last sample, and time since the sample before.
    last_sample: f64,
    since: f64,
}

impl ObservedLoad {
    pub(super) fn add(&mut self, row: &ServerRow, cut: f64) {
        // Rows of one sample have the same time.
        if row.time > self.last_sample {
            (self.since, self.last_sample) = (row.time - self.last_sample.max(cut), row.time);
        }
        let (time, cpu) = (self.since, row.cpu.unwrap_or_default());
        if row.subject == PAUSES {
            let paused = row.gauge.unwrap_or_default() / 1e3;
            self.paused = Some(self.paused.unwrap_or_default() + paused);
        } else if let Some(steal) = row.steal {
            self.host += time;
            self.busy += time * cpu;
            self.steal += time * steal;
        } else if row.subject == GENERATOR {
            self.own = Some(self.own.unwrap_or_default() + time * cpu);
        } else {
            self.watched += time * cpu;
        }
        if row.subject == SERVER {
            self.server += time;
            self.busiest += time * row.busiest_thread.unwrap_or_default();
            self.cpu += time * cpu;
            self.waited += time * row.waiting_threads.unwrap_or_default();
            self.memory = self.memory.max(row.memory.unwrap_or_default());
            self.descriptors = self.descriptors.max(row.descriptors.unwrap_or_default());
        }
    }

    /// Empty figures for the rest of the round.
    pub(super) fn reset(&self) -> Self {
        Self { last_sample: self.last_sample, ..Self::default() }
    }

    /// Adds the figures of another round.
    pub(super) fn merge(&mut self, other: &Self) {
        self.server += other.server;
        self.busiest += other.busiest;
        self.cpu += other.cpu;
        self.waited += other.waited;
        self.memory = self.memory.max(other.memory);
        self.descriptors = self.descriptors.max(other.descriptors);
        self.host += other.host;
        self.busy += other.busy;
        self.watched += other.watched;
        if let Some(own) = other.own {
            self.own = Some(self.own.unwrap_or_default() + own);
        }
        self.generators += other.generators;
        self.steal += other.steal;
        if let Some(paused) = other.paused {
            self.paused = Some(self.paused.unwrap_or_default() + paused);
        }
    }

    /// Other programs cannot be told from the server.
    pub(super) fn forget_others(&mut self) {
        self.watched = 0.0;
    }

    /// Sets the CPU time of the generators of a round, whose load is `total`: another generator (`is_foreign`) and
    /// agents on this machine are processes of their own. Agents on other machines use none of its cores.
    pub(super) fn set_generators(
        &mut self,
        total: &Total,
        is_foreign: bool,
        agents: &[AgentRound],
    ) {
        let all = total.generator_cpu();
        self.generators = if !agents.is_empty() {
            let cpu = |agents: &mut dyn Iterator<Item = &AgentRound>| {
                agents.map(|agent| agent.total.generator_cpu()).sum::<f64>()
            };
            let here = cpu(&mut agents.iter().filter(|agent| is_here(&agent.agent)));
            all * here / cpu(&mut agents.iter()).max(f64::MIN_POSITIVE)
        } else if is_foreign || self.own.is_none() {
            all
        } else {
            0.0
        };
    }

    /// Cores used by other processes of this machine, besides the observed processes, the Lab and other generators.
    pub(super) fn others(&self) -> Option<f64> {
        let others = self.busy - self.watched - self.own.unwrap_or_default() - self.generators;
        (self.host > 0.0 && self.watched > 0.0).then(|| (others / self.host).max(0.0))
    }

    /// Threads of the server that waited for a core because of other processes, on average. Of all waits, others
    /// cause a share as large as theirs of the machine's busy time: the rest is the server's own and the generator's.
    pub(super) fn waiting_for_others(&self) -> f64 {
        let others = self.others().unwrap_or_default() * self.host;
        if self.server > 0.0 && others > 0.0 {
            self.waited / self.server * others / self.busy
        } else {
            0.0
        }
    }

    /// CPU of the server's busiest thread, as a share of a core.
    pub(super) fn busiest(&self) -> Option<f64> {
        (self.server > 0.0).then(|| self.busiest / self.server)
    }
}

/// Whether an agent is on this machine: only its own addresses can be bound.
fn is_here(agent: &str) -> bool {
    let address = agent.to_socket_addrs().ok().and_then(|mut found| found.next());
    let is_bound = |ip: IpAddr| UdpSocket::bind((ip, 0)).is_ok();
    address.is_some_and(|address| is_bound(address.ip()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::second;
    use super::*;

    /// A machine with 3 busy cores: 1 by the server, 1.5 by the Lab.
    fn observed(own: Option<f64>) -> ObservedLoad {
        let mut observed = ObservedLoad::default();
        let row = |subject: &str, cpu| ServerRow {
            time: 2.0,
            subject: subject.to_owned(),
            cpu: Some(cpu),
            ..ServerRow::default()
        };
        observed.add(&row(SERVER, 1.0), 0.0);
        own.iter().for_each(|cpu| observed.add(&row(GENERATOR, *cpu), 0.0));
        observed.add(&ServerRow { steal: Some(0.0), ..row("host", 3.0) }, 0.0);
        observed
    }

    /// Two seconds of a load of a core.
    fn total() -> Total {
        let mut total = Total::new(1, false);
        for at in 0..2 {
            let generator_cpu = 1_000_000_000;
            total.add(&crate::record::Interval { generator_cpu, ..second(at, 100, 0, 1.0) });
        }
        total
    }

    #[test]
    fn all_threads_of_the_lab_are_the_generator() {
        let others = |own, is_foreign, agents: &[&str]| {
            let mut observed = observed(own);
            let agent = |name: &&str| AgentRound::new((*name).to_owned(), 1, total());
            let agents: Vec<AgentRound> = agents.iter().map(agent).collect();
            observed.set_generators(&total(), is_foreign, &agents);
            observed.others().expect("observed")
        };
        assert_eq!(others(None, false, &[]), 1.0, "the loops alone are known");
        assert_eq!(others(Some(1.5), false, &[]), 0.5, "with a background load");
        assert_eq!(others(Some(0.25), true, &[]), 0.75, "wrk is another process");
        assert_eq!(others(Some(0.25), false, &["192.0.2.1:7070"]), 1.75, "an agent elsewhere");
        let agents = ["192.0.2.1:7070", "127.0.0.1:7070"];
        assert_eq!(others(Some(0.25), false, &agents), 1.25, "half of the load is from here");
    }
}
