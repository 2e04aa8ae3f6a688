//! `weir jwt inspect`: claims and validity of a token.

use super::key_file;
use crate::exit::Exit;
use crate::output;
use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Map, Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use weir_model::duration_in_words;

/// Arguments of `weir jwt inspect`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The token is read from FILE or standard input, never from the command line; a \
        prefix `Bearer ` is removed. Without a key, nothing is verified, and the output says \
        so.\n\n\
    Exit codes:\n  0  readable; valid, if a key was given\n  1  unreadable or invalid\n\n\
    Examples:\n  \
    weir jwt mint --key keys/key.pem | weir jwt inspect --jwks keys/jwks.json\n  \
    weir jwt inspect token.txt --json"
)]
pub(crate) struct Args {
    /// File with the token [default: standard input, also `-`]
    file: Option<PathBuf>,
    /// Verify with a JSON Web Key Set
    #[arg(long, value_name = "FILE", group = "verify")]
    jwks: Option<PathBuf>,
    /// Verify with a public key in PEM
    #[arg(long, value_name = "FILE", group = "verify")]
    key: Option<PathBuf>,
    /// Verify with a shared secret
    #[arg(long, value_name = "FILE", group = "verify")]
    secret_file: Option<PathBuf>,
    /// Print one JSON object: {"header": …, "claims": …, "verified": …, "problem": …}
    #[arg(long)]
    json: bool,
}

/// Longest token; servers reject much shorter headers.
const MAX_INPUT_BYTES: u64 = 64 * 1024;

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let token = read_token(args.file.as_deref())?;
    let (header, claims) = parts(&token)?;
    let verdict = verify(args, &token, &header)?;
    if args.json {
        output::line(
            &json!({
                "header": header,
                "claims": claims,
                "verified": verdict.as_ref().map(Result::is_ok),
                "problem": verdict.as_ref().and_then(|v| v.as_ref().err()),
            })
            .to_string(),
        );
    } else {
        output::text(&describe(&header, &claims, verdict.as_ref(), jiff::Timestamp::now()));
    }
    Ok(if matches!(verdict, Some(Err(_))) { Exit::Failure } else { Exit::Success })
}

fn read_token(file: Option<&Path>) -> anyhow::Result<String> {
    let mut text = String::new();
    match file {
        Some(path) if path != Path::new("-") => std::fs::File::open(path)
            .and_then(|file| file.take(MAX_INPUT_BYTES).read_to_string(&mut text))
            .with_context(|| format!("cannot read {}", path.display()))?,
        _ => std::io::stdin()
            .take(MAX_INPUT_BYTES)
            .read_to_string(&mut text)
            .context("cannot read standard input")?,
    };
    let text = text.trim();
    Ok(match text.get(..7) {
        Some(scheme) if scheme.eq_ignore_ascii_case("bearer ") => text[7..].trim().to_owned(),
        _ => text.to_owned(),
    })
}

/// Header and claims, not verified (RFC 7515 section 3.1: three parts, base64url).
fn parts(token: &str) -> anyhow::Result<(Map<String, Value>, Map<String, Value>)> {
    let parts: Vec<&str> = token.split('.').collect();
    let [header, claims, _] = parts.as_slice() else {
        bail!("not a JSON Web Token: {} parts instead of 3", parts.len());
    };
    let object = |what: &str, part: &str| -> anyhow::Result<Map<String, Value>> {
        let bytes = URL_SAFE_NO_PAD
            .decode(part)
            .with_context(|| format!("the token's {what} is not base64url"))?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("the token's {what} is not a JSON object"))
    };
    Ok((object("header", header)?, object("payload", claims)?))
}

type Verdict = Result<(), String>;

