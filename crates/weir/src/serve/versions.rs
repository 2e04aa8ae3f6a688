//! The versions of the fleet's configuration that this node has and tries.

use anyhow::Context;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use weir_config::versions::{Attempt, Files, RejectedVersion, VersionState, VersionStore};
use weir_config::{Config, ConfigSource, VersionChoice};
use weir_fleet::rollout::Offer;
use weir_fleet::{Handle, Health};
use weir_server::Gateway;

/// Lowest status of an error of the server.
const SERVER_ERROR: u16 = 500;

/// The versions of this node.
pub(super) struct Versions {
    store: VersionStore,
    /// The attempt in progress, and the state before.
    attempt: Option<(Attempt, VersionState)>,
    offers: mpsc::Receiver<Offer>,
    fleet: Handle,
    /// Time in force after which a version is the last good one.
    stage: Duration,
    /// When the version that is tried is a good one.
    proven_at: Option<Instant>,
}

/// What happens to versions.
pub(super) enum VersionEvent {
    /// The fleet demands another one.
    Offered(Offer),
    /// The one in force was so for a stage.
    Proven,
}

/// The version that a process starts with. After an upgrade, it goes on with the one that its predecessor
/// was trying.
pub(super) fn of_start(is_upgrade: bool) -> VersionChoice {
    if is_upgrade { VersionChoice::Current } else { VersionChoice::Good }
}

/// Rejects the version that a process was trying that has ended.
///
/// # Errors
/// The state cannot be read or written.
pub(super) fn recover(config: &Config) -> anyhow::Result<()> {
    let Some(mut store) = open(config)? else { return Ok(()) };
    store.recover().context("cannot store the state of the versions")
}

/// Reports the health of this node to the fleet from now on, if it takes versions.
pub(super) fn observe(fleet: &Handle, gateway: &Arc<Gateway>) {
    if !fleet.takes_versions() {
        return;
    }
    // The gateway ends before the fleet.
    let gateway = Arc::downgrade(gateway);
    fleet
        .observe(Box::new(move || gateway.upgrade().map_or(Health::default(), |one| health(&one))));
}

fn health(gateway: &Gateway) -> Health {
    let ready = !gateway.is_draining() && gateway.pools().iter().all(|pool| pool.ready);
    let requests = gateway.stats().requests;
    let calls = requests.values().map(|one| one.count).sum();
    let failed = requests.iter().filter(|(series, _)| series.status >= SERVER_ERROR);
    Health { ready, calls, errors: failed.map(|(_, one)| one.count).sum() }
}

/// The next event; never without versions.
pub(super) async fn next(versions: &mut Option<Versions>) -> VersionEvent {
    let Some(Versions { offers, proven_at, .. }) = versions else {
        return std::future::pending().await;
    };
    let proven = async {
        match proven_at {
            Some(at) => sleep_until(*at).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        Some(offer) = offers.recv() => VersionEvent::Offered(offer),
        () = proven => VersionEvent::Proven,
    }
}

fn open(config: &Config) -> anyhow::Result<Option<VersionStore>> {
    let source = config.fleet.as_ref().map(|fleet| fleet.config.source);
    if source != Some(ConfigSource::Fleet) {
        return Ok(None);
    }
    let data = &config.data;
    // Without a journal nothing else has made it.
    weir_journal::create_folder(data).with_context(|| data.display().to_string())?;
    let store = VersionStore::open(data).context("cannot open the versions of the fleet");
    store.map(Some)
}

impl Versions {
    /// The versions in the data folder; `None` with own files only.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(super) fn open(
        config: &Config,
        fleet: &Handle,
        offers: mpsc::Receiver<Offer>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(store) = open(config)? else { return Ok(None) };
        let stage = config.fleet.as_ref().map(|fleet| fleet.config.stage).unwrap_or_default();
        let proven_at = store.state.trying.map(|_| Instant::now() + stage);
        let versions =
            Self { store, attempt: None, offers, fleet: fleet.clone(), stage, proven_at };
        versions.report();
        Ok(Some(versions))
    }

    /// Stores a version that is to be tried; returns what to load. One that is rolled back to is the last
    /// good one at once: the one before it may end processes.
    ///
    /// # Errors
    /// It cannot be stored; [`Versions::reject`] restores the state before.
    pub(super) fn start(
        &mut self,
        attempt: Attempt,
        files: &Files,
        is_rollback: bool,
    ) -> io::Result<VersionChoice> {
        let before = self.store.state.clone();
        let choice = match attempt.version {
            // It is on the disk, and stays there whatever happens.
            Some(number) if before.good == Some(number) => {
                VersionChoice::Folder(self.store.folder(number))
            }
            Some(number) => VersionChoice::Folder(self.store.write(&number.to_string(), files)?),
            None => VersionChoice::None,
        };
        if is_rollback {
            self.store.state.good = attempt.version;
        }
        // The good one needs no proof.
        self.store.state.trying = (attempt.version != self.store.state.good).then_some(attempt);
        self.proven_at = self.store.state.trying.map(|_| Instant::now() + self.stage);
        self.attempt = Some((attempt, before));
        self.store.save()?;
        Ok(choice)
    }

    /// Returns to the state before the attempt.
    ///
    /// # Errors
    /// The state cannot be stored.
    pub(super) fn reject(&mut self, attempt: Attempt, reason: String) -> io::Result<()> {
        let rejected = Some(RejectedVersion { attempt, reason });
        if let Some((_, before)) = self.attempt.take_if(|(started, _)| *started == attempt) {
            self.store.state = before;
            self.proven_at = self.store.state.trying.map(|_| Instant::now() + self.stage);
        }
        self.store.state.rejected = rejected;
        self.store.save()
    }

    /// Ends an attempt: what is in force is what the state says.
    ///
    /// # Errors
    /// Old versions cannot be removed.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.attempt = None;
        self.report();
        self.store.clean()
    }

    /// The version in force is the last good one.
    ///
    /// # Errors
    /// The state cannot be stored.
    pub(super) fn proven(&mut self) -> io::Result<()> {
        self.proven_at = None;
        if let Some(attempt) = self.store.state.trying.take() {
            self.store.state.good = attempt.version;
            self.store.save()?;
        }
        self.report();
        Ok(())
    }

    /// Forgets which version was rejected, so that it is tried again.
    ///
    /// # Errors
    /// The state cannot be stored.
    pub(super) fn retry(&mut self) -> io::Result<()> {
        if self.store.state.rejected.take().is_some() {
            self.store.save()?;
            self.report();
        }
        Ok(())
    }

    /// The process ends in order: the version that it tries has not ended it.
    pub(super) fn stop(&mut self) {
        if self.store.state.trying.take().is_some() {
            // Otherwise the next start takes this for a crash: the version is rejected, and that is said.
            let _ = self.store.save();
        }
    }

    /// The version in force; `None`: own files alone.
    pub(super) fn in_force(&self) -> Option<i64> {
        let state = &self.store.state;
        state.trying.map_or(state.good, |attempt| attempt.version)
    }

    /// Tells the fleet what this node has.
    pub(super) fn report(&self) {
        self.fleet.report_versions(self.store.state.clone());
    }
}
