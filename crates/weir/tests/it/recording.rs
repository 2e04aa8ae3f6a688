//! What is in the journal after traffic, and after a kill.

use crate::harness::{self, Server, Weir, files, transactions};
use base64::Engine as _;
use weir_journal::{Outcome, Transaction};

fn config(echo: &Server, more: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\ntracker: {{enabled: true{more}}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         auth: {{keys: {{api_key: {{header: x-key}}}}, asked: {{api_key: {{query: key}}}}}}\n\
         consumers: {{acme: {{api_keys: [\"{}\"]}}}}\n\
         apis:\n  all:\n    base: /\n    routes:\n      \
         - {{get: /hosted, reply: {{json: {{result: OK}}}}}}\n      \
         - {{path: /proxied, op: forward, proxy: echo}}\n      \
         - {{path: /quiet, capture: none, proxy: echo}}\n      \
         - {{path: /meta, capture: meta, proxy: echo}}\n      \
         - {{path: /heads, capture: headers, proxy: echo}}\n      \
         - {{path: /mine, auth: [keys, asked], proxy: echo}}\n",
        echo.listen[0],
        hash("s3cret-key"),
    )
}

/// A key as `consumers` names it.
fn hash(key: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
    let digits: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

fn head(transaction: &Transaction) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase();
    (text(&transaction.request_head), text(&transaction.response_head))
}

#[test]
fn every_transaction_is_recorded_as_its_route_says() {
    let echo = harness::echo(&[]);
    let mut weir = Weir::new(&config(&echo, "")).start();
    let mut client = weir.connect();
    let body = "{\"a\": 1}";
    let ids: Vec<String> = [
        client.get("/hosted"),
        client.post("/proxied?x=1", body),
        client.post("/quiet", body),
        client.post("/meta", body),
        client.post("/heads", body),
        client.get("/nowhere"),
        client.get("/mine"),
    ]
    .iter()
    .map(|response| response.header("weir-transaction-id").expect("an id").replace('-', ""))
    .collect();
    weir.kill();
    let recorded = transactions(&weir.dir().join("data"));
    let id = |t: &Transaction| t.id.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let found: Vec<String> = recorded.iter().map(id).collect();
    let expected: Vec<String> =
        ids.iter().enumerate().filter(|(i, _)| *i != 2).map(|(_, id)| id.clone()).collect();
    assert_eq!(found, expected, "all but the one on `/quiet`");

    let [hosted, proxied, meta, heads, nowhere, mine] = recorded.as_slice() else {
        panic!("{recorded:?}");
    };
    assert_eq!((hosted.api.as_str(), hosted.operation.as_str()), ("all", "GET /hosted"));
    assert_eq!((hosted.method.as_str(), hosted.status), ("GET", 200));
    assert_eq!(hosted.response_body, b"{\"result\":\"OK\"}");
    assert_eq!(hosted.client, "127.0.0.1");
    assert!(hosted.stages.iter().any(|(code, _)| *code == 1), "{:?}", hosted.stages);

    assert_eq!((proxied.target.as_str(), proxied.upstream.as_str()), ("/proxied?x=1", "echo"));
    assert_eq!(proxied.operation, "forward");
    assert_eq!(proxied.request_body, body.as_bytes());
    assert_eq!(proxied.response_body, body.as_bytes());
    assert_eq!((proxied.request.length, proxied.response.length), (8, 8));
    assert!(head(proxied).0.contains("host: "), "{:?}", head(proxied));
    assert!(head(proxied).1.contains("content-type: "), "{:?}", head(proxied));

    for transaction in [meta, heads] {
        assert!(transaction.request_body.is_empty() && transaction.response_body.is_empty());
        assert_eq!((transaction.request.length, transaction.response.length), (8, 8));
        assert_eq!(transaction.request.stored, 0);
    }
    assert!(meta.request_head.is_empty() && meta.response_head.is_empty());
    assert!(!heads.request_head.is_empty() && !heads.response_head.is_empty());
    for (transaction, status, problem) in
        [(nowhere, 404, "no-route"), (mine, 401, "missing-credential")]
    {
        assert_eq!((transaction.status, transaction.problem.as_str()), (status, problem));
        assert!(transaction.request_head.is_empty() && transaction.response_body.is_empty());
    }
    assert!(recorded.iter().all(|t| t.outcome == Outcome::Completed));
}

#[test]
fn long_bodies_are_cut_off_and_their_true_length_is_kept() {
    let echo = harness::echo(&[]);
    let mut weir = Weir::new(&config(&echo, ", body_limit: 10KiB")).start();
    let mut client = weir.connect();
    let body = "0123456789abcdef".repeat(10_000);
    assert_eq!(client.post("/proxied", &body).text(), body);
    weir.kill();
    let recorded = transactions(&weir.dir().join("data"));
    let [transaction] = recorded.as_slice() else { panic!("{} records", recorded.len()) };
    for (bytes, facts) in [
        (&transaction.request_body, transaction.request),
        (&transaction.response_body, transaction.response),
    ] {
        assert_eq!(bytes.as_slice(), &body.as_bytes()[..10 * 1024]);
        assert_eq!((facts.length, facts.stored), (160_000, 10 * 1024));
        assert!(facts.truncated && !facts.aborted);
    }
}

#[test]
fn no_credential_is_ever_written_down() {
    let echo = harness::echo(&[]);
    let masks = ", mask: {headers: [x-private], query: [pin]}";
    let mut weir = Weir::new(&config(&echo, masks)).start();
    let mut client = weir.connect();
    let secrets = ["s3cret-key", "bearer-s3cret", "cookie-s3cret", "private-s3cret", "pin-s3cret"];
    let headers: &[(&str, &str)] = &[
        ("Authorization", "Bearer bearer-s3cret"),
        ("Proxy-Authorization", "Basic bearer-s3cret"),
        ("Cookie", "a=cookie-s3cret"),
        ("X-Private", "private-s3cret"),
        ("X-Key", "s3cret-key"),
    ];
    let with = |path: &str| {
        let lines: String = headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
        format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
    };
    for path in ["/mine", "/proxied?pin=pin-s3cret", "/hosted", "/mine?key=s3cret-key"] {
        client.send(with(path));
        client.response();
    }
    client.get("/mine?key=s3cret-key&pin=pin-s3cret");
    weir.kill();
    let data = weir.dir().join("data");
    let recorded = transactions(&data);
    assert_eq!(recorded.len(), 5);
    assert!(recorded.iter().any(|t| t.consumer == "acme"), "{recorded:?}");
    assert!(head(&recorded[1]).0.contains("authorization: ***"), "{:?}", head(&recorded[1]));
    assert_eq!(recorded[1].target, "/proxied?pin=***");
    let engine = base64::engine::general_purpose::STANDARD;
    let needles = secrets.iter().flat_map(|s| [(*s).to_owned(), engine.encode(s)]);
    let needles: Vec<String> = needles.collect();
    for file in files(&data).into_iter().chain([weir.dir().join("stderr.txt")]) {
        let bytes = std::fs::read(&file).expect("a file");
        for needle in &needles {
            let found = memchr::memmem::find(&bytes, needle.as_bytes());
            assert!(found.is_none(), "{needle} in {}", file.display());
        }
    }
}

#[test]
fn what_is_recorded_is_indexed() {
    let echo = harness::echo(&[]);
    let weir = Weir::new(&config(&echo, "")).start();
    let mut client = weir.connect();
    for _ in 0..100 {
        client.get("/hosted");
        client.post("/proxied", "{\"a\": \"needle\"}");
    }
    harness::eventually("everything is indexed", || {
        weir.metric("weir_index_transactions", &[]) == 200.0
            && weir.metric("weir_index_lag_seconds", &[]) == 0.0
    });
    // One record for each hosted reply; three and a part of the request for each proxied one.
    assert!(weir.metric("weir_journal_records_total", &[]) >= 300.0);
    assert_eq!(weir.metric("weir_unrecorded_total", &[]), 0.0);
}

/// A file system so small that the journal fills it, until dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None where nothing may be mounted.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=100m", "tmpfs"]).arg(folder.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: only root may mount a small disk");
        }
        mounted.then_some(Self(folder))
    }

    fn serve(&self, config: &str) -> Server {
        let data = self.0.path().join("data");
        Weir::new(config).args(&["--data", data.to_str().expect("UTF-8")]).start()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "the disk is still mounted");
    }
}

/// Sends bodies that cannot be compressed until nothing more fits on the disk; gives the first
/// answer that is no success, or the last.
fn fill(weir: &Server) -> harness::Response {
    let mut client = weir.connect();
    let mut random = 1u64;
    for _ in 0..2_000 {
        let body = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + (random >> 58) as u8)
        });
        let response = client.post("/proxied", &body.take(64_000).collect::<String>());
        if response.status != 200 || weir.metric("weir_unrecorded_total", &[]) > 0.0 {
            return response;
        }
    }
    panic!("the disk is not full");
}

