//! The thread that ships transactions to OpenSearch and Kafka.
//!
//! The thread reads the journal and uses the database and sinks. Documents for an unavailable or slow
//! sink wait in the journal; other sinks are not affected.

mod kafka;
mod sender;

use super::messages::Messages;
use super::post::Upstreams;
use super::thread::{Running, Settings, Thread, ThreadContext};
use anyhow::Context;
use kafka::KafkaSender;
use sender::{Outcome, Sender, Sent};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use weir_config::Config;
use weir_journal::Journal;
use weir_model::search_sink::Content;
use weir_ship::{Destination, ShipError, Shipper, Statistics, Ticket, remove_other_followers};

/// The thread.
const THREAD: Thread = Thread { name: "ship", task: "shipping", nice: 5 };
/// Interval of checks for new transactions.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failure of the database or the journal.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Figures of all sinks, by name.
pub(crate) type SinkStatistics = BTreeMap<String, Statistics>;

/// The running thread.
pub(super) struct Ship {
    pub(super) handle: Handle,
    _thread: Running,
}

/// Handle of the thread.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Shared>);

struct Shared {
    settings: Settings,
    statistics: Mutex<SinkStatistics>,
}

impl Handle {
    /// Applies a new Config.
    pub(super) fn reload(&self, upstreams: &Upstreams) {
        self.0.settings.reload(upstreams);
    }

    /// Figures of the sinks.
    pub(crate) fn statistics(&self) -> SinkStatistics {
        self.0.statistics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts the thread for a recording journal.
pub(super) fn start(
    upstreams: &Upstreams,
    journal: &Arc<Journal>,
    messages: &Messages,
) -> anyhow::Result<Ship> {
    let shared = Shared { settings: Settings::new(upstreams), statistics: Mutex::default() };
    let handle = Handle(Arc::new(shared));
    let context = ThreadContext::new(messages);
    let mut worker = Worker {
        shared: Arc::clone(&handle.0),
        context: context.clone(),
        journal: Arc::clone(journal),
        upstreams: upstreams.clone(),
        sinks: Vec::new(),
    };
    // Before requests are recorded: until then the journal keeps everything for known sinks.
    worker.apply_config(upstreams.clone()).context("cannot ship transactions")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shared = Arc::clone(&handle.0);
    let wake = move || shared.settings.changed.notify_one();
    let run = |(worker, runtime): &mut (Worker, Runtime)| runtime.block_on(worker.run());
    let recover = |(worker, _): &mut (Worker, Runtime)| worker.recover();
    let thread = THREAD.start(&context, wake, (worker, runtime), run, recover)?;
    Ok(Ship { handle, _thread: thread })
}

/// State of the thread.
struct Worker {
    shared: Arc<Shared>,
    context: ThreadContext,
    journal: Arc<Journal>,
    upstreams: Upstreams,
    sinks: Vec<Sink>,
}

/// A sink.
struct Sink {
    name: String,
    shipper: Shipper,
    transport: Transport,
    /// Nothing is read before this time, because the journal or the database failed.
    until: Option<Instant>,
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
            let upstreams = self.shared.settings.upstreams();
            if !Arc::ptr_eq(&upstreams.config, &self.upstreams.config) {
                // Requests in flight belong to the previous shippers; documents are sent again.
                sending.abort_all();
                while sending.join_next().await.is_some() {}
                if let Err(error) = self.apply_config(upstreams) {
                    self.context.failed(&format!("shipping: {error}"));
                }
            }
            self.work(&mut sending);
            // Without sinks only a new Config, or the end, is awaited.
            let idle = if self.sinks.is_empty() { Duration::MAX } else { CHECK_INTERVAL };
            let shared = Arc::clone(&self.shared);
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
                () = shared.settings.changed.notified() => {}
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
        self.sinks.clear();
        let tracker = &config.tracker;
        let names = tracker.sinks.iter().map(|sink| sink.name.as_str());
        let names: Vec<_> = names.chain(tracker.kafka.iter().map(|sink| &*sink.name)).collect();
        remove_other_followers(&self.journal, &names).map_err(ShipError::Journal)?;
        for sink in &tracker.sinks {
            let (keep_completed, keep_failed) = (sink.keep_completed, sink.keep_failed);
            let destination = Destination::OpenSearch { keep_completed, keep_failed };
            let settings =
                settings(config, &sink.name, sink.content, sink.max_backlog, destination);
            let transport = Transport::OpenSearch(Sender::new(sink.upstream));
            self.sinks.push(Sink::open(&self.journal, config, settings, transport)?);
        }
        for (index, sink) in tracker.kafka.iter().enumerate() {
            let settings =
                settings(config, &sink.name, sink.content, sink.max_backlog, Destination::Kafka);
            let sender = KafkaSender::new(sink, index, &upstreams.clients);
            let transport = Transport::Kafka(sender);
            self.sinks.push(Sink::open(&self.journal, config, settings, transport)?);
        }
        self.upstreams = upstreams;
        Ok(())
    }

    /// Reads the journal for every sink, and starts requests.
    fn work(&mut self, sending: &mut JoinSet<Sent>) {
        let mut statistics = SinkStatistics::new();
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
            statistics.insert(sink.name.clone(), sink.shipper.statistics().clone());
        }
        if self.sinks.iter().all(|sink| sink.until.is_none()) {
            let shared = &self.shared.statistics;
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = statistics;
        }
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

impl Sink {
    fn open(
        journal: &Arc<Journal>,
        config: &Config,
        settings: weir_ship::Settings,
        transport: Transport,
    ) -> Result<Self, ShipError> {
        let name = settings.name.clone();
        let shipper = Shipper::open(journal, &config.data, settings)?;
        Ok(Self { name, shipper, transport, until: None })
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

/// How the transactions of a configuration are sent to a sink.
fn settings(
    config: &Config,
    name: &str,
    content: Content,
    max_backlog: u32,
    destination: Destination,
) -> weir_ship::Settings {
    let node = config.fleet.as_ref().and_then(|fleet| fleet.node.clone());
    weir_ship::Settings {
        name: name.to_owned(),
        content,
        node: node.unwrap_or_default(),
        keys: Arc::clone(&config.tracker.keys),
        // In hundredths of a percent.
        max_backlog: config.journal.disk / 10_000 * u64::from(max_backlog),
        destination,
    }
}
