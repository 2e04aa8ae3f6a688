//! Changes as editors, scripts and Kubernetes make them.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

/// A watch on `weir.yaml` in `dir`.
fn watch(dir: &Path) -> Watch {
    let (mut watch, problem) = Watch::new();
    assert!(problem.is_none(), "{problem:?}");
    watch.set(vec![dir.join("weir.yaml")], State::default());
    watch
}

/// Whether a change is seen, with patience.
async fn sees_change(watch: &mut Watch) -> bool {
    timeout(Duration::from_secs(20), watch.changed()).await.is_ok()
}

#[tokio::test]
async fn a_file_written_in_place() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("weir.yaml"), "a").unwrap();
    let mut watch = watch(dir.path());
    fs::write(dir.path().join("weir.yaml"), "longer").unwrap();
    assert!(sees_change(&mut watch).await);
}

#[tokio::test]
async fn a_file_replaced_by_renaming() {
    let dir = tempfile::tempdir().unwrap();
    let (file, new) = (dir.path().join("weir.yaml"), dir.path().join(".new"));
    fs::write(&file, "a").unwrap();
    let mut watch = watch(dir.path());
    for round in 0..2 {
        fs::write(&new, "a").unwrap();
        fs::rename(&new, &file).unwrap();
        assert!(sees_change(&mut watch).await, "round {round}");
        let before = watch.state();
        watch.set(vec![file.clone()], before);
    }
}

/// As Kubernetes does it: `weir.yaml` → `..data/weir.yaml`, `..data` → a folder with a new name.
#[tokio::test]
async fn a_link_swapped_beside_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (version, text) in [("..1", "a"), ("..2", "b")] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("weir.yaml"), text).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/weir.yaml", at("weir.yaml")).unwrap();
    let mut watch = watch(dir.path());
    symlink("..2", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    assert!(sees_change(&mut watch).await);
}

/// As deployment scripts do it: `current` → a release.
#[tokio::test]
async fn a_link_swapped_on_the_way_to_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for release in ["1", "2"] {
        fs::create_dir(at(release)).unwrap();
        fs::write(at(release).join("weir.yaml"), release).unwrap();
    }
    symlink("1", at("current")).unwrap();
    let mut watch = watch(&at("current"));
    symlink("2", at("next")).unwrap();
    fs::rename(at("next"), at("current")).unwrap();
    assert!(sees_change(&mut watch).await);
}

#[tokio::test]
async fn a_file_that_a_pattern_may_take_in() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("weir.yaml"), "a").unwrap();
    let mut watch = watch(dir.path());
    fs::write(dir.path().join("another.yaml"), "a").unwrap();
    assert!(sees_change(&mut watch).await);
}

#[tokio::test]
async fn other_files_and_reading_are_no_change() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("weir.yaml");
    fs::write(&file, "a").unwrap();
    let mut watch = watch(dir.path());
    fs::write(dir.path().join("access.log"), "line").unwrap();
    fs::read(&file).unwrap();
    // What follows is certain to wake it, so that what came before is dealt with.
    let unseen = timeout(Duration::from_millis(500), watch.changed()).await;
    assert!(unseen.is_err());
}

#[tokio::test]
async fn a_change_while_the_file_is_read_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("weir.yaml");
    fs::write(&file, "a").unwrap();
    let mut watch = watch(dir.path());
    let before = watch.state();
    fs::write(&file, "longer").unwrap();
    watch.set(vec![file], before);
    assert!(sees_change(&mut watch).await);
}
