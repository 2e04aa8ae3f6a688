//! Segments of the journal in a real S3 server: uploaded once, whatever ends in between, and found there
//! by the queries that find them in the node.

use crate::admin_api::{first_token, get};
use crate::harness::{Client, Mode, Relay, S3, Server, Weir, echo, eventually, incompressible};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// Bytes of a body: so many of them are a segment.
const FILLER_BYTES: usize = 512 << 10;
const FILLERS_PER_SEGMENT: usize = 34;
const SEGMENT_BYTES: f64 = (16 << 20) as f64;
/// Full segments that stay unsealed while their transactions are in a part of the index in memory.
const UNSEALED_SEGMENTS: usize = 5;

/// Much more than a test writes: beyond half of it no segment is prepared ahead, and records that come faster
/// than segments are shortened.
const DISK: &str = "8GiB";

/// A node, and the service that reads its long bodies.
struct Node {
    server: Server,
    echo: Server,
}

fn config(echo: &Server, endpoint: SocketAddr, archive: &str, disk: &str) -> String {
    let secret =
        if archive.contains("secret_key") { "" } else { ", secret_key: \"file:s3.secret\"" };
    format!(
        "workers: 1\n\
         listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         journal:\n  disk: {disk}\n  archive: {{url: \"s3://{bucket}/weir\", \
         endpoint: \"http://{endpoint}\", access_key: {key}{secret}{archive}}}\n\
         tracker: {{enabled: true, body_limit: 1MiB, keys: {{order: \"$.order\"}}}}\n\
         upstreams: {{echo: {{targets: [\"{echo}\"]}}}}\n\
         apis:\n  \
         filler: {{base: /filler, routes: [{{path: \"/*\", proxy: echo}}]}}\n  \
         good: {{base: /good, routes: [{{path: \"/*\", reply: {{text: fine}}}}]}}\n  \
         bad: {{base: /bad, routes: [{{path: \"/*\", reply: {{status: 500, text: broken}}}}]}}\n",
        echo = echo.url("").trim_end_matches('/'),
        bucket = S3::BUCKET,
        key = S3::ACCESS_KEY,
    )
}

fn node(endpoint: SocketAddr) -> Node {
    start(endpoint, "", DISK)
}

fn start(endpoint: SocketAddr, archive: &str, disk: &str) -> Node {
    let echo = echo(&[]);
    let config = config(&echo, endpoint, archive, disk);
    let server = Weir::new(&config).file("s3.secret", S3::SECRET_KEY).start();
    Node { server, echo }
}

/// Transactions to be found, each with a body of its own.
fn send(client: &mut Client, name: &str) -> usize {
    let json_type = [("content-type", "application/json")];
    for number in 0..12 {
        let api = if number % 4 == 3 { "bad" } else { "good" };
        let body = format!(
            r#"{{"order": "{name}-{}", "note": "refund {number} for acme corp"}}"#,
            number % 3
        );
        client.request("POST", &format!("/{api}/orders?pin={number}"), &json_type, &body);
    }
    12
}

/// Sends long bodies that cannot be compressed well, and are not searched, until segments are sealed. Returns
/// how many.
fn fill(server: &Server, client: &mut Client, segments: usize) -> usize {
    let metric = |name: &str| server.metric(name, &[]);
    // Sealing lets the indexer, which keeps its part in memory, get some segments ahead.
    let more = (segments + UNSEALED_SEGMENTS) as f64 * SEGMENT_BYTES;
    let enough = metric("weir_journal_bytes_total") + more;
    let mut sent = 0;
    // A busy machine does not prepare segments as fast as they are filled; then records have no bodies.
    eventually("segments are full", || {
        sent += fill_with(client, FILLERS_PER_SEGMENT / 2);
        metric("weir_journal_bytes_total") >= enough
    });
    eventually("the next segment is prepared", || {
        let before = metric("weir_journal_shortened_total");
        client.request("PUT", "/filler/", &[], "short");
        sent += 1;
        metric("weir_journal_shortened_total") == before
    });
    sent
}

fn fill_with(client: &mut Client, fillers: usize) -> usize {
    // The same for all: blocks of the journal are much shorter.
    static BODY: LazyLock<String> = LazyLock::new(|| incompressible(FILLER_BYTES));
    for _ in 0..fillers {
        let binary = [("content-type", "application/octet-stream")];
        assert_eq!(client.request("PUT", "/filler/", &binary, &BODY).status, 200);
    }
    fillers
}

/// Lane and number: `0000-0000000007` of `0000-0000000007-ec23a14b04e24931.meta`.
fn segment_of(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.rsplit_once('-').expect("a hash").0.to_owned()
}

