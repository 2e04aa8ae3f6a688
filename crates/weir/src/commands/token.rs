//! `weir token`: tokens of the admin API.

use super::server_args::ServerArgs;
use crate::{duration, escape, output, table};
use serde_json::{Value, json};
use std::time::Duration;
use weir_admin::{Depth, Role, TokenInfo, TokenScope};
use weir_model::UnixSeconds;

/// Commands on tokens.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Create a token and print it once
    #[command(after_help = "Roles; each includes the permissions of the previous ones:\n  \
        viewer          reads metadata and metrics\n  \
        payload-viewer  reads headers, bodies and business keys\n  \
        operator        resubmits and resolves transactions, manages pools\n  \
        admin           manages tokens\n\n\
        Examples:\n  weir token new support --role payload-viewer > token\n  \
        weir token new acme --api orders --depth metadata --expires 90d > token")]
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
    /// Time after which it expires, such as 90d [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration::parse_long)]
    expires: Option<Duration>,
    /// Only this API; may be repeated [default: all]
    #[arg(long = "api", value_name = "NAME")]
    apis: Vec<String>,
    /// How much of a transaction it shows: counts, metadata or payloads
    #[arg(long, default_value = "payloads")]
    depth: Depth,
    /// Do not permit to send transactions again
    #[arg(long)]
    no_resubmit: bool,
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
    let New { apis, depth, no_resubmit, .. } = args;
    let scope = TokenScope { apis: apis.clone(), depth: *depth, resubmit: !no_resubmit };
    let expires = args.expires.map(|expires| expires.as_secs());
    let token =
        json!({"name": args.name, "role": args.role.name(), "scope": scope, "expires_in": expires});
    let created: Value = args.server.client()?.post("/v1/tokens", &token)?;
    if args.json {
        output::json(&created)?;
    } else {
        // Only the token is on standard output, so that it can be redirected to a file.
        output::line(&escape::line(created["token"].as_str().unwrap_or_default()));
        let id = escape::line(created["id"].as_str().unwrap_or_default());
        let limits =
            if scope.is_unlimited() { String::new() } else { format!(" ({})", scope.words()) };
        let role = args.role.name();
        output::note(&format!("token {id} of {role}{limits}; it is not shown again"));
    }
    Ok(())
}

fn list(args: &List) -> anyhow::Result<()> {
    let mut tokens: Vec<TokenInfo> = args.server.client()?.get("/v1/tokens")?;
    tokens.truncate(args.limit.unwrap_or(usize::MAX));
    let header = ["ID", "NAME", "ROLE", "SCOPE", "EXPIRES", "LAST USED"];
    table::print(&tokens, args.json, header, |token| {
        let time = |time: Option<UnixSeconds>, none: &str| {
            time.map_or_else(|| none.to_owned(), |time| time.to_string())
        };
        let expires = match token.is_expired() {
            true => "expired".to_owned(),
            false => time(token.expires, "never"),
        };
        [
            escape::line(&token.id),
            escape::line(&token.name),
            token.role.name().to_owned(),
            escape::line(&token.scope.words()),
            expires,
            time(token.last_used, ""),
        ]
    })
}

fn revoke(args: &Revoke) -> anyhow::Result<()> {
    let hexadecimal = args.id.bytes().all(|byte| byte.is_ascii_hexdigit());
    anyhow::ensure!(hexadecimal && !args.id.is_empty(), "'{}' is not a token id", args.id);
    args.server.client()?.delete(&format!("/v1/tokens/{}", args.id))
}
