//! Load tests: a child process of weir loads a listener with a suite, and writes results below the data
//! folder.
//!
//! The process ends at the end of its standard input, so it does not outlive weir. The console shows
//! its output.

use super::results;
use super::{
    LabError, LabProgress, LabSecond, LabStart, LabState, LabSuite, MAX_RATE, MAX_SECONDS,
};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use weir_gateway::request_text::RequestText;
use weir_lab::program::{Step, Url};
use weir_lab::scenario::{self, Level, Overrides};
use weir_lab::suite::Suite;
use weir_net::listen;
use weir_server::Gateway;

/// Stored seconds of a load test.
const MAX_STORED_SECONDS: usize = 600;
/// Largest line of the process, and largest part of its error output.
const MAX_LINE_BYTES: u64 = 64 << 10;
const MAX_ERROR_BYTES: u64 = 4096;
/// Largest number of listed requests of a suite.
const MAX_REQUESTS: usize = 12;

/// The Lab of a running weir. Its methods may block.
#[derive(Clone)]
pub struct Lab(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    targets: Vec<String>,
    gateway: Arc<Gateway>,
    /// Requests of each suite: method and path.
    requests: OnceLock<Vec<Vec<(String, String)>>>,
    load: Mutex<Load>,
}

/// The current or last load.
#[derive(Default)]
struct Load {
    progress: Option<LabProgress>,
    /// Standard input of the process: closed to stop it.
    input: Option<ChildStdin>,
}

/// URL of a listener from this machine.
fn url(addr: SocketAddr, tls: bool) -> String {
    format!("{}://{}", if tls { "https" } else { "http" }, listen::reachable(addr))
}

