//! `weir key`: API keys of consumers.

use super::server_args::ServerArgs;
use crate::{escape, output, table};
use anyhow::{anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::HEXLOWER;
use serde_json::json;
use weir_admin::ApiKeyInfo;

/// Commands on API keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print a new API key and its hash for the configuration
    #[command(
        after_help = "The key is for the consumer and is shown only once; the hash belongs in \
            `consumers.NAME.api_keys`.\n\nExample:\n  weir key new"
    )]
    New(New),
    /// List the API keys of consumers, with their ends and revocations
    #[command(after_help = "The id of a key is the principal of its transactions: \
            `weir search 'principal:\"sha256:9f86d081\"'`.\n\n\
            Examples:\n  weir key list\n  weir key list --consumer acme --json")]
    List(List),
    /// Revoke an API key at once, without a change of the configuration
    #[command(
        after_help = "Requests with the key get 401 `api-key-revoked`, on open connections and after a \
            restart, too. In a fleet, all nodes reject it within two seconds.\n\n\
            Example:\n  weir key revoke sha256:9f86d081 --reason \"in a public repository\""
    )]
    Revoke(Change),
    /// Accept an API key again that was revoked
    #[command(
        after_help = "Example:\n  weir key restore sha256:9f86d081 --reason \"a false alarm\""
    )]
    Restore(Change),
}

/// Arguments of `weir key new`.
#[derive(Debug, clap::Args)]
pub(crate) struct New {
    /// Print one JSON object: {"key": …, "hash": …}
    #[arg(long)]
    json: bool,
}

/// Arguments of `weir key list`.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only the keys of this consumer
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Arguments of `weir key revoke` and `weir key restore`.
#[derive(Debug, clap::Args)]
pub(crate) struct Change {
    /// Id of the key, as shown by `weir key list`; or more digits of its hash
    id: String,
    /// Why, for the audit log and other operators
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::New(args) => new(args),
        Command::List(args) => list(args),
        Command::Revoke(args) => change(args, "revoke"),
        Command::Restore(args) => change(args, "restore"),
    }
}

fn new(args: &New) -> anyhow::Result<()> {
    let key = generate()?;
    let hash = hash(&key);
    if args.json {
        output::line(&json!({"key": key, "hash": hash}).to_string());
    } else {
        output::line(&format!("key:  {key}\nhash: {hash}"));
    }
    Ok(())
}

fn list(args: &List) -> anyhow::Result<()> {
    let mut keys: Vec<ApiKeyInfo> = args.server.client()?.get("/v1/api-keys")?;
    keys.retain(|key| args.consumer.as_ref().is_none_or(|name| *name == key.consumer));
    let header = ["ID", "CONSUMER", "NAME", "EXPIRES", "REVOKED", "BY", "REASON"];
    table::print(&keys, args.json, header, |key| {
        let expires = match key.expires {
            _ if key.expired => "expired".to_owned(),
            Some(at) => at.to_string(),
            None if key.configured => "never".to_owned(),
            None => "not configured".to_owned(),
        };
        let revoked = key.revoked.as_ref();
        [
            escape::line(&key.id),
            escape::line(&key.consumer),
            escape::line(key.name.as_deref().unwrap_or_default()),
            expires,
            revoked.map(|revocation| revocation.at.to_string()).unwrap_or_default(),
            revoked.map(|revocation| escape::line(&revocation.who)).unwrap_or_default(),
            revoked.map(|revocation| escape::line(&revocation.reason)).unwrap_or_default(),
        ]
    })
}

fn change(args: &Change, action: &str) -> anyhow::Result<()> {
    let digits = args.id.strip_prefix("sha256:").unwrap_or(&args.id);
    let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    ensure!(
        digits.len() >= 8 && is_hexadecimal,
        "'{}' is not the id of an API key, such as sha256:9f86d081",
        args.id
    );
    let path = format!("/v1/api-keys/{digits}/{action}");
    let key: ApiKeyInfo = args.server.client()?.post(&path, &json!({"reason": args.reason}))?;
    let (id, consumer) = (escape::line(&key.id), escape::line(&key.consumer));
    let of = if consumer.is_empty() { String::new() } else { format!(" of {consumer}") };
    let done = match &key.revoked {
        Some(revocation) => {
            format!("revoked by {} at {}", escape::line(&revocation.who), revocation.at)
        }
        None => "not revoked".to_owned(),
    };
    output::note(&format!("the API key {id}{of} is {done}"));
    Ok(())
}

/// 256 random bits with a prefix for secret scanners.
fn generate() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| anyhow!("the system's random source failed"))?;
    Ok(format!("weir_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// SHA-256 of the key, as in `api_keys`.
fn hash(key: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
    format!("sha256:{}", HEXLOWER.encode(digest.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_carry_256_bits() {
        let (one, two) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one, two);
        let bytes = URL_SAFE_NO_PAD.decode(one.strip_prefix("weir_").unwrap()).unwrap();
        assert_eq!(bytes.len(), 32);
    }

    /// `printf weir_test | sha256sum`.
    #[test]
    fn the_hash_is_sha_256_of_the_whole_key() {
        assert_eq!(
            hash("weir_test"),
            "sha256:96386c2e8a17b4e0c100696e5620d9eab7f2d3aaf76d871fd83439d7e8433817"
        );
    }
}
