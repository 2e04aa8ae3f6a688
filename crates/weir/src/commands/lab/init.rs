//! `weir lab init`: writes a first scenario.

mod flow;
mod scenario;

use crate::exit::Exit;
use crate::{findings, output};
use anyhow::{Context, ensure};
use scenario::Written;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use weir_config::example_calls;
use weir_lab::program::Origin;

/// Target without a URL.
const TARGET: &str = "http://127.0.0.1:8080";

/// Arguments of `weir lab init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes a scenario with comments: requests to one URL, or a request for each operation of an OpenAPI document, in the \
order\ncreate, read, update, delete. Values are the document's examples, or generated from its schemas. Credentials \
are read\nfrom a CSV file beside the scenario, which is written with placeholders. Existing files are not \
overwritten.\n\n\
Exit codes:\n  0  written\n  1  a file exists, or cannot be written\n  2  the OpenAPI document is unreadable, or none \
of its operations can be requested\n\n\
Examples:\n  weir lab init http://127.0.0.1:8080/hello\n  weir lab init --from orders.openapi.yaml\n  \
weir lab init --from orders.openapi.yaml --target https://staging.example.com --out orders.yaml")]
pub(crate) struct Args {
    /// URL to request
    #[arg(value_name = "URL", value_parser = url, conflicts_with = "from")]
    url: Option<String>,
    /// OpenAPI document (3.0 or 3.1): a request for each of its operations
    #[arg(long, value_name = "FILE", required_unless_present = "url")]
    from: Option<PathBuf>,
    /// Base URL of the server [default: the first server of the document, or http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", value_parser = url, conflicts_with = "url")]
    target: Option<String>,
    /// The scenario file
    #[arg(short, long, value_name = "FILE", default_value = "scenario.yaml")]
    out: PathBuf,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let credentials = args.out.with_extension("credentials.csv");
    let written = match (&args.from, &args.url) {
        (Some(document), _) => {
            let Some(written) = imported(args, document, &credentials)? else {
                return Ok(Exit::Findings);
            };
            written
        }
        (None, url) => {
            let url = url.as_deref().unwrap_or(TARGET);
            let (origin, path) = Origin::parse(url)?;
            let path = if path.is_empty() { "/" } else { path.as_str() };
            Written { text: scenario::of_url(&origin.url(""), path), credentials: None }
        }
    };
    for path in [Some(&args.out), written.credentials.as_ref().map(|_| &credentials)] {
        let Some(path) = path else { continue };
        ensure!(args.force || !path.exists(), "`{}` exists; --force overwrites it", path.display());
    }
    if let Some(rows) = &written.credentials {
        // For its owner only: secrets are to be filled in.
        write(&credentials, rows, 0o600)?;
        output::note(&format!("fill in the credentials in {}", credentials.display()));
    }
    write(&args.out, &written.text, 0o644)?;
    let path = args.out.display();
    output::line(&format!("wrote {path}; next:"));
    output::line(&format!("  weir lab check {path}    check the scenario"));
    output::line(&format!("  weir lab run {path}      run it"));
    Ok(Exit::Success)
}

/// The scenario of a document; `None` after findings.
fn imported(args: &Args, document: &Path, credentials: &Path) -> anyhow::Result<Option<Written>> {
    let path = document.canonicalize();
    let path = path.with_context(|| format!("cannot read `{}`", document.display()))?;
    let Some(calls) = findings::accepted(example_calls(&path)) else { return Ok(None) };
    for (name, why) in &calls.left_out {
        output::note(&format!("left out: {name}: {why}"));
    }
    if calls.calls.is_empty() {
        output::note(&format!("`{}` has no operation that can be requested", document.display()));
        return Ok(None);
    }
    let target = args.target.clone().or_else(|| calls.server.clone());
    let target = target.unwrap_or_else(|| TARGET.to_owned());
    let file = credentials.file_name().unwrap_or_default().to_string_lossy();
    let from = document.file_name().unwrap_or_default().to_string_lossy();
    Ok(Some(scenario::of_calls(&calls, &from, target.trim_end_matches('/'), &file)))
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let mut file = options.open(path).with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)
}

/// A URL with scheme and host.
fn url(text: &str) -> Result<String, String> {
    match Origin::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!("'{text}' is not a URL, such as http://127.0.0.1:8080/hello")),
    }
}
