//! JMeter, installed once, and one process of it that runs plans one after the other.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

const VERSION: &str = "5.6.3";

/// JMeter's folder; `None` where it cannot be had.
pub(super) static JMETER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jmeter-{VERSION}"));
    let launcher = home.join("bin/ApacheJMeter.jar");
    let scripts = home.join(format!("lib/ext/ApacheJMeter_java-{VERSION}.jar"));
    if !(launcher.exists() && scripts.exists()) && install(&home).is_none() {
        eprintln!("SKIPPED: Maven and a JDK (by `make setup`) could not fetch JMeter {VERSION}");
        return None;
    }
    Some(home)
});

/// Plugins of JMeter that plans use, with their versions.
const PLUGINS: [(&str, &str); 4] =
    [("casutg", "2.10"), ("cmn-jmeter", "0.6"), ("dummy", "0.4"), ("tst", "2.5")];

/// JMeter's folder with the plugins; `None` where they cannot be had.
pub(super) static WITH_PLUGINS: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let home = JMETER.as_ref()?;
    let files = PLUGINS.map(|(name, version)| format!("jmeter-plugins-{name}-{version}.jar"));
    let there = || files.iter().all(|file| home.join("lib/ext").join(file).exists());
    if !there() {
        let parts = PLUGINS.map(|(name, version)| {
            dependency("kg.apc", &format!("jmeter-plugins-{name}"), version, NO_MORE)
        });
        let folder = home.join("plugins");
        fs::create_dir_all(&folder).ok()?;
        copy_dependencies(&folder, &parts.concat(), "../lib/ext");
    }
    if !there() {
        eprintln!("SKIPPED: Maven could not fetch the plugins of JMeter");
        return None;
    }
    Some(home.clone())
});

/// Without the dependencies of a dependency.
const NO_MORE: &str = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>\
                       </exclusion></exclusions>";

fn dependency(group: &str, artifact: &str, version: &str, more: &str) -> String {
    format!(
        "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}\
         </version>{more}</dependency>"
    )
}

/// Copies artifacts from Maven Central to a folder below `home`.
fn copy_dependencies(home: &Path, dependencies: &str, to: &str) -> Option<()> {
    const GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
    let project = format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>weir</groupId><artifactId>jmeter</artifactId><version>1</version>\
         <packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    );
    fs::write(home.join("pom.xml"), project).ok()?;
    let mut command = Command::new("timeout");
    command.args(["600", "mvn", "-q", "-B", GOAL, &format!("-DoutputDirectory={to}")]);
    done(command.current_dir(home))
}

fn done(command: &mut Command) -> Option<()> {
    let status = command.stdout(Stdio::null()).status();
    status.ok().filter(std::process::ExitStatus::success).map(drop)
}

/// Fetches JMeter as its own build would lay it out: `bin`, `lib` and `lib/ext`.
fn install(home: &Path) -> Option<()> {
    let parts = ["", "_http", "_functions", "_components", "_java", "_config"]
        .map(|part| dependency("org.apache.jmeter", &format!("ApacheJMeter{part}"), VERSION, ""));
    fs::create_dir_all(home.join("lib/ext")).ok()?;
    fs::create_dir_all(home.join("bin")).ok()?;
    copy_dependencies(home, &parts.concat(), "lib")?;
    let config = format!("lib/ApacheJMeter_config-{VERSION}.jar");
    done(Command::new("jar").args(["xf", &config, "bin"]).current_dir(home))?;
    for entry in fs::read_dir(home.join("lib")).ok()?.flatten() {
        let name = entry.file_name().into_string().ok()?;
        if name.starts_with("ApacheJMeter_") {
            fs::rename(entry.path(), home.join("lib/ext").join(&name)).ok()?;
        }
    }
    // Last, for it says that all of it is there.
    let launcher = home.join(format!("lib/ApacheJMeter-{VERSION}.jar"));
    fs::rename(launcher, home.join("bin/ApacheJMeter.jar")).ok()
}

/// Longest run of a plan.
const PLAN_TIME: Duration = Duration::from_secs(300);

/// The process. It ends with the process of the tests, and removes its folder.
struct Oracle {
    input: ChildStdin,
    answers: Receiver<String>,
}

static ORACLE: LazyLock<Mutex<Oracle>> = LazyLock::new(|| Mutex::new(Oracle::start()));

/// Folder of all plans, in which JMeter runs: some of its functions look for files there.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder =
        tempfile::Builder::new().prefix("jmeter-plans-").tempdir().expect("a folder").keep();
    for entry in fs::read_dir(super::plans()).expect("plans").flatten() {
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
    }
    folder
});

pub(super) fn folder() -> &'static Path {
    &FOLDER
}

/// Writes a plan and the files beside it. Plans share the folder: a name has one content.
pub(super) fn place(name: &str, plan: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let name = format!("{name}.jmx");
    for (file, content) in [(&*name, plan.as_bytes())].iter().chain(files) {
        let path = FOLDER.join(file);
        let is_free = fs::read(&path).map_or(true, |known| known == *content);
        assert!(is_free, "{file} is the name of another file");
        fs::write(path, content).expect("written");
    }
    FOLDER.join(name)
}

/// Runs a plan. The results are in JMeter's format.
pub(super) fn run(plan: &Path, results: &Path, properties: &[(String, String)]) {
    let mut oracle = ORACLE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut line = format!("{}\t{}", plan.display(), results.display());
    for (name, value) in properties {
        line += &format!("\t{name}={value}");
    }
    let answer = oracle.ask(&line);
    // A failed comparison is no failure of the process.
    drop(oracle);
    assert_eq!(answer, "done", "JMeter and {}", plan.display());
}

impl Oracle {
    fn start() -> Self {
        let home = WITH_PLUGINS.as_ref().or(JMETER.as_ref()).expect("JMeter");
        let jars = ["bin/ApacheJMeter.jar", "lib/*", "lib/ext/*"].map(|part| home.join(part));
        let jars = jars.map(|part| part.to_string_lossy().into_owned()).join(":");
        let mut command = Command::new("java");
        command.args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
        command.args(["-Djava.awt.headless=true", "-cp", &jars, "groovy.ui.GroovyMain"]);
        command
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lab/jmeter/oracle.groovy"));
        command.arg(home).current_dir(folder());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let log = fs::File::create(FOLDER.join("jmeter.log")).expect("a log");
        let mut child = command.stderr(log).spawn().expect("Java runs");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take());
        let (sender, answers) = channel();
        let output = BufReader::new(output.expect("piped"));
        // It ends with the process.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok());
            let _ = child.wait();
        });
        Self { input, answers }
    }

    fn ask(&mut self, line: &str) -> String {
        let sent = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        let answer = sent.ok().and_then(|()| self.answers.recv_timeout(PLAN_TIME).ok());
        answer.unwrap_or_else(|| {
            let log = fs::read_to_string(FOLDER.join("jmeter.log")).unwrap_or_default();
            format!("no answer: {log}")
        })
    }
}
