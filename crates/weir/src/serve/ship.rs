//! The thread that ships transactions to OpenSearch and Kafka.
//!
//! The thread reads the journal and uses the database and sinks. Documents for an unavailable or slow
//! sink wait in the journal; other sinks are not affected.

mod kafka;
mod search;
mod sender;

use super::messages::Messages;
use super::post::Upstreams;
use super::thread::{Running, Settings, Thread, ThreadContext};
use anyhow::Context;
use kafka::KafkaSender;
use sender::{Outcome, Sender, Sent};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use weir_config::{Config, KafkaSink};
use weir_fleet::Handle as Fleet;
use weir_journal::Journal;
use weir_model::search_sink::{Content, SearchSink};
use weir_ship::{
    BackfillProgress, Destination, ShipError, Shipper, SinkKind, SinkState, Sinks, Ticket,
    remove_other_followers,
};

/// The thread.
const THREAD: Thread = Thread { name: "ship", task: "shipping", nice: 5 };
/// Interval of checks for new transactions.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failure of the database or the journal.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The running thread.
pub(super) struct Ship {
    pub(super) handle: Handle,
    _thread: Running,
}

/// Handle of the thread.
#[derive(Clone)]
pub(crate) struct Handle {
    settings: Arc<Settings>,
    sinks: Sinks,
}

impl Handle {
    /// Applies a new Config.
    pub(super) fn reload(&self, upstreams: &Upstreams) {
        self.settings.reload(upstreams);
    }

    /// The sinks.
    pub(crate) fn sinks(&self) -> &Sinks {
        &self.sinks
    }
}

/// Starts the thread for a recording journal.
pub(super) fn start(
    upstreams: &Upstreams,
    journal: &Arc<Journal>,
    fleet: Option<&Fleet>,
    messages: &Messages,
) -> anyhow::Result<Ship> {
    let settings = Arc::new(Settings::new(upstreams));
    let wake = {
        let settings = Arc::clone(&settings);
        move || settings.changed.notify_one()
    };
    let sinks = Sinks::new(journal, wake.clone(), search::sender(&settings));
    let handle = Handle { settings, sinks };
    let context = ThreadContext::new(messages);
    let mut worker = Worker {
        handle: handle.clone(),
        context: context.clone(),
        journal: Arc::clone(journal),
        upstreams: upstreams.clone(),
        fleet: fleet.cloned(),
        node: fleet.map(Fleet::node).unwrap_or_default(),
        maintenances: 0,
        sinks: Vec::new(),
    };
    // Before requests are recorded: until then the journal keeps everything for known sinks.
    worker.apply_config(upstreams.clone()).context("cannot ship transactions")?;
    worker.publish();
    let run = async |worker: &mut Worker| worker.run().await;
    let thread = THREAD.start_async(&context, wake, worker, run, Worker::recover)?;
    Ok(Ship { handle, _thread: thread })
}

/// State of the thread.
struct Worker {
    handle: Handle,
    context: ThreadContext,
    journal: Arc<Journal>,
    upstreams: Upstreams,
    fleet: Option<Fleet>,
    /// Id and name of this node, as in documents.
    node: (String, String),
    /// Maintenances of the fleet by this node, up to which old indexes were deleted.
    maintenances: u64,
    sinks: Vec<Sink>,
}

/// A sink.
struct Sink {
    name: String,
    content: Content,
    shipper: Shipper,
    transport: Transport,
    /// Nothing is read before this time, because the journal or the database failed.
    until: Option<Instant>,
    /// A backfill of a previous shipper.
    backfill: Option<BackfillProgress>,
}

/// How a sink is reached.
enum Transport {
    OpenSearch(Sender),
    Kafka(KafkaSender),
}

