//! A real PostgreSQL, version 15 or newer: what weir gets from a managed one, and no more.
//!
//! Its role `weir` owns the database `weir` and is no superuser. Writes are
//! durable (fsync), passwords are checked (SCRAM).

use super::daemon::{Daemon, unprivileged, unprivileged_file, unprivileged_folder};
use super::process::run;
use super::tls::Certificate;
use rustix::process::Signal;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;

/// Oldest version that weir works with.
const OLDEST: u32 = 15;

/// Local connections only, and a small cache, for many run at a time.
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 32MB
max_connections = 60
dynamic_shared_memory_type = mmap
";

/// Where its programs are: the newest version of Debian's packages, else a folder of `PATH`.
static PROGRAMS: LazyLock<PathBuf> = LazyLock::new(|| {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin")))
    });
    let complete = |folder: &Path| {
        ["initdb", "postgres", "psql", "pg_isready"].iter().all(|name| folder.join(name).exists())
    };
    let debian = debian.filter(|(version, folder)| *version >= OLDEST && complete(folder));
    let newest = debian.max_by_key(|(version, _)| *version).map(|(_, folder)| folder);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = newest.or_else(|| std::env::split_paths(&path).find(|folder| complete(folder)));
    found.expect("PostgreSQL 15 is needed: run `make setup`")
});

/// The data of a new server, as an archive (tar): to initialise them takes seconds.
static TEMPLATE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = unprivileged_folder();
    let data = dir.path().join("data");
    let password = dir.path().join("password");
    unprivileged_file(&password, "sesame-of-postgres");
    let mut initdb = program("initdb");
    initdb.args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"]);
    initdb.args(["--wal-segsize=1", "--no-sync"]).arg(format!("--pwfile={}", password.display()));
    run(initdb.arg("-D").arg(&data), b"");
    let single = |database: &str, commands: &str| {
        let mut server = program("postgres");
        server.args(["--single", "-j", "-D"]).arg(&data).arg(database);
        run(&mut server, commands.as_bytes());
    };
    // Commands of `-j` end with a semicolon and an empty line.
    let role = format!("CREATE ROLE weir LOGIN PASSWORD '{}';", Postgres::PASSWORD);
    single("postgres", &format!("{role}\n\nCREATE DATABASE weir;\n\n"));
    let owner = "ALTER SCHEMA public OWNER TO weir;\n\nALTER DATABASE weir OWNER TO weir;\n\n";
    single("weir", owner);
    archive(&data)
});

/// The data of a server at one moment, as after a crash.
pub(crate) struct Snapshot(Vec<u8>);

/// A running PostgreSQL with its own data; it ends when dropped.
pub(crate) struct Postgres {
    daemon: Daemon,
    addr: SocketAddr,
    certificate: Option<Certificate>,
    dir: TempDir,
}

impl Postgres {
    /// Password of the role `weir`.
    pub(crate) const PASSWORD: &str = "sesame-of-weir";

    /// Starts one that clients connect to without TLS.
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// Starts one that rejects connections without TLS; its certificate is for `127.0.0.1`.
    pub(crate) fn start_tls() -> Self {
        Self::start_with(Some(Certificate::of("127.0.0.1")))
    }