fn wait_for(server: &Server, segments: f64) {
    eventually("segments are uploaded", || {
        server.metric("weir_archive_segments_total", &[]) >= segments
    });
}

/// A command that reads the archive with the credentials of the environment.
fn read(s3: &S3, cache: &Path, folder: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(args)
        .args(["--data", &format!("s3://{}/weir{folder}", S3::BUCKET)])
        .args(["--endpoint", &format!("http://{}", s3.addr()), "--cache"])
        .arg(cache)
        .env("AWS_ACCESS_KEY_ID", S3::ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", S3::SECRET_KEY)
        .current_dir(cache)
        .output()
        .expect("weir runs")
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

fn ids(found: &[Value]) -> BTreeSet<String> {
    let ids: BTreeSet<_> = found.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), found.len(), "each once");
    ids
}

fn search(s3: &S3, cache: &Path, query: &str) -> BTreeSet<String> {
    ids(&lines(&read(s3, cache, "", &["search", query, "--json", "--limit", "1000"])))
}

fn ids_in_node(server: &Server, token: &str, query: &str) -> BTreeSet<String> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let page = get(server, &format!("/v1/transactions?limit=1000&q={encoded}"), token).json();
    ids(page["transactions"].as_array().unwrap())
}

const QUERIES: &[&str] = &[
    "key.order:a-1",
    "key.order:*",
    "\"acme corp\"",
    "body:\"refund 7\"",
    "status:500",
    "api:bad since:1h",
    "target:pin method:POST",
    "before:2020-01-01",
    "refund -status:500",
];

#[test]
fn what_a_node_has_found_is_found_in_the_bucket_when_its_data_are_gone() {
    let s3 = S3::start();
    let Node { server, echo: _echo } = node(s3.addr());
    let token = first_token(&server);
    let mut client = server.connect();
    send(&mut client, "a");
    fill(&server, &mut client, 3);
    wait_for(&server, 2.0);
    let expected: Vec<_> =
        QUERIES.iter().map(|query| ids_in_node(&server, &token, query)).collect();
    assert_eq!((expected[0].len(), expected[2].len(), expected[7].len()), (4, 12, 0));
    let id = expected[3].first().expect("one").clone();
    let shown = get(&server, &format!("/v1/transactions/{id}"), &token).json();
    let data = server.data();
    drop((client, server));
    let _ = fs::remove_dir_all(data);

    let cache = tempfile::tempdir().unwrap();
    for (query, expected) in QUERIES.iter().zip(&expected) {
        assert_eq!(&search(&s3, cache.path(), query), expected, "{query}");
    }
    let found = &lines(&read(&s3, cache.path(), "", &["show", &id, "--json"]))[0];
    for field in ["payload", "status", "method", "state", "request", "response"] {
        assert_eq!(found[field], shown[field], "{field}");
    }
    let raw = read(&s3, cache.path(), "", &["show", &id, "--raw", "request"]).stdout;
    assert_eq!(
        String::from_utf8_lossy(&raw),
        r#"{"order": "a-1", "note": "refund 7 for acme corp"}"#
    );
    let exported = lines(&read(&s3, cache.path(), "", &["search", "key.order:a-1", "--export"]));
    assert_eq!(ids(&exported), expected[0]);
    // Everything was fetched once: now the cache has it.
    let before = s3.requests("GET", "/files/");
    search(&s3, cache.path(), "\"acme corp\"");
    assert_eq!(s3.requests("GET", "/files/"), before);
}

#[test]
fn only_what_a_search_needs_is_fetched() {
    let s3 = S3::start();
    let Node { server, echo: _echo } = node(s3.addr());
    let token = first_token(&server);
    let mut client = server.connect();
    let before_b = send(&mut client, "a") + fill(&server, &mut client, 2);
    let until_b = (before_b + send(&mut client, "b")) as f64;
    fill(&server, &mut client, 2);
    eventually("segments are uploaded", || {
        server.metric("weir_archive_transactions_total", &[]) >= until_b
    });
    let id = ids_in_node(&server, &token, "body:\"refund 7\" key.order:b-1");
    let id = id.first().expect("one");
    assert!(s3.objects(".meta").len() >= 3);
    let fetched = |kind: &str| s3.requests("GET", &format!(".{kind}"));

    let none = ["columns", "terms", "meta", "payload"].map(fetched);
    let cache = tempfile::tempdir().unwrap();
    assert!(search(&s3, cache.path(), "before:2020-01-01").is_empty());
    assert_eq!(["columns", "terms", "meta", "payload"].map(fetched), none, "by the names only");
    let cache = tempfile::tempdir().unwrap();
    let raw = read(&s3, cache.path(), "", &["show", id, "--raw", "request"]);
    assert!(String::from_utf8_lossy(&raw.stdout).contains("b-1"));
    let one = ["columns", "terms", "meta", "payload"].map(fetched);
    assert_eq!((one[1] - none[1], one[2] - none[2], one[3] - none[3]), (0, 1, 1), "one segment");
    assert_eq!(one[0] - none[0], 1, "one part");
    // Terms exclude the other segments.
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(search(&s3, cache.path(), "key.order:b-2").len(), 4);
    let key = ["columns", "terms", "meta", "payload"].map(fetched);
    assert!(key[2] - one[2] <= 2, "{} segments", key[2] - one[2]);
}

