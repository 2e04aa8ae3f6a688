//! The state of a sign-in between its start and the return from the provider: sealed in a cookie of the
//! browser (AES-256-GCM), with a key of this process.

use crate::tokens::TokenError;
use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use weir_store::clock;

/// Time for which somebody may be at the provider, in seconds.
pub(crate) const MAX_AGE_SECONDS: u64 = 600;
/// Separates this use of the key from others.
const CONTEXT: &[u8] = b"weir-oidc-sign-in-1";
/// Length of a nonce of AES-GCM in bytes.
const NONCE_BYTES: usize = 12;

/// A sign-in that has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignIn {
    /// Parameter `state`.
    pub(crate) state: String,
    /// Claim `nonce` of the ID token.
    pub(crate) nonce: String,
    /// Verifier of PKCE.
    pub(crate) verifier: String,
    /// Redirect URI, for the exchange of the code.
    pub(crate) redirect_uri: String,
    /// The provider that the browser was sent to.
    pub(crate) issuer: String,
    /// Path of the console to return to.
    pub(crate) from: String,
    /// When it started, in seconds since 1970.
    pub(crate) at: u64,
}

/// Seals and opens sign-ins.
pub(crate) struct Sealer(RandomizedNonceKey);

impl Sealer {
    /// With a new key: a restart ends sign-ins that have started.
    pub(crate) fn new() -> Result<Self, TokenError> {
        let mut key = [0; 32];
        rand::fill(&mut key).map_err(|_| TokenError::Random)?;
        let key = RandomizedNonceKey::new(&AES_256_GCM, &key).map_err(|_| TokenError::Random)?;
        Ok(Self(key))
    }

    /// The value of a cookie.
    pub(crate) fn seal(&self, sign_in: &SignIn) -> Result<String, TokenError> {
        let mut bytes = serde_json::to_vec(sign_in).map_err(|_| TokenError::Random)?;
        let nonce = self.0.seal_in_place_append_tag(Aad::from(CONTEXT), &mut bytes);
        let nonce = nonce.map_err(|_| TokenError::Random)?;
        let sealed = [nonce.as_ref().as_slice(), &bytes].concat();
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// The sign-in in a cookie, unless it is too old or not from this process.
    pub(crate) fn open(&self, cookie: &str) -> Option<SignIn> {
        let sealed = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (nonce, bytes) = sealed.split_at_checked(NONCE_BYTES)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = bytes.to_vec();
        let opened = self.0.open_in_place(nonce, Aad::from(CONTEXT), &mut bytes).ok()?;
        let sign_in: SignIn = serde_json::from_slice(opened).ok()?;
        let age = clock::now().as_secs().checked_sub(sign_in.at)?;
        (age <= MAX_AGE_SECONDS).then_some(sign_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_process_opens_a_sign_in_and_not_for_long() {
        let text = |text: &str| text.to_owned();
        let sign_in = SignIn {
            state: text("s"),
            nonce: text("n"),
            verifier: text("v"),
            redirect_uri: text("r"),
            issuer: text("i"),
            from: text("/console/"),
            at: clock::now().as_secs(),
        };
        let sealer = Sealer::new().unwrap();
        let cookie = sealer.seal(&sign_in).unwrap();
        assert_eq!(sealer.open(&cookie), Some(sign_in.clone()));
        assert_eq!(Sealer::new().unwrap().open(&cookie), None);
        let mut changed = cookie.clone().into_bytes();
        changed[30] ^= 1;
        assert_eq!(sealer.open(std::str::from_utf8(&changed).unwrap()), None);
        assert_eq!((sealer.open(""), sealer.open("AAAA")), (None, None));
        for at in [sign_in.at - MAX_AGE_SECONDS - 1, sign_in.at + 60] {
            let other = sealer.seal(&SignIn { at, ..sign_in.clone() }).unwrap();
            assert_eq!(sealer.open(&other), None, "{at}");
        }
    }
}
