//! `weir push`: a version of the configuration for the fleet.

use super::reload::print;
use super::rollout;
use super::server_args::ServerArgs;
use crate::exit::Exit;
use crate::{escape, findings, output};
use anyhow::{Context, ensure};
use serde_json::json;
use std::path::{Path, PathBuf};
use weir_admin::configuration::{FindingInfo, Pushed};
use weir_config::versions::{Files, MAIN, check_files};
use weir_config::{Source, VersionChoice};
use weir_document::draft::file_text;
use weir_document::finding::{Finding, Findings, Severity, codes};

/// The start of a key or a certificate (RFC 7468).
const PEM: &str = "-----BEGIN ";
const NOT_STORED: &str = "the version has errors, and was not stored";

/// Findings that the own files of a node can remove: only its check counts.
const OF_NODES: [&str; 13] = [
    codes::BAD_CERTIFICATE,
    codes::BAD_FILE,
    codes::BAD_JWKS,
    codes::BAD_KEY,
    codes::CONFLICT,
    codes::EXPOSED,
    codes::MISSING_FILE,
    codes::MISSING_KEY,
    codes::OPEN_DATA_FOLDER,
    codes::UNDEFINED_ENV,
    codes::UNKNOWN_NAME,
    codes::UNMAPPED_SECURITY,
    codes::WEAK_SECRET,
];

/// Arguments of `weir push`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A version is the given file and all files that it refers to: included files, OpenAPI documents, scripts. Files
of secrets, keys and certificates are not part of it, nor are files outside its folder: each node has its own,
at the same path beside its own file. A version with errors or literal secrets is not sent. The node that responds
checks it as a reload would, with its own file, and stores it. No node takes it before a rollout. Requires the role
admin.

Exit codes:
  0  the version is stored
  1  weir was not reached, or does not take versions
  2  the version has errors

Examples:
  weir push fleet/weir.yaml --comment 'orders: 2 more routes'
  weir push fleet --rollout")]
pub(crate) struct Args {
    /// Main file of the version, or a folder with `weir.yaml`
    #[arg(default_value = "weir.yaml", value_name = "PATH")]
    path: PathBuf,
    /// Comment
    #[arg(long, default_value = "")]
    comment: String,
    /// Start its rollout, too
    #[arg(long)]
    rollout: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let main = if args.path.is_dir() { args.path.join(MAIN) } else { args.path.clone() };
    ensure!(main.is_file(), "{} is not a file", main.display());
    let source = Source { path: main.clone(), version: VersionChoice::None, ..Source::default() };
    let found = match weir_gateway::configuration::load(&source) {
        Ok(loaded) => loaded.findings,
        Err(found) => found,
    };
    let errors = errors(&found);
    if !errors.list.is_empty() {
        if args.json {
            output::json(&Pushed { version: None, findings: FindingInfo::all(&errors) })?;
        } else {
            findings::print(&errors);
        }
        output::error(NOT_STORED);
        return Ok(Exit::Findings);
    }
    let files = collect(&main, &found)?;
    let client = args.server.client()?;
    let body = json!({"comment": args.comment, "files": files});
    let pushed: Pushed = client.post("/v1/fleet/versions", &body)?;
    if args.json {
        output::json(&pushed)?;
    } else {
        pushed.findings.iter().for_each(print);
    }
    let Some(version) = pushed.version else {
        output::error(NOT_STORED);
        return Ok(Exit::Findings);
    };
    if !args.json {
        let files = findings::count(files.len(), "file");
        output::line(&format!("version {version} is stored ({files})"));
    }
    if args.rollout {
        rollout::start(&client, version)?;
    }
    Ok(Exit::Success)
}

/// The errors of a version that no file of a node can remove, with its literal secrets.
fn errors(found: &Findings) -> Findings {
    let is_certain =
        |one: &&Finding| one.severity == Severity::Error && !OF_NODES.contains(&one.code);
    let list = found.list.iter().filter(is_certain).chain(&found.secrets.literal);
    Findings { list: list.cloned().collect(), texts: found.texts.clone(), ..Findings::default() }
}

/// The files of a version, by their paths in its folder.
fn collect(main: &Path, found: &Findings) -> anyhow::Result<Files> {
    let folder = main.parent().unwrap_or(Path::new(""));
    let real = std::path::absolute(folder)?.canonicalize()?;
    let mut files = Files::new();
    for path in found.files.iter().filter(|path| path.is_file()) {
        if found.secrets.files.contains(path) {
            continue;
        }
        let below = path.strip_prefix(folder).ok().filter(|rest| rest.is_relative());
        let canonical = path.canonicalize()?;
        let Some(name) = below.or_else(|| canonical.strip_prefix(&real).ok()) else {
            own(path, "outside the folder");
            continue;
        };
        let name =
            if path == main { MAIN } else { name.to_str().context("a path is not UTF-8")? };
        match file_text(path) {
            Ok(text) if text.contains(PEM) => own(path, "a key or a certificate"),
            Ok(text) => drop(files.insert(name.to_owned(), text)),
            Err(fault) => anyhow::bail!("{}", fault.message),
        }
    }
    check_files(&files).map_err(anyhow::Error::msg)?;
    Ok(files)
}

/// A file that each node has itself.
fn own(path: &Path, why: &str) {
    let path = escape::line(&path.to_string_lossy());
    output::note(&format!("{path} is not in the version ({why}): each node needs its own"));
}
