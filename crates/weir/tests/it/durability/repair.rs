//! Files that stop a start: the message says which, what is lost with it, and how to go on; and
//! `weir repair` does that.

use super::config;
use crate::harness::{self, Disk, Server, Signal, Weir, files, weir};
use crate::monitor::{calls, usage};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

const COUNT: &str = "monitor: {count: all}\n";

/// A server that has counted some calls and has ended.
fn ended(echo: &Server) -> Server {
    let mut weir = Weir::new(&config(echo, 1, "", COUNT)).start();
    let mut client = weir.connect();
    (0..20).for_each(|_| assert_eq!(client.post("/echo", "{}").status, 200));
    assert_eq!(calls(&usage(&weir, "")), 20);
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().code(), Some(0));
    weir
}

fn spoil(path: &Path) {
    let length = std::fs::metadata(path).expect("it is there").len() as usize;
    std::fs::write(path, vec![0x55; length.min(4096)]).expect("it can be written");
}

fn repair(server: &Server) -> (bool, String, String) {
    let output = weir(server.dir(), &["repair", "--data", "data"]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_damaged_database_or_key_is_named_and_repaired_and_everything_is_counted_again() {
    let echo = harness::echo(&[]);
    for (file, lost) in [("weir.db", "audit"), ("hash.key", "hashes")] {
        let mut server = ended(&echo);
        let data = server.data();
        for beside in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(data.join(format!("{file}{beside}")));
        }
        spoil(&data.join(file));
        if file == "weir.db" {
            // The checkpoint of who counts is lost as well.
            spoil(&data.join("journal/followers/monitor"));
        } else {
            std::fs::write(data.join(file), "short").expect("it can be written");
        }
        server.restart_to_end(&[]);
        let said = server.stderr();
        assert!(said.contains(file) && said.contains(lost), "{said}");
        assert!(said.contains("weir repair --data"), "{said}");
        let checkpoint = said.contains("followers/monitor is damaged");
        assert_eq!(checkpoint, file == "weir.db", "{said}");
        if checkpoint {
            // The start has put that one aside.
            std::fs::write(data.join("journal/followers/monitor"), "spoiled").expect("a file");
        }
        let (good, out, said) = repair(&server);
        assert!(good && out.contains(file) && out.contains(".damaged-"), "{out}{said}");
        let checkpoint = out.contains("followers/monitor was damaged");
        assert_eq!(checkpoint, file == "weir.db", "{out}");
        let kept = files(&data).iter().any(|path| path.to_string_lossy().contains(".damaged-"));
        assert!(kept, "nothing is removed");
        server.restart(&[]);
        assert_eq!(calls(&usage(&server, "")), 20, "{file}");
        let (good, _, said) = repair(&server);
        assert!(!good && said.contains("in use by process"), "{said}");
        server.signal(Signal::TERM);
        assert_eq!(server.wait().code(), Some(0));
        let (good, out, said) = repair(&server);
        assert!(good && out.contains("nothing is damaged"), "{out}{said}");
    }
}

#[test]
fn a_database_that_is_gone_with_all_checkpoints_is_counted_again() {
    let echo = harness::echo(&[]);
    for damaged in [false, true] {
        let mut server = ended(&echo);
        for file in ["weir.db", "weir.db-wal", "weir.db-shm"] {
            let _ = std::fs::remove_file(server.data().join(file));
        }
        let followers = server.data().join("journal/followers");
        match damaged {
            true => files(&followers).iter().for_each(|path| spoil(path)),
            false => std::fs::remove_dir_all(followers).expect("it is there"),
        }
        server.restart(&[]);
        assert_eq!(calls(&usage(&server, "")), 20, "damaged: {damaged}");
    }
}

#[test]
fn a_damaged_checkpoint_is_named_at_the_start_and_kept_and_nothing_is_counted_twice() {
    let echo = harness::echo(&[]);
    let mut server = ended(&echo);
    let checkpoint = server.data().join("journal/followers/monitor");
    spoil(&checkpoint);
    let spoiled = std::fs::read(&checkpoint).expect("it is there");
    server.restart(&[]);
    let said = server.stderr();
    let line = said.lines().find(|line| line.contains("followers/monitor is damaged"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    for part in ["how far `monitor` has read the journal is lost", "its own files", ".damaged-"] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(server.metric("weir_journal_damaged_checkpoints", &[]), 1.0);
    let kept = files(&server.data()).into_iter();
    let kept = kept.filter(|path| path.to_string_lossy().contains("monitor.damaged-"));
    let kept: Vec<_> = kept.map(|path| std::fs::read(path).expect("a file")).collect();
    assert_eq!(kept, [spoiled]);
    server.connect().post("/echo", "{}");
    assert_eq!(calls(&usage(&server, "")), 21, "the database says what was counted");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    // Commands that open the journal say so, too.
    spoil(&checkpoint);
    let output = weir(server.dir(), &["journal", "verify", "--data", "data"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("followers/monitor is damaged"), "{said}");
    server.restart(&[]);
    assert_eq!(server.metric("weir_journal_damaged_checkpoints", &[]), 0.0);
    assert_eq!(calls(&usage(&server, "")), 21);
}

#[test]
fn a_damaged_manifest_is_named_at_the_start_and_kept() {
    let echo = harness::echo(&[]);
    let mut server = ended(&echo);
    spoil(&server.data().join("journal-manifest/segments"));
    server.restart(&[]);
    let said = server.stderr();
    for part in ["journal-manifest/segments is damaged", "go unnoticed", ".damaged-"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(calls(&usage(&server, "")), 20);
    let kept = files(&server.data());
    assert!(kept.iter().any(|path| path.to_string_lossy().contains("segments.damaged-")));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    server.restart(&[]);
    assert_eq!(server.stderr().matches("segments is damaged").count(), 1, "once");
}

#[test]
fn a_start_on_a_full_disk_of_small_blocks_is_ended_by_no_signal() {
    let Some(disk) = Disk::ext4_of_small_blocks(150) else { return };
    let starts = std::env::var("WEIR_STARTS").ok().and_then(|text| text.parse().ok());
    let starts: u64 = starts.unwrap_or(8);
    let echo = harness::echo(&[]);
    let mut server =
        Weir::new(&config(&echo, 1, "", COUNT)).args(&["--data", &disk.data()]).start();
    server.connect().post("/echo", "{}");
    // Which free block is the last depends on everything else that writes: the mapped file has all of
    // its blocks before SQLite stores into it, also those for a longer log.
    let mapped = server.data().join("weir.db-shm").metadata().expect("the database is open");
    assert!(mapped.len() >= 128 << 10 && mapped.blocks() * 512 >= mapped.len(), "{mapped:?}");
    server.kill();
    for start in 0..starts {
        // Around what SQLite takes for its mapped file, and up to more than a segment.
        let kib = if start % 2 == 0 { start * 4 } else { start * (20 << 10) / starts.max(1) };
        disk.leave(kib);
        let status = server.try_restart();
        assert_ne!(status.and_then(|status| status.signal()), Some(7), "{start}: SIGBUS");
        server.kill();
        disk.fill(0);
    }
}
