//! Following a page in a folder of its own, with one shell for all its commands.

use super::page::{Block, Kind, Page};
use super::{given, output};
use crate::harness::weir;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Longest time of a page in seconds.
const MAX_SECONDS: &str = "300";
/// Findings that a fragment may have: what it refers to is elsewhere.
const ELSEWHERE: [&str; 3] = ["unknown-name", "missing-file", "missing-key"];

/// What is true of all pages: blocks report where they are, and servers end with the page.
const PROLOGUE: &str = r#"set -eu -o pipefail -m
pids=() at=begin
finish() {
  code=$?
  for pid in "${pids[@]}"; do kill -TERM -- -"$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  [[ $code == 0 ]] || { echo "$at: exit code $code" >&3; tail -n 20 "$out" >&3; }
}
trap finish EXIT
begin() { at=$1 out=$2; }
ready() {
  for _ in {1..1200}; do [[ -s $out ]] && return; sleep 0.05; done
  echo "printed nothing" >"$out"; return 1
}
ended() { [[ $1 == "$2" ]] || { echo "$at: exit code $2, not $1" >&3; tail -n 20 "$out" >&3; trap - EXIT; code=0; finish; exit 0; }; }
"#;

/// A `weir` whose default ports are those of the page.
const WRAPPER: &str = r#"#!/usr/bin/env bash
arguments=("$@")
if [[ ${1-} == serve ]]; then
  config=weir.yaml
  for word in "${@:2}"; do
    if [[ -d $word ]]; then config=$word/weir.yaml; elif [[ -f $word ]]; then config=$word; fi
  done
  if [[ " $* " != *" --listen "* ]] && ! grep -qs '^listen:' "$config"; then arguments+=(--listen 127.0.0.1:@8080); fi
  if [[ " $* " != *" --admin "* ]] && ! grep -qs '^admin:' "$config"; then arguments+=(--admin 127.0.0.1:@9080); fi
fi
exec '@weir' "${arguments[@]}"
"#;

/// A page that is followed.
pub(super) struct Session<'a> {
    page: &'a Page,
    folder: TempDir,
    /// The ports of the page, and those in their place.
    ports: BTreeMap<u16, u16>,
}

impl<'a> Session<'a> {
    /// In a new folder.
    pub(super) fn new(page: &'a Page) -> Self {
        let mut ports = BTreeMap::from([(8080, 0), (9080, 0)]);
        for block in &page.blocks {
            each_port(&block.text, |port, _| {
                ports.insert(port, 0);
                port
            });
        }
        // All are held until the last is chosen, so that they differ.
        let mut held = Vec::new();
        for port in ports.values_mut() {
            *port = free_port(&mut held);
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { page, folder, ports }
    }

    /// Follows the page; returns what is wrong.
    pub(super) fn run(&self) -> Vec<String> {
        let (reader, tools) = (self.folder.path().join("reader"), self.folder.path().join("tools"));
        for folder in [&reader, &tools] {
            fs::create_dir(folder).unwrap();
        }
        self.prepare(&reader, &tools);
        let mut script = PROLOGUE.to_owned();
        for (number, block) in self.page.blocks.iter().enumerate() {
            self.add(&mut script, number, block);
        }
        let path = tools.join("page.sh");
        fs::write(&path, script).unwrap();
        let path_variable = std::env::var("PATH").unwrap_or_default();
        let report = fs::File::create(tools.join("report")).unwrap();
        let status = Command::new("timeout")
            .args(["-k", "10", MAX_SECONDS, "bash", "-c", "exec 3>&1; source \"$0\""])
            .arg(&path)
            .current_dir(&reader)
            .env("PATH", format!("{}:{path_variable}", tools.display()))
            .env("HOME", &reader)
            .env("WEIR_ADMIN", format!("http://127.0.0.1:{}", self.ports[&9080]))
            .env("NO_COLOR", "1")
            .env_remove("WEIR_TOKEN")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null())
            .stdout(report)
            .stderr(Stdio::inherit())
            .status()
            .expect("bash runs");
        let report = fs::read_to_string(tools.join("report")).unwrap_or_default();
        let mut problems: Vec<String> =
            Some(report).filter(|text| !text.is_empty()).into_iter().collect();
        if !status.success() && problems.is_empty() {
            problems.push(format!("{}: {status}", self.page.blocks[0].at));
        }
        problems.extend(
            self.page.blocks.iter().enumerate().filter_map(|(n, block)| self.judged(n, block)),
        );
        problems
    }

    /// What the reader has: weir, the examples, and the given files.
    fn prepare(&self, reader: &Path, tools: &Path) {
        let wrapper = WRAPPER
            .replace("@8080", &self.ports[&8080].to_string())
            .replace("@9080", &self.ports[&9080].to_string())
            .replace("@weir", env!("CARGO_BIN_EXE_weir"));
        fs::write(tools.join("weir"), wrapper).unwrap();
        fs::set_permissions(tools.join("weir"), fs::Permissions::from_mode(0o755)).unwrap();
        let examples = super::root().join("examples");
        crate::harness::run(Command::new("cp").arg("-r").arg(examples).arg(reader), b"");
        for left in ["data", "keys"] {
            let _ = fs::remove_dir_all(reader.join("examples/quickstart").join(left));
        }
        for block in &self.page.blocks {
            block.given.iter().for_each(|name| given::create(reader, name));
            // A configuration may name a script that is shown after it.
            if let Kind::File { name, .. } = &block.kind
                && block.language != "yaml"
            {
                write(&reader.join(name), &self.rewritten(&block.text));
            }
        }
    }