/// `None` without a key.
fn verify(
    args: &Args,
    token: &str,
    header: &Map<String, Value>,
) -> anyhow::Result<Option<Verdict>> {
    if args.jwks.is_none() && args.key.is_none() && args.secret_file.is_none() {
        return Ok(None);
    }
    let text = header.get("alg").and_then(Value::as_str).unwrap_or("none");
    let Ok(algorithm) = text.parse::<Algorithm>() else {
        return Ok(Some(Err(format!("the algorithm {text} is not supported"))));
    };
    let keys = match (&args.jwks, &args.key, &args.secret_file) {
        (Some(path), _, _) => {
            jwks_keys(path, header.get("kid").and_then(Value::as_str), algorithm)?
        }
        (_, Some(path), _) => vec![key_file::public(path, algorithm)?],
        (_, _, Some(path)) => vec![DecodingKey::from_secret(&key_file::secret(path)?)],
        (None, None, None) => Vec::new(),
    };
    let mut validation = Validation::new(algorithm);
    validation.validate_aud = false;
    validation.validate_nbf = true;
    validation.leeway = 0;
    validation.required_spec_claims.clear();
    let mut problem = "no matching key in the set".to_owned();
    for key in keys {
        match jsonwebtoken::decode::<Map<String, Value>>(token, &key, &validation) {
            Ok(_) => return Ok(Some(Ok(()))),
            Err(error) => problem = reason(&error),
        }
    }
    Ok(Some(Err(problem)))
}

fn reason(error: &jsonwebtoken::errors::Error) -> String {
    match error.kind() {
        ErrorKind::ExpiredSignature => "the token has expired".to_owned(),
        ErrorKind::ImmatureSignature => "the token is not valid yet".to_owned(),
        ErrorKind::InvalidSignature => "the signature does not match the key".to_owned(),
        _ => error.to_string(),
    }
}

/// Matching keys of the set: with the `kid` of the token, if any, of the family of the algorithm, and
/// for this algorithm if the JWK names one.
fn jwks_keys(
    path: &Path,
    kid: Option<&str>,
    algorithm: Algorithm,
) -> anyhow::Result<Vec<DecodingKey>> {
    let set: JwkSet = serde_json::from_slice(&key_file::read(path)?)
        .with_context(|| format!("{} is not a JSON Web Key Set", path.display()))?;
    let fits = |jwk: &&Jwk| {
        let named = kid.is_none() || jwk.common.key_id.as_deref() == kid;
        let stated = jwk.common.key_algorithm.as_ref().map(ToString::to_string);
        named && stated.is_none_or(|stated| stated == format!("{algorithm:?}"))
    };
    Ok(set
        .keys
        .iter()
        .filter(fits)
        .filter_map(|jwk| DecodingKey::from_jwk(jwk).ok())
        .filter(|key| key.family() == algorithm.family())
        .collect())
}

fn describe(
    header: &Map<String, Value>,
    claims: &Map<String, Value>,
    verdict: Option<&Verdict>,
    now: jiff::Timestamp,
) -> String {
    let pretty = |map: &Map<String, Value>| {
        serde_json::to_string_pretty(map).unwrap_or_else(|error| error.to_string())
    };
    let mut text = format!("header {}\nclaims {}\n", pretty(header), pretty(claims));
    for (name, meaning) in [("iat", "issued"), ("nbf", "valid from"), ("exp", "expires")] {
        if let Some(time) = claims.get(name).and_then(Value::as_f64) {
            text.push_str(&format!("{meaning} {}\n", when(time as i64, now)));
        }
    }
    text.push_str(&match verdict {
        None => "not verified: no key was given\n".to_owned(),
        Some(Ok(())) => "verified: signature, expiry and start time are valid\n".to_owned(),
        Some(Err(problem)) => format!("not valid: {problem}\n"),
    });
    text
}

/// `2026-11-21T10:00:00Z (59 minutes ago)`.
fn when(seconds: i64, now: jiff::Timestamp) -> String {
    let Ok(time) = jiff::Timestamp::from_second(seconds) else {
        return format!("{seconds} (beyond any calendar)");
    };
    let distance = time.as_second() - now.as_second();
    let length = duration_in_words(distance.unsigned_abs());
    if distance < 0 { format!("{time} ({length} ago)") } else { format!("{time} (in {length})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_now() {
        let now = jiff::Timestamp::from_second(1_000_000).unwrap();
        assert_eq!(when(1_003_600, now), "1970-01-12T14:46:40Z (in 1 hour)");
        assert_eq!(when(999_990, now), "1970-01-12T13:46:30Z (10 seconds ago)");
        assert!(when(i64::MAX, now).contains("calendar"));
    }

    #[test]
    fn what_is_no_token_is_said() {
        assert!(parts("abc").unwrap_err().to_string().contains("1 parts"));
        assert!(parts("a.b.c").unwrap_err().to_string().contains("header"));
    }
}
