//! The Lab of a running weir: results below the data folder, and a child process of weir that loads
//! a listener with a suite.
//!
//! The process ends at the end of its standard input, so it does not outlive weir. The console
//! shows its output.

mod results;

use super::events::Listening;
use anyhow::Context;
use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use weir_admin::lab::{
    Lab, LabProgress, LabRefusal, LabSecond, LabStart, LabState, LabSuite, MOST_RATE, MOST_SECONDS,
};
use weir_gateway::Gateway;
use weir_gateway::request_text::RequestText;
use weir_lab::program::{Step, Url};
use weir_lab::scenario::{self, Level, Overrides};
use weir_lab::suite::Suite;

/// Seconds that are remembered of a load.
const SECONDS: usize = 600;
/// Largest line of the process, and largest part of its error output.
const LINE: u64 = 64 << 10;
const WORDS: u64 = 4096;
/// Largest number of listed requests of a suite.
const REQUESTS: usize = 12;

/// The Lab of a running weir.
struct Desk {
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
    seconds: VecDeque<LabSecond>,
    /// Standard input of the process: closed to stop it.
    input: Option<ChildStdin>,
}

/// The Lab for the admin listener.
pub(super) fn doors(data: &Path, listening: &Listening, gateway: &Arc<Gateway>) -> Lab {
    let listeners = listening.addrs.iter().zip(&listening.tls);
    let desk = Arc::new(Desk {
        folder: data.join("lab"),
        targets: listeners.map(|(addr, tls)| url(*addr, *tls)).collect(),
        gateway: Arc::clone(gateway),
        requests: OnceLock::new(),
        load: Mutex::default(),
    });
    let all: [Arc<Desk>; 7] = std::array::from_fn(|_| Arc::clone(&desk));
    let [state, progress, start, stop, run, report, compare] = all;
    Lab {
        state: Box::new(move || state.state()),
        progress: Box::new(move || progress.load().told()),
        start: Box::new(move |wanted, who| start.start(wanted, who)),
        stop: Box::new(move || stop.stop()),
        run: Box::new(move |name| results::run(&run.folder, name)),
        report: Box::new(move |name| results::report(&report.folder, name)),
        compare: Box::new(move |before, after| results::compare(&compare.folder, before, after)),
    }
}

/// URL of a listener from this machine.
fn url(addr: SocketAddr, tls: bool) -> String {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("{}://{}", if tls { "https" } else { "http" }, SocketAddr::new(ip, addr.port()))
}

impl Desk {
    fn state(&self) -> LabState {
        LabState {
            suites: self.suites(),
            targets: self.targets.clone(),
            most_rate: MOST_RATE,
            most_seconds: MOST_SECONDS,
            folder: self.folder.display().to_string(),
            runs: results::all(&self.folder),
        }
    }

    fn suites(&self) -> Vec<LabSuite> {
        let requests = self.requests.get_or_init(|| {
            let place = self.folder.join(".suites");
            Suite::ALL.iter().map(|suite| requests(suite, &place)).collect()
        });
        let told = |(suite, requests): (&Suite, &Vec<(String, String)>)| LabSuite {
            name: suite.name.to_owned(),
            about: suite.about.to_owned(),
            lengths: suite.lengths.map(str::to_owned).to_vec(),
            missing: requests.iter().filter(|one| !self.has(one)).map(words).collect(),
            requests: requests.iter().map(words).collect(),
        };
        Suite::ALL.iter().zip(requests).map(told).collect()
    }

