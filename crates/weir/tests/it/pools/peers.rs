//! Agents of others: PHP as Debian has it, by both of its ways, and programs over CGI.

use super::{get, runs};
use crate::harness::{Server, Signal, Weir, eventually};
use rustix::process::{Pid, kill_process};
use std::os::unix::fs::PermissionsExt;
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
        let answer = get(&server, "/app/index.php");
        assert_eq!(answer.status, 200, "request {at}: {}", answer.text());
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
                    let answer = get(&server, "/app/index.php");
                    assert_eq!(answer.status, 200, "{}", answer.text());
                }
            });
        }
    });
}

const CGI: &str = "#!/bin/sh
case \"$QUERY_STRING\" in
  crash) exit 3 ;;
  hang) exec sleep 600 ;;
  deaf) exec 0<&-; printf 'Status: 202 Taken\\nContent-Type: text/plain\\n\\n'; exit 0 ;;
  log) echo 'a line of CGI' >&2 ;;
esac
printf 'Content-Type: text/plain\\r\\nX-Pid: %s\\r\\n\\r\\n' $$
printf '%s %s %s ' \"$REQUEST_METHOD\" \"$PATH_INFO\" \"${HTTP_PROXY:-none}\"
cat
";

#[test]
fn cgi_programs_get_a_process_for_each_request() {
    let config = format!(
        "listen: [127.0.0.1:0]\nworkers: 2\npools: {{c: {{protocol: cgi, script: a.sh, user: {}, timeout: 2s, agents: {{max: 2}}}}}}\napis: {{a: {{base: /, routes: [{{path: \"/c/*\", pool: c}}]}}}}\n",
        rustix::process::geteuid().as_raw()
    );
    let weir = Weir::new(&config).file("a.sh", CGI);
    let script = weir.dir().join("a.sh");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let server = weir.start();
    let mut client = server.connect();
    let body = "y".repeat(150_000);
    let answer = client.request("POST", "/c/x%20y", &[("Proxy", "evil")], &body);
    assert_eq!(answer.text(), format!("POST /x y none {body}"));
    assert_eq!(client.request("POST", "/c/?deaf", &[], &body).status, 202);
    assert_eq!(get(&server, "/c/?crash").status, 502);
    assert_eq!(get(&server, "/c/?log").status, 200);
    eventually("its line is logged", || server.stderr().contains("pool c: a line of CGI"));
    let mut hanging = super::send(&server, "/c/?hang");
    let mut running = Vec::new();
    eventually("it runs", || {
        running = children(u64::from(server.pid()));
        !running.is_empty()
    });
    assert_eq!(hanging.response().status, 504);
    eventually("its processes are ended", || running.iter().all(|pid| !runs(*pid)));
    eventually("its place is free", || super::status(&server)["agents"]["busy"] == 0);
    // Places are taken by turns.
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| assert_eq!(get(&server, "/c/").status, 200));
        }
    });
}

/// Programs named `sleep` among the children of a process.
fn children(parent: u64) -> Vec<u64> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    let all = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u64>>()
    });
    let sleeps = |pid: &u64| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    all.filter(sleeps).collect()
}
