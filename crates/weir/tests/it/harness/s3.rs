//! A real S3 server: versitygw with a folder as its storage, so that tests see and change its objects.

use super::daemon::{Daemon, accepts};
use super::files;
use rustix::process::Signal;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// As `.ci/setup` installs it.
const VERSION: &str = "v1.8.0";

/// A running server with a bucket; it ends when dropped.
pub(crate) struct S3 {
    daemon: Daemon,
    addr: SocketAddr,
    dir: TempDir,
}

impl S3 {
    /// The bucket.
    pub(crate) const BUCKET: &str = "records";
    /// Id and secret of the access key.
    pub(crate) const ACCESS_KEY: &str = "weir-tests";
    pub(crate) const SECRET_KEY: &str = "sesame-of-the-bucket";

    /// Starts one with an empty bucket.
    pub(crate) fn start() -> Self {
        let program = program();
        assert!(program.exists(), "{} is needed: run `make setup`", program.display());
        let dir = tempfile::tempdir().expect("a temporary folder");
        for folder in ["objects", "metadata"] {
            fs::create_dir(dir.path().join(folder)).expect("a folder");
        }
        fs::create_dir(dir.path().join("objects").join(Self::BUCKET)).expect("the bucket");
        let prepare = |addr: SocketAddr| {
            let mut command = Command::new(&program);
            command.args(["--port", &addr.to_string()]);
            command.args(["--access", Self::ACCESS_KEY, "--secret", Self::SECRET_KEY, "posix"]);
            command.arg("--sidecar").arg(dir.path().join("metadata"));
            command.arg(dir.path().join("objects"));
            command
        };
        let (daemon, addr) = Daemon::start(dir.path(), Signal::TERM, prepare, accepts);
        Self { daemon, addr, dir }
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The files of all objects whose name ends so.
    pub(crate) fn objects(&self, end: &str) -> Vec<PathBuf> {
        let all = files(&self.dir.path().join("objects").join(Self::BUCKET));
        let is_found = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(end));
        all.into_iter().filter(is_found).collect()
    }

    /// Lines of its log so far about requests of a method whose path has a text.
    pub(crate) fn requests(&self, method: &str, text: &str) -> usize {
        let log = self.daemon.log();
        let is_one = |line: &&str| line.contains(&format!(" {method} ")) && line.contains(text);
        log.lines().filter(|line| line.contains('|')).filter(is_one).count()
    }
}

fn program() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or_else(home).expect("a cache folder");
    cache.join(format!("weir-tests/versitygw-{VERSION}/versitygw"))
}
