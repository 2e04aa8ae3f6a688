//! Agents of others: PHP as Debian has it, by both of its ways, and programs over CGI.

use super::get;
use crate::harness::{Server, Signal, Weir, eventually};
use rustix::process::{Pid, kill_process};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PHP: &str = "<?php
header('X-Method: ' . $_SERVER['REQUEST_METHOD']);
header('Content-Type: text/plain');
if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
if (isset($_GET['log'])) error_log('a line of PHP');
echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ';
echo strlen(file_get_contents('php://input')), ' ', $_SERVER['HTTP_PROXY'] ?? 'none';
";

const API: &str = "
apis:
  a: {base: /, routes: [{path: \"/app/*\", pool: php}]}
";

/// What both of them answer.
fn check(server: &Server) {
    let mut client = server.connect();
    let plain = client.request("GET", "/app/index.php/a%20b?x=1", &[("Proxy", "evil")], "");
    assert_eq!(plain.text(), "/app/index.php /a b 0 none");
    assert_eq!((plain.status, plain.header("x-method")), (200, Some("GET")));
    assert_eq!(client.get("/app/").text(), "/app/index.php  0 none");
    assert_eq!(client.get("/app/index.php?status=404").status, 404);
    let posted = client.request("POST", "/app/index.php", &[], &"x".repeat(200_000));
    assert_eq!(posted.text(), "/app/index.php  200000 none");
    client.send("POST /app/index.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("5\r\nhello\r\n0\r\n\r\n");
    assert_eq!(client.response().text(), "/app/index.php  5 none");
    for path in ["/app/gone.php", "/app/secret.txt", "/app/..%2fweir.yaml", "/app/.hidden.php"] {
        assert!(matches!(client.get(path).status, 400 | 404), "{path}");
    }
    assert_eq!(client.get("/app/index.php?log=1").status, 200);
    eventually("what PHP logs is in weir's log", || server.stderr().contains("a line of PHP"));
}

fn with_php(config: &str) -> Weir {
    let weir = Weir::new(&format!("listen: [127.0.0.1:0]\nworkers: 2\n{config}{API}"));
    std::fs::create_dir(weir.dir().join("php")).expect("a folder");
    weir.file("php/index.php", PHP).file("php/secret.txt", "secret").file("php/.hidden.php", PHP)
}

#[test]
fn php_cgi_serves_and_its_own_limit_of_requests_costs_none() {
    let server = with_php(&format!(
        "pools: {{php: {{command: [php-cgi, -n], root: php, index: index.php, user: {}, agents: {{min: 2, max: 2}}, env: {{PHP_FCGI_MAX_REQUESTS: \"7\"}}}}}}",
        rustix::process::geteuid().as_raw()
    ));
    let server = server.start();
    check(&server);
    for at in 0..60 {
        let response = get(&server, "/app/index.php");
        assert_eq!(response.status, 200, "request {at}: {}", response.text());
    }
}

/// Debian's php-fpm with two processes; ended when dropped.
struct Fpm(Child);

impl Drop for Fpm {
    fn drop(&mut self) {
        // Killed outright it would leave its processes behind, and they serve on.
        let manager = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process");
        let _ = kill_process(manager, Signal::TERM);
        let _ = self.0.wait();
    }
}

fn fpm(folder: &Path) -> Fpm {
    let name = std::fs::read_dir("/usr/sbin").into_iter().flatten().flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.starts_with("php-fpm").then_some(entry.path())
    });
    let name = name.expect("php-fpm is installed: .ci/setup");
    let text = format!(
        "[global]\nerror_log = {0}/fpm.log\ndaemonize = no\n[www]\nlisten = {0}/fpm.sock\npm = static\npm.max_children = 2\n",
        folder.display()
    );
    std::fs::write(folder.join("fpm.conf"), text).expect("a file");
    let mut command = Command::new(name);
    command.args(["-n", "-F", "-R", "-y"]).arg(folder.join("fpm.conf"));
    if rustix::process::geteuid().is_root() {
        let config = folder.join("fpm.conf");
        let text = std::fs::read_to_string(&config).expect("it is there");
        std::fs::write(config, text + "user = root\ngroup = root\n").expect("a file");
    }
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let fpm = Fpm(child);
    eventually("php-fpm listens", || folder.join("fpm.sock").exists());
    fpm
}

#[test]
fn php_fpm_serves_over_connections_that_are_kept() {
    let weir = with_php(
        "pools: {php: {connect: \"unix:fpm.sock\", root: php, index: index.php, agents: {max: 2}}}",
    );
    let manager = fpm(weir.dir());
    let server = weir.start();
    check(&server);
    for _ in 0..20 {
        assert_eq!(get(&server, "/app/index.php").status, 200);
    }
    drop(manager);
    eventually("it is gone", || get(&server, "/app/index.php").status == 503);
}

/// More connections than there are processes behind them: the ones that are idle make room.
#[test]
fn a_manager_with_fewer_processes_than_connections_starves_nobody() {
    let weir = with_php(
        "pools: {php: {connect: \"unix:fpm.sock\", root: php, index: index.php, agents: {max: 6}}}",
    );
    let _manager = fpm(weir.dir());
    let server = weir.start();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let response = get(&server, "/app/index.php");
                    assert_eq!(response.status, 200, "{}", response.text());
                }
            });
        }
    });
}