impl Worker {
    async fn run(&mut self) {
        let mut sending = JoinSet::new();
        while !self.context.stopped() {
            let upstreams = self.handle.settings.upstreams();
            let node = self.fleet.as_ref().map(Fleet::node).unwrap_or_default();
            if !Arc::ptr_eq(&upstreams.config, &self.upstreams.config) || node != self.node {
                self.node = node;
                // Requests in flight belong to the previous shippers; documents are sent again.
                sending.abort_all();
                while sending.join_next().await.is_some() {}
                if let Err(error) = self.apply_config(upstreams) {
                    self.context.failed(&format!("shipping: {error}"));
                }
            }
            self.execute();
            self.work(&mut sending);
            // Without sinks only a new Config, or the end, is awaited.
            let idle = if self.sinks.is_empty() { Duration::MAX } else { CHECK_INTERVAL };
            let settings = Arc::clone(&self.handle.settings);
            tokio::select! {
                Some(sent) = sending.join_next(), if !sending.is_empty() => match sent {
                    Ok(sent) => self.settle(sent),
                    // The documents of the task are unknown: they are read again.
                    Err(_) => {
                        sending.abort_all();
                        while sending.join_next().await.is_some() {}
                        self.open_again();
                    }
                },
                () = settings.changed.notified() => {}
                () = tokio::time::sleep(idle) => {}
            }
        }
        for sink in &mut self.sinks {
            if let Err(error) = sink.shipper.close() {
                self.context.note(&format!("shipping to {}: {error}", sink.name));
            }
        }
    }

    /// After a panic, documents that are not settled are read again.
    fn recover(&mut self) {
        std::thread::sleep(CHECK_INTERVAL);
        self.open_again();
    }

