//! A real OpenSearch: the minimal distribution, without any plug-in.
//!
//! It is `org.opensearch.distribution.integ-test-zip:opensearch` on Maven Central: the server with the
//! module `transport-netty4` only. So there is no `_delete_by_query`, no Painless, and no analyzer beyond
//! those of the server itself. What works with it works with every OpenSearch 2.

use super::daemon::{Daemon, accepts, free_address};
use super::{Client, Response};
use rustix::process::Signal;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

const VERSION: &str = "2.17.1";

/// Memory that has to be free: the heap, and what Java and the file cache take beside it.
const REQUIRED_KIB: u64 = 1 << 20;

/// One OpenSearch or Kafka at a time: a Java process takes half of a small machine.
pub(super) static ONE: Mutex<()> = Mutex::new(());

/// The distribution; `None` where it cannot be had.
static DISTRIBUTION: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("opensearch-{VERSION}"));
    // Another run of the tests may fetch it at the same time, and be faster.
    if !home.exists() && fetch(&home).is_none() && !home.exists() {
        eprintln!(
            "SKIPPED: Maven and a JDK (by `make setup`) could not fetch OpenSearch {VERSION}"
        );
        return None;
    }
    Some(home)
});

/// Fetches the distribution and unpacks it.
fn fetch(home: &Path) -> Option<()> {
    const GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:unpack";
    let unpacked = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).ok()?;
    let artifact = "org.opensearch.distribution.integ-test-zip:opensearch";
    let status = Command::new("timeout")
        .args(["600", "mvn", "-q", "-B", GOAL])
        .arg(format!("-Dartifact={artifact}:{VERSION}:zip"))
        .arg(format!("-DoutputDirectory={}", unpacked.path().display()))
        .current_dir(unpacked.path())
        .stdout(Stdio::null())
        .status();
    status.ok().filter(std::process::ExitStatus::success)?;
    // Last, for it says that all of it is there.
    fs::rename(unpacked.path().join(format!("opensearch-{VERSION}")), home).ok()
}

/// A running OpenSearch with one node and its own data; it ends when dropped.
pub(crate) struct OpenSearch {
    daemon: Daemon,
    addr: SocketAddr,
    _dir: TempDir,
    _one: MutexGuard<'static, ()>,
}

impl OpenSearch {
    /// Starts one with a heap of 512 MiB; `None`, which is said, without Maven, a JDK or memory.
    /// A second one waits until the first is dropped, so a test can have one only.
    pub(crate) fn start() -> Option<Self> {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let home = DISTRIBUTION.as_deref()?;
        if !has_memory("OpenSearch") {
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary folder");
        for name in ["config", "temporary"] {
            fs::create_dir(dir.path().join(name)).expect("a folder");
        }
        let log4j = "config/log4j2.properties";
        fs::copy(home.join(log4j), dir.path().join(log4j)).expect("its configuration");
        let prepare = |addr| command(home, dir.path(), addr);
        // Its own way to stop takes seconds.
        let (daemon, addr) = Daemon::start(dir.path(), Signal::KILL, prepare, is_up);
        Some(Self { daemon, addr, _dir: dir, _one: one })
    }

    /// Where it serves HTTP.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends it as a crash does.
    pub(crate) fn kill_9(&mut self) {
        self.daemon.kill_9();
    }

    /// Starts it again on the same port, after its end, with its data; waits until it answers.
    pub(crate) fn restart(&mut self) {
        let addr = self.addr;
        self.daemon.restart(|| is_up(addr));
    }

    /// One request with a body of JSON, or none if it is empty, on a connection of its own.
    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> Response {
        let headers = [("content-type", "application/json")];
        Client::connect(self.addr).request(method, path, &headers, body)
    }
}

fn command(home: &Path, dir: &Path, addr: SocketAddr) -> Command {
    let (path, http, transport) = (dir.display(), addr.port(), free_address().port());
    let settings = format!(
        "cluster.name: weir\nnode.name: weir\ndiscovery.type: single-node\n\
         network.host: 127.0.0.1\nhttp.port: {http}\ntransport.port: {transport}\n\
         path.data: {path}/data\npath.logs: {path}/logs\n\
         cluster.routing.allocation.disk.threshold_enabled: false\n"
    );
    fs::write(dir.join("config/opensearch.yml"), settings).expect("its configuration");
    let mut command = Command::new("java");
    command.args(["-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true"]);
    // It looks for root, whom it refuses, by its native library. Without that it also runs where no
    // other user can read the folder of the distribution.
    command.args(["-Djna.nosys=true", "-Djna.nounpack=true", "-Dlog4j2.disable.jmx=true"]);
    command.arg(format!("-Djava.io.tmpdir={path}/temporary"));
    command.arg(format!("-Dopensearch.path.home={}", home.display()));
    command.arg(format!("-Dopensearch.path.conf={path}/config"));
    command.args(["-Dopensearch.distribution.type=zip", "-Dopensearch.bundled_jdk=false"]);
    command.arg("-cp").arg(home.join("lib/*")).arg("org.opensearch.bootstrap.OpenSearch");
    command.current_dir(dir);
    command
}

/// Whether it answers with a cluster that has a manager; before that, it answers 503.
fn is_up(addr: SocketAddr) -> bool {
    accepts(addr)
        && Client::connect(addr).try_get("/_cluster/health").is_some_and(|r| r.status == 200)
}

/// Whether there is memory for a server in Java; if not, this is said.
pub(super) fn has_memory(server: &str) -> bool {
    let has = available_memory() >= REQUIRED_KIB;
    if !has {
        eprintln!("SKIPPED: less than {REQUIRED_KIB} KiB of memory for {server}");
    }
    has
}

/// Memory that processes can still have, in KiB.
fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(u64::MAX)
}
