//! A real Redis with a password, which writes what it is told to an append-only file.

use super::daemon::{Daemon, accepts};
use super::process::run;
use super::tls::Certificate;
use rustix::process::Signal;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const PROGRAM: &str = "/usr/bin/redis-server";

/// A running Redis with its own data; it ends when dropped.
pub(crate) struct Redis {
    daemon: Daemon,
    addr: SocketAddr,
    certificate: Option<Certificate>,
    dir: TempDir,
}

impl Redis {
    /// Password of the default user.
    pub(crate) const PASSWORD: &str = "sesame-of-redis";

    /// Starts one without data.
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// Starts one without data that accepts connections with TLS only.
    pub(crate) fn start_tls() -> Self {
        Self::start_with(Some(Certificate::of("127.0.0.1")))
    }

    fn start_with(certificate: Option<Certificate>) -> Self {
        assert!(Path::new(PROGRAM).exists(), "{PROGRAM} is needed: run `make setup`");
        let dir = tempfile::tempdir().expect("a temporary folder");
        let prepare = |addr: SocketAddr| {
            let path = dir.path().display();
            let mut port = format!("port {}", addr.port());
            if let Some(Certificate { cert, key }) = &certificate {
                fs::write(dir.path().join("redis.crt"), cert).expect("its certificate");
                fs::write(dir.path().join("redis.key"), key).expect("its key");
                port = format!(
                    "port 0\ntls-port {}\ntls-cert-file {path}/redis.crt\n\
                     tls-key-file {path}/redis.key\ntls-auth-clients no",
                    addr.port()
                );
            }
            let settings = format!(
                "bind 127.0.0.1\n{port}\nrequirepass {}\ndir {path}\n\
                 save \"\"\nappendonly yes\nappendfsync everysec\n",
                Self::PASSWORD
            );
            fs::write(dir.path().join("redis.conf"), settings).expect("its configuration");
            let mut command = Command::new(PROGRAM);
            command.arg(dir.path().join("redis.conf"));
            command
        };
        let tls = certificate.is_some();
        let is_up = |addr| is_up(addr, tls);
        let (daemon, addr) = Daemon::start(dir.path(), Signal::TERM, prepare, is_up);
        Self { daemon, addr, certificate, dir }
    }

    /// Its certificate, if it has one.
    pub(crate) fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `redis://…`, without the password.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Ends it as a crash does.
    pub(crate) fn kill_9(&mut self) {
        self.daemon.kill_9();
    }

    /// Starts it again on the same port, after its end, with what it has written to its file.
    pub(crate) fn restart(&mut self) {
        let (addr, tls) = (self.addr, self.certificate.is_some());
        self.daemon.restart(|| is_up(addr, tls));
    }

    /// Starts it again without data, after its end: a failover to a replica that had none.
    pub(crate) fn restart_empty(&mut self) {
        fs::remove_dir_all(self.dir.path().join("appendonlydir")).expect("its file");
        self.restart();
    }

    /// What a command gives, as redis-cli prints it to programs.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        command(self.addr, self.certificate.is_some(), words)
    }
}

fn command(addr: SocketAddr, tls: bool, words: &[&str]) -> String {
    let mut client = Command::new("redis-cli");
    client.args(["-h", "127.0.0.1", "-p"]).arg(addr.port().to_string());
    if tls {
        // The certificate is that of this test.
        client.args(["--tls", "--insecure"]);
    }
    client.args(words).env("REDISCLI_AUTH", Redis::PASSWORD);
    let output = String::from_utf8(run(&mut client, b"")).expect("text in UTF-8");
    output.trim_end().to_owned()
}

/// Whether it has read its file: it listens before.
fn is_up(addr: SocketAddr, tls: bool) -> bool {
    accepts(addr) && command(addr, tls, &["PING"]) == "PONG"
}