#[test]
fn a_server_that_is_down_and_a_node_killed_while_it_uploads_lose_and_double_nothing() {
    let s3 = S3::start();
    let mut relay = Relay::new(s3.addr());
    let Node { mut server, echo: _echo } = node(relay.addr());
    let mut client = server.connect();
    relay.set(Mode::Refuse);
    let mut sent = send(&mut client, "a") + fill(&server, &mut client, 2);
    eventually("it is tried", || server.metric("weir_archive_failures_total", &[]) > 0.0);
    assert!(server.metric("weir_archive_failing_seconds", &[]) > 0.0);
    assert!(server.metric("weir_archive_lag_bytes", &[]) > 0.0);
    // The connection stalls in the middle of an upload, and the node ends there.
    relay.set(Mode::Pass);
    eventually("an upload has begun", || s3.requests("HEAD", "/files/") > 0);
    relay.set(Mode::BlackHole);
    server.kill();
    relay.set(Mode::Pass);
    server.restart(&[]);
    let mut client = server.connect();
    sent += send(&mut client, "b") + fill(&server, &mut client, 1);
    eventually("all transactions that are searched are uploaded", || {
        search(&s3, tempfile::tempdir().unwrap().path(), "refund").len() >= 24
    });
    let cache = tempfile::tempdir().unwrap();
    let found = search(&s3, cache.path(), "");
    assert!(found.len() <= sent && search(&s3, cache.path(), "refund").len() == 24, "{sent}");
    assert_eq!(search(&s3, cache.path(), "key.order:a-1").len(), 4);
    let segments: Vec<String> = s3.objects(".meta").iter().map(|path| segment_of(path)).collect();
    let different: BTreeSet<_> = segments.iter().collect();
    assert_eq!(different.len(), segments.len(), "each segment once: {segments:?}");
    assert_eq!(server.metric("weir_archive_gap_records_total", &[]), 0.0);
}

#[test]
fn a_full_disk_during_an_outage_costs_a_gap_and_no_request() {
    let s3 = S3::start();
    let mut relay = Relay::new(s3.addr());
    relay.set(Mode::Refuse);
    const DISK_BYTES: f64 = 10.0 * SEGMENT_BYTES;
    let Node { server, echo: _echo } = start(relay.addr(), ", max_backlog: 30%", "160MiB");
    let mut client = server.connect();
    let mut sent = send(&mut client, "a");
    for _ in 0..60 {
        sent += fill_with(&mut client, FILLERS_PER_SEGMENT / 4);
        // Writing is faster than sealing on a busy machine; both are one thread here.
        eventually("a segment is free", || {
            server.metric("weir_journal_disk_bytes", &[]) <= DISK_BYTES - SEGMENT_BYTES
        });
    }
    eventually("records are skipped", || {
        server.metric("weir_archive_gap_records_total", &[]) > 0.0
            || server.metric("weir_journal_dropped_files_total", &[]) > 4.0
    });
    assert_eq!(server.metric("weir_journal_refused_total", &[]), 0.0);
    relay.set(Mode::Pass);
    eventually("the gap is in the bucket", || {
        s3.objects(".json").iter().any(|path| path.to_string_lossy().contains("/gaps/"))
    });
    // A gap counts what is missing, and what has lost its headers and bodies only.
    let in_node = (UNSEALED_SEGMENTS + 1) * FILLERS_PER_SEGMENT;
    let metric = |name: &str| server.metric(name, &[]) as usize;
    eventually("what is missing is in the gap", || {
        let uploaded = metric("weir_archive_transactions_total");
        assert!(uploaded <= sent, "{uploaded} of {sent}");
        uploaded + metric("weir_archive_gap_records_total") + in_node >= sent
    });
    let gap = metric("weir_archive_gap_records_total");
    assert!(gap > 0 && gap < sent, "{gap}");
    let cache = tempfile::tempdir().unwrap();
    let output = read(&s3, cache.path(), "", &["search", "status:200", "--json", "--limit", "1"]);
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(note.contains("could not be uploaded"), "{note}");
}

