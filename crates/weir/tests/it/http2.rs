//! HTTP/2 by clients of others: curl, h2load, h2spec, and bare frames.

mod expect;
mod heads;
mod stalled;

use crate::harness::{self, Client, Server, Signal, Upstream, Weir, eventually, run};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Two listeners, plain and TLS, in front of this upstream.
fn server(upstream: std::net::SocketAddr, more: &str) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}, {{addr: \"127.0.0.1:0\", tls: self-signed}}]\nworkers: 1\n{more}\n\
         upstreams: {{up: {{targets: [\"http://{upstream}\"]}}}}\n\
         apis: {{api: {{base: /, routes: [{{get: /hello, reply: {{text: hello}}}}, {{path: \"/*\", proxy: up}}]}}}}\n"
    ))
    .start()
}

/// Runs curl and gives what it prints, with the status and the protocol version at its end.
fn curl(args: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-sk", "--max-time", "60", "-w", "%{http_code} %{http_version}"]).args(args);
    String::from_utf8(run(&mut command, b"")).expect("a text")
}

fn urls(server: &Server, path: &str) -> (String, String) {
    (server.url(path), format!("https://{}{path}", server.listen[1]))
}

#[test]
fn curl_gets_the_version_it_asks_for() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "");
    let (plain, tls) = urls(&server, "/hello");
    for (args, expected) in [
        (["--http2", tls.as_str()], "hello200 2"),
        (["--http1.1", &tls], "hello200 1.1"),
        (["--no-alpn", &tls], "hello200 1.1"),
        (["--http2-prior-knowledge", &plain], "hello200 2"),
        (["--http1.1", &plain], "hello200 1.1"),
        (["--http1.0", &plain], "hello200 1.1"),
        // An upgrade may be passed over; it is no way to HTTP/2 any more (RFC 9113 section 3.1).
        (["--http2", &plain], "hello200 1.1"),
    ] {
        assert_eq!(curl(&args), expected, "{args:?}");
    }
    let (_, tls) = urls(&server, "/any");
    let body = r#"{"a": 1}"#;
    assert_eq!(curl(&["--http2", "-d", body, &tls]), format!("{body}200 2"));
    assert_eq!(curl(&["--http2", "-I", "-o", "/dev/null", &tls]), "200 2");
}

/// The memory of a request serves the next one, of whatever client: nothing of the one may be left
/// for the other, least of all a credential.
#[test]
fn a_request_has_nothing_of_one_before_it_over_http_1() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "");
    let (plain, _) = urls(&server, "/headers");
    let first = ["--http1.1", "-H", "authorization: Bearer of-another", "-H", "x-own: 1", &plain];
    assert!(curl(&first).contains("of-another"));
    let told = curl(&["--http2-prior-knowledge", &plain]);
    assert!(!told.contains("of-another") && !told.contains("x-own"), "{told}");
}

