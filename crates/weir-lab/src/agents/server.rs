//! The agent: runs its share of the load of one controller at a time.

use super::AgentError;
use super::channel::{self, Channel};
use super::divide::divide;
use super::files::is_inside;
use super::interval::WireInterval;
use super::message::{Ended, Plan, Round, Source, ToAgent, ToController};
use super::security::Security;
use crate::bounded_file;
use crate::engine::{self, Control, Event, Io, Options, Part};
use crate::jmx;
use crate::measure::{resized, with_max_rate};
use crate::program::{Label, Origin, Program};
use crate::record::Clock;
use crate::scenario::{self, Level, Overrides};
use std::collections::{BTreeSet, VecDeque};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;

/// Connections in the handshake at the same time. For a further one the oldest is closed, so that silent ones
/// do not keep the controller out.
const MAX_HANDSHAKES: usize = 16;
/// Messages that wait to be sent.
const MAX_MESSAGES: usize = 64;

/// Options of an agent.
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// Loops: threads. 0 is [`engine::default_loops`] of a machine without a server: all cores.
    pub loops: u32,
    /// Ends after one run.
    pub once: bool,
    /// Protection of its connections.
    pub security: Security,
}

/// A listening agent.
#[derive(Debug)]
pub struct Agent {
    listener: TcpListener,
    options: AgentOptions,
}

impl Agent {
    /// Listens at an address.
    ///
    /// # Errors
    /// The address is in use, or needs protection.
    pub fn listen(address: SocketAddr, options: AgentOptions) -> Result<Self, AgentError> {
        options.security.check(address)?;
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, options })
    }

    /// The address.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub fn address(&self) -> Result<SocketAddr, AgentError> {
        Ok(self.listener.local_addr()?)
    }

    /// Serves controllers until the process ends, or one with [`AgentOptions::once`]. `note` gets what happens, as text.
    ///
    /// # Errors
    /// The runtime cannot be started.
    pub fn run(self, note: impl Fn(&str) + Send + Sync + 'static) -> Result<(), AgentError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let served = Arc::new(Served {
                options: self.options,
                base: Instant::now(),
                run: Arc::new(Semaphore::new(1)),
                handshakes: Mutex::default(),
                ended: Notify::new(),
                note: Box::new(note),
            });
            for number in 0_u64.. {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = served.ended.notified() => return Ok(()),
                };
                match accepted {
                    Ok((tcp, from)) => {
                        let this = served.clone();
                        let task = tokio::spawn(async move { this.serve(tcp, from, number).await });
                        served.handshake(number, task.abort_handle());
                    }
                    // No descriptor is free, for instance.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
            Ok(())
        })
    }
}

/// State of an agent.
struct Served {
    options: AgentOptions,
    /// Start of its clock.
    base: Instant,
    /// One controller at a time.
    run: Arc<Semaphore>,
    /// Connections in the handshake with their numbers, the oldest one first.
    handshakes: Mutex<VecDeque<(u64, AbortHandle)>>,
    /// The only run has ended.
    ended: Notify,
    note: Box<dyn Fn(&str) + Send + Sync>,
}

/// Programs of a plan, and the folder of their files.
struct Loaded {
    programs: Vec<Program>,
    _folder: tempfile::TempDir,
}

impl Served {
    fn handshakes(&self) -> MutexGuard<'_, VecDeque<(u64, AbortHandle)>> {
        self.handshakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, whose task has not run yet.
    fn handshake(&self, number: u64, task: AbortHandle) {
        let mut open = self.handshakes();
        if open.len() >= MAX_HANDSHAKES
            && let Some((_, oldest)) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back((number, task));
    }

    async fn serve(&self, tcp: TcpStream, from: SocketAddr, number: u64) {
        let ended = || self.handshakes().retain(|(open, _)| *open != number);
        let busy = || {
            // A known controller is not closed for others.
            ended();
            let permit = self.run.clone().try_acquire_owned();
            permit.map_err(|_| "the agent is part of another run".to_owned())
        };
        let accepted = channel::accept(tcp, &self.options.security, busy).await;
        ended();
        match accepted {
            Ok((channel, permit)) => {
                (self.note)(&format!("controller {from}"));
                let reason = self.exchange(channel, permit).await;
                (self.note)(&format!("controller {from}: {reason}"));
                if self.options.once {
                    self.ended.notify_one();
                }
            }
            Err(reason) => (self.note)(&format!("{from} was refused: {reason}")),
        }
    }