    fn start_with(certificate: Option<Certificate>) -> Self {
        let dir = unprivileged_folder();
        unpack(&TEMPLATE, dir.path());
        let data = dir.path().join("data");
        let mut settings = SETTINGS.to_owned();
        let mut kind = "host";
        if let Some(certificate) = &certificate {
            kind = "hostssl";
            settings.push_str("ssl = on\n");
            unprivileged_file(&data.join("server.crt"), &certificate.cert);
            unprivileged_file(&data.join("server.key"), &certificate.key);
        }
        let access = format!("{kind} all all 127.0.0.1/32 scram-sha-256\n");
        unprivileged_file(&data.join("pg_hba.conf"), &access);
        unprivileged_file(&data.join("postgresql.conf"), &settings);
        let prepare = |addr: SocketAddr| {
            let mut command = program("postgres");
            command.arg("-D").arg(&data).arg("-p").arg(addr.port().to_string());
            command
        };
        // Ends its connections, writes no checkpoint, and leaves no shared memory behind.
        let (daemon, addr) = Daemon::start(dir.path(), Signal::QUIT, prepare, is_up);
        Self { daemon, addr, certificate, dir }
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `postgres://…` of its database, without the password.
    pub(crate) fn url(&self) -> String {
        Self::url_at(self.addr)
    }

    /// As [`Postgres::url`], at another address: a relay, or PgBouncer.
    pub(crate) fn url_at(addr: SocketAddr) -> String {
        format!("postgres://weir@{addr}/weir")
    }

    /// Its certificate, which is its own authority; none without TLS.
    pub(crate) fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    /// Ends all its processes as a crash does.
    pub(crate) fn kill_9(&mut self) {
        self.daemon.kill_9();
    }

    /// Starts it again on the same port, after its end; waits until it has recovered.
    pub(crate) fn restart(&mut self) {
        let addr = self.addr;
        self.daemon.restart(|| is_up(addr));
    }

    /// Its data as they are now. It is stopped for a moment, clients keep their connections.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let family = self.daemon.pause();
        let data = archive(&self.data());
        self.daemon.resume(&family);
        Snapshot(data)
    }

    /// Ends it and starts it with the data of a snapshot: a failover that loses commits.
    pub(crate) fn restore(&mut self, snapshot: &Snapshot) {
        // Not killed: new data do not show what shared memory the old ones had.
        self.daemon.stop();
        fs::remove_dir_all(self.data()).expect("its data");
        unpack(&snapshot.0, self.dir.path());
        self.restart();
    }

    /// The rows that statements give to the role `weir`: a line each, columns separated by `|`.
    pub(crate) fn query(&self, sql: &str) -> String {
        let mut psql = Self::psql(self.addr);
        if let Some(certificate) = &self.certificate {
            let trusted = self.dir.path().join("trusted.pem");
            fs::write(&trusted, &certificate.cert).expect("a file");
            psql.env("PGSSLMODE", "verify-full").env("PGSSLROOTCERT", trusted);
        }
        rows(psql, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// As [`Postgres::query`], at another address, without TLS.
    ///
    /// # Errors
    /// A statement fails, or the connection: what psql says about it.
    pub(crate) fn query_at(addr: SocketAddr, sql: &str) -> Result<String, String> {
        rows(Self::psql(addr), sql)
    }

    /// psql as the role `weir`, without TLS, with the output of [`Postgres::query`]: for sessions
    /// that stay open.
    pub(crate) fn psql(addr: SocketAddr) -> Command {
        let mut command = Command::new(PROGRAMS.join("psql"));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]).arg(Self::url_at(addr));
        command.env("PGPASSWORD", Self::PASSWORD).env("PGSSLMODE", "disable");
        command
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }
}

fn rows(mut psql: Command, sql: &str) -> Result<String, String> {
    let output = psql.args(["-c", sql]).stdin(Stdio::null()).output().expect("psql runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Whether it lets clients log in: it listens before it has recovered.
fn is_up(addr: SocketAddr) -> bool {
    let mut command = Command::new(PROGRAMS.join("pg_isready"));
    command.args(["-q", "-h", "127.0.0.1", "-p"]).arg(addr.port().to_string());
    command.stdin(Stdio::null()).status().expect("pg_isready runs").success()
}

/// A program of the server, which refuses to run as root.
fn program(name: &str) -> Command {
    let mut command = unprivileged(&PROGRAMS.join(name));
    command.env("LC_ALL", "C").current_dir("/");
    command
}

fn archive(data: &Path) -> Vec<u8> {
    let parent = data.parent().expect("a folder in a folder");
    run(Command::new("tar").args(["-c", "-C"]).arg(parent).arg("data"), b"")
}

fn unpack(archive: &[u8], dir: &Path) {
    run(unprivileged(Path::new("tar")).args(["-x", "-C"]).arg(dir), archive);
}
