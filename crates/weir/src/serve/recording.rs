//! The journal of a running server, and the threads that follow it.

use super::handover::predecessor::Ended;
use super::messages::Messages;
use super::post::Upstreams;
use super::thread::Running;
use super::{archive, delivery, fleet, gaps, journal, monitor, resubmit, ship, tracker};
use anyhow::Context;
use std::sync::Arc;
use weir_config::Config;
use weir_document::finding::Findings;
use weir_gateway::digest::ConfigurationDigest;
use weir_journal::{Journal, Lane, RecoveryReport};
use weir_limit::Limiter;
use weir_server::Gateway;
use weir_store::gaps::Gaps;
use weir_store::revoked_keys::RevokedKeys;

/// The parts, as far as they are enabled. They end in the order of the fields: the lock of the
/// journal is released last, when everything is written and read.
pub(super) struct Recording {
    gap_thread: Option<Running>,
    pub(super) resubmit: Option<resubmit::Resubmit>,
    pub(super) fleet: Option<fleet::Fleet>,
    pub(super) delivery: Option<delivery::Delivery>,
    pub(super) ship: Option<ship::Ship>,
    pub(super) archive: Option<archive::Archiving>,
    pub(super) tracker: Option<tracker::Tracker>,
    pub(super) counting: Option<monitor::Counting>,
    pub(super) journal: Option<Arc<Journal>>,
    pub(super) recovery: RecoveryReport,
    pub(super) gaps: Gaps,
}

impl Recording {
    /// Starts the followers of an open journal; returns the lanes of the workers.
    ///
    /// # Errors
    /// Their data cannot be opened.
    pub(super) fn start(
        (upstreams, digest, warnings): (&Upstreams, &ConfigurationDigest, &Findings),
        opened: journal::Opened,
        (limiter, revoked_keys): (&Arc<Limiter>, &Arc<RevokedKeys>),
        messages: &Messages,
    ) -> anyhow::Result<(Self, Vec<Lane>)> {
        let journal::Opened { journal, lanes, recovery } = opened;
        let config = &upstreams.config;
        let mut recording = Self {
            gap_thread: None,
            resubmit: None,
            fleet: None,
            delivery: None,
            ship: None,
            archive: None,
            tracker: None,
            counting: None,
            journal,
            recovery,
            gaps: Gaps::new(&config.data),
        };
        if let Some(journal) = &recording.journal {
            recording.tracker = tracker::start(config, journal, messages)?;
            // Counts first: events of counts include everything that was recorded before.
            let counting = monitor::open(config, journal, limiter)?;
            recording.delivery = Some(delivery::start(upstreams, journal, messages)?);
            recording.archive = archive::start(upstreams, journal, messages)?;
            recording.counting = counting.map(|opened| opened.start(messages)).transpose()?;
        }
        let monitor = recording.counting.as_ref().map(|counting| counting.monitor.clone());
        let state = (monitor, revoked_keys);
        recording.fleet = fleet::start(upstreams, (digest, warnings), limiter, state, messages)?;
        if let Some(journal) = &recording.journal {
            let fleet = recording.fleet.as_ref().map(|fleet| &fleet.handle);
            recording.ship = Some(ship::start(upstreams, journal, fleet, messages)?);
        }
        Ok((recording, lanes))
    }

    /// Takes out the parts that change the data folder. The last gaps, and outcomes of attempts, are
    /// still stored.
    pub(super) fn take_followers(&mut self) -> impl Send + use<> {
        let followers = (self.delivery.take(), self.ship.take(), self.tracker.take());
        let archive = self.archive.take();
        (self.fleet.take(), followers, archive, self.counting.take())
    }

    /// Starts the parts that use the gateway. Attempts are sent once a predecessor has ended.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn connect(
        &mut self,
        config: &Config,
        gateway: &Arc<Gateway>,
        messages: &Messages,
        predecessor_ended: &Ended,
    ) -> anyhow::Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let gap_thread = gaps::start(self.gaps.clone(), gateway, journal, messages);
        self.gap_thread = Some(gap_thread.context("cannot start a thread")?);
        let index = self.tracker.as_ref().map(|tracker| &tracker.index);
        let fleet = self.fleet.as_ref().map(|fleet| &fleet.handle);
        self.resubmit = index.and_then(|index| {
            let from = (index, fleet);
            resubmit::start(&config.data, from, gateway, messages, predecessor_ended)
        });
        Ok(())
    }
}