#[test]
fn an_upstream_sees_one_request_like_any_other() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "");
    let (_, tls) = urls(&server, "/headers");
    let told = curl(&["--http2", "-b", "a=1; b=2", "-H", "host: shop.example", &tls]);
    let told: serde_json::Value =
        serde_json::from_str(told.strip_suffix("200 2").unwrap()).unwrap();
    let told = told["headers"].to_string();
    for expected in [
        r#"["cookie","a=1; b=2"]"#,
        r#"["via","2 weir"]"#,
        r#"["x-forwarded-host","shop.example"]"#,
    ] {
        assert!(told.contains(expected), "{expected} is not in {told}");
    }
    assert!(told.contains(r#"["x-forwarded-proto","https"]"#), "{told}");
    assert!(!told.contains("[\":"), "no pseudo headers: {told}");
}

#[test]
fn h2load_is_served_on_many_streams() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "");
    let (plain, tls) = urls(&server, "/");
    for url in [plain, tls] {
        let args = ["-n", "2000", "-c", "5", "-m", "20", &url];
        let report = run(Command::new("h2load").args(args), b"");
        let report = String::from_utf8_lossy(&report).into_owned();
        assert!(report.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{report}");
        assert!(report.contains("status codes: 2000 2xx"), "{report}");
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let echo = harness::echo(&[]);
    let more = "limits: {header_bytes: 8KiB, headers: 20, url: 1KiB, body: 10KiB}";
    let server = server(echo.listen[0], more);
    let (plain, _) = urls(&server, "/any");
    let h2 = "--http2-prior-knowledge";
    let dir = server.dir().to_owned();
    let file = dir.join("body");
    std::fs::write(&file, vec![b'x'; 11 * 1024]).unwrap();
    let file = file.to_str().unwrap();
    let large = format!("x-large: {}", "x".repeat(9 * 1024));
    let refused = curl(&[h2, "-H", &large, "-o", "/dev/null", &plain]);
    assert_eq!(refused, "431 2", "header");
    let many: Vec<String> = (0..30).map(|n| format!("x-{n}: 1")).collect();
    let mut args = vec![h2];
    many.iter().for_each(|field| args.extend(["-H", field]));
    args.push(&plain);
    let refused = curl(&args);
    assert!(refused.contains("headers-too-large") && refused.ends_with("431 2"), "{refused}");
    let refused = curl(&[h2, &format!("{plain}?{}", "x".repeat(1024))]);
    assert!(refused.contains("url-too-long") && refused.ends_with("414 2"), "{refused}");
    // With and without a length that tells of it.
    for fields in [vec!["-T", file], vec!["-T", file, "-H", "content-length:"]] {
        let refused = curl(&[&[h2], &fields[..], &[plain.as_str()]].concat());
        assert!(refused.contains("body-too-large") && refused.ends_with("413 2"), "{refused}");
    }
    assert_eq!(curl(&[h2, "-d", "fits", &plain]), "fits200 2");
}

/// Bytes of a large body, and the growth it may cause, which has to do with windows and buffers
/// only.
const LARGE: u64 = 100 * 1024 * 1024;
const GROWTH_KIB: u64 = 16 * 1024;

#[test]
fn a_hundred_mebibytes_pass_both_ways_in_flat_memory() {
    let upstream = Upstream::by_hand();
    let server = server(upstream.addr, "limits: {body: 1GiB}");
    let (_, tls) = urls(&server, "/large");
    let file = server.dir().join("large");
    std::fs::File::create(&file).unwrap().set_len(LARGE).unwrap();
    curl(&["--http2", &tls.replace("/large", "/hello")]);
    let before = server.peak_memory();
    std::thread::scope(|scope| {
        let upload = scope.spawn(|| curl(&["--http2", "-T", file.to_str().unwrap(), &tls]));
        let mut peer = upstream.accept();
        let head = peer.head().unwrap().to_ascii_lowercase();
        assert!(head.contains(&format!("content-length: {LARGE}")), "{head}");
        for _ in 0..LARGE / (64 * 1024) {
            peer.read(64 * 1024);
        }
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone");
        assert_eq!(upload.join().unwrap(), "done200 2");

        let output = ["-o", "/dev/null", "-w", "%{size_download}", &tls];
        let download = scope.spawn(move || curl(&[&["--http2"], &output[..]].concat()));
        let mut peer = upstream.accept();
        peer.head();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
        let block = vec![b'x'; 64 * 1024];
        for _ in 0..LARGE / (64 * 1024) {
            peer.send(&block);
        }
        assert_eq!(download.join().unwrap(), LARGE.to_string());
    });
    let growth = server.peak_memory().saturating_sub(before);
    assert!(growth < GROWTH_KIB, "{growth} KiB more for bodies of {} KiB", LARGE / 1024);
}

#[test]
fn streams_finish_after_a_stop_has_begun() {
    let upstream = Upstream::by_hand();
    let mut server = server(upstream.addr, "drain: {deadline: 20s}");
    let (_, tls) = urls(&server, "/slow");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| curl(&["--http2", &tls]));
        let mut peer = upstream.accept();
        peer.head();
        server.signal(Signal::TERM);
        server.event("draining");
        // Only now is there an answer.
        std::thread::sleep(Duration::from_millis(100));
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
        assert_eq!(client.join().unwrap(), "late200 2");
    });
    let stopped = server.event("stopped");
    assert_eq!(stopped["failed"], 0, "{stopped}");
    assert_eq!(server.wait().code(), Some(0));
}

