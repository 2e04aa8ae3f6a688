//! Composition of `weir serve`: binds all sockets, starts all parts, then handles events.
//!
//! The control thread runs the admin listener and handles signals and file changes. It never
//! handles requests of clients.

mod access;
mod archive;
mod burst;
mod configurations;
mod control;
pub(crate) mod control_socket;
mod delivery;
mod events;
mod final_flush;
mod fleet;
mod gaps;
mod handover;
mod jobs;
mod journal;
mod messages;
mod metrics;
mod monitor;
mod post;
mod recording;
mod resubmit;
mod revoked_keys;
mod service_manager;
mod ship;
mod telemetry;
mod thread;
mod tracker;
mod upgrade;
mod versions;
mod watch;

use crate::exit::Exit;
use crate::{backup, descriptors, findings, output};
use anyhow::Context;
use control::{Control, Requests, Stops};
use control_socket::ControlSocket;
use events::{Events, Listening};
use handover::predecessor::{Ended, Predecessor};
use messages::Messages;
use post::Upstreams;
use recording::Recording;
use std::path::PathBuf;
use std::sync::Arc;
use upgrade::{AdminListener, Upgrades};
use weir_config::{Config, Source};
use weir_gateway::configuration::Configuration;
use weir_journal::failpoint;
use weir_net::passed::Passed;
use weir_server::{Bound, Gateway};

/// Serves until stopped. With `takeover`, standard input is the socket of a predecessor.
///
/// # Errors
/// The start failed; the message has the reason, and the address if it is one.
pub(crate) fn run(source: Source, json: bool, takeover: bool) -> anyhow::Result<Exit> {
    // Before its file may be replaced.
    let program = std::env::current_exe().context("cannot find the program of this process")?;
    let passed = Passed::by_service_manager()?;
    descriptors::close_inherited();
    if !takeover {
        let start = Start { source, json, program, passed, predecessor: None };
        return serve(start);
    }
    let predecessor = Arc::new(Predecessor::connect()?);
    let start =
        Start { source, json, program, passed, predecessor: Some(Arc::clone(&predecessor)) };
    serve(start).inspect_err(|error| predecessor.failed(&output::with_causes(error)))
}

/// Context of a rejected registration.
const NO_SIGNALS: &str = "cannot handle signals";

/// What a server starts with.
struct Start {
    source: Source,
    json: bool,
    program: PathBuf,
    passed: Passed,
    predecessor: Option<Arc<Predecessor>>,
}

