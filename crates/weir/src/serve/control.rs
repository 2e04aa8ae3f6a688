//! The control loop: signals, file changes, reload, stop.

mod version;

use super::archive;
use super::configurations::History;
use super::control_socket::{Command, Response};
use super::delivery::Handle;
use super::events::{Events, Listening};
use super::final_flush::flush;
use super::fleet;
use super::messages::Messages;
use super::metrics::{self, Reloads};
use super::monitor::Counting;
use super::post::Upstreams;
use super::recording::Recording;
use super::service_manager;
use super::ship;
use super::telemetry::{Counters, Families, Telemetry};
use super::upgrade::Upgrades;
use super::versions::{self, Versions};
use super::watch::{State, Watch};
use crate::backup::Backup;
use crate::data_folder::metering_settings;
use crate::exit::Exit;
use crate::output;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use weir_admin::configuration::{Configuration, Reload, ReloadCommand, ReloadHistory};
use weir_admin::lab::Lab;
use weir_admin::{Access, Sources};
use weir_config::{Source, VersionChoice};
use weir_document::finding::{Finding, Findings};
use weir_gateway::configuration::Configuration as Loaded;
use weir_gateway::digest::ConfigurationDigest;
use weir_journal::Journal;
use weir_monitor::Monitor;
use weir_monitor::billing::Prices;
use weir_server::Gateway;
use weir_store::ledger::Ledger;
use weir_tracker::Tracker;

/// State of the control thread.
pub(crate) struct Control {
    source: Source,
    /// The current Config with its TLS.
    pub(super) upstreams: Upstreams,
    pub(super) gateway: Arc<Gateway>,
    pub(super) events: Events,
    messages: Messages,
    pub(super) reloads: Arc<Reloads>,
    history: Arc<ReloadHistory>,
    /// Configurations that were in force, if the admin API is on.
    kept: Option<History>,
    /// Reload commands of the admin listener, and their sender.
    commands: (mpsc::Sender<ReloadCommand>, mpsc::Receiver<ReloadCommand>),
    requests: Requests,
    stops: Stops,
    watch: Watch,
    /// Event delivery, if configured.
    delivery: Option<Handle>,
    /// The fleet that this node is a member of.
    fleet: Option<weir_fleet::Handle>,
    /// Shipping of transactions, if they are recorded.
    ship: Option<ship::Handle>,
    archive: Option<archive::Handle>,
    /// Telemetry export and its counters.
    telemetry: Option<Telemetry>,
    exports: Arc<Counters>,
    /// Metering of the current Config.
    counts: Option<(Monitor, Prices)>,
    /// Versions of the configuration, with `source: fleet`.
    versions: Option<Versions>,
    /// Locked while a backup is written.
    backup: Arc<Mutex<()>>,
    /// A drain was ended by a second SIGINT.
    interrupted: bool,
}

fn failed(error: &anyhow::Error) -> Response {
    Response::Failed { reason: output::with_causes(error) }
}

/// Signals that request something of a running server. Unhandled, each of them ends the process: log
/// rotation must not stop a weir that is still starting.
pub(super) struct Requests {
    hangup: Signal,
    reopen: Signal,
    upgrade: Signal,
}

impl Requests {
    /// Registers for the signals. Those that arrive before [`Control::run`] are handled there.
    ///
    /// # Errors
    /// The system rejects the registration.
    pub(super) fn register() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }
}

/// Signals that stop a server. Unhandled, they end the process at once: right for a start that waits
/// for a disk, wrong as soon as workers accept connections.
pub(super) struct Stops {
    interrupt: Signal,
    terminate: Signal,
}

impl Stops {
    /// Registers for the signals; as above.
    ///
    /// # Errors
    /// The system rejects the registration.
    pub(super) fn register() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

impl Control {
    /// Registers for file changes, which are handled by [`Control::run`], as signals are.
    pub(super) fn new(
        source: Source,
        (upstreams, warnings): (Upstreams, &Findings),
        gateway: Arc<Gateway>,
        (events, messages): (Events, Messages),
        (requests, stops): (Requests, Stops),
    ) -> Self {
        let history = Arc::new(ReloadHistory::new(&source.path, warnings));
        let reloads = Arc::new(Reloads::start());
        let (mut watch, problem) = Watch::new();
        if let Some(problem) = problem {
            events.note(&format!("cannot watch files ({problem}); SIGHUP still reloads"));
        }
        watch.set(upstreams.config.sources.clone(), State::default());
        Self {
            source,
            upstreams,
            gateway,
            events,
            messages,
            reloads,
            history,
            kept: None,
            commands: mpsc::channel(1),
            requests,
            stops,
            watch,
            delivery: None,
            fleet: None,
            ship: None,
            archive: None,
            telemetry: None,
            exports: Arc::default(),
            counts: None,
            versions: None,
            backup: Arc::default(),
            interrupted: false,
        }
    }

