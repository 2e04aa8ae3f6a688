//! Golden cases: every file or folder under `tests/golden`.
//!
//! A bad case says what it expects where it expects it: a line that ends in `#! code, code` has
//! these findings and no line has others; `# expect: code:line` stands for lines that cannot
//! carry a comment. A good case loads, and what came of it is compared with the `.snap` file
//! beside it; `WEIR_BLESS=1` rewrites those.

use crate::summary::summary;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use weir_config::Source;
use weir_document::finding::{Findings, codes};
use weir_gateway::configuration::load;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The cases of a kind: a file, or a folder with `weir.yaml`.
fn cases(kind: &str) -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = std::fs::read_dir(golden().join(kind))
        .expect("golden cases")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    cases.sort();
    cases
}

/// Code, file, line of every finding that a case expects.
fn expected(case: &Path) -> Vec<(String, PathBuf, usize)> {
    let mut expected = Vec::new();
    for file in yaml_files(case) {
        let text = std::fs::read_to_string(&file).expect("readable");
        for (number, line) in text.lines().enumerate() {
            if let Some(list) = line.strip_prefix("# expect: ") {
                for item in list.split(", ") {
                    let (code, line) = item.split_once(':').expect("code:line");
                    expected.push((code.to_owned(), file.clone(), line.parse().expect("line")));
                }
            } else if let Some((_, list)) = line.split_once("#! ") {
                expected.extend(list.split(", ").map(|c| (c.to_owned(), file.clone(), number + 1)));
            }
        }
    }
    expected.sort();
    expected
}

fn yaml_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        let yaml = path.extension().is_some_and(|e| e == "yaml");
        return if yaml { vec![path.to_owned()] } else { Vec::new() };
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(path)
        .expect("folder")
        .flat_map(|entry| yaml_files(&entry.expect("entry").path()))
        .collect();
    files.sort();
    files
}

fn found(findings: &Findings) -> Vec<(String, PathBuf, usize)> {
    let mut found: Vec<_> =
        findings.list.iter().map(|f| (f.code.to_owned(), f.file.clone(), f.line)).collect();
    found.sort();
    found
}

#[test]
fn bad_cases_have_exactly_the_findings_they_expect() {
    let mut wrong = Vec::new();
    for case in cases("bad") {
        let expected = expected(&case);
        assert!(!expected.is_empty(), "{} expects nothing", case.display());
        match load(&Source { path: case.clone(), ..Default::default() }) {
            Ok(_) => wrong.push(format!("{} loads", case.display())),
            Err(findings) if found(&findings) != expected => wrong.push(format!(
                "{}\nexpected {:#?}\nfound\n{}",
                case.display(),
                expected.iter().map(|(c, _, l)| format!("{c}:{l}")).collect::<Vec<_>>(),
                findings.render(false)
            )),
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn good_cases_load_as_their_snapshots_say() {
    let mut wrong = Vec::new();
    for case in cases("good") {
        let source = Source { path: case.clone(), ..Default::default() };
        let loaded = match load(&source) {
            Ok(loaded) => loaded,
            Err(findings) => {
                wrong.push(format!("{}:\n{}", case.display(), findings.render(false)));
                continue;
            }
        };
        let shown = summary(&loaded, &golden().join("good"));
        let snapshot = case.with_extension("snap");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&snapshot, &shown).expect("writable");
        }
        let known = std::fs::read_to_string(&snapshot).unwrap_or_default();
        if known != shown {
            wrong.push(format!("{} is now:\n{shown}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn there_are_at_least_sixty_cases() {
    assert!(cases("bad").len() + cases("good").len() >= 60);
}

#[test]
fn messages_read_as_they_should() {
    let mut shown = String::new();
    for case in cases("bad") {
        let Err(findings) = load(&Source { path: case.clone(), ..Default::default() }) else {
            continue;
        };
        let name = case.file_stem().expect("name").to_string_lossy().into_owned();
        shown.push_str(&format!("=== {name}\n"));
        let folder = format!("{}/", golden().join("bad").display());
        shown.push_str(&findings.render(false).replace(&folder, ""));
    }
    let snapshot = golden().join("messages.snap");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&snapshot, &shown).expect("writable");
    }
    let known = std::fs::read_to_string(&snapshot).unwrap_or_default();
    assert!(known == shown, "messages changed: WEIR_BLESS=1 rewrites {}", snapshot.display());
}

/// Codes that no configuration file alone brings about: each has its own test elsewhere.
const ELSEWHERE: [&str; 7] = [
    "agents-as-root",
    "bad-override",
    "literal-secret",
    "needs-restart",
    "no-roots",
    "open-data-folder",
    "too-many",
];

#[test]
fn every_code_has_a_case() {
    let mut seen: BTreeSet<String> =
        cases("bad").iter().flat_map(|c| expected(c)).map(|(code, ..)| code).collect();
    for case in cases("good") {
        if let Ok(loaded) = load(&Source { path: case, ..Default::default() }) {
            seen.extend(loaded.findings.list.iter().map(|f| f.code.to_owned()));
        }
    }
    let missing: Vec<&str> = codes::ALL
        .iter()
        .map(|c| c.code)
        .filter(|c| !seen.contains(*c) && !ELSEWHERE.contains(c))
        .collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
    let known: BTreeSet<&str> = codes::ALL.iter().map(|c| c.code).collect();
    assert!(seen.iter().all(|c| known.contains(c.as_str())));
    assert!(codes::ALL.is_sorted_by_key(|c| c.code));
}
