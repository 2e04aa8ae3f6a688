//! What of a journal and its index is kept, and what is read of a data folder.

use super::{KEYS, config, lines, start};
use crate::admin_api::{command, data, id, tokens};
use crate::harness::{self, Server, Weir, eventually, files};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_journal::{Completed, Journal, Received};

/// A data folder that outlives those who serve from it.
struct Folder {
    data: tempfile::TempDir,
    echo: Server,
}

impl Folder {
    fn new() -> Self {
        Self { data: tempfile::tempdir().unwrap(), echo: harness::echo(&[]) }
    }

    fn config(&self, more: &str) -> String {
        format!("data: \"{}\"\n{}", self.data.path().display(), config(&self.echo, more))
    }

    fn start(&self, more: &str) -> Server {
        Weir::new(&self.config(more)).start()
    }

    /// Runs a command on it while nobody uses it, where there is this configuration: exit code,
    /// what it prints and what it says.
    fn read(&self, config: Option<&str>, args: &[&str]) -> (Option<i32>, String, String) {
        let place = tempfile::tempdir().unwrap();
        if let Some(config) = config {
            std::fs::write(place.path().join("weir.yaml"), config).unwrap();
        }
        let folder = self.data.path().to_str().unwrap();
        let output = harness::weir(place.path(), &[args, &["--data", folder]].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// Length of the file of terms of the only piece: a word has a place in it only if payloads
    /// are indexed.
    fn terms(&self) -> u64 {
        let all = pieces(self.data.path());
        let [piece] = all.as_slice() else { panic!("{all:?}") };
        std::fs::metadata(piece.join("terms")).unwrap().len()
    }

    fn token(&self) -> String {
        std::fs::read_to_string(self.data.path().join("admin.token")).unwrap().trim().to_owned()
    }
}

fn stop(mut server: Server, signal: harness::Signal) {
    server.signal(signal);
    server.wait();
}

/// Folders of the index's pieces.
fn pieces(data: &Path) -> Vec<PathBuf> {
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let days = folders(&data.join("index"));
    days.iter().filter(|day| !day.ends_with("building")).flat_map(|day| folders(day)).collect()
}

#[test]
fn keys_are_found_again_when_the_index_is_deleted() {
    let folder = Folder::new();
    let server = folder.start(KEYS);
    let posted = id(&server.connect().post("/orders", "{\"orderId\": \"A-17\"}"));
    stop(server, harness::Signal::TERM);
    assert_eq!(pieces(folder.data.path()).len(), 1);
    let config = folder.config(KEYS);
    let search = |config| folder.read(config, &["search", "key.order:A-17", "--json"]);
    // The index knows its keys, whether the configuration is at hand or not.
    for config in [None, Some(config.as_str())] {
        let (code, out, said) = search(config);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(lines(&out)[0]["id"], posted.as_str(), "{out}");
    }
    std::fs::remove_dir_all(folder.data.path().join("index")).unwrap();
    let (_, out, said) = search(Some(&config));
    assert_eq!(lines(&out)[0]["id"], posted.as_str(), "{out} {said}");
    let shown = folder.read(Some(&config), &["show", &posted]).1;
    assert!(shown.contains("order: A-17"), "{shown}");
}

/// Records an order each for today and the two days before it, as a weir would.
fn record_orders(data: &Path) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let settings = weir_journal::Settings { lanes: 1, ..weir_journal::Settings::default() };
    let (_journal, mut lanes, _) = Journal::open(data, settings).unwrap();
    for number in 1..=3 {
        let received_us = now - (3 - number) * 86_400_000_000;
        let id = [number as u8; 16];
        let received = Received { id, received_us, method: "POST", ..Received::default() };
        let body = format!("{{\"orderId\": \"A-{number}\", \"note\": \"quokka\"}}");
        let completed = Completed { request_body: body.as_bytes(), ..Completed::default() };
        eventually("there is room", || lanes[0].append(&received, &completed).is_ok());
    }
}

#[test]
fn reading_a_folder_without_its_configuration_takes_no_keys_from_who_has_it() {
    let folder = Folder::new();
    record_orders(folder.data.path());
    let search = |query: &str| folder.read(None, &["search", query, "--json"]);
    let (_, out, said) = search("quokka");
    assert_eq!(lines(&out).len(), 3, "{said}");
    // The end of a day is the end of a piece.
    assert_eq!(pieces(folder.data.path()).len(), 1);
    let (_, _, said) = search("key.order:*");
    assert!(said.contains("incomplete"), "{said}");
    let server = folder.start(KEYS);
    let (_, out, said) = command(&server, &folder.token(), &["search", "key.order:*", "--json"]);
    assert_eq!(lines(&out).len(), 3, "{said}");
    assert!(!said.contains("incomplete"), "{said}");
}

#[test]
fn commands_on_a_folder_index_as_deep_as_it_was_or_as_its_configuration_says() {
    let folder = Folder::new();
    let server = folder.start(", index: keys");
    let posted = id(&server.connect().post("/orders", "quokka wombat numbat"));
    stop(server, harness::Signal::TERM);
    let keys = folder.terms();
    let config = folder.config(", index: payload");
    let search = |config| folder.read(config, &["search", "quokka", "--json"]);
    assert_eq!(lines(&search(None).1)[0]["id"], posted.as_str());
    assert_eq!(folder.terms(), keys);
    std::fs::remove_dir_all(folder.data.path().join("index")).unwrap();
    assert_eq!(lines(&search(Some(&config)).1)[0]["id"], posted.as_str());
    let server = folder.start(", index: payload");
    eventually("it is indexed", || server.metric("weir_index_transactions", &[]) == 1.0);
    stop(server, harness::Signal::TERM);
    assert!(folder.terms() > keys);
    let none = folder.config(", index: none");
    let (code, _, said) = search(Some(&none));
    assert_eq!(code, Some(1));
    assert!(said.contains("`tracker.index` is none"), "{said}");
    // A configuration of another folder says nothing of this one.
    let other = Folder::new().config(", index: none");
    assert_eq!(lines(&search(Some(&other)).1)[0]["id"], posted.as_str());
}

#[test]
fn what_is_too_old_is_dropped_from_journal_and_index() {
    let folder = Folder::new();
    let more = ", keep: {completed: 1s, failed: 1s}";
    let server = folder.start(more);
    let old = id(&server.connect().post("/orders", "quokka"));
    stop(server, harness::Signal::TERM);
    let first = pieces(folder.data.path());
    assert_eq!(first.len(), 1);
    // The index has passed a segment once it has something behind it.
    let server = folder.start(more);
    server.connect().get("/fixed");
    stop(server, harness::Signal::TERM);
    let server = folder.start(more);
    let token = folder.token();
    let query = format!("id:{old}");
    eventually("the old one dropped", || {
        let (_, out, _) = command(&server, &token, &["search", &query]);
        !out.contains(&old) && !first[0].exists()
    });
    let (ok, _, said) = command(&server, &token, &["show", &old]);
    assert!(!ok && said.contains("retention has ended"), "{said}");
}

#[test]
fn a_journal_is_verified_by_the_server_and_in_a_folder_that_it_finds_itself() {
    let (mut server, _echo) = start("");
    for _ in 0..3 {
        server.connect().post("/orders", "quokka quokka quokka");
    }
    let tokens = tokens(&server);
    let (ok, out, said) = command(&server, &tokens[2], &["journal", "verify", "--json"]);
    assert!(ok, "{said}");
    let end = lines(&out).pop().unwrap();
    assert_eq!((&end["id"], &end["transactions"]), (&"end".into(), &3.into()), "{out}");
    let (ok, _, said) = command(&server, &tokens[1], &["journal", "verify"]);
    assert!(!ok && said.contains("operator"), "{said}");
    server.signal(harness::Signal::KILL);
    server.wait();
    let verify = || harness::weir(server.dir(), &["journal", "verify", "--json"]);
    let output = verify();
    assert!(output.status.success(), "{output:?}");
    // Something in the middle of what was written is spoilt.
    let segments = files(&data(&server).join("journal"));
    let mut spoilt = 0;
    for path in segments {
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = memchr::memmem::find(&bytes, b"quokka quokka") {
            bytes[at] ^= 0x55;
            std::fs::write(&path, bytes).unwrap();
            spoilt += 1;
        }
    }
    assert!(spoilt > 0);
    let output = verify();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found: Vec<Value> = lines(&String::from_utf8_lossy(&output.stdout));
    let end = found.last().unwrap();
    assert!(end["damaged"].as_u64() > Some(0) || end["damaged_bytes"].as_u64() > Some(0), "{end}");
}