    /// Exchanges messages until the controller is gone; then the load ends. Returns the reason.
    async fn exchange(&self, channel: Channel<ToAgent>, permit: OwnedSemaphorePermit) -> String {
        let Channel { mut writer, mut received } = channel;
        let (sender, mut messages) = mpsc::channel(MAX_MESSAGES);
        let mut session = Session {
            loops: self.options.loops,
            base: self.base,
            sender,
            plan: Arc::default(),
            control: Control::default(),
            running: None,
        };
        let reason = loop {
            let sent = tokio::select! {
                message = received.recv() => match message {
                    Some(Ok(ToAgent::Ping { sent })) => {
                        let at = u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX);
                        writer.send(&ToController::Pong { sent, at }).await
                    }
                    Some(Ok(message)) => session.message(message),
                    Some(Err(reason)) => Err(reason),
                    None => Err("the connection was closed".to_owned()),
                },
                Some(message) = messages.recv() => writer.send(&message).await,
            };
            if let Err(reason) = sent {
                break reason;
            }
        };
        // Without its receiver the thread of the round does not wait.
        drop(messages);
        session.control.stop_now();
        let end = tokio::task::spawn_blocking(move || {
            session.join();
            drop(permit);
        });
        // The next controller is refused until the load has ended.
        let _ = end.await;
        reason
    }
}

/// The run of one controller.
struct Session {
    loops: u32,
    base: Instant,
    sender: mpsc::Sender<ToController>,
    /// Set once the plan is read.
    plan: Arc<OnceLock<Loaded>>,
    control: Control,
    running: Option<std::thread::JoinHandle<()>>,
}

impl Session {
    fn message(&mut self, message: ToAgent) -> Result<(), String> {
        match message {
            ToAgent::Ping { .. } => {}
            ToAgent::Plan(plan) => {
                self.join();
                self.plan = Arc::default();
                let loaded = self.plan.clone();
                let (sender, loops) = (self.sender.clone(), self.loops());
                self.spawn(move || {
                    let response = match read(&plan) {
                        Ok(plan) => {
                            let _ = loaded.set(plan);
                            ToController::Ready { loops }
                        }
                        Err(reason) => ToController::Rejected { reason },
                    };
                    let _ = sender.blocking_send(response);
                })?;
            }
            ToAgent::Round(round) => self.round(*round)?,
            ToAgent::Stop => self.control.stop(),
            ToAgent::StopNow => self.control.stop_now(),
        }
        Ok(())
    }

    fn loops(&self) -> u32 {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        if self.loops > 0 { self.loops } else { u32::try_from(cores).unwrap_or(1) }
    }

