//! The controller: connects to agents, sends the plan, and runs rounds on all of them.

use super::channel;
use super::clock::Offset;
use super::files::Bundle;
use super::merge::Merge;
use super::message::{Ended, Round, Share, Source, ToAgent, ToController};
use super::peer::{self, PeerEvent};
use super::security::Security;
use super::{AgentError, MAX_AGENTS, PLAN_TIMEOUT, divide};
use crate::engine::{Control, Event, Io, Summary};
use crate::program::{Origin, Program};
use crate::protocol::RoundSize;
use crate::record::{Clock, Interval, Tally};
use crate::results::{AgentRound, Total};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{mpsc, oneshot};

/// Waiting events of agents.
const MAX_EVENTS: usize = 1_024;
/// Waiting messages to an agent.
const MAX_COMMANDS: usize = 16;
/// Time from the message to the common start, besides the longest round trip.
const START_LEAD: Duration = Duration::from_millis(300);
/// An agent that starts later than this distorts the load.
const MAX_LATE: Duration = Duration::from_millis(50);
/// Interval in which a stop is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The agents of a run.
pub struct Agents {
    peers: Vec<Peer>,
    events: Receiver<(usize, PeerEvent)>,
    /// Start of this process's clock.
    base: Instant,
    /// Ends the connections when dropped.
    _connected: oneshot::Sender<()>,
}

/// A connected agent.
struct Peer {
    address: String,
    commands: mpsc::Sender<ToAgent>,
    offset: Arc<Mutex<Offset>>,
    loops: u32,
}

/// The load of a round.
#[derive(Debug)]
pub struct Load<'l> {
    /// The program, as every agent has it.
    pub program: &'l Program,
    /// Index of the case.
    pub cell: usize,
    /// Size of the round; `None` as in the plan.
    pub size: Option<RoundSize>,
    /// Origin in the plan, and of the server of this round.
    pub origins: Option<(&'l Origin, &'l Origin)>,
    /// Seed of random numbers.
    pub seed: u64,
    /// How loops wait for connections.
    pub io: Io,
    /// Clock of the run, from [`Agents::clock`].
    pub clock: Clock,
}

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.peers.iter().map(|peer| &peer.address)).finish()
    }
}