impl Lab {
    /// The Lab of a data folder, for listeners at these addresses, each with TLS or without.
    pub fn new<'l>(
        data: &Path,
        listeners: impl Iterator<Item = (&'l SocketAddr, &'l bool)>,
        gateway: &Arc<Gateway>,
    ) -> Self {
        Self(Arc::new(Inner {
            folder: data.join("lab"),
            targets: listeners.map(|(addr, tls)| url(*addr, *tls)).collect(),
            gateway: Arc::clone(gateway),
            requests: OnceLock::new(),
            load: Mutex::default(),
        }))
    }

    /// Suites, targets and results.
    pub(crate) fn state(&self) -> LabState {
        let Inner { folder, targets, .. } = &*self.0;
        LabState {
            suites: self.suites(),
            targets: targets.clone(),
            most_rate: MAX_RATE,
            most_seconds: MAX_SECONDS,
            folder: folder.display().to_string(),
            runs: results::all(folder),
        }
    }

    /// The current or last load test.
    pub(crate) fn progress(&self) -> Option<LabProgress> {
        self.load().progress.clone()
    }

    /// The folder with the results.
    pub(crate) fn folder(&self) -> &Path {
        &self.0.folder
    }

    fn suites(&self) -> Vec<LabSuite> {
        let requests = self.0.requests.get_or_init(|| {
            let folder = self.0.folder.join(".suites");
            Suite::ALL.iter().map(|suite| requests(suite, &folder)).collect()
        });
        let document = |(suite, requests): (&Suite, &Vec<(String, String)>)| LabSuite {
            name: suite.name.to_owned(),
            about: suite.about.to_owned(),
            lengths: suite.lengths.map(str::to_owned).to_vec(),
            missing: requests.iter().filter(|one| !self.has_route(one)).map(request_line).collect(),
            requests: requests.iter().map(request_line).collect(),
        };
        Suite::ALL.iter().zip(requests).map(document).collect()
    }

    /// Whether a route matches the request.
    fn has_route(&self, (method, path): &(String, String)) -> bool {
        let request =
            RequestText { method: method.clone(), target: path.clone(), ..RequestText::default() };
        self.0.gateway.explain(request).is_ok_and(|explained| explained.operation.is_some())
    }

    fn load(&self) -> MutexGuard<'_, Load> {
        self.0.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a suite on behalf of a token, by its name.
    pub(crate) fn start(&self, start: &LabStart, token: &str) -> Result<LabProgress, LabError> {
        let Some(suite) = Suite::named(&start.suite) else {
            return Err(LabError::Bad("Unknown suite; /v1/lab lists the suites.".to_owned()));
        };
        let level = match start.level.as_str() {
            "quick" => Some("--quick"),
            "usual" => None,
            "full" => Some("--full"),
            _ => return Err(LabError::Bad("`level` is quick, usual or full.".to_owned())),
        };
        if !self.0.targets.contains(&start.target) {
            let all = self.0.targets.join(", ");
            return Err(LabError::Bad(format!(
                "`target` must be an address of this server: {all}."
            )));
        }
        let mut load = self.load();
        if load.progress.as_ref().is_some_and(|progress| progress.running) {
            return Err(LabError::Running);
        }
        let now = jiff::Timestamp::now();
        let run = format!("{}-{}", suite.name, now.strftime("%Y%m%d-%H%M%S"));
        let mut child = spawn(&self.0.folder, &run, start, level).map_err(LabError::Failed)?;
        load.input = child.stdin.take();
        let progress = LabProgress {
            run,
            start: start.clone(),
            by: token.to_owned(),
            since: now.to_string(),
            running: true,
            doing: "starting".to_owned(),
            ..LabProgress::default()
        };
        load.progress = Some(progress.clone());
        let lab = self.clone();
        let follow = move || lab.follow(child);
        if let Err(error) = std::thread::Builder::new().name("lab".to_owned()).spawn(follow) {
            // Without a reader the process ends with its input.
            *load = Load::default();
            return Err(LabError::Failed(format!("Cannot start a thread: {error}.")));
        }
        Ok(progress)
    }

    /// Stops the load test; whether one was running.
    pub(crate) fn stop(&self) -> bool {
        let mut load = self.load();
        if let Some(progress) = load.progress.as_mut().filter(|progress| progress.running) {
            progress.doing = "ending".to_owned();
        }
        load.input.take().is_some()
    }

    /// Reads the output of the process to its end.
    fn follow(&self, mut child: Child) {
        if let Some(output) = child.stdout.take() {
            let mut lines = BufReader::new(output);
            let mut line = String::new();
            while matches!(lines.by_ref().take(MAX_LINE_BYTES).read_line(&mut line), Ok(1..)) {
                self.load().add_line(&line);
                line.clear();
            }
        }
        let mut errors = String::new();
        if let Some(stderr) = child.stderr.take() {
            // Its error output is read in parallel: a full pipe would block the process.
            let _ = stderr.take(MAX_ERROR_BYTES).read_to_string(&mut errors);
        }
        let ended = child.wait();
        let mut load = self.load();
        load.input = None;
        if let Some(progress) = &mut load.progress {
            progress.running = false;
            progress.doing = "ended".to_owned();
            if progress.verdict.is_none() {
                let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                progress.error = Some(format!("The run ended without a result ({how}). {errors}"));
            }
        }
    }
}

impl Load {
    /// A line of `weir lab run --json`.
    fn add_line(&mut self, line: &str) {
        let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { return };
        let Some(progress) = &mut self.progress else { return };
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        match line["event"].as_str() {
            Some("doing") => progress.doing = text("what"),
            Some("round") => progress.doing = text("name").trim().to_owned(),
            Some("second") => {
                if progress.seconds.len() >= MAX_STORED_SECONDS {
                    progress.seconds.remove(0);
                }
                progress.seconds.push(LabSecond {
                    at: jiff::Timestamp::now().as_second().try_into().unwrap_or(0),
                    samples: line["samples"].as_u64().unwrap_or(0),
                    errors: line["errors"].as_u64().unwrap_or(0),
                    p50_ms: line["p50"].as_f64().unwrap_or(0.0),
                    p99_ms: line["p99"].as_f64().unwrap_or(0.0),
                });
            }
            Some("result") => progress.verdict = Some(text("verdict")),
            _ => {}
        }
    }
}