    /// Data of the admin listener; from now on metrics are exported, and reloads apply to these
    /// parts.
    pub(super) fn sources(
        &mut self,
        access: Option<Access>,
        recording: &Recording,
        listening: &Listening,
    ) -> Sources {
        let journal = recording.journal.clone();
        let index = recording.tracker.as_ref().map(|tracker| tracker.index.clone());
        let resubmitter = recording.resubmit.as_ref().map(|one| one.resubmitter.clone());
        let counting = recording.counting.as_ref();
        self.counts = counting.map(|one| (one.monitor.clone(), one.prices.clone()));
        self.delivery = recording.delivery.as_ref().map(|delivery| delivery.handle.clone());
        self.fleet = recording.fleet.as_ref().map(|fleet| fleet.handle.clone());
        self.ship = recording.ship.as_ref().map(|ship| ship.handle.clone());
        self.archive = recording.archive.as_ref().map(|archive| archive.handle.clone());
        // The database has been opened before, so this does not fail.
        let ledger =
            resubmitter.as_ref().and_then(|_| Ledger::open(&self.upstreams.config.data).ok());
        let has_records = journal.as_ref().filter(|_| self.upstreams.config.tracker.enabled);
        let tracker = has_records.map(|journal| {
            let (recovery, gaps) = (recording.recovery.clone(), recording.gaps.clone());
            Tracker::new(Arc::clone(journal), index.clone(), recovery, ledger, gaps)
        });
        let gaps = journal.as_ref().map(|_| recording.gaps.clone());
        let (gateway, reloads) = (Arc::clone(&self.gateway), Arc::clone(&self.reloads));
        let (messages, delivery) = (self.messages.clone(), self.delivery.clone());
        let (ship, archive) = (self.ship.clone(), self.archive.clone());
        let events = delivery.as_ref().map(|delivery| Arc::clone(&delivery.counters().sinks));
        let exports = Arc::clone(&self.exports);
        let (attempts, counts) = (resubmitter.clone(), self.counts.clone());
        let member = self.fleet.clone();
        member.iter().for_each(|member| versions::observe(member, &gateway));
        let metrics = move || {
            let stats = gateway.stats();
            let mut families = weir_admin::metrics::gateway(&stats);
            families.extend(metrics::telemetry(&exports, &stats));
            families.extend(weir_admin::metrics::pools(&gateway.pools()));
            let sinks = ship.as_ref().map(ship::Handle::sinks);
            let of_journal = |journal: &Journal| metrics::journal(journal, archive.as_ref(), sinks);
            families.extend(journal.iter().flat_map(|journal| of_journal(journal)));
            families.extend(index.as_ref().map(metrics::index).unwrap_or_default());
            families.extend(delivery.iter().flat_map(metrics::delivery));
            families.extend(attempts.iter().flat_map(metrics::resubmission));
            families.extend(
                counts.iter().flat_map(|(counts, prices)| metrics::monitor(counts, prices)),
            );
            let limiter = gateway.limiter();
            families.extend(member.iter().flat_map(|member| metrics::fleet(member, limiter)));
            families.extend(reloads.families(messages.dropped()));
            families.extend(weir_admin::metrics::process());
            families
        };
        let metrics: Families = Arc::new(metrics);
        let from = (Arc::clone(&self.gateway), Arc::clone(&metrics));
        let (counters, messages) = (Arc::clone(&self.exports), self.messages.clone());
        self.telemetry = Some(Telemetry::start(&self.upstreams, counters, from, messages));
        let listeners = listening.addrs.iter().zip(&listening.tls);
        Sources {
            gateway: Arc::clone(&self.gateway),
            metrics,
            configuration: Configuration {
                history: Arc::clone(&self.history),
                kept: self.kept.as_ref().map(|history| Arc::clone(&history.kept)),
                source: self.source.clone(),
                reload: self.commands.0.clone(),
            },
            access,
            lab: Some(Lab::new(&self.upstreams.config.data, listeners, &self.gateway)),
            events,
            tracker,
            metering: counting.map(Counting::metering),
            gaps,
            fleet: self.fleet.clone(),
            sinks: self.ship.as_ref().map(|ship| ship.sinks().clone()),
            resubmitter,
        }
    }

