//! A worker may have a table of file descriptors of its own, in which no file of the journal is
//! open.

use std::fs;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use weir_journal::{Completed, Journal, Position, Received, Refused, Settings};

#[test]
fn a_lane_needs_no_file_descriptor() {
    let data = tempfile::tempdir().unwrap();
    let settings = Settings { segment_bytes: 64 << 10, ..Settings::default() };
    let (journal, mut lanes, _) = Journal::open(data.path(), settings).unwrap();
    let mut lane = lanes.remove(0);
    let appended = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_FILES).unwrap();
        let open: Vec<i32> = fs::read_dir("/proc/thread-self/fd")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
            .collect();
        for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
            let _ = nix::unistd::close(descriptor);
        }
        let received = Received { received_us: 4_102_444_800_000_000, ..Received::default() };
        let end = Completed { response_body: &[7; 1000], ..Completed::default() };
        let since = Instant::now();
        let mut appended = 0;
        while appended < 1000 {
            match lane.append(&received, &end) {
                Ok(_) => appended += 1,
                Err(Refused::Full) if since.elapsed() < Duration::from_secs(60) => {
                    std::thread::yield_now();
                }
                Err(refused) => panic!("{refused}"),
            }
        }
        appended
    });
    let appended = appended.join().unwrap();
    let mut reader = journal.reader(0, Position::START);
    let mut read = 0;
    while let Some(one) = reader.next_transaction().unwrap() {
        assert!(!one.damaged && one.response_body == [7; 1000]);
        read += 1;
    }
    assert_eq!(read, appended);
    let statistics = journal.statistics();
    assert!(statistics.segments > 10 && statistics.errors == 0, "{statistics:?}");
}