fn serve(start: Start) -> anyhow::Result<Exit> {
    let Start { source, json, program, mut passed, predecessor } = start;
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let requests = Requests::register().context(NO_SIGNALS)?;
    let Some(loaded) = load(&source, predecessor.as_deref()) else { return Ok(Exit::Findings) };
    let Configuration { config, compiled, findings: warnings } = loaded;

    if let Some(predecessor) = &predecessor {
        passed = predecessor.sockets(&config.data)?;
    }
    let admin = weir_admin::bind(&config, &compiled.certificates, &mut passed)?;
    let mut bound = Gateway::bind(&config, &mut passed)?;
    let listening = listening(&config, &bound, &admin);
    passed.finish(&[&listening.addrs[..], &[listening.admin]].concat())?;
    let config = Arc::new(config);
    let (clients, digest) = (Arc::clone(&compiled.upstream_clients), Arc::clone(&compiled.digest));
    let upstreams = Upstreams { config: Arc::clone(&config), clients };
    let mut folder = predecessor.as_ref().map(|one| one.folder(&passed)).transpose()?;
    let predecessor_ended = Ended::new(predecessor.is_some());
    let journal = journal::open(&config, folder.as_mut())?;
    match predecessor {
        // It may be writing a backup.
        Some(_) => failpoint::pass("takeover.opened"),
        None => remove_leftovers(&config)?,
    }
    let messages = Messages::start().context("cannot start a thread")?;
    bound.log_to(log(&messages));
    let revoked = revoked_keys::open(&config.data, &mut bound)?;
    let (from, state) = ((&upstreams, &*digest, &warnings), (bound.limiter(), &revoked));
    let (mut recording, lanes) = Recording::start(from, journal, state, &messages)?;
    let progress = folder.map(|folder| folder.progress).unwrap_or_default();
    bound.limiter().restore_quota_counts(&progress.quotas());
    let stops = Stops::register().context(NO_SIGNALS)?;
    let gateway = Arc::new(bound.start(Arc::clone(&config), compiled, lanes)?);
    revoked_keys::connect(&revoked, &gateway);
    recording.connect(&config, &gateway, &messages, &predecessor_ended)?;
    let fleet = recording.fleet.as_ref().map(|fleet| &fleet.handle);
    let (access, first_token) = access::open(&config.data, (fleet, &revoked), &messages).unzip();
    let events = Events::new(messages.clone(), json);
    let mut control = Control::new(
        source,
        (upstreams, &warnings),
        Arc::clone(&gateway),
        (events, messages.clone()),
        (requests, stops),
    );
    control.keep_history(access.as_ref(), recording.fleet.as_ref(), (&digest, &warnings));
    control.events.ready(&listening, gateway.io(), first_token.flatten().as_deref());
    // Clients of the admin listener wait for responses, as those of a worker do. Threads that were
    // started before have longer time slices.
    weir_journal::use_short_time_slices();
    let sources = control.sources(access, &recording, &listening);
    let socket = admin.duplicate().context("cannot duplicate the socket of the admin listener")?;
    let (closing, is_closing) = tokio::sync::watch::channel(false);
    let task = runtime.spawn(admin.serve(sources, log(&messages), is_closing));
    let mut upgrades = Upgrades {
        program,
        socket: ControlSocket::open(&config.data, &control.events),
        admin: AdminListener { socket, task, closing },
        predecessor_ended: predecessor_ended.clone(),
    };
    let follow = predecessor.map(|predecessor| {
        predecessor.serving()?;
        let shared = (recording.journal.clone(), &gateway, &revoked);
        let follow = predecessor.follow(&progress, shared, &messages, &predecessor_ended);
        follow.context("cannot start a thread")
    });
    let follow = follow.transpose()?;
    service_manager::ready();
    let exit = runtime.block_on(control.run(&mut upgrades, &mut recording));
    drop(follow);
    // The export of telemetry ends before the other parts.
    drop((control, upgrades, gateway));
    drop(recording);
    messages.finish();
    // A drain that was cut short may still be waiting on its own thread.
    runtime.shutdown_background();
    Ok(exit)
}

/// What is listened on.
fn listening(config: &Config, bound: &Bound, admin: &weir_admin::Bound) -> Listening {
    Listening {
        addrs: bound.listen_addrs().to_vec(),
        tls: config.listen.iter().map(|listener| listener.tls.is_some()).collect(),
        admin: admin.addr(),
        admin_tls: admin.is_tls(),
    }
}

/// The runtime of the control thread.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.on_thread_start(weir_journal::use_short_time_slices).enable_all();
    builder.build().context("cannot create a runtime")
}

/// Removes what a process has left that ended in the middle of something.
fn remove_leftovers(config: &Config) -> anyhow::Result<()> {
    backup::remove_leftovers(&config.data).context("an interrupted backup")?;
    versions::recover(config)
}

/// Loads the configuration; `None` if it has errors, which are printed and reported.
fn load(source: &Source, predecessor: Option<&Predecessor>) -> Option<Configuration> {
    let version = versions::of_start(predecessor.is_some());
    let source = Source { version, ..source.clone() };
    let loaded = weir_gateway::configuration::load(&source);
    if let (Err(findings), Some(predecessor)) = (&loaded, predecessor) {
        predecessor.failed(findings.render(false).trim_end());
    }
    let loaded = findings::accepted(loaded)?;
    findings::print(&loaded.findings);
    descriptors::raise_limit();
    let needed = weir_net::descriptors::descriptors_needed(&loaded.config);
    if let Some(warning) = descriptors::shortage(needed) {
        output::note(&warning);
    }
    Some(loaded)
}

/// Writes log lines of the gateway and the admin listener as messages.
fn log(messages: &Messages) -> weir_broker::Log {
    let messages = messages.clone();
    Arc::new(move |line| messages.err(line))
}
