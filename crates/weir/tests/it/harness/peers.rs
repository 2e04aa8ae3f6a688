//! Servers that are no script: nginx, HAProxy, Apache httpd, and a socket that nobody serves.

use super::process::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server of somebody else's; it answers every request with the target it read, and notes it.
pub(crate) struct RealServer {
    child: Child,
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    dir: TempDir,
    log: &'static str,
}

const NGINX: &str = "
daemon off;
worker_processes 1;
pid PATH/nginx.pid;
error_log PATH/error.log;
events { worker_connections 100; }
http {
    log_format requests 'request $request_method $request_uri';
    access_log PATH/requests.log requests;
    client_body_temp_path PATH/body;
    proxy_temp_path PATH/proxy;
    fastcgi_temp_path PATH/fastcgi;
    uwsgi_temp_path PATH/uwsgi;
    scgi_temp_path PATH/scgi;
    server {
        listen ADDR;
        listen unix:PATH/http1.sock;
        listen unix:PATH/http2.sock http2;
        add_header x-upstream nginx always;
        add_header x-host $http_host$server_addr always;
        location / { return 200 \"$request_method $request_uri\"; }
    }
}
";

const HAPROXY: &str = "
global
    log stdout format raw local0
defaults
    mode http
    log global
    option dontlognull
    log-format \"request %HM %HU\"
    timeout client 10s
    timeout connect 10s
    timeout server 10s
frontend all
    bind ADDR
    http-request return status 200 content-type text/plain hdr x-upstream haproxy lf-string \"%[method] %[url]\"
";

const APACHE: &str = "
ServerRoot PATH
ServerName 127.0.0.1
PidFile PATH/apache.pid
ErrorLog PATH/error.log
Listen ADDR
LoadModule mpm_event_module MODULES/mod_mpm_event.so
LoadModule authz_core_module MODULES/mod_authz_core.so
LoadModule alias_module MODULES/mod_alias.so
LoadModule cgid_module MODULES/mod_cgid.so
ScriptSock PATH/cgid.sock
ScriptAlias / PATH/cgi/
<Directory PATH/cgi>
    Require all granted
</Directory>
";

const GO_FILES: &str = "package main

import (
	\"log\"
	\"net/http\"
	\"os\"
)

func main() {
	log.Fatal(http.ListenAndServe(os.Args[1], http.FileServer(http.Dir(os.Args[2]))))
}
";

impl RealServer {
    /// Apache httpd of Debian's package with a CGI program, which answers below `/` and this name.
    pub(crate) fn apache(name: &str, program: &str) -> Self {
        let mut config = APACHE.replace("MODULES", "/usr/lib/apache2/modules");
        let root = rustix::process::geteuid().is_root();
        if root {
            config.push_str("User www-data\nGroup www-data\n");
        }
        Self::start("/usr/sbin/apache2", &config, "stdout.log", |command, dir| {
            let allow = |path: &Path, mode| {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
            };
            if root {
                // Its user must find the program.
                allow(dir, 0o711);
            }
            fs::create_dir(dir.join("cgi")).expect("a folder");
            fs::write(dir.join("cgi").join(name), program).expect("a file");
            allow(&dir.join("cgi").join(name), 0o755);
            command.args(["-D", "FOREGROUND", "-f"]).arg(dir.join("config"));
        })
    }

    /// nginx of Debian's package.
    pub(crate) fn nginx() -> Self {
        Self::start("/usr/sbin/nginx", NGINX, "requests.log", |command, dir| {
            command.arg("-p").arg(dir).arg("-e").arg(dir.join("error.log"));
            command.arg("-c").arg(dir.join("config"));
        })
    }

    /// nginx that serves the files of a folder, compressed siblings included.
    pub(crate) fn nginx_files(folder: &Path) -> Self {
        let root = format!("root {}; gzip_static on;", folder.display());
        let response = "location / { return 200 \"$request_method $request_uri\"; }";
        // Its workers would else run as somebody who may not see the folder.
        let config =
            NGINX.replace(response, &root).replace("daemon off;", "daemon off;\nuser root;");
        Self::start("/usr/sbin/nginx", &config, "requests.log", |command, dir| {
            command.arg("-p").arg(dir).arg("-e").arg(dir.join("error.log"));
            command.arg("-c").arg(dir.join("config"));
        })
    }

    /// nginx with TLS that requires a client certificate; `server.pem`, `server-key.pem` and `clients.pem` are
    /// in a folder. It notes target, subject of the certificate, and `r` for a resumed session.
    pub(crate) fn nginx_of_clients(folder: &Path) -> Self {
        let tls = "listen ADDR ssl; ssl_certificate FILES/server.pem; \
                   ssl_certificate_key FILES/server-key.pem; ssl_verify_client on; \
                   ssl_client_certificate FILES/clients.pem;";
        let config = NGINX
            .replace("listen ADDR;", &tls.replace("FILES", &folder.display().to_string()))
            .replace(
                "$request_method $request_uri'",
                "$request_uri $ssl_client_s_dn$ssl_session_reused'",
            );
        Self::start("/usr/sbin/nginx", &config, "requests.log", |command, dir| {
            command.arg("-p").arg(dir).arg("-e").arg(dir.join("error.log"));
            command.arg("-c").arg(dir.join("config"));
        })
    }

    /// HAProxy of Debian's package.
    pub(crate) fn haproxy() -> Self {
        Self::start("/usr/sbin/haproxy", HAPROXY, "stdout.log", |command, dir| {
            command.arg("-db").arg("-f").arg(dir.join("config"));
        })
    }

    /// Go's file server (`net/http`) over a folder; `None`, which is said, without a Go toolchain.
    pub(crate) fn go_files(folder: &Path) -> Option<Self> {
        let go =
            ["/usr/local/go/bin/go", "/usr/bin/go"].into_iter().find(|p| Path::new(p).exists());
        let Some(go) = go else {
            eprintln!("SKIPPED: no Go toolchain");
            return None;
        };
        let build = tempfile::tempdir().expect("a temporary folder");
        fs::write(build.path().join("main.go"), GO_FILES).expect("a file");
        let program = build.path().join("files");
        let mut compile = Command::new(go);
        compile.arg("build").arg("-o").arg(&program).arg("main.go").current_dir(build.path());
        compile.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache"));
        super::run(&mut compile, b"");
        let program = program.to_str().expect("a path in UTF-8").to_owned();
        Some(Self::start(&program, "ADDR", "stdout.log", |command, dir| {
            let addr = fs::read_to_string(dir.join("config")).expect("its address");
            command.arg(addr).arg(folder);
        }))
    }

    /// Python's file server (`http.server`) over a folder; `None`, which is said, without Python.
    pub(crate) fn python_files(folder: &Path) -> Option<Self> {
        let python = ["/usr/bin/python3", "/usr/local/bin/python3"];
        let Some(python) = python.into_iter().find(|path| Path::new(path).exists()) else {
            eprintln!("SKIPPED: no python3");
            return None;
        };
        Some(Self::start(python, "ADDR", "stdout.log", |command, dir| {
            let addr = fs::read_to_string(dir.join("config")).expect("its address");
            let port = addr.rsplit(':').next().expect("a port").to_owned();
            command.args(["-m", "http.server", "--bind", "127.0.0.1", &port, "--directory"]);
            command.arg(folder);
        }))
    }

    fn start(
        program: &str,
        config: &str,
        log: &'static str,
        arguments: impl Fn(&mut Command, &Path),
    ) -> Self {
        assert!(Path::new(program).exists(), "{program} is needed: run `make setup`");
        // The port is free when it is chosen; another process may be faster than the server.
        for _ in 0..5 {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let addr = free.local_addr().expect("an address");
            drop(free);
            let path = dir.path().display().to_string();
            let config = config.replace("PATH", &path).replace("ADDR", &addr.to_string());
            fs::write(dir.path().join("config"), config).expect("a file");
            let output = |name: &str| File::create(dir.path().join(name)).expect("a file");
            let mut command = Command::new(program);
            arguments(&mut command, dir.path());
            let child = command
                .stdin(Stdio::null())
                .stdout(output("stdout.log"))
                .stderr(output("stderr.log"))
                .spawn()
                .expect("it starts");
            let mut server = Self { child, addr, dir, log };
            if server.is_up() {
                return server;
            }
        }
        panic!("{program} does not start");
    }

    fn is_up(&mut self) -> bool {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if TcpStream::connect(self.addr).is_ok() {
                // Not another server that took the port first.
                return self.child.try_wait().ok().flatten().is_none();
            }
            if self.child.try_wait().ok().flatten().is_some() {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        false
    }

    /// The Unix domain socket at which nginx listens for this version of HTTP.
    pub(crate) fn socket(&self, version: u8) -> PathBuf {
        self.dir.path().join(format!("http{version}.sock"))
    }

    /// Stops it and gives the requests it read, as `METHOD target`, in order.
    pub(crate) fn requests(mut self) -> Vec<String> {
        // Gracefully, so that the last lines are written.
        let signal = if self.log == "requests.log" { Signal::QUIT } else { Signal::USR1 };
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("it runs");
        let end = Instant::now() + PATIENCE;
        while self.child.try_wait().ok().flatten().is_none() {
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let log = fs::read_to_string(self.dir.path().join(self.log)).expect("its log");
        log.lines().filter_map(|line| line.strip_prefix("request ")).map(str::to_owned).collect()
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        // Not killed: nginx's workers would stay behind.
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Some(pid), Ok(None)) = (pid, self.child.try_wait()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// An address where nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address")
}

/// A listening socket whose queue of connections is full: the kernel drops whatever else comes, as
/// a host does that is not there.
pub(crate) struct FullBacklog {
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl FullBacklog {
    /// Fills the queue of a socket on a free port.
    pub(crate) fn new() -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).expect("a free port");
        socket.listen(1).expect("a listening socket");
        let listener = TcpListener::from(socket);
        let addr = listener.local_addr().expect("an address");
        // How many the queue takes is up to the kernel; one that waits this long is one too many.
        let connect = || TcpStream::connect_timeout(&addr, Duration::from_millis(500)).ok();
        let queue: Vec<TcpStream> = std::iter::from_fn(connect).take(100).collect();
        assert!(queue.len() < 100, "the queue takes everything");
        Self { addr, _listener: listener, _queue: queue }
    }
}

/// Something of a Python package (PyPI) in a virtual environment of its own, fetched once; `None`,
/// which is said, where that cannot be done.
pub(crate) fn python_package(package: &str, wanted: &str) -> Option<PathBuf> {
    // One at a time: two tests may want the same.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _alone = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package.replace("==", "-"));
    // There once all of it is.
    let (wanted, whole) = (home.join(wanted), home.join("whole"));
    if whole.exists() {
        return Some(wanted);
    }
    let quiet = |command: &mut Command| {
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let made = quiet(Command::new("python3").args(["-m", "venv"]).arg(&home)) && {
        let mut install = Command::new("timeout");
        quiet(install.arg("600").arg(home.join("bin/pip")).args(["install", "-q", package]))
    };
    if !made || fs::write(&whole, "").is_err() {
        eprintln!("SKIPPED: python3 with venv and pip could not fetch {package}");
        return None;
    }
    Some(wanted)
}
