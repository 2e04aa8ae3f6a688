//! Programs over CGI.

use super::{get, runs};
use crate::harness::{Client, RealServer, Server, Weir, eventually};
use std::os::unix::fs::PermissionsExt;

fn start(name: &str, program: &str) -> Server {
    let config = format!(
        "listen: [127.0.0.1:0]
workers: 2
pools: {{c: {{protocol: cgi, script: {name}, user: {}, timeout: 2s, agents: {{max: 2}}}}}}
apis: {{a: {{base: /, routes: [{{path: \"/c/*\", pool: c}}]}}}}
",
        rustix::process::geteuid().as_raw()
    );
    let weir = Weir::new(&config).file(name, program);
    let script = weir.dir().join(name);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    weir.start()
}

const CGI: &str = "#!/bin/sh
case \"$QUERY_STRING\" in
  crash) exit 3 ;;
  hang) exec sleep 600 ;;
  deaf) exec 0<&-; printf 'Status: 202 Taken\\nContent-Type: text/plain\\n\\n'; exit 0 ;;
  to) printf 'Location: /c/there/?seen=1\n\n'; exit 0 ;;
  away) printf 'Location: /still/there\n\n'; exit 0 ;;
  round) printf 'Location: /c/?round\n\n'; exit 0 ;;
  log) echo 'a line of CGI' >&2 ;;
esac
printf 'Content-Type: text/plain\\r\\nX-Pid: %s\\r\\n\\r\\n' $$
printf '%s %s %s ' \"$REQUEST_METHOD\" \"$PATH_INFO\" \"${HTTP_PROXY:-none}\"
cat
";

/// A pool with a folder of programs, of which `info.sh` says what it was told.
fn told(pool: &str, route: &str) -> Server {
    let config = format!(
        "listen: [\"127.0.0.1:0\"]\nworkers: 1\n\
         pools: {{c: {{protocol: cgi, root: bin, user: {}{pool}}}}}\n\
         apis: {{a: {{base: /, routes: [{{path: \"/c/*\", pool: c{route}}}]}}}}\n",
        rustix::process::geteuid().as_raw()
    );
    let program = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\n\
        printf '%s|%s|%s|' \"$SCRIPT_NAME\" \"$PATH_INFO\" \"$PATH_TRANSLATED\"\n\
        grep NoNewPrivs /proc/self/status\n";
    let weir = Weir::new(&config);
    let bin = weir.dir().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("info.sh"), program).unwrap();
    std::fs::set_permissions(bin.join("info.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    weir.start()
}

#[test]
fn escaped_slashes_in_path_info_separate_nothing() {
    let server = told("", ", path_normalization: {escaped_slashes: keep, backslashes: keep}");
    let root = server.dir().canonicalize().unwrap().join("bin");
    for (path, info) in
        [("/a%20b/c", "/a b/c"), ("/a%2fb/c", "/a%2Fb/c"), ("/%5Cetc", "/%5Cetc"), ("", "")]
    {
        let response = get(&server, &format!("/c/info.sh{path}"));
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        let translated = match info {
            "" => String::new(),
            info => format!("{}{info}", root.display()),
        };
        let expected = format!("/c/info.sh|{info}|{translated}|");
        assert!(response.text().starts_with(&expected), "{path}: {}", response.text());
    }
    for path in ["/..%2f..%2fetc/passwd", "/a/..%5c..%5cetc", "/..%2Fweir.yaml"] {
        assert_eq!(get(&server, &format!("/c/info.sh{path}")).status, 400, "{path}");
    }
    let strict = told("", "");
    assert_eq!(get(&strict, "/c/info.sh/a%2Fb").status, 400);
}

#[test]
fn programs_gain_no_privileges_unless_the_pool_lets_them() {
    for (pool, flag) in
        [("", "1"), (", no_new_privileges: false", "0"), (", limits: {files: 50}", "1")]
    {
        let response = get(&told(pool, ""), "/c/info.sh").text();
        assert!(response.ends_with(&format!("NoNewPrivs:\t{flag}\n")), "{pool}: {response}");
    }
}

#[test]
fn cgi_programs_get_a_process_for_each_request() {
    let server = start("a.sh", CGI);
    let mut client = server.connect();
    let body = "y".repeat(150_000);
    let response = client.request("POST", "/c/x%20y", &[("Proxy", "evil")], &body);
    assert_eq!(response.text(), format!("POST /x y none {body}"));
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

/// A path without a status is answered in place of what was asked for, once for each; where another
/// route answers it, the client is sent there.
#[test]
fn a_local_redirect_is_followed_within_the_same_route() {
    let server = start("a.sh", CGI);
    let mut client = server.connect();
    assert_eq!(client.request("POST", "/c/x?to", &[], "hello").text(), "GET /there/ none ");
    assert_eq!(client.request("HEAD", "/c/x?to", &[], "").status, 200);
    let away = client.get("/c/?away");
    assert_eq!((away.status, away.header("location")), (302, Some("/still/there")));
    let round = client.get("/c/?round");
    assert_eq!(round.status, 502);
    assert!(round.text().contains("too many local redirects"), "{}", round.text());
    eventually("every place is free", || super::status(&server)["agents"]["busy"] == 0);
}

const ENVIRONMENT: &str = "#!/bin/sh
cat > /dev/null
printf 'Content-Type: text/plain\\n\\n'
env | sort
";

/// What RFC 3875 has, and what programs rely on besides; the rest differs by server.
const VARIABLES: [&str; 17] = [
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "GATEWAY_INTERFACE",
    "HTTP_ACCEPT",
    "HTTP_HOST",
    "HTTP_PROXY",
    "HTTP_X_TWO",
    "PATH_INFO",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_NAME",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
];

#[test]
fn apache_tells_cgi_programs_the_same() {
    let server = start("env", ENVIRONMENT);
    let apache = RealServer::apache("c", ENVIRONMENT);
    let headers = [
        ("Host", "example.com:8080"),
        ("Content-Type", "text/x"),
        ("X-Two", "a"),
        ("X-Two", "b"),
        ("Accept", "*/*"),
        ("Proxy", "evil"),
    ];
    for (method, path, body) in
        [("GET", "/c/a%20b/c?x=1&y=%20", ""), ("POST", "/c/", "hello"), ("PUT", "/c/x", "")]
    {
        let told = |mut client: Client| {
            let lines: String = headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
            let length = body.len();
            client.send(format!(
                "{method} {path} HTTP/1.1\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
            ));
            let text = client.response().text();
            let known =
                |line: &&str| VARIABLES.iter().any(|name| line.split('=').next() == Some(*name));
            text.lines().filter(known).map(str::to_owned).collect::<Vec<_>>()
        };
        let ours = told(server.connect());
        assert_eq!(ours, told(Client::connect(apache.addr)), "{method} {path}");
        assert!(ours.len() > 10, "{ours:?}");
    }
}
