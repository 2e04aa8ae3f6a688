//! A snapshot is the journal at its time, whatever happens to the files afterwards.

use std::path::Path;

use super::sealing::fill;
use super::*;

/// Copies what a snapshot has, as a backup does.
fn copy(from: &Path, to: &Path, unfinished: &[(PathBuf, u64)]) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target, unfinished);
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        if let Some((_, valid)) = unfinished.iter().find(|(end, _)| path.ends_with(end)) {
            bytes[usize::try_from(*valid).unwrap()..].fill(0);
        }
        fs::write(target, bytes).unwrap();
    }
}

#[test]
fn a_snapshot_is_the_journal_at_its_time() {
    let data = tempfile::tempdir().unwrap();
    let staging = data.path().join("staging");
    let (journal, mut lane, _) = open(data.path());
    fill(&journal, &mut lane);
    journal.work().unwrap();
    fill(&journal, &mut lane);
    let before = all(&journal);
    let unfinished: Vec<_> = journal
        .snapshot(data.path(), &staging)
        .unwrap()
        .into_iter()
        .map(|one| (one.path, one.bytes))
        .collect();
    assert_eq!(unfinished.len(), 1);
    // Segments are sealed, and their files written to again.
    for _ in 0..3 {
        journal.work().unwrap();
        fill(&journal, &mut lane);
    }
    let restored = tempfile::tempdir().unwrap();
    copy(&staging, restored.path(), &unfinished);
    let (journal, _lane, report) = open(restored.path());
    assert!(report.damaged_files.is_empty(), "{report:?}");
    let mut after = all(&journal);
    after.retain(|one| one.outcome != Outcome::Interrupted);
    assert_eq!(after, before);
    drop(journal);
    // A journal that another process has taken over is in its hands.
    let (journal, _lane, _) = open(restored.path());
    journal.release().unwrap();
    assert!(journal.snapshot(restored.path(), &restored.path().join("staging")).is_err());
}
