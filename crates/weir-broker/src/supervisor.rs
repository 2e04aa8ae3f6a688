//! Supervision of one pool on the broker's thread: starts agents, probes their health, stops them
//! and reaps them.

mod probe;

use crate::agent::{AgentCommand, AgentControl, AgentId};
use crate::launch::{self, ExitWatch, Process};
use crate::log::{Lines, MAX_LINE_BYTES};
use crate::pool::{ExitReason, Plan, Pool};
use crate::runtime_folder::{RuntimeFolder, resident};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::unix::pipe::Receiver;
use weir_model::pool::{AgentAddress, AgentSource, Program, SOCKET};

/// Interval at which age, idle time and memory of agents are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Supervises a pool until it is closed and its agents have exited.
pub(crate) async fn supervise(pool: Arc<Pool>, folder: Arc<RuntimeFolder>) {
    let mut next_check = Instant::now() + CHECK_INTERVAL;
    loop {
        let Plan { start, next_start, finished } = pool.plan(Instant::now());
        if finished {
            return;
        }
        if let AgentSource::Start(program) = pool.source() {
            for (id, control) in start {
                let (pool, folder) = (Arc::clone(&pool), Arc::clone(&folder));
                let program = program.clone();
                tokio::task::spawn_local(async move {
                    let reason = run_agent(&pool, id, &control, &program, &folder).await;
                    folder.remove(id.0);
                    pool.exited(id, reason);
                });
            }
        }
        let wake = next_start.map_or(next_check, |at| at.min(next_check));
        tokio::select! {
            () = pool.wake.notified() => {}
            () = tokio::time::sleep_until(wake.into()) => {}
        }
        // The time is compared again, as the loop may wake up more often.
        if Instant::now() >= next_check {
            pool.check_memory(resident);
            if let Some(line) = folder.restart_watchdog() {
                pool.report(&line);
            }
            next_check = Instant::now() + CHECK_INTERVAL;
        }
    }
}

/// Runs one agent from start to exit.
async fn run_agent(
    pool: &Arc<Pool>,
    id: AgentId,
    control: &AgentControl,
    program: &Program,
    folder: &RuntimeFolder,
) -> ExitReason {
    let socket = folder.socket(id.0);
    let (mut process, exit) = match spawn(pool, program, &socket) {
        Ok(spawned) => spawned,
        Err(error) => return ExitReason::StartFailed(error.to_string()),
    };
    // Without the file only a later start of weir does not find the agent.
    let _ = folder.register(id.0, process.pid());
    pool.spawned(id, process.pid(), AgentAddress::Unix(socket.clone()));
    let end = watch_agent(pool, id, control, program, &socket, (&mut process, &exit)).await;
    let status = process.reap();
    folder.unregister(process.pid());
    match end {
        End::Requested => ExitReason::Requested,
        End::StartTimeout => {
            let limit = program.start_timeout.as_secs_f64();
            ExitReason::StartFailed(format!("it did not answer within {limit} s"))
        }
        End::WrongProtocol(why) => ExitReason::StartFailed(why),
        End::ExitedEarly => {
            let why = launch::failure(status).unwrap_or_else(|| "exit status 0".to_owned());
            ExitReason::StartFailed(format!("it ended at once: {why}"))
        }
        End::Exited => launch::failure(status).map_or(ExitReason::Clean, ExitReason::Crashed),
    }
}

/// How the supervision of an agent ended.
enum End {
    Requested,
    StartTimeout,
    /// It responds in another protocol.
    WrongProtocol(String),
    ExitedEarly,
    Exited,
}

async fn watch_agent(
    pool: &Arc<Pool>,
    id: AgentId,
    control: &AgentControl,
    program: &Program,
    socket: &Path,
    (process, exit): (&mut Process, &ExitWatch),
) -> End {
    let probed = tokio::time::timeout(program.start_timeout, probe::probe(socket, pool.protocol()));
    let end = tokio::select! {
        () = exit.wait() => Some(End::ExitedEarly),
        _ = control.receive(AgentCommand::Stop) => Some(End::Requested),
        result = probed => match result {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(End::WrongProtocol(why)),
            Err(_) => Some(End::StartTimeout),
        },
    };
    if let Some(end) = end {
        if matches!(end, End::Requested) {
            launch::stop(process, exit, program.stop_timeout).await;
        }
        return end;
    }
    pool.mark_healthy(id);
    loop {
        let command = tokio::select! {
            biased;
            () = exit.wait() => return End::Exited,
            command = control.receive(AgentCommand::Check) => command,
        };
        match command {
            AgentCommand::None => {}
            AgentCommand::Kill => return End::Requested,
            AgentCommand::Stop => {
                launch::stop(process, exit, program.stop_timeout).await;
                return End::Requested;
            }
            AgentCommand::Check => {
                let healthy = tokio::select! {
                    () = exit.wait() => return End::Exited,
                    _ = control.receive(AgentCommand::Stop) => continue,
                    healthy = is_responding(pool, socket) => healthy,
                };
                if !healthy {
                    pool.report(
                        "an agent is killed: it is still busy with a request that broke off",
                    );
                    return End::Requested;
                }
                pool.mark_healthy(id);
            }
        }
    }
}

/// Whether an agent whose request was aborted responds again, within the time limit of a request.
async fn is_responding(pool: &Pool, socket: &Path) -> bool {
    let probed = probe::probe(socket, pool.protocol());
    matches!(tokio::time::timeout(pool.request_timeout(), probed).await, Ok(Ok(())))
}

fn spawn(pool: &Arc<Pool>, program: &Program, socket: &Path) -> io::Result<(Process, ExitWatch)> {
    // A leftover of an agent with the same number in an earlier run.
    let _ = std::fs::remove_file(socket);
    let (out, err, log) = launch::log_pipe()?;
    let path = socket.to_string_lossy();
    let words: Vec<String> =
        program.command.iter().map(|word| word.replace(SOCKET, &path)).collect();
    let [name, arguments @ ..] = &words[..] else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no command"));
    };
    let mut command = launch::command(program, name, arguments);
    command.env("WEIR_SOCKET", socket).stdout(out).stderr(err);
    if program.binds_itself() {
        command.stdin(std::process::Stdio::null());
    } else {
        // Closed here once the agent is started: connections that the agent does not accept are
        // refused after its exit.
        command.stdin(OwnedFd::from(UnixListener::bind(socket)?));
    }
    let process = launch::start(&mut command, program)
        .map_err(|error| start_error(error, Path::new(name), &program.folder))?;
    drop(command);
    let exit = process.watch()?;
    tokio::task::spawn_local(forward_log(Arc::clone(pool), log));
    Ok((process, exit))
}

/// An error of starting a program, with the path that failed.
pub(crate) fn start_error(error: io::Error, name: &Path, folder: &PathBuf) -> io::Error {
    let path = if folder.is_dir() { name } else { folder };
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Logs the output of an agent until its end.
pub(crate) async fn forward_log(pool: Arc<Pool>, log: Receiver) {
    let (mut lines, mut buffer) = (Lines::default(), vec![0; MAX_LINE_BYTES]);
    loop {
        match log.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                lines.push(&buffer[..count], |line| pool.log(&line));
                // During a flood of output other tasks run as well.
                tokio::task::yield_now().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if log.readable().await.is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    lines.finish(|line| pool.log(&line));
}