    /// Keeps the configurations that are in force, from that of the start on, if they can be read.
    pub(super) fn keep_history(
        &mut self,
        access: Option<&Access>,
        fleet: Option<&fleet::Fleet>,
        (digest, warnings): (&ConfigurationDigest, &Findings),
    ) {
        let opened = access.map(|_| History::open(&self.upstreams.config.data, &self.messages));
        self.kept = opened.flatten();
        let version = fleet.and_then(|fleet| fleet.versions.as_ref()).and_then(Versions::in_force);
        if let Some(history) = &self.kept {
            history.add(("start", version), digest, warnings);
        }
    }

    /// Runs until stopped. Returns the result.
    pub(super) async fn run(&mut self, upgrades: &mut Upgrades, recording: &mut Recording) -> Exit {
        self.versions = recording.fleet.as_mut().and_then(|fleet| fleet.versions.take());
        loop {
            let (program, respond) = tokio::select! {
                () = self.stops.recv() => break,
                event = versions::next(&mut self.versions) => {
                    self.follow_version(event).await;
                    continue;
                }
                _ = self.requests.hangup.recv() => {
                    self.retry_version();
                    self.reload("signal").await;
                    continue;
                }
                () = self.watch.changed() => {
                    self.reload("files").await;
                    continue;
                }
                Some(command) = self.commands.1.recv() => {
                    self.retry_version();
                    let reload = self.reload(&command.by).await;
                    // The client may have disconnected.
                    let _ = command.done.send(reload);
                    continue;
                }
                _ = self.requests.reopen.recv() => {
                    self.gateway.reopen_logs();
                    continue;
                }
                _ = self.requests.upgrade.recv() => (None, None),
                Some((command, respond)) = upgrades.socket.commands.recv() => match command {
                    Command::Upgrade { program } => (program, Some(respond)),
                    Command::Backup { folder } => {
                        self.backup(folder, recording.journal.clone(), respond);
                        continue;
                    }
                },
            };
            if let Some(exit) = self.upgrade(upgrades, recording, program, respond).await {
                return exit;
            }
        }
        self.stop(recording.journal.as_deref()).await
    }

    /// Waits for SIGTERM or SIGINT.
    pub(super) async fn stop_requested(&mut self) {
        self.stops.recv().await;
    }

    /// Starts a backup; one at a time.
    fn backup(
        &self,
        folder: PathBuf,
        journal: Option<Arc<Journal>>,
        respond: oneshot::Sender<Response>,
    ) {
        let (config, running) = (Arc::clone(&self.upstreams.config), Arc::clone(&self.backup));
        tokio::task::spawn_blocking(move || {
            let response = match running.try_lock() {
                Ok(_running) => {
                    let (data, sources) = (&config.data, &config.sources);
                    let journal = journal.as_deref();
                    let backup = Backup { data, journal, configuration: sources };
                    let written = backup.write(&folder);
                    written.map_or_else(|error| failed(&error), |one| Response::backed_up(&one))
                }
                Err(_) => Response::Failed { reason: "another backup is being written".to_owned() },
            };
            // The client may have disconnected.
            let _ = respond.send(response);
        });
    }

    /// Reloads the files, with the version in force; `by` is the requester.
    async fn reload(&mut self, by: &str) -> Reload {
        let (digest, reload) = self.load(by, VersionChoice::Current).await;
        self.report_to_fleet(digest, reload)
    }

    /// Builds a complete new Config, whose digest it returns, or changes nothing.
    async fn load(&mut self, by: &str, version: VersionChoice) -> (Option<String>, Reload) {
        let before = self.watch.state();
        let is_try = version != VersionChoice::Current;
        let source = Source { version, ..self.source.clone() };
        // Compiling a large configuration takes time in which health must be answered.
        let loaded =
            tokio::task::spawn_blocking(move || weir_gateway::configuration::load(&source)).await;
        let loaded = match loaded {
            Ok(loaded) => loaded.and_then(|loaded| self.allowed(loaded)),
            Err(error) => {
                self.events.note(&format!("the reload failed: {error}"));
                return (None, self.history.failed(by, error.to_string()));
            }
        };
        let files = match &loaded {
            Ok(loaded) => loaded.config.sources.clone(),
            // The files of a version that is rejected are removed.
            Err(_) if is_try => self.upstreams.config.sources.clone(),
            Err(found) => [&self.upstreams.config.sources[..], &found.files].concat(),
        };
        self.watch.set(files, before);
        match loaded {
            Ok(loaded) => self.take(by, loaded).await,
            Err(found) => {
                self.reloads.refused();
                self.events.reload_refused(&found);
                (None, self.history.rejected(by, &found))
            }
        }
    }

