use super::*;
use crate::{Source, load};
use weir_document::finding::Severity;

fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

const OWN: &str =
    "fleet: {postgres: {url: \"postgres://w@127.0.0.1/w\"}, config: {source: fleet}}\n";
const APIS: &str = "apis: {x: {base: /, routes: [{get: /, reply: {text: \"file:hi.txt\"}}]}}\n";

#[test]
fn a_process_that_ends_while_it_tries_a_version_starts_with_the_good_one() {
    let data = tempfile::tempdir().unwrap();
    let mut store = VersionStore::open(data.path()).unwrap();
    for number in ["1", "2"] {
        store.write(number, &files(&[("weir.yaml", APIS)])).unwrap();
    }
    store.state.good = Some(1);
    store.state.trying = Some(Attempt { version: Some(2), rollout: 7 });
    store.save().unwrap();
    let mut again = VersionStore::open(data.path()).unwrap();
    assert_eq!(again.state.current(), Some(2));
    again.recover().unwrap();
    again.clean().unwrap();
    let state = VersionStore::open(data.path()).unwrap().state;
    assert_eq!(state.current(), Some(1));
    assert_eq!(state.rejected.unwrap().attempt.rollout, 7);
    assert!(again.folder(1).exists() && !again.folder(2).exists());
}

#[test]
fn a_process_starts_with_its_own_file_if_the_good_version_is_not_on_the_disk() {
    let node = tempfile::tempdir().unwrap();
    let path = node.path().join("weir.yaml");
    std::fs::write(&path, OWN).unwrap();
    let data = node.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mut store = VersionStore::open(&data).unwrap();
    store.state.good = Some(1);
    store.save().unwrap();
    let start = Source { path, version: VersionChoice::Good, ..Source::default() };
    assert!(load(&start).finish().is_ok());
    // A reload does not drop what is in force.
    let reload = Source { version: VersionChoice::Current, ..start };
    assert_eq!(load(&reload).finish().unwrap_err().list[0].code, "missing-file");
    store.recover().unwrap();
    assert_eq!(VersionStore::open(&data).unwrap().state, VersionState::default());
}

#[test]
fn paths_that_leave_the_folder_are_rejected() {
    let data = tempfile::tempdir().unwrap();
    let store = VersionStore::open(data.path()).unwrap();
    for path in ["../x", "/etc/x", "a/../../x", "", "a//b", "a/./b", "a/", "a\0b"] {
        assert!(store.write("1", &files(&[(path, "")])).is_err(), "{path}");
        assert!(check_files(&files(&[(MAIN, ""), (path, "")])).is_err(), "{path}");
    }
    assert!(check_files(&files(&[("a/b.yaml", "")])).is_err());
    let both = files(&[(MAIN, ""), ("a", ""), ("a/b", "")]);
    assert!(check_files(&both).unwrap_err().contains("`a` is a file and the folder of `a/b`"));
    assert!(store.write("1", &both).is_err());
    assert_eq!(
        std::fs::read_dir(data.path().join("config")).unwrap().count(),
        0,
        "nothing is left"
    );
    assert!(check_files(&files(&[(MAIN, ""), ("a/b.yaml", "")])).is_ok());
}

#[test]
fn sections_of_the_version_are_added_and_its_missing_files_are_those_of_the_node() {
    let node = tempfile::tempdir().unwrap();
    let path = node.path().join("weir.yaml");
    std::fs::write(&path, OWN).unwrap();
    let data = node.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mut store = VersionStore::open(&data).unwrap();
    let source = Source { path: path.clone(), ..Source::default() };
    let version = |store: &mut VersionStore, list: &[(&str, &str)]| {
        store.write("1", &files(list)).unwrap();
        store.state.good = Some(1);
        store.save().unwrap();
        load(&source).finish()
    };
    let loaded = version(&mut store, &[("weir.yaml", APIS), ("hi.txt", "of the version")]).unwrap();
    assert_eq!(loaded.0.apis.len(), 1);
    let missing = version(&mut store, &[("weir.yaml", APIS)]).unwrap_err();
    assert!(missing.list[0].message.contains(&*node.path().join("hi.txt").to_string_lossy()));
    std::fs::write(node.path().join("hi.txt"), "of the node").unwrap();
    assert!(version(&mut store, &[("weir.yaml", APIS)]).is_ok());
    // Neither twice, nor what says where the version is.
    std::fs::write(
        &path,
        format!("{OWN}apis: {{y: {{base: /y, routes: [{{get: /, reply: {{text: y}}}}]}}}}\n"),
    )
    .unwrap();
    let twice = version(&mut store, &[("weir.yaml", APIS)]).unwrap_err();
    let found = twice.list.iter().find(|one| one.severity == Severity::Error).unwrap();
    assert!(found.message.contains("`apis` is in the version and in the own file"), "{found:?}");
    std::fs::write(&path, OWN).unwrap();
    let own = version(&mut store, &[("weir.yaml", "data: x\n")]).unwrap_err();
    assert!(own.list[0].message.contains("`data` belongs in the own file"), "{own:?}");
}

#[test]
fn secrets_in_the_text_are_known_and_so_are_their_files() {
    let node = tempfile::tempdir().unwrap();
    let path = node.path().join("weir.yaml");
    let text = "upstreams:\n  a: {targets: [\"http://127.0.0.1:1\"], auth: {basic: {user: u, password: hunter2}}}\n  \
                b: {targets: [\"http://127.0.0.1:1\"], auth: {basic: {user: u, password: \"file:b.pass\"}}}\n\
                auth: {keys: {api_key: {header: x-api-key}}}\n\
                consumers: {c: {api_keys: [\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"]}}\n\
                apis:\n  x:\n    base: /\n    routes:\n      \
                - {get: /, proxy: {upstream: a, headers: {set: {authorization: \"Bearer hunter3\", x-a: plain}}}}\n      \
                - {get: /b, proxy: {upstream: b, headers: {set: {x-api-key: \"file:c.key\"}}}}\n";
    std::fs::write(&path, text).unwrap();
    std::fs::write(node.path().join("b.pass"), "x").unwrap();
    std::fs::write(node.path().join("c.key"), "x").unwrap();
    let (_, found) = load(&Source { path, ..Source::default() }).finish().unwrap();
    let lines: Vec<usize> = found.secrets.literal.iter().map(|one| one.line).collect();
    assert_eq!(lines, [2, 10], "{:?}", found.secrets.literal);
    assert_eq!(found.secrets.files, ["b.pass", "c.key"].map(|name| node.path().join(name)));
}
