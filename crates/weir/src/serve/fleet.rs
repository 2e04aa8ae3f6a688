//! The thread that keeps this node a member of its fleet.

use super::messages::Messages;
use super::post::Upstreams;
use super::thread::{Running, Thread, ThreadContext};
use super::versions::Versions;
use anyhow::Context;
use std::sync::Arc;
use std::time::Duration;
use weir_admin::configuration::{FindingInfo, Reload};
use weir_document::finding::Findings;
use weir_fleet::status::{ConfigurationState, MAX_FINDINGS};
use weir_fleet::{FleetTls, Handle, Host, Member, RateLeaser, Settings};
use weir_gateway::digest::ConfigurationDigest;
use weir_limit::Limiter;
use weir_monitor::Monitor;
use weir_monitor::replica::Replica;
use weir_store::revoked_keys::RevokedKeys;

/// The thread.
const THREAD: Thread = Thread { name: "fleet", task: "fleet", nice: 0 };
/// The thread for which requests wait: nothing else holds it up.
const RATE_THREAD: Thread = Thread { name: "fleet-rates", task: "leasing tokens", nice: 0 };

/// Longest wait of a start for the database, if there are quotas.
const REGISTRATION_WAIT: Duration = Duration::from_secs(2);

/// The running thread.
pub(super) struct Fleet {
    pub(super) handle: Handle,
    /// Versions of the configuration, until the control thread takes them.
    pub(super) versions: Option<Versions>,
    /// Ends first.
    _rates: Option<Running>,
    _thread: Running,
}

/// Starts the thread, if there is a fleet.
///
/// # Errors
/// The identity cannot be read or written, or the thread cannot be started.
pub(super) fn start(
    upstreams: &Upstreams,
    (digest, warnings): (&ConfigurationDigest, &Findings),
    limiter: &Arc<Limiter>,
    (monitor, revoked_keys): (Option<Monitor>, &Arc<RevokedKeys>),
    messages: &Messages,
) -> anyhow::Result<Option<Fleet>> {
    let data = &upstreams.config.data;
    let Some(settings) = settings(upstreams) else {
        if weir_store::exists(data) {
            Replica::end(data).context("cannot end the replication of usage")?;
        }
        return Ok(None);
    };
    // Without a journal nothing else has made it.
    weir_journal::create_folder(data).with_context(|| data.display().to_string())?;
    let opened = Member::open(data, settings, limiter, monitor, Arc::clone(revoked_keys));
    let (member, handle, offers) = opened.context("cannot open the identity of this node")?;
    let versions = Versions::open(&upstreams.config, &handle, offers)?;
    let state = ConfigurationState {
        time: jiff::Timestamp::now().to_string(),
        taken: true,
        findings: warnings.list.len(),
        messages: FindingInfo::all(warnings).iter().map(line).take(MAX_FINDINGS).collect(),
    };
    handle.report(Some(digest.hex().to_owned()), state);
    let context = ThreadContext::new(messages);
    let wake = handle.clone();
    type State = (Member, ThreadContext);
    let run = async |(member, context): &mut State| member.run(context).await;
    let recover = |(member, _): &mut State| member.recover();
    let state = (member, context.clone());
    let thread = THREAD.start_async(&context, move || wake.wake(), state, run, recover)?;
    if upstreams.config.plans.iter().any(|plan| plan.quota.is_some()) {
        handle.wait_until_tried(REGISTRATION_WAIT);
    }
    let rates = handle.rate_leaser().map(|leaser| start_leaser(leaser, messages)).transpose()?;
    Ok(Some(Fleet { handle, versions, _rates: rates, _thread: thread }))
}

/// Starts the thread that leases tokens of rates.
fn start_leaser(leaser: RateLeaser, messages: &Messages) -> anyhow::Result<Running> {
    let context = ThreadContext::new(messages);
    let wake = leaser.waker();
    type State = (RateLeaser, ThreadContext);
    let run = async |(leaser, context): &mut State| leaser.run(context).await;
    let recover = |(leaser, _): &mut State| leaser.recover();
    let state = (leaser, context.clone());
    Ok(RATE_THREAD.start_async(&context, wake, state, run, recover)?)
}

/// The settings of the member in a configuration.
pub(super) fn settings(upstreams: &Upstreams) -> Option<Settings> {
    let fleet = upstreams.config.fleet.as_ref()?;
    let monitor = &upstreams.config.monitor;
    let clients = &upstreams.clients;
    let tls = FleetTls {
        postgres: clients.database().cloned(),
        peers: clients.peers().cloned(),
        redis: clients.redis().cloned(),
    };
    Some(Settings::new(fleet, tls, monitor.keep, &monitor.alerts))
}

impl Host for ThreadContext {
    fn stopped(&self) -> bool {
        self.stopped()
    }

    fn note(&mut self, text: &str) {
        ThreadContext::note(self, text);
    }

    fn failed(&mut self, text: &str) {
        self.failed(text);
    }

    fn succeeded(&mut self) {
        self.succeeded();
    }
}

/// A load of the configuration, as the fleet shows it.
pub(super) fn configuration_state(reload: &Reload) -> ConfigurationState {
    let messages = reload.error.clone().into_iter().chain(reload.findings.iter().map(line));
    ConfigurationState {
        time: reload.time.clone(),
        taken: reload.taken,
        findings: reload.findings.len(),
        messages: messages.take(MAX_FINDINGS).collect(),
    }
}

fn line(finding: &FindingInfo) -> String {
    format!("{}:{}: {}", finding.file, finding.line, finding.message)
}