#[test]
fn a_full_disk_is_passed_by_and_counted() {
    let Some(disk) = SmallDisk::new() else { return };
    let echo = harness::echo(&[]);
    let weir = disk.serve(&config(&echo, ""));
    assert_eq!(fill(&weir).status, 200);
    assert_eq!(weir.connect().get("/hosted").status, 200);
}

#[test]
fn a_full_disk_refuses_where_it_is_told_to() {
    let Some(disk) = SmallDisk::new() else { return };
    let echo = harness::echo(&[]);
    let weir = disk.serve(&format!("{}journal: {{when_full: refuse}}\n", config(&echo, "")));
    let refused = fill(&weir);
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.json()["type"], "urn:weir:problem:journal-full");
    // What is not recorded goes on.
    assert_eq!(weir.connect().post("/quiet", "{}").status, 200);
}

#[test]
fn a_second_weir_on_the_same_data_is_told_who_has_it() {
    let echo = harness::echo(&[]);
    let config = config(&echo, "");
    let first = Weir::new(&config).start();
    let data = first.dir().join("data");
    let second = Weir::new(&config).args(&["--data", data.to_str().expect("UTF-8")]).refused();
    assert_eq!(second.status.code(), Some(1));
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(told.contains(&first.pid().to_string()), "{told}");
}
