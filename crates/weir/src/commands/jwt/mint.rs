//! `weir jwt mint`: signs a token.

use super::key_file;
use crate::{duration, output};
use anyhow::{Context, bail};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `weir jwt mint`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Keys and secrets are read from files only: other users can see command lines.\n\n\
    Examples:\n  \
    weir jwt mint --key keys/key.pem --iss https://idp/ --aud orders --exp 1h\n  \
    weir jwt mint --secret-file secret --sub me --scope read --claim client_id=acme\n  \
    weir jwt mint --key keys/key.pem --claim 'roles=[\"admin\"]' --claim level=3"
)]
pub(crate) struct Args {
    /// Private key in PEM
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "secret_file",
        required_unless_present = "secret_file"
    )]
    key: Option<PathBuf>,
    /// Shared secret; one trailing line break is ignored
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Algorithm [default: by the key; HS256 with a secret]
    #[arg(long, value_name = "ALG")]
    alg: Option<Algorithm>,
    /// Key id in the token's header
    #[arg(long)]
    kid: Option<String>,
    /// Issuer
    #[arg(long)]
    iss: Option<String>,
    /// Subject
    #[arg(long)]
    sub: Option<String>,
    /// Audience; may be repeated
    #[arg(long)]
    aud: Vec<String>,
    /// Scope; may be repeated
    #[arg(long)]
    scope: Vec<String>,
    /// Time until expiry
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse)]
    exp: Duration,
    /// Omit `exp`: the token never expires
    #[arg(long, conflicts_with = "exp")]
    no_exp: bool,
    /// Expired for this long, for tests
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["exp", "no_exp"], value_parser = duration::parse)]
    expired: Option<Duration>,
    /// Time until the token becomes valid (`nbf`)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    nbf: Option<Duration>,
    /// Other claim; the value is JSON, otherwise text; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_claim)]
    claim: Vec<(String, Value)>,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (key, fitting) = signing_key(args)?;
    let algorithm = args.alg.unwrap_or(fitting);
    if algorithm.family() != key.family() {
        bail!("{algorithm:?} does not match the key ({fitting:?})");
    }
    let mut header = Header::new(algorithm);
    header.kid.clone_from(&args.kid);
    let now = jiff::Timestamp::now().as_second();
    let token = jsonwebtoken::encode(&header, &claims(args, now), &key)
        .context("the token cannot be signed")?;
    output::line(&token);
    Ok(())
}

fn signing_key(args: &Args) -> anyhow::Result<(EncodingKey, Algorithm)> {
    match (&args.key, &args.secret_file) {
        (Some(path), _) => key_file::private(path),
        (None, Some(path)) => {
            Ok((EncodingKey::from_secret(&key_file::secret(path)?), Algorithm::HS256))
        }
        (None, None) => bail!("--key or --secret-file is required"),
    }
}

/// Seconds are those of RFC 7519 section 2 (NumericDate).
fn claims(args: &Args, now: i64) -> Map<String, Value> {
    let seconds = |d: Duration| i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
    let mut claims = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            claims.insert(name.to_owned(), value);
        }
    };
    put("iss", args.iss.as_deref().map(Value::from));
    put("sub", args.sub.as_deref().map(Value::from));
    put(
        "aud",
        match args.aud.as_slice() {
            [] => None,
            [one] => Some(json!(one)),
            many => Some(json!(many)),
        },
    );
    put("scope", (!args.scope.is_empty()).then(|| json!(args.scope.join(" "))));
    put("iat", Some(json!(now)));
    put("nbf", args.nbf.map(|d| json!(now.saturating_add(seconds(d)))));
    put(
        "exp",
        match args.expired {
            Some(ago) => Some(json!(now.saturating_sub(seconds(ago)))),
            None if args.no_exp => None,
            None => Some(json!(now.saturating_add(seconds(args.exp)))),
        },
    );
    for (name, value) in &args.claim {
        put(name, Some(value.clone()));
    }
    claims
}

fn parse_claim(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            Ok((name.to_owned(), value))
        }
        _ => Err(format!("'{text}' is not NAME=VALUE, such as client_id=acme")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn claims_of(line: &str) -> Map<String, Value> {
        let words = "mint --key k ".to_owned() + line;
        claims(&Line::parse_from(words.split_whitespace()).args, 1000)
    }

    #[test]
    fn times_count_from_now() {
        assert_eq!(claims_of("")["exp"], json!(1000 + 3600));
        assert_eq!(claims_of("--expired 10s")["exp"], json!(990));
        assert_eq!(claims_of("--nbf 5s")["nbf"], json!(1005));
        assert!(!claims_of("--no-exp").contains_key("exp"));
    }

    #[test]
    fn claims_keep_their_types() {
        let claims = claims_of("--claim level=3 --claim roles=[\"a\"] --claim name=acme");
        assert_eq!(claims["level"], json!(3));
        assert_eq!(claims["roles"], json!(["a"]));
        assert_eq!(claims["name"], json!("acme"));
    }

    #[test]
    fn one_audience_is_text_and_scopes_are_joined() {
        assert_eq!(claims_of("--aud a")["aud"], json!("a"));
        assert_eq!(claims_of("--aud a --aud b")["aud"], json!(["a", "b"]));
        assert_eq!(claims_of("--scope read --scope write")["scope"], json!("read write"));
    }
}
