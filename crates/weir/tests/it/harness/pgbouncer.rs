//! PgBouncer in transaction mode, as it stands in front of many a PostgreSQL.

use super::daemon::{Daemon, accepts, unprivileged, unprivileged_file, unprivileged_folder};
use super::postgres::Postgres;
use rustix::process::Signal;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// A running PgBouncer; it ends when dropped.
pub(crate) struct PgBouncer {
    _daemon: Daemon,
    addr: SocketAddr,
    _dir: TempDir,
}

impl PgBouncer {
    /// Starts one in front of the database `weir` of a PostgreSQL without TLS. It has at most this
    /// many connections to it.
    pub(crate) fn start(postgres: SocketAddr, connections: usize) -> Self {
        assert!(Path::new(PROGRAM).exists(), "{PROGRAM} is needed: run `make setup`");
        let dir = unprivileged_folder();
        let users = dir.path().join("users.txt");
        unprivileged_file(&users, &format!("\"weir\" \"{}\"\n", Postgres::PASSWORD));
        let settings = dir.path().join("pgbouncer.ini");
        let prepare = |addr: SocketAddr| {
            let text = settings_text(postgres, addr, &users, connections);
            unprivileged_file(&settings, &text);
            let mut command: Command = unprivileged(Path::new(PROGRAM));
            command.arg(&settings).current_dir("/");
            command
        };
        let (daemon, addr) = Daemon::start(dir.path(), Signal::TERM, prepare, accepts);
        Self { _daemon: daemon, addr, _dir: dir }
    }

    /// Where it listens; role, password and database are those of PostgreSQL.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// Its settings (<https://www.pgbouncer.org/config.html>).
fn settings_text(
    postgres: SocketAddr,
    addr: SocketAddr,
    users: &Path,
    connections: usize,
) -> String {
    format!(
        "[databases]\nweir = host={} port={} dbname=weir\n\
         [pgbouncer]\nlisten_addr = {}\nlisten_port = {}\nunix_socket_dir =\n\
         auth_type = scram-sha-256\nauth_file = {}\n\
         pool_mode = transaction\ndefault_pool_size = {connections}\n\
         server_login_retry = 1\n",
        postgres.ip(),
        postgres.port(),
        addr.ip(),
        addr.port(),
        users.display(),
    )
}
