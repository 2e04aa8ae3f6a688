//! Signature algorithms of tokens (RFC 7518 section 3.1, RFC 8037).

use strum::{EnumString, IntoStaticStr, VariantNames};
use weir_document::finding::{Fault, codes, nearest};

/// A signature algorithm, named as in `alg`.
#[expect(missing_docs, reason = "the names of RFC 7518")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
pub enum Algorithm {
    HS256,
    HS384,
    HS512,
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

/// The kind of key that an algorithm needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFamily {
    /// A shared secret.
    Hmac,
    /// An RSA key.
    Rsa,
    /// A key on a NIST elliptic curve.
    Ec,
    /// An Ed25519 key.
    Ed,
}

impl Algorithm {
    /// The algorithm of a name in a configuration.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        if text.eq_ignore_ascii_case("none") {
            return Err(Fault::value("tokens without a signature are never accepted")
                .code(codes::ALGORITHM_NONE)
                .help("set the algorithm of the issuer, for example `RS256`"));
        }
        text.parse().map_err(|_| {
            let near = nearest(text, Self::VARIANTS.iter().copied());
            Fault::value(format!("unsupported algorithm `{text}`")).help(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("one of {}", Self::VARIANTS.join(", ")),
            })
        })
    }

    /// The kind of key for this algorithm.
    #[must_use]
    pub fn family(self) -> KeyFamily {
        match self {
            Self::HS256 | Self::HS384 | Self::HS512 => KeyFamily::Hmac,
            Self::ES256 | Self::ES384 => KeyFamily::Ec,
            Self::EdDSA => KeyFamily::Ed,
            _ => KeyFamily::Rsa,
        }
    }
}
