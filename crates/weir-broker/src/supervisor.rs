//! What the broker's thread does for one pool: it starts agents, asks whether they are well, ends
//! them, and sees them end.

mod probe;

use crate::folder::{Folder, resident};
use crate::launch::{self, Ending, Process};
use crate::log::Lines;
use crate::pool::{AgentId, Gone, Order, Orders, Plan, Pool};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::unix::pipe::Receiver;
use weir_config::{AgentAddress, AgentSource, Program, SOCKET};

/// How often ages, idle times and memory are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Does so until the pool is closed and its agents have ended.
pub(crate) async fn supervise(pool: Arc<Pool>, folder: Arc<Folder>) {
    let mut look = Instant::now() + LOOK;
    loop {
        let Plan { start, again, over } = pool.plan(Instant::now());
        if over {
            return;
        }
        if let AgentSource::Start(program) = pool.source() {
            for (id, orders) in start {
                let (pool, folder) = (Arc::clone(&pool), Arc::clone(&folder));
                let program = program.clone();
                tokio::task::spawn_local(async move {
                    let how = live(&pool, id, &orders, &program, &folder).await;
                    folder.forget(id.0);
                    pool.gone(id, how);
                });
            }
        }
        let again = again.map_or(look, |again| again.min(look));
        tokio::select! {
            () = pool.wake.notified() => {}
            () = tokio::time::sleep_until(again.into()) => {}
        }
        // However often it is woken.
        if Instant::now() >= look {
            pool.weigh(resident);
            if let Some(line) = folder.tend() {
                pool.tell(&line);
            }
            look = Instant::now() + LOOK;
        }
    }
}

/// The life of one agent.
async fn live(
    pool: &Arc<Pool>,
    id: AgentId,
    orders: &Orders,
    program: &Program,
    folder: &Folder,
) -> Gone {
    let socket = folder.socket(id.0);
    let (mut process, ending) = match spawn(pool, program, &socket) {
        Ok(spawned) => spawned,
        Err(error) => return Gone::NotStarted(error.to_string()),
    };
    // Not noted it is only not found by a later start.
    let _ = folder.note(id.0, process.pid());
    pool.spawned(id, process.pid(), AgentAddress::Unix(socket.clone()));
    let how = attend(pool, id, orders, program, &socket, (&mut process, &ending)).await;
    let status = process.reap();
    folder.ended(process.pid());
    match how {
        How::Told => Gone::Told,
        How::Late => {
            let limit = program.start_timeout.as_secs_f64();
            Gone::NotStarted(format!("it did not answer within {limit} s"))
        }
        How::Unfit(why) => Gone::NotStarted(why),
        How::EndedEarly => {
            let why = launch::trouble(status).unwrap_or_else(|| "exit status 0".to_owned());
            Gone::NotStarted(format!("it ended at once: {why}"))
        }
        How::Ended => launch::trouble(status).map_or(Gone::Ended, Gone::Crashed),
    }
}

/// How an agent came to its end.
enum How {
    Told,
    Late,
    /// It answers, but speaks another language.
    Unfit(String),
    EndedEarly,
    Ended,
}

async fn attend(
    pool: &Arc<Pool>,
    id: AgentId,
    orders: &Orders,
    program: &Program,
    socket: &Path,
    (process, ending): (&mut Process, &Ending),
) -> How {
    let asked = tokio::time::timeout(program.start_timeout, probe::ask(socket, pool.protocol()));
    let end = tokio::select! {
        () = ending.come() => Some(How::EndedEarly),
        _ = orders.at_least(Order::Stop) => Some(How::Told),
        answer = asked => match answer {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(How::Unfit(why)),
            Err(_) => Some(How::Late),
        },
    };
    if let Some(how) = end {
        if matches!(how, How::Told) {
            launch::stop(process, ending, program.stop_timeout).await;
        }
        return how;
    }
    pool.well(id);
    loop {
        let order = tokio::select! {
            biased;
            () = ending.come() => return How::Ended,
            order = orders.at_least(Order::Check) => order,
        };
        match order {
            Order::None => {}
            Order::Kill => return How::Told,
            Order::Stop => {
                launch::stop(process, ending, program.stop_timeout).await;
                return How::Told;
            }
            Order::Check => {
                let answered = tokio::select! {
                    () = ending.come() => return How::Ended,
                    _ = orders.at_least(Order::Stop) => continue,
                    answered = again(pool, socket) => answered,
                };
                if !answered {
                    pool.tell("an agent is killed: it is still busy with a request that broke off");
                    return How::Told;
                }
                pool.well(id);
            }
        }
    }
}

/// Whether an agent whose request broke off answers again, in the time that a request may take.
async fn again(pool: &Pool, socket: &Path) -> bool {
    let asked = probe::ask(socket, pool.protocol());
    matches!(tokio::time::timeout(pool.patience(), asked).await, Ok(Ok(())))
}

fn spawn(pool: &Arc<Pool>, program: &Program, socket: &Path) -> io::Result<(Process, Ending)> {
    // Of an agent that had the same number in a run before.
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
        // Closed here as soon as it is started: what it does not accept is then refused at its end.
        command.stdin(OwnedFd::from(UnixListener::bind(socket)?));
    }
    let process = launch::start(&mut command, program)
        .map_err(|error| named(error, Path::new(name), &program.folder))?;
    drop(command);
    let ending = process.watch()?;
    tokio::task::spawn_local(keep_log(Arc::clone(pool), log));
    Ok((process, ending))
}

/// An error of starting a program, with what was to be started.
pub(crate) fn named(error: io::Error, name: &Path, folder: &PathBuf) -> io::Error {
    let what = if folder.is_dir() { name } else { folder };
    io::Error::new(error.kind(), format!("{}: {error}", what.display()))
}

/// Logs what an agent writes until nobody can write any more.
pub(crate) async fn keep_log(pool: Arc<Pool>, log: Receiver) {
    let (mut lines, mut room) = (Lines::default(), vec![0; 4096]);
    loop {
        match log.try_read(&mut room) {
            Ok(0) => break,
            Ok(count) => {
                lines.take(&room[..count], |line| pool.log(&line));
                // A flood is read on, but others have their turn.
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
    lines.end(|line| pool.log(&line));
}