    fn open_again(&mut self) {
        while let Err(error) = self.apply_config(self.upstreams.clone()) {
            self.context.note(&format!("shipping: {error}"));
            if self.context.stopped() {
                return;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    fn apply_config(&mut self, upstreams: Upstreams) -> Result<(), ShipError> {
        let config = &upstreams.config;
        for sink in &mut self.sinks {
            sink.shipper.close()?;
        }
        let states = self.handle.sinks.states();
        self.sinks.clear();
        let tracker = &config.tracker;
        let names = tracker.sinks.iter().map(|sink| sink.name.as_str());
        let names: Vec<_> = names.chain(tracker.kafka.iter().map(|sink| &*sink.name)).collect();
        remove_other_followers(&self.journal, &names).map_err(ShipError::Journal)?;
        for sink in &tracker.sinks {
            let settings = self.open_search(config, sink);
            let transport = Transport::OpenSearch(Sender::new(sink.upstream));
            let mut opened = Sink::open(&self.journal, config, settings, transport)?;
            let before = states.get(&sink.name).and_then(|state| state.backfill.clone());
            opened.backfill = before.map(BackfillProgress::interrupted);
            self.sinks.push(opened);
        }
        for (index, sink) in tracker.kafka.iter().enumerate() {
            let settings = self.kafka(config, sink);
            let transport = Transport::Kafka(KafkaSender::new(sink, index, &upstreams.clients));
            self.sinks.push(Sink::open(&self.journal, config, settings, transport)?);
        }
        self.upstreams = upstreams;
        Ok(())
    }

    fn open_search(&self, config: &Config, sink: &SearchSink) -> weir_ship::Settings {
        let destination = Destination::OpenSearch {
            keep_completed: sink.keep_completed,
            keep_failed: sink.keep_failed,
            deletes_indexes: self.fleet.is_none(),
        };
        self.settings(config, (&sink.name, sink.content), sink.max_backlog, destination)
    }

    fn kafka(&self, config: &Config, sink: &KafkaSink) -> weir_ship::Settings {
        self.settings(config, (&sink.name, sink.content), sink.max_backlog, Destination::Kafka)
    }

    fn settings(
        &self,
        config: &Config,
        (name, content): (&str, Content),
        max_backlog: u32,
        destination: Destination,
    ) -> weir_ship::Settings {
        weir_ship::Settings {
            name: name.to_owned(),
            content,
            node: self.node.clone(),
            keys: Arc::clone(&config.tracker.keys),
            // In hundredths of a percent.
            max_backlog: config.journal.disk / 10_000 * u64::from(max_backlog),
            destination,
        }
    }

    /// Reads the journal for every sink, and starts requests.
    fn work(&mut self, sending: &mut JoinSet<Sent>) {
        for (index, sink) in self.sinks.iter_mut().enumerate() {
            let now = Instant::now();
            if sink.until.is_some_and(|until| now < until) {
                continue;
            }
            sink.until = None;
            loop {
                match sink.send_next(index, &self.upstreams, now, sending) {
                    Ok(sent) => {
                        self.context.succeeded();
                        if !sent {
                            break;
                        }
                    }
                    Err(error) => {
                        self.context.failed(&format!("shipping to {}: {error}", sink.name));
                        sink.until = Some(now + RETRY_INTERVAL);
                        break;
                    }
                }
            }
            sink.tell(&self.context);
        }
        self.publish();
    }

    /// Starts backfills, and the deletion of old indexes if it is the turn of this node.
    fn execute(&mut self) {
        for (name, options) in self.handle.sinks.take_commands() {
            let Some(sink) = self.sinks.iter_mut().find(|one| one.name == name) else {
                continue;
            };
            if let Err(error) = sink.shipper.start_backfill(&options) {
                self.context.note(&format!("backfill of {name}: {error}"));
            }
        }
        let maintenances = self.fleet.as_ref().map_or(0, Fleet::maintenances);
        if maintenances != self.maintenances {
            self.maintenances = maintenances;
            self.sinks.iter_mut().for_each(|sink| sink.shipper.delete_old_indexes());
        }
    }

    fn publish(&self) {
        let state = |sink: &Sink| {
            let backfill = sink.shipper.backfill().or(sink.backfill.as_ref()).cloned();
            let statistics = sink.shipper.statistics().clone();
            let kind = sink.transport.kind();
            let state = SinkState { kind, content: sink.content, statistics, backfill };
            (sink.name.clone(), state)
        };
        let states: BTreeMap<String, SinkState> = self.sinks.iter().map(state).collect();
        self.handle.sinks.publish(states);
    }

    fn settle(&mut self, sent: Sent) {
        let Sent { sink: index, ticket, outcome } = sent;
        let Some(sink) = self.sinks.get_mut(index) else { return };
        if let Err(error) = sink.settle(ticket, outcome, Instant::now()) {
            self.context.failed(&format!("shipping to {}: {error}", sink.name));
            sink.until = Some(Instant::now() + RETRY_INTERVAL);
        }
        sink.tell(&self.context);
    }
}

impl Transport {
    fn kind(&self) -> SinkKind {
        match self {
            Self::OpenSearch(_) => SinkKind::OpenSearch,
            Self::Kafka(_) => SinkKind::Kafka,
        }
    }
}

impl Sink {
    fn open(
        journal: &Arc<Journal>,
        config: &Config,
        settings: weir_ship::Settings,
        transport: Transport,
    ) -> Result<Self, ShipError> {
        let (name, content) = (settings.name.clone(), settings.content);
        let shipper = Shipper::open(journal, &config.data, settings)?;
        Ok(Self { name, content, shipper, transport, until: None, backfill: None })
    }

    /// Reads the journal and starts the next request; false if there is none.
    fn send_next(
        &mut self,
        index: usize,
        upstreams: &Upstreams,
        now: Instant,
        sending: &mut JoinSet<Sent>,
    ) -> Result<bool, ShipError> {
        self.shipper.work(now)?;
        match &mut self.transport {
            Transport::OpenSearch(sender) => {
                let Some((ticket, request)) = self.shipper.next_request(now) else {
                    return Ok(false);
                };
                sending.spawn(sender.send(upstreams.clone(), index, ticket, request));
            }
            Transport::Kafka(sender) => {
                let Some((ticket, messages)) = self.shipper.next_messages(now)? else {
                    return Ok(false);
                };
                sending.spawn(sender.send(index, ticket, messages));
            }
        }
        Ok(true)
    }

    fn settle(&mut self, ticket: Ticket, outcome: Outcome, now: Instant) -> Result<(), ShipError> {
        match (outcome, &mut self.transport) {
            (Outcome::Response { response, connection, target }, transport) => {
                if let Transport::OpenSearch(sender) = transport {
                    sender.done(target, connection, response.is_err());
                }
                self.shipper.settle(ticket, response, now)
            }
            (Outcome::Messages { verdicts, producer }, transport) => {
                if let Transport::Kafka(sender) = transport {
                    sender.done(producer);
                }
                self.shipper.settle_messages(ticket, verdicts, now)
            }
        }
    }

    fn tell(&mut self, context: &ThreadContext) {
        for note in self.shipper.take_notes() {
            context.note(&format!("shipping to {}: {note}", self.name));
        }
    }
}