impl Agents {
    /// Connects to agents at `host:port`, which may start within `wait`.
    ///
    /// # Errors
    /// An address is wrong or needs protection, or an agent cannot be reached or refuses.
    pub fn connect(
        addresses: &[String],
        security: &Security,
        wait: Duration,
    ) -> Result<Self, AgentError> {
        if addresses.len() > MAX_AGENTS {
            return Err(AgentError::TooMany);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (connected, end) = oneshot::channel::<()>();
        let drive = move || {
            // Ends when the sender is dropped.
            let _ = runtime.block_on(end);
        };
        std::thread::Builder::new().name("lab-agents".to_owned()).spawn(drive)?;
        let base = Instant::now();
        let (sender, events) = sync_channel(MAX_EVENTS);
        let mut peers = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
                return Err(AgentError::Address(address.clone()));
            }
            let channel = handle.block_on(channel::connect(address, security, wait))?;
            let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
            let offset = Arc::<Mutex<Offset>>::default();
            let clocks = (base, offset.clone());
            handle.spawn(peer::run(index, channel, receiver, sender.clone(), clocks));
            peers.push(Peer { address: address.clone(), commands, offset, loops: 0 });
        }
        Ok(Self { peers, events, base, _connected: connected })
    }

    /// Sends the plan to all agents and waits until they have read it.
    ///
    /// # Errors
    /// A program cannot be divided, or an agent rejects the plan or is lost.
    pub fn send<'p>(
        &mut self,
        bundle: Bundle,
        source: Source,
        programs: impl IntoIterator<Item = &'p Program>,
    ) -> Result<(), AgentError> {
        programs.into_iter().try_for_each(divide::check).map_err(AgentError::Plan)?;
        let plan = bundle.plan(source);
        let text = serde_json::to_value(&plan).map_err(|error| AgentError::Plan(error.to_string()));
        let text = text?;
        for peer in &self.peers {
            let copy = serde_json::from_value(text.clone());
            let copy = copy.map_err(|error| AgentError::Plan(error.to_string()))?;
            self.tell(peer, ToAgent::Plan(Box::new(copy)))?;
        }
        let mut missing = self.peers.len();
        while missing > 0 {
            // It is sent, then read.
            let limit = PLAN_TIMEOUT.saturating_mul(2);
            let (index, event) = self.events.recv_timeout(limit).map_err(|_| {
                AgentError::Plan("the agents have not read the plan in time".to_owned())
            })?;
            match event {
                PeerEvent::Message(ToController::Ready { loops }) => {
                    self.peers[index].loops = loops;
                    missing -= 1;
                }
                PeerEvent::Message(ToController::Rejected { reason }) | PeerEvent::Lost(reason) => {
                    return Err(self.error(index, reason));
                }
                PeerEvent::Message(_) => {}
            }
        }
        Ok(())
    }

    /// The clock of a round that starts soon on all agents.
    #[must_use]
    pub fn clock(&self) -> Clock {
        let round_trips = self.peers.iter().filter_map(|peer| peer.lock().current());
        let longest = round_trips.map(|trip| trip.length).max().unwrap_or(0);
        let lead = START_LEAD + Duration::from_nanos(longest);
        Clock { wall: SystemTime::now() + lead, steady: Instant::now() + lead }
    }

    /// Runs a round on all agents, until one of the `controls` stops it. `watch` gets the seconds of all of them together. Also returns how each
    /// agent did; a lost agent is one of its problems.
    ///
    /// # Errors
    /// No agent could run the program.
    pub fn run<const N: usize>(
        &self,
        load: &Load<'_>,
        controls: [&Control; N],
        watch: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(Summary, Vec<AgentRound>), AgentError> {
        let open = load.program.groups.iter().any(|group| group.executor.is_open());
        let mut round = Running {
            agents: self,
            load,
            open,
            rounds: self.peers.iter().map(|peer| peer.round(load, open)).collect(),
            merge: Merge::new(self.peers.len(), load.program.labels.len(), open),
            total: Interval::new(0, load.program.labels.len(), open),
            ends: Vec::new(),
            stop: None,
        };
        round.start();
        round.wait(&controls, watch)?;
        Ok(round.finish())
    }

    fn tell(&self, peer: &Peer, message: ToAgent) -> Result<(), AgentError> {
        let reason = || "the agent does not read".to_owned();
        let sent = peer.commands.try_send(message);
        sent.map_err(|_| AgentError::Agent { agent: peer.address.clone(), reason: reason() })
    }

    fn error(&self, index: usize, reason: String) -> AgentError {
        let agent = self.peers.get(index).map(|peer| peer.address.clone()).unwrap_or_default();
        AgentError::Agent { agent, reason }
    }
}

impl Peer {
    fn lock(&self) -> std::sync::MutexGuard<'_, Offset> {
        self.offset.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn round(&self, load: &Load<'_>, open: bool) -> AgentRound {
        let total = Total::new(load.program.labels.len(), open);
        let total = total.without(&load.program.transactions());
        AgentRound::new(self.address.clone(), self.loops, total)
    }
}

/// A round in progress.
struct Running<'r> {
    agents: &'r Agents,
    load: &'r Load<'r>,
    open: bool,
    rounds: Vec<AgentRound>,
    merge: Merge,
    total: Interval,
    ends: Vec<Ended>,
    /// The last message that ends the round.
    stop: Option<bool>,
}

