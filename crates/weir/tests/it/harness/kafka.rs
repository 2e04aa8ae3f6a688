//! A real Kafka: one broker that is its own controller (KRaft).
//!
//! Its jars are those of `org.apache.kafka:kafka_2.13` and `kafka-tools` on Maven Central, and messages
//! are read by Kafka's own console consumer.

use super::daemon::{Daemon, accepts, free_address};
use super::opensearch::{ONE, has_memory};
use super::process::eventually;
use super::tls::Certificate;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, MutexGuard, PoisonError};
use tempfile::TempDir;

const VERSION: &str = "4.1.2";

/// Host name of the listener with TLS.
const SECURE_HOST: &str = "localhost";

/// The folder with the jars; `None` where they cannot be had.
static JARS: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let jars = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kafka-{VERSION}"));
    // Another run of the tests may fetch them at the same time, and be faster.
    if !jars.exists() && fetch(&jars).is_none() && !jars.exists() {
        eprintln!("SKIPPED: Maven and a JDK (by `make setup`) could not fetch Kafka {VERSION}");
        return None;
    }
    Some(jars)
});

/// Fetches the jars with all that they need.
fn fetch(jars: &Path) -> Option<()> {
    const GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
    let fetched = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).ok()?;
    let dependency = |artifact: &str| {
        format!(
            "<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>\
             <version>{VERSION}</version></dependency>"
        )
    };
    let project = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId>\
         <artifactId>test</artifactId><version>1</version><packaging>pom</packaging>\
         <dependencies>{}{}</dependencies></project>",
        dependency("kafka_2.13"),
        dependency("kafka-tools"),
    );
    fs::write(fetched.path().join("pom.xml"), project).ok()?;
    let status = Command::new("timeout")
        .args(["600", "mvn", "-q", "-B", GOAL, "-DincludeScope=runtime", "-DoutputDirectory=jars"])
        .current_dir(fetched.path())
        .stdout(Stdio::null())
        .status();
    status.ok().filter(std::process::ExitStatus::success)?;
    // Last, for it says that all of it is there.
    fs::rename(fetched.path().join("jars"), jars).ok()
}

/// A running Kafka with its own data; it ends when dropped. The user of its listener with TLS is
/// `weir` with the password `secret`, by SCRAM-SHA-512.
pub(crate) struct Kafka {
    daemon: Daemon,
    addr: SocketAddr,
    secure: SocketAddr,
    certificate: Certificate,
    jars: &'static Path,
    dir: TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Kafka {
    /// Starts one with a heap of 384 MiB; `None`, which is said, without Maven, a JDK or memory. A second
    /// one waits until the first is dropped, so a test can have one only.
    pub(crate) fn start() -> Option<Self> {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let jars = JARS.as_deref()?;
        if !has_memory("Kafka") {
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary folder");
        let certificate = Certificate::of(SECURE_HOST);
        let pem = format!("{}{}", certificate.key, certificate.cert);
        fs::write(dir.path().join("server.pem"), pem).expect("a file");
        let mut secure = free_address();
        let prepare = |addr| {
            secure = free_address();
            configure(dir.path(), addr, secure);
            format(jars, dir.path());
            let mut command = java(jars, 384);
            command.arg("kafka.Kafka").arg(dir.path().join("server.properties"));
            command
        };
        // Its own way to stop takes seconds.
        let (daemon, addr) = Daemon::start(dir.path(), Signal::KILL, prepare, accepts);
        Some(Self { daemon, addr, secure, certificate, jars, dir, _one: one })
    }

    /// Its listener without TLS.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `HOST:PORT` of its listener with TLS, which needs the user.
    pub(crate) fn secure(&self) -> String {
        format!("{SECURE_HOST}:{}", self.secure.port())
    }

    /// The certificate of that listener in PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate.cert
    }

    /// Ends it as a crash does.
    pub(crate) fn kill_9(&mut self) {
        self.daemon.kill_9();
    }

    /// Starts it again on the same ports, after its end, with its data.
    pub(crate) fn restart(&mut self) {
        let addr = self.addr;
        self.daemon.restart(|| accepts(addr));
    }

    /// Creates a topic with three partitions.
    pub(crate) fn create(&self, topic: &str, max_message_bytes: usize) {
        let mut created = false;
        // After it accepts connections it may not know yet that it is the controller.
        eventually("the topic is there", || {
            let mut command = java(self.jars, 128);
            command.arg("org.apache.kafka.tools.TopicCommand");
            command.args(["--bootstrap-server", &self.addr.to_string()]);
            command.args(["--create", "--if-not-exists", "--topic", topic, "--partitions", "3"]);
            command.args(["--config", &format!("max.message.bytes={max_message_bytes}")]);
            created |= command.output().expect("the command").status.success();
            created
        });
    }

    /// Reads a topic from its beginning until dropped.
    pub(crate) fn consume(&self, topic: &str) -> Consumer {
        let output = self.dir.path().join(format!("{topic}.txt"));
        let mut command = java(self.jars, 128);
        command.arg("org.apache.kafka.tools.consumer.ConsoleConsumer");
        command.args(["--bootstrap-server", &self.addr.to_string(), "--from-beginning"]);
        command.args(["--topic", topic, "--property", "print.key=true"]);
        command.args(["--property", "print.headers=true", "--property", "print.timestamp=true"]);
        let file = fs::File::create(&output).expect("a file");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null()).spawn();
        Consumer { child: child.expect("a consumer"), output }
    }
}

