//! Documents: every path and heading that they link to exists, every configuration that they show is
//! accepted.

use super::{assert_none, files, root};
use crate::harness::weir;
use serde_json::Value;
use std::path::Path;

/// Folders at the root that documents speak of; a name in backticks that starts with one of them
/// is a path of the repository.
const FOLDERS: [&str; 7] = ["crates/", "docs/", "examples/", "perf/", "fuzz/", ".ci/", "console/"];

/// Written by a run, so not in a fresh checkout.
const MADE: [&str; 2] = ["/keys", "/data"];

/// Targets of links (`[text](target)`).
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("](").filter_map(|(at, _)| {
        let end = text[at..].find(')')?;
        Some(&text[at + 2..at + end])
    })
}

/// Targets of links and paths in backticks, both without anchors.
fn named(text: &str) -> Vec<String> {
    let mut found: Vec<String> = links(text).map(str::to_owned).collect();
    for piece in text.split('`').skip(1).step_by(2) {
        let path = piece.split([' ', ':', '#']).next().unwrap_or_default();
        if FOLDERS.iter().any(|folder| path.starts_with(folder)) {
            found.push(format!("/{path}"));
        }
    }
    found
        .into_iter()
        .map(|path| path.split('#').next().unwrap_or_default().to_owned())
        .filter(|path| !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:"))
        .filter(|path| !path.contains(['*', '<', '{', '…']))
        .filter(|path| !MADE.iter().any(|made| path.contains(made)))
        .collect()
}

/// Paths that start with a slash are taken from the root, others from the document's folder.
fn dead(document: &str, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    named(text)
        .into_iter()
        .filter(|path| match path.strip_prefix('/') {
            Some(path) => !exists(Path::new(path)),
            None => !exists(&folder.join(path)),
        })
        .map(|path| format!("{document}: names {path}, which is not there"))
        .collect()
}

#[test]
fn a_dead_path_is_seen() {
    let dead = |text| dead("docs/a.md", text, |path| path == Path::new("docs/b.md")).len();
    assert_eq!(dead("see [b](b.md) and [b](b.md#part) and `docs/b.md`"), 0);
    assert_eq!(dead("see [c](c.md)"), 1);
    assert_eq!(dead("see `crates/none/src/lib.rs`"), 1);
    assert_eq!(dead("see <https://example.com> and [x](https://example.com/y.md) and `a/b`"), 0);
}

#[test]
fn documents_name_no_dead_path() {
    let root = root();
    let documents: Vec<_> = files("", &["md"]);
    for needed in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        assert!(documents.iter().any(|(path, _)| path == needed), "{needed} is missing");
    }
    let problems: Vec<String> = documents
        .iter()
        .flat_map(|(path, text)| dead(path, text, |path| root.join(path).exists()))
        .collect();
    assert_none(&problems);
}

/// Anchor of a heading on GitHub: in lower case, spaces as hyphens, without other punctuation. The text
/// of a link stands for the link.
fn slug(heading: &str) -> String {
    let mut text = heading.trim().to_lowercase();
    while let Some(start) = text.find("](") {
        let Some(length) = text[start..].find(')') else { break };
        text.replace_range(start..=start + length, "");
    }
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Anchors of all headings of a document. The second heading with an anchor gets `-1`, the third `-2`.
fn anchors(text: &str) -> Vec<String> {
    let mut slugs: Vec<String> = Vec::new();
    let mut anchors = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug(heading);
        let earlier = slugs.iter().filter(|other| **other == slug).count();
        anchors.push(if earlier == 0 { slug.clone() } else { format!("{slug}-{earlier}") });
        slugs.push(slug);
    }
    anchors
}