#[test]
fn a_bucket_with_a_gap_and_no_segment_yet_tells_the_gap() {
    let s3 = S3::start();
    let mut relay = Relay::new(s3.addr());
    relay.set(Mode::Refuse);
    let Node { mut server, echo: _echo } = node(relay.addr());
    server.kill();
    let gap = r#"[{"lane": 0, "from": 1, "to": 3, "records": 70, "at_most": false, "time": 7}]"#;
    fs::write(server.data().join("archive/gaps.json"), gap).unwrap();
    relay.set(Mode::Pass);
    server.restart(&[]);
    let is_gap = |path: &PathBuf| path.to_string_lossy().contains("/gaps/");
    eventually("the gap is in the bucket", || s3.objects(".json").iter().any(is_gap));
    let cache = tempfile::tempdir().unwrap();
    let output = read(&s3, cache.path(), "", &["search", "status:200", "--json"]);
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && note.contains("lacks 70 transactions"), "{note}");
}

#[test]
fn wrong_credentials_and_a_missing_bucket_are_reported_and_tried_again_after_a_reload() {
    let s3 = S3::start();
    let Node { mut server, echo } = start(s3.addr(), ", secret_key: wrong-secret-of-tests", DISK);
    fill(&server, &mut server.connect(), 2);
    eventually("the reason is reported", || server.stderr().contains("SignatureDoesNotMatch"));
    assert!(!server.stderr().contains("wrong-secret-of-tests"), "{}", server.stderr());
    server.reload(&config(&echo, s3.addr(), "", DISK));
    wait_for(&server, 1.0);
    assert_eq!(server.metric("weir_archive_failing_seconds", &[]), 0.0);

    let cache = tempfile::tempdir().unwrap();
    let missing = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["search", "--data", "s3://no-such-bucket/weir", "--cache"])
        .arg(cache.path())
        .args(["--endpoint", &format!("http://{}", s3.addr())])
        .env("AWS_ACCESS_KEY_ID", S3::ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", S3::SECRET_KEY)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(!missing.status.success() && error.contains("NoSuchBucket"), "{error}");
}

#[test]
fn a_truncated_and_a_changed_object_are_errors_that_name_it() {
    let s3 = S3::start();
    let Node { server, echo: _echo } = node(s3.addr());
    let mut client = server.connect();
    send(&mut client, "a");
    fill(&server, &mut client, 1);
    wait_for(&server, 1.0);
    let error = || {
        let cache = tempfile::tempdir().unwrap();
        let output = read(&s3, cache.path(), "", &["search", "key.order:a-1", "--export"]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let path = &s3.objects(".payload")[0];
    let whole = fs::read(path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    fs::write(path, &whole[..whole.len() / 2]).unwrap();
    let truncated = error();
    assert!(truncated.contains(name) && truncated.contains("truncated"), "{truncated}");
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    fs::write(path, changed).unwrap();
    let corrupt = error();
    assert!(corrupt.contains(name) && corrupt.contains("SHA-256"), "{corrupt}");
}

#[test]
fn nodes_share_a_bucket_and_a_search_finds_those_of_all_or_of_one() {
    let s3 = S3::start();
    let nodes = [node(s3.addr()), node(s3.addr())];
    for (Node { server, .. }, name) in nodes.iter().zip(["a", "b"]) {
        let mut client = server.connect();
        send(&mut client, name);
        fill(server, &mut client, 1);
        wait_for(server, 1.0);
    }
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(search(&s3, cache.path(), "refund").len(), 24);
    assert_eq!(search(&s3, cache.path(), "key.order:b-0").len(), 4);
    let id: Value =
        serde_json::from_slice(&fs::read(nodes[1].server.data().join("node.id")).unwrap()).unwrap();
    let folder = format!("/{}", id["id"].as_str().unwrap());
    let found =
        read(&s3, cache.path(), &folder, &["search", "refund", "--json", "--limit", "1000"]);
    assert_eq!(ids(&lines(&found)).len(), 12);
}

#[test]
fn segments_older_than_keep_are_deleted_by_their_node() {
    let s3 = S3::start();
    let Node { mut server, echo } = node(s3.addr());
    let mut client = server.connect();
    send(&mut client, "a");
    fill(&server, &mut client, 1);
    wait_for(&server, 1.0);
    server.reload(&config(&echo, s3.addr(), ", keep: 1ms", DISK));
    eventually("its objects are deleted", || {
        s3.objects(".meta").is_empty() && s3.objects(".payload").is_empty()
    });
    eventually("it is counted", || {
        server.metric("weir_archive_deleted_segments_total", &[]) >= 1.0
    });
}