fn spawn(folder: &Path, run: &str, start: &LabStart, level: Option<&str>) -> Result<Child, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}.", folder.display()))?;
    let program = std::env::current_exe()
        .map_err(|error| format!("the path of this program is unknown: {error}."))?;
    // Results are written below the folder, and nothing else depends on where it runs.
    Command::new(program)
        .current_dir(folder)
        .args(["lab", "run", &start.suite, "--json", "--attended", "--out", run])
        .args(["--target", &start.target])
        .args(["--most", &start.rate.to_string(), "--within", &format!("{}s", start.seconds)])
        .args(level)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start the process: {error}."))
}

/// The distinct requests of a suite.
fn requests(suite: &Suite, parent: &Path) -> Vec<(String, String)> {
    let folder = parent.join(suite.name);
    // One token is enough here.
    let sets = match suite.name {
        "mware" => vec![("feeders.tokens.jwt.count".to_owned(), "1".to_owned())],
        _ => Vec::new(),
    };
    let over =
        Overrides { level: Level::Quick, sets, target: Some("http://127.0.0.1:1".to_owned()) };
    let found = suite.unpack(&folder).ok().and_then(|file| scenario::load(&file, &over).ok());
    // The suite was only read.
    let _ = fs::remove_dir_all(&folder);
    let mut all = Vec::new();
    for cell in found.iter().flat_map(|(scenario, _)| &scenario.cells) {
        for group in &cell.program.groups {
            add(&group.steps, &mut all);
        }
    }
    all.truncate(MAX_REQUESTS);
    all
}

fn add(steps: &[Step], all: &mut Vec<(String, String)>) {
    for step in steps {
        match step {
            Step::Request(request) => {
                let Url::Parts { target, .. } = &request.url else { continue };
                let Some(target) = target.as_fixed() else { continue };
                let path = target.split('?').next().unwrap_or_default();
                let one = (request.method.clone(), path.to_owned());
                if !all.contains(&one) {
                    all.push(one);
                }
            }
            Step::Loop { steps, .. } | Step::Once(steps) | Step::Transaction { steps, .. } => {
                add(steps, all);
            }
            _ => {}
        }
    }
}

fn request_line((method, path): &(String, String)) -> String {
    format!("{method} {path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_have_urls_of_this_machine() {
        assert_eq!(url("0.0.0.0:80".parse().unwrap(), false), "http://127.0.0.1:80");
        assert_eq!(url("[::]:443".parse().unwrap(), true), "https://[::1]:443");
        assert_eq!(url("192.0.2.1:8080".parse().unwrap(), false), "http://192.0.2.1:8080");
    }

    #[test]
    fn every_suite_lists_its_requests() {
        let folder = tempfile::tempdir().unwrap();
        for suite in &Suite::ALL {
            let found = requests(suite, folder.path());
            assert!(!found.is_empty(), "{}", suite.name);
            assert!(found.iter().all(|(_, path)| path.starts_with('/')), "{found:?}");
        }
        let toro = requests(&Suite::ALL[0], folder.path());
        assert_eq!(toro, [("GET".to_owned(), "/api/examples-services/sayHello".to_owned())]);
    }

    #[test]
    fn output_of_the_process_is_the_progress() {
        let mut load = Load { progress: Some(LabProgress::default()), ..Load::default() };
        for line in [
            r#"{"event":"doing","what":"starting the backend"}"#,
            "no json",
            r#"{"event":"second","second":1,"samples":7,"errors":1,"p50":1.5,"p99":9.0}"#,
            r#"{"event":"result","verdict":"QUICK"}"#,
        ] {
            load.add_line(line);
        }
        let progress = load.progress.clone().unwrap();
        assert_eq!((progress.doing.as_str(), progress.seconds.len()), ("starting the backend", 1));
        assert_eq!((progress.seconds[0].samples, progress.seconds[0].p99_ms), (7, 9.0));
        assert_eq!(progress.verdict.as_deref(), Some("QUICK"));
        for _ in 0..2 * MAX_STORED_SECONDS {
            load.add_line(r#"{"event":"second"}"#);
        }
        assert_eq!(load.progress.unwrap().seconds.len(), MAX_STORED_SECONDS);
    }
}