impl Running<'_> {
    /// Starts the round on every agent, in its own time.
    fn start(&mut self) {
        let peers = &self.agents.peers;
        let all = peers.iter().map(|peer| peer.loops).sum();
        let start = self.load.clock.steady.duration_since(self.agents.base).as_nanos();
        let mut first = 0;
        for (index, peer) in peers.iter().enumerate() {
            let (agent, agents) = (index as u32, peers.len() as u32);
            let share = Share { first, loops: peer.loops, all, agent, agents };
            first += peer.loops;
            let offset = peer.lock().current().map_or(0, |trip| trip.offset);
            let at = i128::try_from(start).unwrap_or(i128::MAX).saturating_add(offset);
            let round = Round {
                cell: self.load.cell,
                size: self.load.size,
                origins: self.load.origins.map(|(from, to)| (from.into(), to.into())),
                seed: self.load.seed,
                epoll: self.load.io == Io::Epoll,
                share,
                start: u64::try_from(at).unwrap_or(0),
            };
            if self.agents.tell(peer, ToAgent::Round(Box::new(round))).is_err() {
                self.lost(index, "the connection was lost".to_owned());
            }
        }
    }

    /// Waits for the end of all agents.
    fn wait(
        &mut self,
        controls: &[&Control],
        watch: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), AgentError> {
        while !self.merge.is_ended() {
            match self.agents.events.recv_timeout(POLL_INTERVAL) {
                Ok((index, event)) => self.event(index, event)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    (0..self.rounds.len()).for_each(|at| self.lost(at, "lost".to_owned()));
                }
            }
            for second in self.merge.complete() {
                watch(&Event::Second(&second));
            }
            if controls.iter().any(|control| control.is_stopped()) {
                self.stop(controls.iter().any(|control| control.is_stopped_now()));
            }
        }
        for second in self.merge.complete() {
            watch(&Event::Second(&second));
        }
        Ok(())
    }

    fn event(&mut self, index: usize, event: PeerEvent) -> Result<(), AgentError> {
        match event {
            PeerEvent::Message(ToController::Second(second)) => {
                match second.read(&self.load.program.labels, self.open) {
                    Ok(interval) => {
                        self.total.add(&interval, false);
                        self.rounds[index].total.add(&interval);
                        self.merge.add(index, &interval);
                    }
                    Err(reason) => self.lost(index, reason),
                }
            }
            PeerEvent::Message(ToController::Ended(end)) => {
                if let Some(reason) = end.error {
                    self.stop(true);
                    return Err(self.agents.error(index, reason));
                }
                let late = Duration::from_nanos(end.late);
                if late > MAX_LATE {
                    let problem = format!("it started {} ms late", late.as_millis());
                    self.rounds[index].problems.push(problem);
                }
                // A plan that ends itself on one agent ends on all.
                if end.stopped {
                    self.stop(false);
                }
                self.ends.push(end);
                self.merge.end(index);
            }
            PeerEvent::Message(_) => {}
            PeerEvent::Lost(reason) => self.lost(index, reason),
        }
        Ok(())
    }

    /// Ends the round: without the lost agent, its figures would be those of another load.
    fn lost(&mut self, index: usize, reason: String) {
        self.rounds[index].problems.push(format!("it was lost: {reason}"));
        self.rounds[index].is_lost = true;
        self.merge.end(index);
        self.stop(false);
    }

    /// Stops the load of all agents.
    fn stop(&mut self, now: bool) {
        if self.stop.is_some_and(|before| before || !now) {
            return;
        }
        self.stop = Some(now);
        for peer in &self.agents.peers {
            let message = if now { ToAgent::StopNow } else { ToAgent::Stop };
            // A lost agent stops by itself.
            let _ = self.agents.tell(peer, message);
        }
    }

    fn finish(mut self) -> (Summary, Vec<AgentRound>) {
        for (round, peer) in self.rounds.iter_mut().zip(&self.agents.peers) {
            round.total.end_round(0);
            let offset = peer.lock();
            if let Some(trip) = offset.current() {
                round.clock_offset = trip.offset as f64 / 1e6;
                round.round_trip = trip.length as f64 / 1e6;
            }
            round.drift = offset.drift() as f64 / 1e6;
            if let Some(drift) = offset.too_large() {
                let ms = drift.as_millis();
                round.problems.push(format!("its clock drifted by {ms} ms during the run"));
            }
        }
        let is_lost = self.ends.len() < self.rounds.len();
        let started: u64 = self.total.labels.iter().map(|tally| tally.started).sum();
        let ended: u64 = self.total.labels.iter().map(Tally::samples).sum();
        let summary = Summary {
            clock: self.load.clock,
            load_steps: Vec::new(),
            failure: None,
            stopped: !is_lost && self.ends.iter().any(|end| end.stopped),
            interrupted: started.saturating_sub(ended),
            transactions: self.load.program.transactions(),
            open: self.open,
            length: self
                .ends
                .iter()
                .map(|end| Duration::from_nanos(end.length))
                .max()
                .unwrap_or_default(),
            is_ring: self.ends.iter().all(|end| end.is_ring),
            total: self.total,
        };
        (summary, self.rounds)
    }
}
