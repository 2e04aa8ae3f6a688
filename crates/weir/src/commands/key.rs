//! `weir key`: API keys.

use crate::output;
use anyhow::anyhow;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::HEXLOWER;
use serde_json::json;

/// Commands on API keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print a new API key and its hash for the configuration
    #[command(
        after_help = "The key is for the consumer and is shown only once; the hash belongs in \
            `consumers.NAME.api_keys`.\n\nExample:\n  weir key new"
    )]
    New(New),
}

/// Arguments of `weir key new`.
#[derive(Debug, clap::Args)]
pub(crate) struct New {
    /// Print one JSON object: {"key": …, "hash": …}
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    let Command::New(args) = command;
    let key = generate()?;
    let hash = hash(&key);
    if args.json {
        output::line(&json!({"key": key, "hash": hash}).to_string());
    } else {
        output::line(&format!("key:  {key}\nhash: {hash}"));
    }
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
