//! `weir jwt keypair`: a private key and the JWKS that verifies its tokens.

use crate::output;
use anyhow::{Context, anyhow, bail};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Arguments of `weir jwt keypair`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Writes DIR/key.pem (mode 0600) and DIR/jwks.json; the `kid` is the key's RFC \
        7638 thumbprint. Existing files are never overwritten.\n\n\
    Examples:\n  weir jwt keypair keys\n  weir jwt mint --key keys/key.pem --sub me --exp 1h"
)]
pub(crate) struct Args {
    /// Folder for `key.pem` and `jwks.json`; created if missing
    dir: PathBuf,
    /// Signature algorithm
    #[arg(long, value_enum, default_value_t = Kind::Rs256)]
    alg: Kind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// RSA, 2048 bits
    #[value(name = "RS256")]
    Rs256,
    /// Elliptic curve P-256
    #[value(name = "ES256")]
    Es256,
    /// Elliptic curve P-384
    #[value(name = "ES384")]
    Es384,
    /// Ed25519
    #[value(name = "EdDSA")]
    EdDsa,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let der = generate(args.alg).map_err(|_| anyhow!("the key cannot be created"))?;
    let pem = pem(&der);
    let jwks = serde_json::to_string_pretty(&jwks(args.alg, pem.as_bytes())?)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&args.dir)
        .with_context(|| format!("cannot create {}", args.dir.display()))?;
    let (key_path, jwks_path) = (args.dir.join("key.pem"), args.dir.join("jwks.json"));
    if jwks_path.exists() {
        bail!("{} exists and is not overwritten", jwks_path.display());
    }
    create(&key_path, 0o600, &pem)?;
    create(&jwks_path, 0o644, &format!("{jwks}\n"))?;
    output::line(&format!("{}\n{}", key_path.display(), jwks_path.display()));
    Ok(())
}

/// A new private key, PKCS#8 in DER.
fn generate(kind: Kind) -> Result<Vec<u8>, aws_lc_rs::error::Unspecified> {
    let ecdsa = |algorithm| EcdsaKeyPair::generate(algorithm)?.to_pkcs8v1();
    Ok(match kind {
        Kind::Rs256 => {
            let pair = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048)?;
            AsDer::<Pkcs8V1Der<'_>>::as_der(&pair)?.as_ref().to_vec()
        }
        Kind::Es256 => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING)?.as_ref().to_vec(),
        Kind::Es384 => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING)?.as_ref().to_vec(),
        Kind::EdDsa => Ed25519KeyPair::generate()?.to_pkcs8v1()?.as_ref().to_vec(),
    })
}

/// PEM of a private key (RFC 7468: 64 characters a line).
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|&byte| char::from(byte)));
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    pem
}

fn jwks(kind: Kind, pem: &[u8]) -> anyhow::Result<JwkSet> {
    let (key, algorithm) = match kind {
        Kind::Rs256 => (EncodingKey::from_rsa_pem(pem)?, Algorithm::RS256),
        Kind::Es256 => (EncodingKey::from_ec_pem(pem)?, Algorithm::ES256),
        Kind::Es384 => (EncodingKey::from_ec_pem(pem)?, Algorithm::ES384),
        Kind::EdDsa => (EncodingKey::from_ed_pem(pem)?, Algorithm::EdDSA),
    };
    let mut jwk = Jwk::from_encoding_key(&key, algorithm)?;
    jwk.common.key_id = Some(jwk.thumbprint(ThumbprintHash::SHA256)?);
    jwk.common.public_key_use = Some(PublicKeyUse::Signature);
    Ok(JwkSet { keys: vec![jwk] })
}

fn create(path: &Path, mode: u32, content: &str) -> anyhow::Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| file.write_all(content.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}
