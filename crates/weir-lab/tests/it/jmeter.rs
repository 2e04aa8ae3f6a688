//! JMeter as the oracle: the same plan on the same server must give the same samples.
//!
//! JMeter comes from Maven Central, by Maven, once; where that cannot be done the tests say so and
//! pass.

mod server;

use server::Server;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex};
use weir_lab::engine::{self, Control};
use weir_lab::jtl::{self, Writer};
use weir_lab::{jmx, record::Clock};

const VERSION: &str = "5.6.3";

/// One run of JMeter at a time: a Java process takes half of a small machine.
static ONE: Mutex<()> = Mutex::new(());

/// JMeter's folder; `None` where it cannot be had.
static JMETER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jmeter-{VERSION}"));
    let launcher = home.join("bin/ApacheJMeter.jar");
    if !launcher.exists() && install(&home).is_none() {
        eprintln!("SKIPPED: Maven and a JDK (by `make setup`) could not fetch JMeter {VERSION}");
        return None;
    }
    Some(home)
});

/// Fetches JMeter as its own build would lay it out: `bin`, `lib` and `lib/ext`.
fn install(home: &Path) -> Option<()> {
    let parts = ["", "_http", "_functions", "_components", "_config"].map(|part| {
        format!(
            "<dependency><groupId>org.apache.jmeter</groupId><artifactId>ApacheJMeter{part}\
             </artifactId><version>{VERSION}</version></dependency>"
        )
    });
    let project = format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>weir</groupId><artifactId>jmeter</artifactId><version>1</version>\
         <packaging>pom</packaging><dependencies>{}</dependencies></project>",
        parts.concat()
    );
    fs::create_dir_all(home.join("lib/ext")).ok()?;
    fs::create_dir_all(home.join("bin")).ok()?;
    fs::write(home.join("pom.xml"), project).ok()?;
    let done = |command: &mut Command| {
        let status = command.current_dir(home).stdout(Stdio::null()).status();
        status.ok().filter(std::process::ExitStatus::success)
    };
    const GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
    done(Command::new("timeout").args(["600", "mvn", "-q", "-B", GOAL, "-DoutputDirectory=lib"]))?;
    done(Command::new("jar").args([
        "xf",
        &format!("lib/ApacheJMeter_config-{VERSION}.jar"),
        "bin",
    ]))?;
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

/// Samples of one label.
#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    count: u64,
    errors: u64,
    bytes: u64,
    sent: u64,
    codes: BTreeMap<String, u64>,
}

type Lines = BTreeMap<String, Line>;

fn lines(text: &[u8]) -> Lines {
    let mut lines = Lines::new();
    let read = jtl::read(text, |row| {
        let line = lines.entry(row.label.to_string()).or_default();
        line.count += 1;
        line.errors += u64::from(!row.success);
        *line.codes.entry(row.code.to_string()).or_default() += 1;
        // Without an answer JMeter counts the text of its exception as bytes.
        if !row.code.starts_with("Non HTTP") {
            line.bytes += row.bytes;
            line.sent += row.sent_bytes;
        }
    });
    read.expect("results");
    lines
}

fn plans() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans")
}

/// What JMeter gives, and what reached the server.
fn by_jmeter(home: &Path, plan: &str, properties: &[(String, String)]) -> Lines {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results.jtl");
    let mut command = Command::new("timeout");
    command.args(["120", "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-jar"]);
    // JMeter's functions look for files where it runs.
    command.arg(home.join("bin/ApacheJMeter.jar")).arg("-n").current_dir(plans());
    command.arg("-t").arg(plans().join(plan)).arg("-l").arg(&results);
    command.arg("-j").arg(folder.path().join("jmeter.log"));
    command.arg("-Jjmeter.save.saveservice.subresults=false");
    for (name, value) in properties {
        command.arg(format!("-J{name}={value}"));
    }
    let output = command.output().expect("Java runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    lines(&fs::read(results).expect("results"))
}

fn by_weir(plan: &str, properties: &[(String, String)]) -> (Lines, u64) {
    let options = jmx::Options { properties: properties.to_vec(), lenient: false };
    let plan = jmx::load(&plans().join(plan), &options).unwrap_or_else(|error| panic!("{error}"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    let target = Box::new(file.reopen().expect("opened"));
    let clock = Clock::start();
    let writer = Writer::new(target, &plan.program, clock).expect("written");
    let sinks = writer.clone();
    let options = engine::Options {
        loops: 1,
        sinks: Some(Box::new(move || sinks.sink())),
        clock,
        ..engine::Options::default()
    };
    let summary = engine::run(plan.program, &options, &Control::default(), &mut |_| {});
    let summary = summary.expect("it runs");
    drop(options);
    writer.finish().expect("written");
    (lines(&fs::read(file.path()).expect("results")), summary.interrupted)
}

/// Runs a plan with both, each on a server of its own, and compares.
fn compare(plan: &str, more: &[(&str, &str)]) {
    let Some(home) = &*JMETER else { return };
    let properties = |server: &Server| {
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let port = [("port".to_owned(), server.port.to_string())];
        port.into_iter().chain(more).collect::<Vec<_>>()
    };
    let (theirs, ours) = (Server::start(), Server::start());
    let expected = by_jmeter(home, plan, &properties(&theirs));
    let (found, interrupted) = by_weir(plan, &properties(&ours));
    let mut wrong = Vec::new();
    for label in expected.keys().chain(found.keys().filter(|label| !expected.contains_key(*label)))
    {
        let (expected, found) = (expected.get(label), found.get(label));
        if expected != found {
            wrong.push(format!("{label}\n  JMeter {expected:?}\n  weir   {found:?}"));
        }
    }
    let port = |server: &Server, line: &str| line.replace(&server.port.to_string(), "PORT");
    let theirs_log: Vec<String> = theirs.take_log().iter().map(|l| port(&theirs, l)).collect();
    let count = ours.count();
    let ours_log: Vec<String> = ours.take_log().iter().map(|l| port(&ours, l)).collect();
    for line in &theirs_log {
        let times = |log: &[String]| log.iter().filter(|other| *other == line).count();
        if times(&theirs_log) != times(&ours_log) {
            wrong.push(format!(
                "JMeter sent {}×, weir {}×: {line}",
                times(&theirs_log),
                times(&ours_log)
            ));
        }
    }
    for line in &ours_log {
        if !theirs_log.contains(line) {
            wrong.push(format!("only weir sent: {line}"));
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{plan}\n{}", wrong.join("\n"));
    assert_eq!((theirs.count(), interrupted), (count, 0));
}

#[test]
fn an_http_post_in_the_style_of_wso2() {
    compare("http-post.jmx", &[("users", "3"), ("loops", "20")]);
    compare("http-post.jmx", &[("size", "1024B"), ("path", "/text")]);
}

#[test]
fn a_web_shop() {
    compare("web-shop.jmx", &[]);
}

#[test]
fn every_assertion() {
    compare("assertions.jmx", &[]);
}

#[test]
fn every_element() {
    compare("elements.jmx", &[]);
}
