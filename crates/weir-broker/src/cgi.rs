//! A process for one request (RFC 3875).

use crate::launch::{self, ExitWatch, Process};
use crate::pool::Pool;
use crate::supervisor::{forward_log, start_error};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use tokio::net::unix::pipe::{Receiver, Sender};
use weir_model::pool::{AgentSource, Program};

/// A running CGI program.
#[derive(Debug)]
pub struct CgiProcess {
    process: Process,
    program: Program,
    exit: ExitWatch,
    /// Write end for the request body.
    pub stdin: Option<Sender>,
    /// Read end for the response.
    pub stdout: Option<Receiver>,
}

/// A CGI program that was started, on any thread.
#[derive(Debug)]
pub struct CgiStarted {
    process: Process,
    program: Program,
    log: io::PipeReader,
}

impl CgiStarted {
    /// Starts the program of a pool for `script`, with these variables. Blocks until the system has
    /// loaded the program. To be called on a thread that shares its table of descriptors with the
    /// thread that serves the request.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        pool: &Pool,
        script: Option<&Path>,
        variables: &[(String, OsString)],
    ) -> io::Result<Self> {
        let no_program = || io::Error::new(io::ErrorKind::InvalidInput, "there is no program");
        let AgentSource::Start(program) = pool.source() else { return Err(no_program()) };
        let mut words = program.command.clone();
        words.extend(script.map(|script| script.to_string_lossy().into_owned()));
        let [name, arguments @ ..] = &words[..] else { return Err(no_program()) };
        let (log, err) = io::pipe()?;
        let mut command = launch::command(program, name, arguments);
        if let Some(folder) = script.and_then(Path::parent) {
            // Section 7.2: scripts are started in their own folder.
            command.current_dir(folder);
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(err);
        let started = launch::start(&mut command, program);
        drop(command);
        let process =
            started.map_err(|error| start_error(error, Path::new(name), &program.folder))?;
        Ok(Self { process, program: program.clone(), log })
    }

    /// Continues on the worker. Standard error is logged.
    ///
    /// # Errors
    /// The runtime cannot register the descriptors.
    pub fn attach(mut self, pool: &Arc<Pool>) -> io::Result<CgiProcess> {
        let exit = self.process.watch()?;
        let stdin = self.process.child.stdin.take().map(|pipe| Sender::from_owned_fd(pipe.into()));
        let stdout =
            self.process.child.stdout.take().map(|pipe| Receiver::from_owned_fd(pipe.into()));
        let (stdin, stdout) = (stdin.transpose()?, stdout.transpose()?);
        let log = Receiver::from_owned_fd(self.log.into())?;
        tokio::task::spawn_local(forward_log(Arc::clone(pool), log));
        Ok(CgiProcess { process: self.process, program: self.program, exit, stdin, stdout })
    }
}

impl CgiProcess {
    /// Waits for the exit of a program that has responded; kills any other. Then kills the rest of
    /// its process group.
    pub async fn finish(mut self, responded: bool) {
        drop((self.stdin.take(), self.stdout.take()));
        let timeout = self.program.stop_timeout;
        if responded && tokio::time::timeout(timeout, self.exit.wait()).await.is_ok() {
            let _ = self.process.reap();
            return;
        }
        if responded {
            launch::stop(&mut self.process, &self.exit, timeout).await;
        } else {
            self.process.signal(rustix::process::Signal::KILL);
            self.exit.wait().await;
        }
        let _ = self.process.reap();
    }
}