    /// Whether a route matches the request.
    fn has(&self, (method, path): &(String, String)) -> bool {
        let ask =
            RequestText { method: method.clone(), target: path.clone(), ..RequestText::default() };
        self.gateway.explain(ask).is_ok_and(|explained| explained.operation.is_some())
    }

    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, wanted: &LabStart, who: &str) -> Result<LabProgress, LabRefusal> {
        let Some(suite) = Suite::named(&wanted.suite) else {
            return Err(LabRefusal::Bad("Unknown suite; /v1/lab lists the suites.".to_owned()));
        };
        let level = match wanted.level.as_str() {
            "quick" => Some("--quick"),
            "usual" => None,
            "full" => Some("--full"),
            _ => return Err(LabRefusal::Bad("`level` is quick, usual or full.".to_owned())),
        };
        if !self.targets.contains(&wanted.target) {
            let all = self.targets.join(", ");
            return Err(LabRefusal::Bad(format!(
                "`target` must be an address of this server: {all}."
            )));
        }
        let mut load = self.load();
        if load.progress.as_ref().is_some_and(|progress| progress.running) {
            return Err(LabRefusal::Running);
        }
        let now = jiff::Timestamp::now();
        let run = format!("{}-{}", suite.name, now.strftime("%Y%m%d-%H%M%S"));
        let failed = |error: anyhow::Error| LabRefusal::Failed(format!("{error:#}."));
        let mut child = spawn(&self.folder, &run, wanted, level).map_err(failed)?;
        load.seconds.clear();
        load.input = child.stdin.take();
        load.progress = Some(LabProgress {
            run,
            start: wanted.clone(),
            by: who.to_owned(),
            since: now.to_string(),
            running: true,
            doing: "starting".to_owned(),
            ..LabProgress::default()
        });
        let desk = Arc::clone(self);
        let follow = move || desk.follow(child);
        if let Err(error) = std::thread::Builder::new().name("lab".to_owned()).spawn(follow) {
            // Without a reader the process ends with its input.
            *load = Load::default();
            return Err(LabRefusal::Failed(format!("Cannot start a thread: {error}.")));
        }
        load.told().ok_or(LabRefusal::Running)
    }

    fn stop(&self) -> bool {
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
            while matches!(lines.by_ref().take(LINE).read_line(&mut line), Ok(1..)) {
                self.load().take(&line);
                line.clear();
            }
        }
        let mut words = String::new();
        if let Some(said) = child.stderr.take() {
            // Its error output is read in parallel: a full pipe would block the process.
            let _ = said.take(WORDS).read_to_string(&mut words);
        }
        let ended = child.wait();
        let mut load = self.load();
        load.input = None;
        if let Some(progress) = &mut load.progress {
            progress.running = false;
            progress.doing = "ended".to_owned();
            if progress.verdict.is_none() {
                let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                progress.error = Some(format!("The run ended without a result ({how}). {words}"));
            }
        }
    }
}

impl Load {
    fn told(&self) -> Option<LabProgress> {
        let progress = self.progress.as_ref()?;
        Some(LabProgress { seconds: self.seconds.iter().copied().collect(), ..progress.clone() })
    }

    /// A line of `weir lab run --json`.
    fn take(&mut self, line: &str) {
        let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { return };
        let Some(progress) = &mut self.progress else { return };
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        match line["event"].as_str() {
            Some("doing") => progress.doing = text("what"),
            Some("round") => progress.doing = text("name").trim().to_owned(),
            Some("second") => {
                if self.seconds.len() >= SECONDS {
                    self.seconds.pop_front();
                }
                self.seconds.push_back(LabSecond {
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

fn spawn(
    folder: &Path,
    run: &str,
    wanted: &LabStart,
    level: Option<&str>,
) -> anyhow::Result<Child> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    // Results are written below the folder, and nothing else depends on where it runs.
    Command::new(program)
        .current_dir(folder)
        .args(["lab", "run", &wanted.suite, "--json", "--attended", "--out", run])
        .args(["--target", &wanted.target])
        .args(["--most", &wanted.rate.to_string(), "--within", &format!("{}s", wanted.seconds)])
        .args(level)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the process")
}

/// The distinct requests of a suite.
fn requests(suite: &Suite, place: &Path) -> Vec<(String, String)> {
    let folder = place.join(suite.name);
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
    all.truncate(REQUESTS);
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

fn words((method, path): &(String, String)) -> String {
    format!("{method} {path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_reaches_its_listeners() {
        assert_eq!(url("0.0.0.0:80".parse().unwrap(), false), "http://127.0.0.1:80");
        assert_eq!(url("[::]:443".parse().unwrap(), true), "https://[::1]:443");
        assert_eq!(url("192.0.2.1:8080".parse().unwrap(), false), "http://192.0.2.1:8080");
    }

    #[test]
    fn every_suite_says_what_it_asks_for() {
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
    fn lines_of_the_process_are_what_is_shown() {
        let mut load = Load { progress: Some(LabProgress::default()), ..Load::default() };
        for line in [
            r#"{"event":"doing","what":"starting the backend"}"#,
            "no json",
            r#"{"event":"second","second":1,"samples":7,"errors":1,"p50":1.5,"p99":9.0}"#,
            r#"{"event":"result","verdict":"QUICK"}"#,
        ] {
            load.take(line);
        }
        let told = load.told().unwrap();
        assert_eq!((told.doing.as_str(), told.seconds.len()), ("starting the backend", 1));
        assert_eq!((told.seconds[0].samples, told.seconds[0].p99_ms), (7, 9.0));
        assert_eq!(told.verdict.as_deref(), Some("QUICK"));
        for _ in 0..2 * SECONDS {
            load.take(r#"{"event":"second"}"#);
        }
        assert_eq!(load.told().unwrap().seconds.len(), SECONDS);
    }
}
