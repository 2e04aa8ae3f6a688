//! `weir token`: tokens of the admin API.

use super::server_args::ServerArgs;
use crate::{escape, output, table};
use serde_json::{Value, json};
use weir_admin::{Role, TokenInfo};

/// Commands on tokens.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Create a token and print it once
    #[command(after_help = "Roles; each includes the permissions of the previous ones:\n  \
        viewer          reads metadata and metrics\n  \
        payload-viewer  reads headers, bodies and business keys\n  \
        operator        resubmits and resolves transactions, manages pools\n  \
        admin           manages tokens\n\n\
        Example:\n  weir token new support --role payload-viewer > token")]
    New(New),
    /// List tokens, without secrets
    List(List),
    /// Revoke a token
    #[command(after_help = "Example:\n  weir token revoke 1f2e3d4c5b6a")]
    Revoke(Revoke),
}

/// Arguments of `weir token new`.
#[derive(Debug, clap::Args)]
pub(crate) struct New {
    /// Name of the owner
    name: String,
    /// Role: viewer, payload-viewer, operator or admin
    #[arg(long, default_value = "viewer")]
    role: Role,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Arguments of `weir token list`.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Maximum number of tokens
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Arguments of `weir token revoke`.
#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// Token id, as shown by `weir token list`
    id: String,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::New(args) => new(args),
        Command::List(args) => list(args),
        Command::Revoke(args) => revoke(args),
    }
}

fn new(args: &New) -> anyhow::Result<()> {
    let token = json!({"name": args.name, "role": args.role.name()});
    let created: Value = args.server.client()?.post("/v1/tokens", &token)?;
    if args.json {
        output::json(&created)?;
    } else {
        // Only the token is on standard output, so that it can be redirected to a file.
        output::line(&escape::line(created["token"].as_str().unwrap_or_default()));
        let id = escape::line(created["id"].as_str().unwrap_or_default());
        output::note(&format!("token {id} of {}; it is not shown again", args.role.name()));
    }
    Ok(())
}

fn list(args: &List) -> anyhow::Result<()> {
    let mut tokens: Vec<TokenInfo> = args.server.client()?.get("/v1/tokens")?;
    tokens.truncate(args.limit.unwrap_or(usize::MAX));
    table::print(&tokens, args.json, ["ID", "NAME", "ROLE"], |token| {
        [escape::line(&token.id), escape::line(&token.name), token.role.name().to_owned()]
    })
}

fn revoke(args: &Revoke) -> anyhow::Result<()> {
    let hexadecimal = args.id.bytes().all(|byte| byte.is_ascii_hexdigit());
    anyhow::ensure!(hexadecimal && !args.id.is_empty(), "'{}' is not a token id", args.id);
    args.server.client()?.delete(&format!("/v1/tokens/{}", args.id))
}