/// A consumer of a topic.
pub(crate) struct Consumer {
    child: std::process::Child,
    output: PathBuf,
}

/// A message as a consumer has it.
#[derive(Clone, Debug)]
pub(crate) struct Consumed {
    /// Time of creation in milliseconds since 1970.
    pub(crate) time_ms: u64,
    /// Headers by name.
    pub(crate) headers: BTreeMap<String, String>,
    /// The value.
    pub(crate) value: Value,
}

impl Consumer {
    /// Messages read so far by key, and their number with those that came more than once.
    pub(crate) fn messages(&self) -> (BTreeMap<String, Consumed>, usize) {
        let text = fs::read_to_string(&self.output).expect("its output");
        // The last line may not be complete.
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let messages: Vec<_> = complete.lines().map(parse).collect();
        let count = messages.len();
        (messages.into_iter().collect(), count)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line `CreateTime:TIME`, headers `NAME:VALUE,…`, key and value, separated by tabs.
fn parse(line: &str) -> (String, Consumed) {
    let mut fields = line.splitn(4, '\t');
    let mut field = || fields.next().unwrap_or_else(|| panic!("no message: {line}"));
    let (time, headers, key, value) = (field(), field(), field(), field());
    let time_ms = time.strip_prefix("CreateTime:").and_then(|time| time.parse().ok());
    let headers = headers.split(',').map(|header| {
        let (name, value) = header.split_once(':').expect("a header");
        (name.to_owned(), value.to_owned())
    });
    let consumed = Consumed {
        time_ms: time_ms.expect("a time"),
        headers: headers.collect(),
        value: serde_json::from_str(value).expect("JSON"),
    };
    (key.to_owned(), consumed)
}

fn java(jars: &Path, heap_mib: usize) -> Command {
    let mut command = Command::new("java");
    command.args([&format!("-Xmx{heap_mib}m"), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command.arg("-cp").arg(jars.join("*"));
    command
}

fn configure(dir: &Path, addr: SocketAddr, secure: SocketAddr) {
    let (path, controller, port) = (dir.display(), free_address(), secure.port());
    let settings = format!(
        "process.roles=broker,controller\nnode.id=1\n\
         controller.quorum.voters=1@{controller}\ncontroller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://{addr},SECURE://{secure},CONTROLLER://{controller}\n\
         advertised.listeners=PLAINTEXT://{addr},SECURE://{SECURE_HOST}:{port}\n\
         listener.security.protocol.map=\
         CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL\n\
         listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-512\n\
         listener.name.secure.scram-sha-512.sasl.jaas.config=\
         org.apache.kafka.common.security.scram.ScramLoginModule required;\n\
         ssl.keystore.type=PEM\nssl.keystore.location={path}/server.pem\n\
         log.dirs={path}/data\nauto.create.topics.enable=false\n\
         offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
         group.initial.rebalance.delay.ms=0\n"
    );
    fs::write(dir.join("server.properties"), settings).expect("its configuration");
}

/// Creates its data folder, with the user.
fn format(jars: &Path, dir: &Path) {
    // Of an attempt on another port.
    let _ = fs::remove_dir_all(dir.join("data"));
    let mut command = java(jars, 128);
    command.args(["kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c"]);
    command.arg(dir.join("server.properties"));
    command.args(["--add-scram", "SCRAM-SHA-512=[name=weir,password=secret]"]);
    let output = command.output().expect("the storage tool");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