/// Links to headings that do not exist; `read` gives the text of a document by its path from the root,
/// if there is one.
fn dead_anchors(document: &str, text: &str, read: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let is_dead = |link: &&str| {
        let Some((path, anchor)) = link.split_once('#') else { return false };
        let target = match path {
            "" => Some(text.to_owned()),
            _ if path.ends_with(".md") && !path.contains("://") => read(&folder.join(path)),
            _ => None,
        };
        target.is_some_and(|target| anchors(&target).iter().all(|one| one != anchor))
    };
    let dead = links(text).filter(is_dead);
    dead.map(|link| format!("{document}: links to {link}, which is no heading")).collect()
}

#[test]
fn a_dead_anchor_is_reported() {
    let other =
        "# B\n## HTTP/2, `gRPC`\n## Part\n## Part\n```sh\n# comment\n```\n## [Link](c.md)\n";
    let read = |path: &Path| (path == Path::new("docs/b.md")).then(|| other.to_owned());
    let dead = |link: &str| dead_anchors("docs/a.md", &format!("# Own\n[x]({link})"), read).len();
    for link in ["b.md", "b.md#http2-grpc", "b.md#part", "b.md#part-1", "b.md#link", "#own"] {
        assert_eq!(dead(link), 0, "{link}");
    }
    for link in ["b.md#none", "b.md#part-2", "b.md#comment", "#b", "#none"] {
        assert_eq!(dead(link), 1, "{link}");
    }
    // A missing document is a dead path, and other sites are not read.
    assert_eq!(dead("c.md#none") + dead("https://example.com/b.md#none"), 0);
}

#[test]
fn documents_link_to_headings_that_exist() {
    let root = root();
    let read = |path: &Path| std::fs::read_to_string(root.join(path)).ok();
    let documents = files("", &["md"]);
    let problems: Vec<String> =
        documents.iter().flat_map(|(path, text)| dead_anchors(path, text, read)).collect();
    assert_none(&problems);
}

/// What is missing from a configuration that shows only what a page is about.
const FRAGMENT: [&str; 9] = [
    "bad-certificate",
    "bad-jwks",
    "missing-file",
    "missing-key",
    "tree-map",
    "undefined-env",
    "unknown-name",
    "unused",
    // The text around it explains origins.
    "websocket-origins",
];

/// Findings about the configurations that a document shows (```` ```yaml ````), but for those that
/// come from showing only a part.
fn wrong_configurations(document: &str, text: &str) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut problems = Vec::new();
    let text = text.replace("<!-- not weir -->\n```yaml\n", "```\n");
    for block in text.split("```yaml\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        std::fs::write(dir.path().join("weir.yaml"), block).expect("a file");
        let output = match block.starts_with("lab:") {
            true => weir(dir.path(), &["lab", "check", "--json", "weir.yaml"]),
            false => weir(dir.path(), &["check", "--json"]),
        };
        let checked: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        for finding in checked["findings"].as_array().into_iter().flatten() {
            if !FRAGMENT.iter().any(|code| finding["code"] == *code) {
                let line = finding["line"].as_u64().and_then(|line| {
                    block.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)
                });
                let line = line.unwrap_or_default();
                problems.push(format!("{document}: {} in: {line}", finding["message"]));
            }
        }
    }
    problems
}

#[test]
fn a_wrong_configuration_is_seen() {
    let wrong = |yaml| wrong_configurations("d", &format!("Text\n```yaml\n{yaml}\n```\n")).len();
    assert_eq!(wrong("apis: {a: {base: /, routes: [{get: /, proxy: elsewhere}]}}"), 0);
    assert_eq!(wrong("apis: {a: {base: /, rootes: [{get: /, proxy: elsewhere}]}}"), 1);
    assert_eq!(wrong("limits: {idle: 5}"), 1);
    assert_eq!(wrong("lab: 1\ntarget: {bass: 5}"), 1);
}

#[test]
fn documents_show_configurations_that_are_accepted() {
    let documents = files("", &["md"]);
    let problems: Vec<String> =
        documents.iter().flat_map(|(path, text)| wrong_configurations(path, text)).collect();
    assert_none(&problems);
}
