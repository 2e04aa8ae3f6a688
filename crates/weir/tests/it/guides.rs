//! The snippets of the documentation, run as a reader would paste them.
//!
//! Pages are README.md and everything below `docs` except the generated reference and the
//! decisions. CONTRIBUTING.md has the marks by which a page says what a snippet is.

mod given;
mod output;
mod page;
mod session;

use page::{Block, Kind, Page};
use session::{Session, help_of};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use weir_document::document::Document;

/// Pages that run at once: each waits for servers most of the time.
const PAGES_AT_ONCE: usize = 2;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository is there")
}

/// The pages, with their path relative to the root.
fn pages() -> Vec<(String, String)> {
    let root = root();
    let mut found = vec![root.join("README.md")];
    let mut open = vec![root.join("docs")];
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
            let is_left_out = path.ends_with("docs/reference") || path.ends_with("docs/decisions");
            if path.is_dir() && !is_left_out {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    let text = |path: &Path| fs::read_to_string(path).expect("it is readable");
    let name = |path: &Path| path.strip_prefix(&root).unwrap().display().to_string();
    found.iter().map(|path| (name(path), text(path))).collect()
}

#[test]
fn every_snippet_does_what_its_page_says() {
    let pages = Mutex::new(pages());
    let problems = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..PAGES_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((name, text)) = pages.lock().unwrap().pop() else { return };
                    let found = follow(&name, &text);
                    problems.lock().unwrap().extend(found);
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// Follows a page from top to bottom; returns what is wrong with it.
fn follow(name: &str, text: &str) -> Vec<String> {
    let page = match Page::parse(name, text) {
        Ok(page) => page,
        Err(problems) => return problems,
    };
    if page.blocks.is_empty() {
        return Vec::new();
    }
    let mut problems = options_of(&page);
    problems
        .extend(page.blocks.iter().filter(|block| block.kind == Kind::Foreign).filter_map(parsed));
    problems.extend(Session::new(&page).run());
    problems
}

/// YAML of other programs is well-formed.
fn parsed(block: &Block) -> Option<String> {
    let documents = block.text.split("\n---\n");
    let findings =
        documents.flat_map(|text| Document::read(Path::new("block.yaml"), text).findings().list);
    let messages: Vec<String> = findings.map(|finding| finding.message).collect();
    (!messages.is_empty()).then(|| format!("{}: {}", block.at, messages.join("; ")))
}

/// Commands that are not run have options that exist.
fn options_of(page: &Page) -> Vec<String> {
    let mut helps = BTreeMap::new();
    let mut problems = Vec::new();
    for block in page.blocks.iter().filter(|block| block.kind == Kind::NotRun) {
        for words in page::weir_commands(&block.text) {
            let help = help_of(&words, &mut helps);
            let options = words.iter().take_while(|word| *word != "--");
            for option in options.filter(|word| word.starts_with("--")) {
                let option = option.split_once('=').map_or(option.as_str(), |(name, _)| name);
                let is_there = help
                    .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
                    .any(|word| word == option);
                if !is_there {
                    let command = words.join(" ");
                    problems.push(format!("{}: `{option}` is no option of `{command}`", block.at));
                }
            }
        }
    }
    problems
}

#[test]
fn a_broken_snippet_is_found() {
    let wrong = [
        ("```yaml\napi: {}\n```\n", "unknown key"),
        (
            "```yaml\napis: {a: {base: /, routes: [{get: /, proxy: shop}]}}\n```\n",
            "unknown upstream",
        ),
        ("<!-- fragment -->\n```yaml\napis: {a: {bass: /}}\n```\n", "unknown-key"),
        ("<!-- given: a.txt -->\n```sh\ncat b.txt\n```\n", "exit code 1"),
        ("<!-- exit: 2 -->\n```sh\ntrue\n```\n", "exit code 0"),
        ("```console\n$ echo 7 apples\n9 pears\n```\n", "9 pears"),
        ("<!-- not run: long -->\n```sh\nweir serve --lissen a\n```\n", "`--lissen` is no option"),
        ("<!-- not run -->\n```sh\ntrue\n```\n", "needs a reason"),
        ("<!-- fragmented -->\n```yaml\na: 1\n```\n", "unknown mark"),
        ("A\n\n    weir serve\n", "is not in a fence"),
        ("```\nweir serve\n```\n", "has no language"),
        ("<!-- not weir -->\n```yaml\na: [1\n```\n", "broken.md:2"),
    ];
    for (text, expected) in wrong {
        let problems = follow("broken.md", text).join("\n");
        assert!(problems.contains(expected), "{text}: {problems}");
    }
    let right = [
        "<!-- file: weir.yaml -->\n```yaml\napis: {a: {base: /, routes: [{get: /, reply: {text: hi}}]}}\n```\n\
         <!-- background -->\n```sh\nweir serve\n```\n\
         ```console\n$ curl -s http://127.0.0.1:8080/\nhi\n```\n",
        "<!-- continues: weir.yaml -->\n```yaml\nworkers: 1\n```\n```sh\nx=1\n```\n```sh\ntest $x = 1\n```\n",
        "```console\n$ printf 'a 123 b\\nc\\nd\\n'\na 9 …\n…\nd\n```\n",
    ];
    for text in right {
        assert_eq!(follow("right.md", text), Vec::<String>::new(), "{text}");
    }
}