    async fn take(&mut self, by: &str, loaded: Loaded) -> (Option<String>, Reload) {
        let Loaded { config, compiled, findings } = loaded;
        let (config, clients) = (Arc::new(config), Arc::clone(&compiled.upstream_clients));
        let digest = Arc::clone(&compiled.digest);
        let (gateway, new) = (Arc::clone(&self.gateway), Arc::clone(&config));
        let reload = move || gateway.reload(new, compiled);
        let error = match tokio::task::spawn_blocking(reload).await {
            Ok(Ok(())) => {
                self.upstreams = Upstreams { config: Arc::clone(&config), clients };
                if let Some(delivery) = &self.delivery {
                    delivery.reload(&self.upstreams);
                }
                if let Some(ship) = &self.ship {
                    ship.reload(&self.upstreams);
                }
                if let Some(archive) = &self.archive {
                    archive.reload(&self.upstreams);
                }
                if let Some(telemetry) = &mut self.telemetry {
                    telemetry.reload(&self.upstreams);
                }
                if let Some((counts, prices)) = &self.counts {
                    counts.configure(metering_settings(&config, prices));
                }
                self.reloads.taken();
                self.events.reloaded(&findings);
                let reload = self.history.applied(by, &findings);
                self.keep(by, &digest, findings).await;
                if let (Some(fleet), Some(settings)) =
                    (&self.fleet, fleet::settings(&self.upstreams))
                {
                    fleet.configure(settings);
                }
                return (Some(digest.hex().to_owned()), reload);
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        self.reloads.refused();
        self.events.reload_failed(&error);
        (None, self.history.failed(by, error))
    }

    /// Adds a configuration to the history.
    async fn keep(&self, by: &str, digest: &Arc<ConfigurationDigest>, findings: Findings) {
        let Some(history) = self.kept.clone() else { return };
        let version = self.versions.as_ref().and_then(Versions::in_force);
        let (by, digest) = (by.to_owned(), Arc::clone(digest));
        let add = move || history.add((&by, version), &digest, &findings);
        // Its failure is logged.
        let _ = tokio::task::spawn_blocking(add).await;
    }

    /// Tells the fleet about a load of the configuration, and which one is in force then.
    fn report_to_fleet(&self, digest: Option<String>, reload: Reload) -> Reload {
        if let Some(fleet) = &self.fleet {
            fleet.report(digest, fleet::configuration_state(&reload));
        }
        reload
    }

    /// Whether a Config can be applied without a restart.
    fn allowed(&self, loaded: Loaded) -> Result<Loaded, Findings> {
        let changes = self.upstreams.config.needs_restart(&loaded.config);
        if changes.is_empty() {
            return Ok(loaded);
        }
        let mut found = loaded.findings;
        let here = |change| Finding { file: self.source.path.clone(), ..change };
        found.list.extend(changes.into_iter().map(here));
        Err(found)
    }

    /// Drains, and waits within the same deadline until other systems have what was recorded; another
    /// SIGINT ends immediately.
    async fn stop(&mut self, journal: Option<&Journal>) -> Exit {
        service_manager::stopping();
        self.events.draining();
        self.versions.iter_mut().for_each(Versions::stop);
        self.fleet.iter().for_each(weir_fleet::Handle::drain);
        self.gateway.start_draining();
        let drain = self.upstreams.config.drain;
        let deadline = Instant::now() + drain.delay + drain.deadline;
        let exit = self.finish(drain.delay, drain.deadline).await;
        if self.interrupted {
            return exit;
        }
        let left = tokio::select! {
            left = flush(journal, self.ship.as_ref(), self.fleet.as_ref(), deadline) => left,
            _ = self.stops.interrupt.recv() => Vec::new(),
        };
        left.iter().for_each(|text| self.events.note(text));
        exit
    }

    /// Closes the listeners after a delay, and waits until all requests have ended or are aborted.
    pub(super) async fn finish(&mut self, delay: Duration, deadline: Duration) -> Exit {
        let gateway = Arc::clone(&self.gateway);
        let drained = async move {
            tokio::time::sleep(delay).await;
            tokio::task::spawn_blocking(move || gateway.finish_draining(deadline)).await
        };
        tokio::select! {
            report = drained => match report {
                Ok(report) => {
                    self.events.stopped(&report);
                    if report.failed == 0 { Exit::Success } else { Exit::Failure }
                }
                Err(error) => {
                    self.events.note(&format!("the drain failed: {error}"));
                    Exit::Failure
                }
            },
            _ = self.stops.interrupt.recv() => {
                self.events.note("stopped immediately; requests in flight were aborted");
                self.interrupted = true;
                Exit::Failure
            }
        }
    }
}
