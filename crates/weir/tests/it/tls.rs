//! TLS listeners, and the PROXY protocol in front of them.

use crate::harness::{Certificate, Client, Server, Signal, Weir, eventually};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const APIS: &str =
    "apis: {api: {base: /, routes: [{get: /, reply: {map: {address: {cel: request.address}}}}]}}\n";

fn config(tls: &str) -> String {
    format!("listen: [{{addr: \"127.0.0.1:0\", tls: {tls}}}]\nworkers: 2\n{APIS}")
}

#[test]
fn a_self_signed_certificate_is_kept_over_restarts() {
    let data = tempfile::tempdir().unwrap();
    let args = ["--data", data.path().to_str().unwrap()];
    let certificate = |args: &[&str]| {
        let server = Weir::new(&config("self-signed")).args(args).start();
        let pem = find(args.get(1).map_or(server.dir(), Path::new), "BEGIN CERTIFICATE");
        let mut client = Client::connect_tls(server.listen[0], b"", "localhost", &[&pem]).unwrap();
        assert_eq!(client.get("/").status, 200);
        client.certificate()
    };
    let first = certificate(&args);
    assert_eq!(certificate(&args), first);
    let other = tempfile::tempdir().unwrap();
    assert_ne!(certificate(&["--data", other.path().to_str().unwrap()]), first);
    let key = path_of(data.path(), "PRIVATE KEY").expect("the key is kept there");
    let mode = key.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "nobody else may read {}: {mode:o}", key.display());
}

/// The file below a folder that holds this text.
fn path_of(folder: &Path, text: &str) -> Option<std::path::PathBuf> {
    std::fs::read_dir(folder).ok()?.map_while(Result::ok).find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return path_of(&path, text);
        }
        std::fs::read_to_string(&path).is_ok_and(|content| content.contains(text)).then_some(path)
    })
}

