//! `weir backup` and `weir restore`: a copy of a running weir that starts elsewhere.

use crate::admin_api::{command as ask, first_token, get};
use crate::harness::{Disk, Server, Weir, eventually, files, transactions, weir};
use crate::monitor::{calls, usage};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const CONFIG: &str = "\
listen: [{addr: \"127.0.0.1:0\"}]
workers: 2
tracker: {enabled: true, index: payload}
monitor: {count: all}
apis:
  orders:
    base: /
    routes: [{path: \"/*\", op: order, reply: {text: zebra}}]
";

/// The body of a request: segments fill up and are sealed while the backup is written.
fn body() -> String {
    "quokka ".repeat(10_000)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn backup(server: &Server, folder: &Path) -> Output {
    weir(server.dir(), &["backup", folder.to_str().unwrap()])
}

fn restore(folder: &Path, data: &Path) -> Output {
    let (folder, data) = (folder.to_str().unwrap(), data.to_str().unwrap());
    weir(Path::new("."), &["restore", folder, "--data", data])
}

/// A weir with a restored data folder.
fn start_restored(folder: &Path) -> Server {
    let weir = Weir::new(CONFIG);
    let restored = restore(folder, &weir.dir().join("data"));
    assert!(restored.status.success(), "{}", text(&restored));
    weir.start()
}

/// A backup of a weir that was stopped, with `count` transactions.
fn small_backup(count: usize) -> (tempfile::TempDir, PathBuf) {
    let mut server = Weir::new(CONFIG).start();
    (0..count).for_each(|_| assert_eq!(server.connect().get("/a").status, 200));
    server.signal(crate::harness::Signal::TERM);
    server.wait();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backup");
    let output = backup(&server, &path);
    assert!(output.status.success(), "{}", text(&output));
    (folder, path)
}

#[test]
fn a_backup_under_load_has_everything_until_its_start() {
    let server = Weir::new(CONFIG).start();
    let token = first_token(&server);
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("backup");
    let (completed, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let before = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let body = body();
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(server.connect().post("/load", &body).status, 200);
                    completed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        eventually("there are transactions", || completed.load(Ordering::Relaxed) > 400);
        let before = completed.load(Ordering::Relaxed);
        let output = backup(&server, &path);
        let after = completed.load(Ordering::Relaxed);
        eventually("requests are served afterwards", || completed.load(Ordering::Relaxed) > after);
        stop.store(true, Ordering::Relaxed);
        assert!(output.status.success(), "{}", text(&output));
        before
    });
    assert!(!server.data().join("backup.staging").exists());

    let mut restored = start_restored(&path);
    let metered = |server: &Server| calls(&usage(server, "from=2026-11-01")) as usize;
    eventually("recorded calls are metered", || metered(&restored) >= before);
    // The token of the first weir.
    let (ok, out, err) = ask(&restored, &token, &["search", "quokka", "--limit", "5"]);
    assert!(ok && out.lines().count() >= 5, "{out}{err}");
    let verified = get(&restored, "/v1/journal", &token);
    assert_eq!(verified.status, 200);
    let counted = metered(&restored);
    restored.kill();
    let all = transactions(&restored.data());
    // Requests that were in flight are interrupted, and metered as well.
    assert_eq!(all.len(), counted, "each recorded call is metered once");
    let complete = all.iter().filter(|one| one.status == 200).count();
    assert!(complete >= before, "{complete} of {before}");
}

#[test]
fn a_stopped_weir_is_backed_up_and_a_running_one_not_overwritten() {
    let (_folder, path) = small_backup(5);
    let server = start_restored(&path);
    assert_eq!(calls(&usage(&server, "from=2026-11-01")), 5);
    assert_eq!(server.connect().get("/b").status, 200);
    let refused = restore(&path, &server.data());
    assert!(!refused.status.success());
    assert!(text(&refused).contains("is not empty"), "{}", text(&refused));
    let again = backup(&server, &path);
    assert!(!again.status.success() && text(&again).contains("is not empty"), "{}", text(&again));
    assert!(path.join("configuration/000-weir.yaml").exists());
    let modes = files(&path).into_iter().map(|file| {
        use std::os::unix::fs::PermissionsExt as _;
        file.metadata().unwrap().permissions().mode() & 0o077
    });
    assert_eq!(modes.max(), Some(0), "only the owner reads a backup");
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let (folder, path) = small_backup(3);
    let data = folder.path().join("data");
    let refused = |reason: &str| {
        let output = restore(&path, &data);
        assert!(!output.status.success());
        assert!(text(&output).contains(reason), "{reason}: {}", text(&output));
        assert!(!data.exists() && !folder.path().join("data.partial").exists());
    };
    let key = path.join("data/hash.key");
    let bytes = std::fs::read(&key).unwrap();
    let mut flipped = bytes.clone();
    flipped[0] ^= 1;
    std::fs::write(&key, &flipped).unwrap();
    refused("hash.key is damaged");
    std::fs::remove_file(&key).unwrap();
    refused("hash.key");
    std::fs::write(&key, &bytes).unwrap();
    let manifest = path.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("data/hash.key", "data/../../hash.key")).unwrap();
    refused("is not a path in the backup");
    std::fs::remove_file(&manifest).unwrap();
    refused("is not a complete backup");
    std::fs::write(&manifest, text).unwrap();
    assert!(restore(&path, &data).status.success());
}

#[test]
fn a_kill_during_a_backup_leaves_nothing_that_restores() {
    let mut server = Weir::new(CONFIG).start();
    let body = body();
    (0..400).for_each(|_| assert_eq!(server.connect().post("/load", &body).status, 200));
    let elsewhere = tempfile::tempdir().unwrap();
    let (path, partial) =
        (elsewhere.path().join("backup"), elsewhere.path().join("backup.partial"));
    let output = std::thread::scope(|scope| {
        let writing = scope.spawn(|| backup(&server, &path));
        eventually("the backup is being written", || {
            partial.join("data").exists() || path.exists()
        });
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(server.pid() as i32).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        writing.join().unwrap()
    });
    server.wait();
    let data = elsewhere.path().join("data");
    if path.exists() {
        assert!(restore(&path, &data).status.success(), "it was complete before");
    } else {
        assert!(!output.status.success(), "{}", text(&output));
        let refused = restore(&partial, &data);
        assert!(text(&refused).contains("is not a complete backup"), "{}", text(&refused));
    }
    server.restart(&[]);
    assert!(!server.data().join("backup.staging").exists());
    let _ = std::fs::remove_dir_all(&path);
    let again = backup(&server, &path);
    assert!(again.status.success(), "{}", text(&again));
    assert!(!partial.exists());
}

#[test]
fn a_full_disk_ends_a_backup_and_nothing_else() {
    let Some(disk) = Disk::small(2) else { return };
    disk.leave(64);
    let server = Weir::new(CONFIG).start();
    let body = body();
    (0..100).for_each(|_| assert_eq!(server.connect().post("/load", &body).status, 200));
    let path = disk.path().join("backup");
    let output = backup(&server, &path);
    assert!(!output.status.success());
    assert!(text(&output).contains("the backup failed"), "{}", text(&output));
    assert!(!path.exists() && !disk.path().join("backup.partial").exists());
    assert!(!server.data().join("backup.staging").exists());
    assert_eq!(server.connect().get("/a").status, 200);
}
