//! `weir init`: writes a first configuration.

use crate::exit::Exit;
use crate::{findings, output};
use anyhow::Context;
use http::Uri;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use weir_config::{CompileSchemas, ImportHandler, Imported, import_openapi};
use weir_validate::Schemas;

/// Name of the file.
const NAME: &str = "weir.yaml";

/// Arguments of `weir init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes `weir.yaml` with comments: an API with a static response, or the APIs of the options. Recording is on.
An existing file is not overwritten.

Exit codes:
  0  written
  1  the file exists, or cannot be written
  2  the OpenAPI document is unreadable, or none of its operations is supported

Examples:
  weir init
  weir init gateway --proxy http://127.0.0.1:3000
  weir init --from orders.openapi.yaml --proxy http://127.0.0.1:3000
  weir init --from orders.openapi.yaml --mock")]
pub(crate) struct Args {
    /// Folder; it is created if necessary
    #[arg(default_value = ".", value_name = "FOLDER")]
    folder: PathBuf,
    /// URL of an existing service: all requests are proxied to it
    #[arg(long, value_name = "URL", value_parser = url)]
    proxy: Option<String>,
    /// OpenAPI document (3.0 or 3.1): its operations are the routes. Without --proxy, requests are
    /// proxied to the first server of the document
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Respond with the examples of the OpenAPI document
    #[arg(long, requires = "from", conflicts_with = "proxy")]
    mock: bool,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let path = args.folder.join(NAME);
    let apis = match (&args.from, &args.proxy) {
        (Some(document), _) => {
            let Some(imported) = import(args, document)? else { return Ok(Exit::Findings) };
            body(&imported.text)
        }
        (None, Some(url)) => PROXY.replace("${URL}", url),
        (None, None) => WELCOME.to_owned(),
    };
    write(&path, &format!("{HEAD}\n{apis}\n{TAIL}"), args.force)?;
    let path = path.display();
    output::line(&format!("wrote {path}; next:"));
    let config = if args.folder == Path::new(".") { String::new() } else { format!(" {path}") };
    let option = if config.is_empty() { String::new() } else { format!(" --config {path}") };
    let next = [
        (format!("weir check{config}"), "check the configuration"),
        (format!("weir serve{config}"), "serve it on http://127.0.0.1:8080"),
        (format!("weir tail{option}"), "watch the transactions"),
    ];
    let width = next.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    for (command, purpose) in next {
        output::line(&format!("  {command:width$}    {purpose}"));
    }
    Ok(Exit::Success)
}

/// The APIs of an OpenAPI document; `None` after findings.
fn import(args: &Args, document: &Path) -> anyhow::Result<Option<Imported>> {
    let handler = match args.mock {
        true => ImportHandler::Mock,
        false => ImportHandler::Upstream(args.proxy.clone()),
    };
    // For their findings.
    let compile: CompileSchemas =
        |sources, documents, report| drop(Schemas::compile(sources, documents, report));
    // The configuration refers to the document: by its name if it is in the same folder.
    let at = || format!("cannot read `{}`", document.display());
    let document = document.canonicalize().with_context(at)?;
    fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot create `{}`", args.folder.display()))?;
    let imported = findings::accepted(import_openapi(&document, &handler, compile));
    let Some(mut imported) = imported else { return Ok(None) };
    let folder = args.folder.canonicalize().with_context(|| args.folder.display().to_string())?;
    if let Ok(name) = document.strip_prefix(&folder) {
        let (long, short) = (document.display().to_string(), name.display().to_string());
        imported.text = imported.text.replace(&long, &short);
    }
    for (name, why) in &imported.left_out {
        output::note(&format!("left out: {name}: {why}"));
    }
    Ok((imported.bound > 0).then_some(imported))
}

/// The upstreams and APIs of an imported configuration; the rest is in [`HEAD`].
fn body(imported: &str) -> String {
    let is_head =
        |line: &&str| ["#", "version:", "listen:"].iter().any(|head| line.starts_with(head));
    let lines = imported.lines().skip_while(is_head);
    lines.collect::<Vec<_>>().join("\n")
}

fn write(path: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).mode(0o644);
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let exists = || match path.exists() && !force {
        true => format!("`{}` exists; --force overwrites it", path.display()),
        false => cannot(),
    };
    let mut file = options.open(path).with_context(exists)?;
    file.write_all(text.as_bytes()).with_context(cannot)
}

/// A URL with scheme and host.
fn url(text: &str) -> Result<String, String> {
    let valid = text.parse::<Uri>().ok().filter(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some()
            && matches!(uri.path(), "" | "/")
    });
    match valid {
        Some(_) => Ok(text.trim_end_matches('/').to_owned()),
        None => {
            Err("a URL of a server is http://HOST:PORT or https://HOST, without a path".to_owned())
        }
    }
}

const HEAD: &str = "\
# Configuration of weir. All keys: docs/reference/configuration.md, or `weir schema`.
version: 1

# Clients connect here. Other machines are admitted with \"0.0.0.0:8080\"; add `tls:` then.
listen:
  - addr: 127.0.0.1:8080

# Metrics, API and console at http://127.0.0.1:9080/console/; the token is in data/admin.token.
admin:
  addr: 127.0.0.1:9080

# Recorded transactions, counts and keys.
data: data

# Every transaction is recorded and searchable: `weir search`, `weir show`, `weir resubmit`.
tracker:
  enabled: true
";

const WELCOME: &str = "\
apis:
  welcome:
    base: /
    routes:
      # A static response. `weir explain GET /` shows the stages of a request.
      - get: /
        op: welcome
        reply:
          value: {message: \"Welcome to weir\"}

# To proxy a service, declare it, and route requests to it:
# upstreams:
#   service: {targets: [\"http://127.0.0.1:3000\"]}
# apis:
#   service:
#     base: /service
#     routes: [{path: \"/*\", op: any, proxy: service}]
";

const PROXY: &str = "\
# The existing service. Several targets are balanced; `health:` adds health checks.
upstreams:
  service:
    targets: [\"${URL}\"]

apis:
  service:
    base: /
    routes:
      - path: \"/*\"
        op: any
        proxy: service
";

const TAIL: &str = "\
# Limits, authentication and metering, each with a guide in docs/guide:
# plans:
#   standard: {rate: 100/s}
# monitor: {}
";
