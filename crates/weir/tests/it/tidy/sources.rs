//! Rust files: module docs, names, size.

use super::{assert_none, files};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "helper", "helpers", "common", "misc", "shared", "stuff"];

/// Lines beyond which a file has more than one subject. It aims at 400; from 600 on it must be
/// cut.
const MAX_FILE_LINES: usize = 600;

fn problems(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    // Tests beside the code say by their path what they test.
    if !text.starts_with("//!") && !path.ends_with("/tests.rs") {
        problems.push(format!("{path}: starts without module docs (`//! …`)"));
    }
    let stem = |part: &str| part.strip_suffix(".rs").unwrap_or(part).to_owned();
    let names: Vec<String> = path.split('/').map(stem).collect();
    if names.last().is_some_and(|name| name == "mod") {
        problems.push(format!("{path}: write `x.rs` beside `x/` instead of `x/mod.rs`"));
    }
    for name in names.iter().filter(|name| EMPTY_NAMES.contains(&name.as_str())) {
        problems.push(format!("{path}: `{name}` does not say what is in there"));
    }
    let lines = text.lines().count();
    if lines > MAX_FILE_LINES {
        problems.push(format!("{path}: {lines} lines; cut it along its subjects"));
    }
    problems
}

/// A merge that was never finished.
fn conflicts(path: &str, text: &str) -> Vec<String> {
    let markers = ["<".repeat(7) + " ", ">".repeat(7) + " "];
    let is_marker = |line: &str| markers.iter().any(|marker| line.starts_with(marker));
    (text.lines().enumerate())
        .filter(|(_, line)| is_marker(line))
        .map(|(index, _)| format!("{path}:{}: a conflict that was not resolved", index + 1))
        .collect()
}

#[test]
fn no_merge_is_left_unfinished() {
    let marked = format!("a\n{} HEAD\nb\n", "<".repeat(7));
    assert_eq!(conflicts("f", &marked).len(), 1);
    assert_eq!(conflicts("f", "a\n=======\n<<<<<<<<\n").len(), 0);
    let extensions = ["rs", "toml", "md", "yaml", "lock", "py", "cfg", "conf", "sh"];
    let all = files("", &extensions);
    let problems: Vec<String> = all.iter().flat_map(|(path, text)| conflicts(path, text)).collect();
    assert_none(&problems);
}

#[test]
fn every_problem_is_seen() {
    let seen = |path, text: &str| problems(path, text).len();
    assert_eq!(seen("crates/a/src/b.rs", "//! B.\n"), 0);
    assert_eq!(seen("crates/a/src/b.rs", "use c;\n"), 1);
    assert_eq!(seen("crates/a/src/b/tests.rs", "use c;\n"), 0);
    assert_eq!(seen("crates/a/src/b/mod.rs", "//! B.\n"), 1);
    assert_eq!(seen("crates/a/src/utils.rs", "//! B.\n"), 1);
    assert_eq!(seen("crates/a/src/common/b.rs", "//! B.\n"), 1);
    assert_eq!(seen("crates/a/src/b.rs", &"//! B.\n".repeat(601)), 1);
}

#[test]
fn rust_files_keep_the_rules() {
    let mut all = files("crates", &["rs"]);
    all.extend(files("fuzz", &["rs"]));
    all.extend(files("perf", &["rs"]));
    assert!(all.len() > 20, "the files are found");
    let problems: Vec<String> = all.iter().flat_map(|(path, text)| problems(path, text)).collect();
    assert_none(&problems);
}
