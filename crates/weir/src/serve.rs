//! Composition of `weir serve`: binds all sockets, starts all parts, then handles events.
//!
//! The control thread runs the admin listener and handles signals and file changes. It never
//! handles requests of clients.

mod access;
mod burst;
mod control;
mod delivery;
mod events;
mod gaps;
mod journal;
mod lab;
mod messages;
mod metrics;
mod monitor;
mod post;
mod resubmit;
mod telemetry;
mod tracker;
mod watch;

use crate::exit::Exit;
use crate::{descriptors, findings};
use anyhow::Context;
use control::{Control, Recorded};
use events::{Events, Listening};
use messages::Messages;
use std::sync::Arc;
use weir_config::Source;
use weir_gateway::Gateway;
use weir_store::gaps::Gaps;

/// Serves until stopped.
///
/// # Errors
/// The start failed; the message has the reason, and the address if it is one.
pub(crate) fn run(source: Source, json: bool) -> anyhow::Result<Exit> {
    descriptors::close_inherited();
    let (config, warnings) = match weir_gateway::configuration::load(&source) {
        Ok(loaded) => loaded,
        Err(found) => {
            findings::print(&found);
            return Ok(Exit::Findings);
        }
    };
    findings::print(&warnings);
    descriptors::raise_limit();
    if let Some(warning) = descriptors::shortage(weir_net::descriptors::descriptors_needed(&config))
    {
        crate::output::note(&warning);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_start(weir_journal::use_short_time_slices)
        .enable_all()
        .build()
        .context("cannot create a runtime")?;
    let _entered = runtime.enter();

    let admin = weir_admin::bind(&config.admin, &config.data)?;
    let mut bound = Gateway::bind(&config)?;
    let mut listening = Listening {
        addrs: bound.listen_addrs().to_vec(),
        tls: config.listen.iter().map(|listener| listener.tls.is_some()).collect(),
        admin: admin.addr(),
        admin_tls: admin.is_tls(),
        first_token: None,
    };
    let config = Arc::new(config);
    let journal::Opened { journal, lanes, recovery } = journal::open(&config)?;
    let messages = Messages::start().context("cannot start a thread")?;
    let log = messages.clone();
    bound.log_to(Arc::new(move |line| log.err(line)));
    let tracker = match &journal {
        Some(journal) => tracker::start(&config, journal, &messages)?,
        None => None,
    };
    // Counts first: what is told of them is of all that was recorded before.
    let counting = match &journal {
        Some(journal) => monitor::open(&config, journal, bound.limiter())?,
        None => None,
    };
    let delivery = match &journal {
        Some(journal) => Some(delivery::start(&config, journal, &messages)?),
        None => None,
    };
    let counting = counting.map(|opened| opened.start(&messages)).transpose()?;
    let gateway = Arc::new(bound.start(Arc::clone(&config), lanes)?);
    let gaps = Gaps::new(&config.data);
    let watching = match &journal {
        Some(journal) => Some(
            gaps::start(gaps.clone(), &gateway, journal, &messages)
                .context("cannot start a thread")?,
        ),
        None => None,
    };
    let access = access::open(&config.data, &messages).map(|opened| {
        listening.first_token = opened.first_token;
        opened.access
    });
    let resubmit = tracker
        .as_ref()
        .and_then(|tracker| resubmit::start(&config.data, &tracker.index, &gateway, &messages));
    let events = Events::new(messages.clone(), json);
    let mut control = Control::new(source, (config, &warnings), gateway, events, messages.clone())
        .context("cannot handle signals")?;
    control.events().ready(&listening);
    let index = tracker.as_ref().map(|tracker| tracker.index.clone());
    control.deliver_by(delivery.as_ref().map(delivery::Delivery::handle));
    let resubmitter = resubmit.as_ref().map(|resubmit| &resubmit.resubmitter);
    let recorded = Recorded { journal: journal.clone(), index, recovery, gaps };
    // Somebody waits for what the admin listener is asked, as for any request. Threads that were
    // started before have longer turns.
    weir_journal::use_short_time_slices();
    let listeners: Vec<_> = listening.addrs.iter().copied().zip(listening.tls).collect();
    let mut sources = control.sources(access, recorded, counting.as_ref(), resubmitter);
    sources.lab = Some(control.lab(&listeners));
    control.tell_by(&sources.metrics);
    let log = messages.clone();
    runtime.spawn(admin.serve(sources, Arc::new(move |line| log.err(line))));
    let exit = runtime.block_on(control.run());
    control.finish_telling();
    // The journal's lock is given up when everything is written and read.
    drop(watching);
    drop(resubmit);
    drop(delivery);
    drop(tracker);
    drop(counting);
    drop(journal);
    messages.finish();
    // A drain that was cut short may still be waiting on its own thread.
    runtime.shutdown_background();
    Ok(exit)
}