    fn output(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("tools/out.{number}"))
    }

    /// Adds what a reader does with a block.
    fn add(&self, script: &mut String, number: usize, block: &Block) {
        let out = self.output(number);
        let _ = writeln!(script, "begin '{}' '{}'", block.at, out.display());
        let out = "\"$out\" 2>&1";
        let text = self.rewritten(&block.text);
        let checked = if text.starts_with("lab:") { "lab check" } else { "check" };
        let there = format!("block-{number}.yaml");
        let heredoc =
            |to: &str, text: &str| format!("cat {to} <<'END_OF_SNIPPET'\n{text}END_OF_SNIPPET\n");
        let _ = match &block.kind {
            Kind::Complete => {
                writeln!(
                    script,
                    "{}weir {checked} {there} >{out}",
                    heredoc(&format!(">{there}"), &text)
                )
            }
            Kind::Fragment => writeln!(
                script,
                "{}weir {checked} --json {there} >{out} || true",
                heredoc(&format!(">{there}"), &text)
            ),
            Kind::File { name, appended } => {
                let sign = if *appended { ">>" } else { ">" };
                let to = format!("{sign}'{name}'");
                let folder = Path::new(name).parent().unwrap_or(Path::new("")).join(".");
                let _ = write!(script, "mkdir -p '{}'\n{}", folder.display(), heredoc(&to, &text));
                let is_config = Path::new(name).ends_with("weir.yaml") || checked == "lab check";
                match is_config {
                    true => writeln!(script, "weir {checked} '{name}' >{out}"),
                    false => Ok(()),
                }
            }
            Kind::Commands { background, exit, .. } => {
                let commands = self.rewritten(&block.commands().0);
                match (background, exit) {
                    (true, _) => writeln!(script, "(\n{commands}) >{out} &\npids+=($!)\nready"),
                    (false, 0) => writeln!(script, "{{\n{commands}}} >{out}"),
                    (false, exit) => writeln!(
                        script,
                        "set +e; (\nset -e\n{commands}) >{out}; code=$?; set -e; ended {exit} $code"
                    ),
                }
            }
            Kind::Foreign | Kind::NotRun | Kind::Shown => Ok(()),
        };
    }

    /// What is wrong with the output of a block.
    fn judged(&self, number: usize, block: &Block) -> Option<String> {
        let found = fs::read_to_string(self.output(number)).ok()?;
        match &block.kind {
            Kind::Fragment => {
                let found: Value = serde_json::from_str(&found).ok()?;
                let findings = found["findings"].as_array().into_iter().flatten();
                let mut errors = findings.filter(|finding| finding["severity"] != "warning");
                let wrong =
                    |finding: &&Value| !ELSEWHERE.iter().any(|code| finding["code"] == *code);
                let wrong = errors.find(wrong)?;
                Some(format!("{}: {}: {}", block.at, wrong["code"], wrong["message"]))
            }
            Kind::Commands { compared: true, .. } => {
                let shown = block.commands().1;
                let line = output::difference(&shown, &found)?;
                Some(format!("{}: `{line}` is not in the output:\n{found}", block.at))
            }
            _ => None,
        }
    }

    fn rewritten(&self, text: &str) -> String {
        each_port(text, |port, _| self.ports.get(&port).copied().unwrap_or(port))
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Calls `each` with every port of this machine in a text, and puts its result there.
fn each_port(text: &str, mut each: impl FnMut(u16, usize) -> u16) -> String {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let hosts = ["127.0.0.1:", "localhost:", "0.0.0.0:"];
        let found = hosts.iter().filter_map(|host| Some((rest.find(host)?, host.len()))).min();
        let Some((at, length)) = found else { break };
        let (before, after) = rest.split_at(at + length);
        out.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        match after[..digits].parse() {
            Ok(port) if port > 0 => out.push_str(&each(port, out.len()).to_string()),
            _ => out.push_str(&after[..digits]),
        }
        rest = &after[digits..];
    }
    out + rest
}

/// A port below those that the system chooses for others, so that nobody takes it meanwhile.
fn free_port(held: &mut Vec<TcpListener>) -> u16 {
    loop {
        let port = fastrand::u16(15_000..32_000);
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            held.push(listener);
            return port;
        }
    }
}

/// The help text of a command line's subcommand.
pub(super) fn help_of(words: &[String], known: &mut BTreeMap<String, String>) -> String {
    let mut path: Vec<&str> = Vec::new();
    let mut help = String::new();
    for word in [""].into_iter().chain(words[1..].iter().map(String::as_str)) {
        if !path.is_empty() || !word.is_empty() {
            let is_name = |line: &str| line.trim_start().split(' ').next() == Some(word);
            let commands = help.split("Commands:").nth(1).unwrap_or_default();
            let commands = commands.split("\n\n").next().unwrap_or_default();
            if !commands.lines().any(is_name) {
                break;
            }
            path.push(word);
        }
        let read = || {
            let output = weir(Path::new("."), &[&path[..], &["--help"]].concat());
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        help = known.entry(path.join(" ")).or_insert_with(read).clone();
    }
    help
}
