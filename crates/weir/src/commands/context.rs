//! `weir context`: named admin listeners.

use crate::admin_client;
use crate::contexts::{Context, Contexts, NONE, parse_name};
use crate::{escape, output, table};
use anyhow::{Context as _, ensure};
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest token that is read.
const MAX_TOKEN_BYTES: u64 = 4096;

/// Commands on contexts.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Add a context, or replace it
    #[command(after_help = "\
A token file is read by each command. A token from standard input is stored in
$XDG_CONFIG_HOME/weir/contexts.json (default ~/.config), which only you can read.

Examples:
  weir context add prod --admin https://gateway.example.com:9080 --token-file ~/prod.token --use
  weir context add test --admin http://10.0.0.7:9080 --token-stdin < test.token")]
    Add(Add),
    /// Use a context for all following commands; `none` for no context
    #[command(after_help = "Examples:\n  weir context use prod\n  weir context use none")]
    Use(Use),
    /// List the contexts; `*` marks the one in use
    #[command(after_help = "Example:\n  weir context list")]
    List(List),
    /// Remove a context
    #[command(after_help = "Example:\n  weir context remove test")]
    Remove(Remove),
}

/// Arguments of `weir context add`.
#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// Name
    #[arg(value_parser = parse_name)]
    name: String,
    /// Admin listener, http[s]://HOST:PORT
    #[arg(long, value_name = "URL")]
    admin: String,
    /// File with the admin token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Read the admin token from standard input and store it
    #[arg(long, conflicts_with = "token_file")]
    token_stdin: bool,
    /// CA certificates (PEM) for the listener's certificate [default: the system's]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate (PEM) to present to a listener with `client_certificates`
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Its private key (PEM) [default: in the same file]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Use it for all following commands
    #[arg(long = "use")]
    is_used: bool,
}

/// Arguments of `weir context use`.
#[derive(Debug, clap::Args)]
pub(crate) struct Use {
    /// Name, or `none`
    name: String,
}

/// Arguments of `weir context list`.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Print one JSON object per line, without tokens
    #[arg(long)]
    json: bool,
}

/// Arguments of `weir context remove`.
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// Name
    name: String,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    let contexts = Contexts::load()?;
    match command {
        Command::Add(args) => add(contexts, args),
        Command::Use(args) => select(contexts, &args.name),
        Command::List(args) => list(&contexts, args.json),
        Command::Remove(args) => remove(contexts, &args.name),
    }
}

fn add(mut contexts: Contexts, args: &Add) -> anyhow::Result<()> {
    admin_client::check_url(&args.admin)?;
    let token = args.token_stdin.then(|| read_token(std::io::stdin())).transpose()?;
    // Commands run in any folder.
    let absolute = |path: &Option<PathBuf>| path.as_deref().map(std::path::absolute).transpose();
    let context = Context {
        admin: args.admin.clone(),
        token_file: absolute(&args.token_file)?,
        token,
        ca: absolute(&args.ca)?,
        cert: absolute(&args.cert)?,
        key: absolute(&args.key)?,
    };
    contexts.contexts.insert(args.name.clone(), context);
    if args.is_used {
        contexts.current = Some(args.name.clone());
    }
    let is_used = contexts.current.as_ref() == Some(&args.name);
    contexts.save()?;
    let Add { name, .. } = args;
    output::line(&match is_used {
        true => format!("context {name} is added and used"),
        false => format!("context {name} is added; `weir context use {name}` uses it"),
    });
    Ok(())
}

fn read_token(input: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    input.take(MAX_TOKEN_BYTES).read_to_string(&mut text).context("cannot read the token")?;
    let token = text.trim();
    ensure!(!token.is_empty(), "standard input has no token");
    ensure!(!token.contains(char::is_whitespace), "standard input has more than a token");
    Ok(token.to_owned())
}

fn select(mut contexts: Contexts, name: &str) -> anyhow::Result<()> {
    if name == NONE {
        contexts.current = None;
        contexts.save()?;
        output::line("no context is used");
        return Ok(());
    }
    let admin = contexts.get(name)?.admin.clone();
    contexts.current = Some(name.to_owned());
    contexts.save()?;
    output::line(&format!("context {name} is used: {}", escape::line(&admin)));
    Ok(())
}

fn list(contexts: &Contexts, json: bool) -> anyhow::Result<()> {
    let is_used = |name: &str| contexts.current.as_deref() == Some(name);
    if json {
        return output::json_lines(contexts.contexts.iter().map(|(name, context)| {
            json!({
                "name": name,
                "used": is_used(name),
                "admin": context.admin,
                "token": context.token.as_ref().map(|_| "stored"),
                "token_file": context.token_file,
                "ca": context.ca,
                "cert": context.cert,
                "key": context.key,
            })
        }));
    }
    let rows = contexts.contexts.iter().map(|(name, context)| {
        let path = |path: &Path| escape::line(&path.display().to_string());
        [
            if is_used(name) { "*" } else { "" }.to_owned(),
            escape::line(name),
            escape::line(&context.admin),
            match (&context.token, &context.token_file) {
                (Some(_), _) => "stored".to_owned(),
                (None, Some(file)) => path(file),
                (None, None) => "none".to_owned(),
            },
            context.ca.as_deref().map_or_else(String::new, path),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output::text(&table::table(["USED", "NAME", "ADMIN", "TOKEN", "CA"], &rows));
    Ok(())
}

fn remove(mut contexts: Contexts, name: &str) -> anyhow::Result<()> {
    contexts.get(name)?;
    contexts.contexts.remove(name);
    if contexts.current.as_deref() == Some(name) {
        contexts.current = None;
    }
    contexts.save()?;
    output::line(&format!("context {} is removed", escape::line(name)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word() {
        assert_eq!(read_token("  wadm_x\n".as_bytes()).unwrap(), "wadm_x");
        assert!(read_token("\n".as_bytes()).is_err());
        assert!(read_token("a b".as_bytes()).is_err());
    }
}