    fn round(&mut self, round: Round) -> Result<(), String> {
        self.join();
        let plan = self.plan.clone();
        self.control = Control::default();
        let (sender, control, base) = (self.sender.clone(), self.control.clone(), self.base);
        self.spawn(move || {
            let ended = match plan.get() {
                Some(loaded) => run(&round, loaded, &control, base, &sender),
                None => Err("a round without a plan".to_owned()),
            };
            let ended = ended.unwrap_or_else(|error| Ended {
                error: Some(error),
                stopped: true,
                interrupted: 0,
                length: 0,
                is_ring: false,
                late: 0,
            });
            let _ = sender.blocking_send(ToController::Ended(ended));
        })
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let thread = std::thread::Builder::new().name("lab-round".to_owned()).spawn(work);
        self.running = Some(thread.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Waits for the end of a thread.
    fn join(&mut self) {
        if let Some(thread) = self.running.take() {
            // A panic ends only the round.
            let _ = thread.join();
        }
    }
}

/// Reads a plan from its files.
fn read(plan: &Plan) -> Result<Loaded, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let main = plan.unpack(folder.path())?;
    let (programs, files) = bounded_file::recorded(|| programs(&plan.source, &main));
    let is_own = |path: &PathBuf| path.strip_prefix(folder.path()).is_ok_and(is_inside);
    if let Some(path) = files.iter().find(|path| !is_own(path)) {
        return Err(format!("`{}` is not one of the files of the plan", path.display()));
    }
    Ok(Loaded { programs: programs?, _folder: folder })
}

fn programs(source: &Source, main: &std::path::Path) -> Result<Vec<Program>, String> {
    match source {
        Source::Scenario { level, target, sets, max_rate } => {
            let level = match level.as_str() {
                "quick" => Level::Quick,
                "full" => Level::Full,
                _ => Level::Usual,
            };
            let over = Overrides { level, target: target.clone(), sets: sets.clone() };
            let (scenario, _) =
                scenario::load(main, &over).map_err(|findings| findings.render(false))?;
            let programs = scenario.cells.into_iter().map(|cell| match max_rate {
                Some(rate) => with_max_rate(&cell.program, *rate),
                None => cell.program,
            });
            Ok(programs.collect())
        }
        Source::Jmeter { properties, keystore, lenient } => {
            let options = jmx::Options {
                properties: properties.clone(),
                keystore: keystore.clone().beside(main),
                lenient: *lenient,
                jmeter: None,
            };
            let plan = jmx::load(main, &options).map_err(|error| error.to_string())?;
            Ok(vec![plan.program])
        }
    }
}

/// Runs a round and reports its seconds.
fn run(
    round: &Round,
    loaded: &Loaded,
    control: &Control,
    base: Instant,
    sender: &mpsc::Sender<ToController>,
) -> Result<Ended, String> {
    let program = loaded.programs.get(round.cell).ok_or("a round of an unknown case")?;
    let mut program = match round.size {
        Some(size) => resized(program, size),
        None => program.clone(),
    };
    if let Some((from, to)) = &round.origins {
        program.retarget(&Origin::from(from), &Origin::from(to));
    }
    let program = divide(program, round.share)?;
    let (labels, transactions) = (program.labels.clone(), program.transactions());
    let transactions: BTreeSet<Label> = transactions.into_iter().collect();
    let steady = base + Duration::from_nanos(round.start);
    let late = Instant::now().saturating_duration_since(steady);
    std::thread::sleep(steady.saturating_duration_since(Instant::now()).min(MAX_START_WAIT));
    let wall = SystemTime::now() - Instant::now().saturating_duration_since(steady);
    let options = Options {
        loops: round.share.loops,
        part: Some(Part { first: round.share.first, all: round.share.all }),
        io: if round.epoll { Io::Epoll } else { Io::Auto },
        seed: round.seed,
        clock: Clock { wall, steady },
        ..Options::default()
    };
    let mut damaged = None;
    let summary = engine::run(program, &options, control, &mut |event| {
        let Event::Second(second) = event else { return };
        match WireInterval::new(second, &labels, &transactions) {
            // A closed channel: the controller is gone, and the load ends.
            Ok(second) => match sender.blocking_send(ToController::Second(Box::new(second))) {
                Ok(()) => {}
                Err(_) => control.stop_now(),
            },
            Err(reason) => damaged = Some(reason),
        }
    });
    let summary = summary.map_err(|error| error.to_string())?;
    damaged.map_or(Ok(()), Err)?;
    Ok(Ended {
        error: None,
        stopped: summary.stopped,
        interrupted: summary.interrupted,
        length: u64::try_from(summary.length.as_nanos()).unwrap_or(u64::MAX),
        is_ring: summary.is_ring,
        late: u64::try_from(late.as_nanos()).unwrap_or(u64::MAX),
    })
}

/// Longest wait for the start of a round.
const MAX_START_WAIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::super::Agents;
    use super::super::message::PlanFile;
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn silent_connections_do_not_keep_the_controller_out() {
        let options = AgentOptions { once: true, ..AgentOptions::default() };
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let agent = Agent::listen(local, options).expect("a free port");
        let address = agent.address().expect("known");
        let served = std::thread::spawn(move || agent.run(|_| {}));
        let silent = (0..2 * MAX_HANDSHAKES).map(|_| std::net::TcpStream::connect(address));
        let silent: Vec<_> = silent.collect::<Result<_, _>>().expect("connected");
        let start = Instant::now();
        let addresses = [address.to_string()];
        let agents = Agents::connect(&addresses, &Security::default(), Duration::ZERO);
        let agents = agents.expect("accepted");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        drop((agents, silent));
        served.join().expect("no panic").expect("served");
    }

    #[test]
    fn a_plan_reads_only_its_own_files() {
        let outside = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(outside.path(), "id\n17\n").expect("written");
        let name = outside.path().file_name().expect("a name").to_string_lossy();
        let read_with = |file: &str| {
            let scenario = format!(
                "lab: 1\ntarget: {{base: \"http://127.0.0.1:1\"}}\nfeeders: {{rows: {{csv: \"{file}\"}}}}\n\
                 requests: [{{get: \"/${{rows.id}}\"}}]\nload: {{executor: constant-vus, vus: 1, duration: 1s}}\n"
            );
            let file = |path: &str, text: &str| PlanFile {
                path: path.to_owned(),
                content: STANDARD.encode(text),
            };
            let (level, target) = ("usual".to_owned(), None);
            let source = Source::Scenario { level, target, sets: Vec::new(), max_rate: None };
            let main = "lab.yaml".to_owned();
            let files = vec![file(&main, &scenario), file("rows.csv", "id\n1\n")];
            read(&Plan { source, main, files }).map(|loaded| loaded.programs.len())
        };
        assert_eq!(read_with("rows.csv"), Ok(1));
        for path in [format!("../{name}"), outside.path().to_string_lossy().into_owned()] {
            let refused = read_with(&path).expect_err("outside");
            assert!(refused.contains("is not one of the files of the plan"), "{refused}");
        }
    }
}
