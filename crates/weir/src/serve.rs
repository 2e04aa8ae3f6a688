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
mod messages;
mod metrics;
mod monitor;
mod post;
mod recording;
mod resubmit;
mod telemetry;
mod thread;
mod tracker;
mod watch;

use crate::exit::Exit;
use crate::{descriptors, findings};
use anyhow::Context;
use control::Control;
use events::{Events, Listening};
use messages::Messages;
use post::Upstreams;
use recording::Recording;
use std::sync::Arc;
use weir_config::Source;
use weir_gateway::configuration::Configuration;
use weir_server::Gateway;

/// Serves until stopped.
///
/// # Errors
/// The start failed; the message has the reason, and the address if it is one.
pub(crate) fn run(source: Source, json: bool) -> anyhow::Result<Exit> {
    descriptors::close_inherited();
    let loaded = weir_gateway::configuration::load(&source);
    let Some(loaded) = findings::accepted(loaded) else { return Ok(Exit::Findings) };
    let Configuration { config, compiled, findings: warnings } = loaded;
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

    let admin = weir_admin::bind(&config.admin, &compiled.certificates, &config.data)?;
    let mut bound = Gateway::bind(&config)?;
    let mut listening = Listening {
        addrs: bound.listen_addrs().to_vec(),
        tls: config.listen.iter().map(|listener| listener.tls.is_some()).collect(),
        admin: admin.addr(),
        admin_tls: admin.is_tls(),
        first_token: None,
    };
    let config = Arc::new(config);
    let clients = Arc::clone(&compiled.upstream_clients);
    let upstreams = Upstreams { config: Arc::clone(&config), clients };
    let journal = journal::open(&config)?;
    let messages = Messages::start().context("cannot start a thread")?;
    bound.log_to(log(&messages));
    let (mut recording, lanes) = Recording::start(&upstreams, journal, bound.limiter(), &messages)?;
    let gateway = Arc::new(bound.start(Arc::clone(&config), compiled, lanes)?);
    recording.connect(&config, &gateway, &messages)?;
    let access = access::open(&config.data, &messages).map(|opened| {
        listening.first_token = opened.first_token;
        opened.access
    });
    let events = Events::new(messages.clone(), json);
    let mut control =
        Control::new(source, (upstreams, &warnings), gateway, events, messages.clone())
            .context("cannot handle signals")?;
    control.events().ready(&listening);
    // Clients of the admin listener wait for responses, as those of a worker do. Threads that were
    // started before have longer time slices.
    weir_journal::use_short_time_slices();
    let sources = control.sources(access, &recording, &listening);
    control.start_telemetry(&sources.metrics);
    runtime.spawn(admin.serve(sources, log(&messages)));
    let exit = runtime.block_on(control.run());
    control.finish_telemetry();
    drop(recording);
    messages.finish();
    // A drain that was cut short may still be waiting on its own thread.
    runtime.shutdown_background();
    Ok(exit)
}

/// Writes log lines of the gateway and the admin listener as messages.
fn log(messages: &Messages) -> weir_broker::Log {
    let messages = messages.clone();
    Arc::new(move |line| messages.err(line))
}