fn find(folder: &Path, text: &str) -> String {
    let path = path_of(folder, text).unwrap_or_else(|| panic!("no {text} in {}", folder.display()));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn names_choose_the_certificate() {
    let (com, org) = (Certificate::of("example.com"), Certificate::of("example.org"));
    let server = Weir::new(&config(
        "[{cert: \"file:com.crt\", key: \"file:com.key\"}, {cert: \"file:org.crt\", key: \"file:org.key\"}]",
    ))
    .file("com.crt", &com.cert)
    .file("com.key", &com.key)
    .file("org.crt", &org.cert)
    .file("org.key", &org.key)
    .start();
    let connect = |name: &str, trusted: &Certificate| {
        Client::connect_tls(server.listen[0], b"", name, &[&trusted.cert])
    };
    for (name, certificate) in [("example.com", &com), ("example.org", &org)] {
        assert_eq!(connect(name, certificate).unwrap().get("/").status, 200, "{name}");
    }
    assert!(connect("example.org", &com).is_err(), "the other one is not shown for it");
    // Who names no server gets the first; so does who names one that is not there.
    let first = connect("example.com", &com).unwrap().certificate();
    let nameless = std::process::Command::new("openssl")
        .args(["s_client", "-noservername", "-connect", &server.listen[0].to_string()])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("openssl runs");
    let shown = String::from_utf8_lossy(&nameless.stdout).into_owned();
    let lines: Vec<&str> = com.cert.lines().collect();
    assert!(shown.contains(lines[1]), "{shown}");
    assert!(!first.is_empty());
}

/// A link to the folder with the certificate is moved, as systems do that renew certificates.
fn point(server_dir: &Path, version: &str) {
    let new = server_dir.join("current.new");
    symlink(version, &new).unwrap();
    std::fs::rename(new, server_dir.join("current")).unwrap();
}

#[test]
fn a_certificate_is_replaced_under_load_without_a_lost_connection() {
    let versions = [Certificate::of("example.com"), Certificate::of("example.com")];
    let weir =
        Weir::new(&config("{cert: \"file:current/tls.crt\", key: \"file:current/tls.key\"}"));
    for (index, certificate) in versions.iter().enumerate() {
        let folder = weir.dir().join(format!("v{index}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("tls.crt"), &certificate.cert).unwrap();
        std::fs::write(folder.join("tls.key"), &certificate.key).unwrap();
    }
    point(weir.dir(), "v0");
    let mut server = weir.start();
    let addr = server.listen[0];
    let trusted = [versions[0].cert.as_str(), &versions[1].cert];
    let connect = || Client::connect_tls(addr, b"", "example.com", &trusted).expect("a handshake");
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut old = connect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut client = connect();
                    for _ in 0..5 {
                        assert_eq!(client.get("/").status, 200);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for round in 1..=6 {
            let before = answered.load(Ordering::Relaxed);
            point(server.dir(), &format!("v{}", round % 2));
            server.signal(Signal::HUP);
            server.event("reloaded");
            while answered.load(Ordering::Relaxed) < before + 10 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    server.no_more("reload-refused");
    assert_eq!(old.get("/").status, 200, "open connections are kept");
    assert_eq!(server.metric("weir_tls_handshake_failures_total", &[]), 0.0);
    // A change may be seen twice, by its signal and by its file, so events run ahead.
    let is_current = || Client::connect_tls(addr, b"", "example.com", &[&versions[0].cert]).is_ok();
    while !is_current() {
        server.event("reloaded");
    }
}

#[test]
fn plain_bytes_on_a_tls_listener_harm_nobody() {
    let server = Weir::new(&config("self-signed")).start();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    client.rest();
    let failures = || server.metric("weir_tls_handshake_failures_total", &[]);
    eventually("it is counted", || failures() == 1.0);
    let line = "TLS handshakes with clients failed: 1; last: 127.0.0.1 at listener";
    eventually("it is logged", || server.stderr().contains(line));
    let reason = "received corrupt message of type InvalidContentType";
    assert!(server.stderr().contains(reason), "{}", server.stderr());
    let pem = find(server.dir(), "BEGIN CERTIFICATE");
    let mut client = Client::connect_tls(server.listen[0], b"", "localhost", &[&pem]).unwrap();
    assert_eq!(client.get("/").status, 200);
}

/// A version 2 header for TCP over IPv4 from 192.0.2.7, with a TLV that is to be passed over.
fn version_2() -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x10".to_vec();
    header.extend([192, 0, 2, 7, 192, 0, 2, 9, 0x30, 0x39, 0x01, 0xbb]);
    header.extend([0x04, 0x00, 0x01, 0x00]);
    header
}

fn behind_proxy_protocol() -> (Server, String) {
    let listen = "listen:\n  - {addr: \"127.0.0.1:0\", proxy_protocol: [127.0.0.1]}\n  \
                  - {addr: \"127.0.0.1:0\", proxy_protocol: [0.0.0.0/0], tls: self-signed}\n";
    let server = Weir::new(&format!("{listen}workers: 1\n{APIS}")).start();
    let pem = find(server.dir(), "BEGIN CERTIFICATE");
    (server, pem)
}

#[test]
fn the_proxy_protocol_names_the_client_on_plain_and_tls_listeners() {
    let (server, pem) = behind_proxy_protocol();
    let v1 = b"PROXY TCP4 192.0.2.7 192.0.2.9 12345 443\r\n".to_vec();
    for (what, front, address) in [
        ("v1", v1, "192.0.2.7"),
        ("v1 IPv6", b"PROXY TCP6 2001:db8::7 ::1 12345 443\r\n".to_vec(), "2001:db8::7"),
        ("v1 unknown", b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        ("v2", version_2(), "192.0.2.7"),
        ("v2 local", b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00".to_vec(), "127.0.0.1"),
    ] {
        let mut plain = Client::connect(server.listen[0]);
        plain.send(&front);
        let mut tls = Client::connect_tls(server.listen[1], &front, "localhost", &[&pem]).unwrap();
        for client in [&mut plain, &mut tls] {
            for _ in 0..2 {
                assert_eq!(client.get("/").json()["address"], address, "{what}");
            }
        }
    }
}

#[test]
fn only_listed_load_balancers_may_send_proxy_headers() {
    let config =
        |keys: &str| format!("listen: [{{addr: \"127.0.0.1:0\", {keys}}}]\nworkers: 1\n{APIS}");
    let front = "PROXY TCP4 192.0.2.7 192.0.2.9 12345 443\r\n";
    for keys in
        ["proxy_protocol: [127.0.0.0/8, \"::1\"]", "proxy_protocol: true, trust: [127.0.0.0/8]"]
    {
        let server = Weir::new(&config(keys)).start();
        let mut client = server.connect();
        client.send(front);
        assert_eq!(client.get("/").json()["address"], "192.0.2.7", "{keys}");
    }
    // The address that a header names is no sender's.
    for keys in ["proxy_protocol: [192.0.2.0/24]", "proxy_protocol: true, trust: [192.0.2.0/24]"] {
        let server = Weir::new(&config(keys)).start();
        for front in [front, ""] {
            let mut client = server.connect();
            client.send(format!("{front}GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
            let (bytes, _) = client.rest_or_reset();
            assert!(bytes.is_empty(), "{keys}: {}", String::from_utf8_lossy(&bytes));
        }
        let failures = || server.metric("weir_proxy_protocol_failures_total", &[]);
        eventually("they are counted", || failures() == 2.0);
    }
    // Nobody is believed without being listed.
    let refused = Weir::new(&config("proxy_protocol: true")).refused();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    for part in ["proxy-protocol-senders", "[10.0.0.0/8]", "[0.0.0.0/0, \"::/0\"]"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_connection_without_its_proxy_header_is_closed() {
    let (server, _) = behind_proxy_protocol();
    for front in
        ["GET / HTTP/1.1\r\nHost: h\r\n\r\n", "PROXY TCP4 192.0.2.7\r\n", "PROXY TCP4 a b 1 2\r\n"]
    {
        let mut client = Client::connect(server.listen[0]);
        client.send(front);
        assert!(client.rest().is_empty(), "no answer to {front:?}");
    }
    let failures = || server.metric("weir_proxy_protocol_failures_total", &[]);
    eventually("they are counted", || failures() == 3.0);
}

#[test]
fn a_failed_handshake_with_an_upstream_names_the_certificate_and_the_check() {
    let (known, other) = (Certificate::of("example.com"), Certificate::of("localhost"));
    let behind = Weir::new(&config("[{cert: \"file:a.crt\", key: \"file:a.key\"}]"))
        .file("a.crt", &known.cert)
        .file("a.key", &known.key)
        .start();
    let front = Weir::new(&format!(
        "listen: [\"127.0.0.1:0\"]
upstreams:
  stranger: {{targets: [\"https://{0}\"], tls: {{ca: \"file:other.crt\"}}}}
  misnamed: {{targets: [\"https://{0}\"], tls: {{ca: \"file:a.crt\"}}}}
apis:
  a:
    base: /
    routes:
      - {{get: /stranger, proxy: stranger}}
      - {{get: /misnamed, proxy: misnamed}}
",
        behind.listen[0]
    ))
    .file("a.crt", &known.cert)
    .file("other.crt", &other.cert)
    .start();
    for (name, check) in [
        // The names of both authorities are the same, their keys are not.
        ("stranger", "has an invalid signature"),
        ("misnamed", "is not valid for the host of the target"),
    ] {
        let response = front.connect().get(&format!("/{name}"));
        assert_eq!(response.status, 502);
        let detail = response.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(
            detail.contains(&format!("certificate of the upstream `{name}` {check}")),
            "{detail}"
        );
    }
}
