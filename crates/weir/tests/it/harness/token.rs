//! Tokens signed by OpenSSL, so that a slip in weir's own signing cannot hide one in its checking.

use super::process::run;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// A shared secret for HS256.
pub(crate) const SECRET: &str = "a shared secret of more than thirty-two bytes";

/// One key of each kind, and a second RSA key that nobody is told of.
pub(crate) struct Keys {
    rsa: Pair,
    other_rsa: Pair,
    ec: Pair,
    ed: Pair,
}

/// A key pair in PEM.
pub(crate) struct Pair {
    private: String,
    /// What weir gets.
    pub(crate) public: String,
}

/// Made once a run: RSA keys take their time.
pub(crate) static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys {
    rsa: Pair::make(&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
    other_rsa: Pair::make(&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
    ec: Pair::make(&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ed: Pair::make(&["-algorithm", "ED25519"]),
});

impl Pair {
    fn make(args: &[&str]) -> Self {
        let private = run(openssl().arg("genpkey").args(args), b"");
        let public = run(openssl().args(["pkey", "-pubout"]), &private);
        let text = |bytes| String::from_utf8(bytes).expect("PEM is text");
        Self { private: text(private), public: text(public) }
    }

    /// The end of its SubjectPublicKeyInfo, where the point of a curve is.
    fn public_tail(&self, length: usize) -> Vec<u8> {
        let der =
            run(openssl().args(["pkey", "-pubin", "-outform", "DER"]), self.public.as_bytes());
        der[der.len() - length..].to_vec()
    }
}

impl Keys {
    /// The key that an algorithm signs with.
    pub(crate) fn of(&self, algorithm: &str) -> &Pair {
        match algorithm {
            "RS256" | "PS256" => &self.rsa,
            "ES256" => &self.ec,
            "EdDSA" => &self.ed,
            other => panic!("no key pair for {other}"),
        }
    }

    /// The JSON Web Key of an algorithm (RFC 7517, 7518, 8037), named like it.
    pub(crate) fn jwk(&self, algorithm: &str) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match algorithm {
            "HS256" => {
                json!({"kty": "oct", "kid": "HS256", "alg": "HS256", "k": encode(SECRET.as_bytes())})
            }
            "RS256" | "PS256" => {
                let args = ["rsa", "-pubin", "-noout", "-modulus"];
                let printed = run(openssl().args(args), self.rsa.public.as_bytes());
                let printed = String::from_utf8(printed).expect("hexadecimal digits");
                let n = unhex(printed.trim().strip_prefix("Modulus=").expect("a modulus"));
                json!({"kty": "RSA", "kid": algorithm, "alg": algorithm, "n": encode(&n), "e": "AQAB"})
            }
            "ES256" => {
                let point = self.ec.public_tail(64);
                let (x, y) = point.split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": "ES256", "x": encode(x), "y": encode(y)})
            }
            "EdDSA" => {
                let x = self.ed.public_tail(32);
                json!({"kty": "OKP", "crv": "Ed25519", "kid": "EdDSA", "x": encode(&x)})
            }
            other => panic!("no key for {other}"),
        }
    }

    /// A set of these keys.
    pub(crate) fn jwks(&self, algorithms: &[&str]) -> String {
        let keys: Vec<Value> = algorithms.iter().map(|algorithm| self.jwk(algorithm)).collect();
        json!({ "keys": keys }).to_string()
    }

    /// A token without `kid`.
    pub(crate) fn token(&self, algorithm: &str, claims: &Value) -> String {
        self.token_with(&json!({"alg": algorithm, "typ": "JWT"}), claims)
    }

    /// A token with this header, signed as it says.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let algorithm = header["alg"].as_str().expect("an algorithm");
        let message = message(header, claims);
        let signature = match algorithm {
            "HS256" => hmac(SECRET.as_bytes(), message.as_bytes()),
            algorithm => sign(algorithm, &self.of(algorithm).private, message.as_bytes()),
        };
        join(&message, &signature)
    }

    /// An RS256 token signed with the key that nobody is told of.
    pub(crate) fn forged(&self, claims: &Value) -> String {
        let message = message(&json!({"alg": "RS256"}), claims);
        join(&message, &sign("RS256", &self.other_rsa.private, message.as_bytes()))
    }

    /// A token that takes the public RSA key for a shared secret (RFC 8725 section 2.1).
    pub(crate) fn confused(&self, claims: &Value) -> String {
        let message = message(&json!({"alg": "HS256"}), claims);
        join(&message, &hmac(self.rsa.public.as_bytes(), message.as_bytes()))
    }
}

/// A token with this header and signature (in Base64), whatever they are.
pub(crate) fn unsigned(header: &Value, claims: &Value, signature: &str) -> String {
    format!("{}.{signature}", message(header, claims))
}

/// An API key as the configuration has it.
pub(crate) fn key_hash(key: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
    let digits: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// Seconds since 1970.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn message(header: &Value, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

fn join(message: &str, signature: &[u8]) -> String {
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn openssl() -> Command {
    Command::new("openssl")
}

fn hmac(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = format!("hexkey:{hex}");
    run(openssl().args(["dgst", "-sha256", "-binary", "-mac", "HMAC", "-macopt", &key]), message)
}

fn sign(algorithm: &str, private: &str, message: &[u8]) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).expect("the folder is writable");
        path
    };
    let key = write("key.pem", private.as_bytes());
    let digest = |options: &[&str]| {
        let mut command = openssl();
        command.args(["dgst", "-sha256", "-binary"]).args(options).arg("-sign").arg(&key);
        run(&mut command, message)
    };
    match algorithm {
        "RS256" => digest(&[]),
        "PS256" => digest(&["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32"]),
        "ES256" => raw_signature(&digest(&[])),
        "EdDSA" => {
            let message = write("message", message);
            let mut command = openssl();
            command.args(["pkeyutl", "-sign", "-rawin", "-inkey"]).arg(&key);
            run(command.arg("-in").arg(message), b"")
        }
        other => panic!("{other} is not signed with a private key"),
    }
}

/// The two numbers of an ECDSA signature in DER, each of 32 bytes (RFC 7518 section 3.4).
fn raw_signature(der: &[u8]) -> Vec<u8> {
    let mut rest = &der[2..];
    let mut out = Vec::new();
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let number = &rest[2..2 + length];
        // A leading zero keeps a number positive; short numbers have lost theirs.
        let digits = &number[number.len().saturating_sub(32)..];
        out.resize(out.len() + 32 - digits.len(), 0);
        out.extend_from_slice(digits);
        rest = &rest[2 + length..];
    }
    out
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16);
    (0..text.len()).step_by(2).map(|at| digits(at).expect("two digits")).collect()
}