/// The kinds of frames (RFC 9113 section 6) in bytes, up to their end.
fn frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        kinds.push(head[3]);
        bytes = rest.get(length..).unwrap_or_default();
    }
    kinds
}

/// The client never answers the ping that goes with it, and is not waited for all the same.
#[test]
fn an_idle_connection_is_told_to_go_away() {
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    let echo = harness::echo(&[]);
    let mut server = server(echo.listen[0], "limits: {idle: 300ms}\ndrain: {deadline: 1h}");
    let addr = server.listen[0];
    let connect = || {
        let mut client = Client::connect(addr);
        client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.send([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]);
        client.send([0, 0, 0, SETTINGS, 1, 0, 0, 0, 0]);
        client
    };
    let kinds = frames(&connect().rest());
    assert!(kinds.contains(&GOAWAY), "idle: {kinds:?}");
    let config = std::fs::read_to_string(server.dir().join("weir.yaml")).unwrap();
    server.reload(&config.replace("300ms", "1h"));
    let client = connect();
    eventually("it is accepted", || server.metric("weir_connections", &[]) >= 1.0);
    server.signal(Signal::TERM);
    let kinds = frames(&client.rest());
    assert!(kinds.contains(&GOAWAY), "stop: {kinds:?}");
    assert_eq!(server.wait().code(), Some(0));
}

/// What h2spec is built of. It names no versions itself, and the newest ones need a newer Go than
/// the 1.19 of Debian's package.
const H2SPEC: &str = "module weir/h2spec

go 1.19

require (
\tgithub.com/fatih/color v1.13.0
\tgithub.com/spf13/cobra v1.6.1
\tgithub.com/summerwind/h2spec v2.2.1+incompatible
\tgolang.org/x/net v0.7.0
)
";

/// h2spec, built once by Go and kept beside what cargo builds; `None` where that cannot be done.
fn h2spec() -> Option<PathBuf> {
    const PACKAGE: &str = "github.com/summerwind/h2spec/cmd/h2spec";
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("h2spec-2.2.1");
    let binary = folder.join("h2spec");
    if !binary.exists() {
        std::fs::create_dir_all(&folder).expect("a folder beside what cargo builds");
        std::fs::write(folder.join("go.mod"), H2SPEC).expect("a file");
        let mut build = Command::new("timeout");
        build.args(["300", "go", "build", "-mod=mod", "-o", "h2spec", PACKAGE]);
        match build.current_dir(&folder).env("GOFLAGS", "").output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                eprintln!(
                    "SKIPPED: Go (1.19 or newer, by `make setup`) could not build h2spec, for \
                     which it asks the module proxy: {why}"
                );
                return None;
            }
            Err(error) => {
                eprintln!("SKIPPED: Go could not be run: {error}");
                return None;
            }
        }
    }
    Some(binary)
}

/// The cases that fail, and how many there are in all.
fn failures(h2spec: &PathBuf, addr: std::net::SocketAddr, tls: &[&str]) -> (Vec<String>, usize) {
    let output = Command::new(h2spec)
        .args(["--strict", "-o", "10", "-h", "127.0.0.1", "-p", &addr.port().to_string()])
        .args(tls)
        .output()
        .expect("h2spec runs");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, summary) = report.rsplit_once("\nFinished in").expect("a summary");
    let count = summary.lines().nth(1).and_then(|line| line.split(' ').next()?.parse().ok());
    let failed = report.split("\nFailures:").nth(1).unwrap_or_default();
    let case = |line: &str| line.trim().strip_prefix("× ").map(str::to_owned);
    (failed.lines().filter_map(case).collect(), count.expect("a number of tests"))
}

#[test]
fn h2spec_finds_nothing() {
    let Some(h2spec) = h2spec() else { return };
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "");
    let (failed, count) = failures(&h2spec, server.listen[1], &["-t", "-k"]);
    assert!(count > 140, "only {count} cases");
    assert_eq!(failed, Vec::<String>::new(), "over TLS");
    // A plain listener takes what is no preface for HTTP/1.1, and answers it in that language.
    let (failed, _) = failures(&h2spec, server.listen[0], &[]);
    assert_eq!(failed, ["2: Sends invalid connection preface"], "on a plain listener");
}
