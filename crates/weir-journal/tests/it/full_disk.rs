//! A disk that is really full: a small tmpfs, if this process may mount one.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use weir_journal::{Completed, Journal, Lane, Position, Received, Refused, Settings};

struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let how = Some("size=2m");
        mount(Some("tmpfs"), folder.path(), Some("tmpfs"), MsFlags::empty(), how).ok()?;
        Some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = umount2(self.path(), MntFlags::MNT_DETACH);
    }
}

/// Appends until it works or `wanted` is refused for a while.
fn until(lane: &mut Lane, refused: bool) {
    let received = Received { received_us: 4_102_444_800_000_000, ..Received::default() };
    let end = Completed { response_body: &[7; 1000], ..Completed::default() };
    let since = Instant::now();
    let mut same: Option<Instant> = None;
    while since.elapsed() < Duration::from_secs(60) {
        let full = lane.append(&received, &end) == Err(Refused::Full);
        if full == refused {
            // A segment that is not ready yet is refused as well, but not for long.
            let long = same.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(1);
            if !refused || long {
                return;
            }
        } else {
            same = None;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    panic!("never {}", if refused { "refused" } else { "taken" });
}

#[test]
fn a_full_disk_refuses_and_takes_again_once_there_is_room() {
    let Some(disk) = Tmpfs::new() else {
        eprintln!("skipped: this process may not mount a tmpfs");
        return;
    };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let settings = Settings { segment_bytes: 64 << 10, ..Settings::default() };
    let (journal, mut lanes, _) = Journal::open(disk.path(), settings).unwrap();
    // A follower that does not read keeps everything.
    journal.follower("slow").unwrap();
    let lane = &mut lanes[0];
    let open = lane.start(&Received { id: [9; 16], ..Received::default() }).unwrap();
    until(lane, true);
    assert!(journal.statistics().errors > 0);
    // What was taken on is completed all the same.
    lane.complete(open, &Completed { status: 204, ..Completed::default() }).unwrap();
    fs::remove_file(&ballast).unwrap();
    until(lane, false);
    let mut reader = journal.reader(0, Position::START);
    let mut found = 0;
    while let Some(one) = reader.next_transaction().unwrap() {
        assert!(!one.damaged);
        found += usize::from(one.id == [9; 16] && one.status == 204);
    }
    assert_eq!(found, 1);
    drop(lanes);
}

#[test]
fn a_disk_without_room_at_the_start_is_opened_and_refuses() {
    let Some(disk) = Tmpfs::new() else { return };
    fs::write(disk.path().join("ballast"), vec![1; (2 << 20) - (48 << 10)]).unwrap();
    let settings = Settings { segment_bytes: 64 << 10, ..Settings::default() };
    let (_journal, mut lanes, _) = Journal::open(disk.path(), settings).unwrap();
    assert_eq!(lanes[0].start(&Received::default()), Err(Refused::Full));
    fs::remove_file(disk.path().join("ballast")).unwrap();
    until(&mut lanes[0], false);
    drop(lanes);
}
