//! SCRAM (RFC 5802, RFC 7677) as a client, without channel binding.

use aws_lc_rs::hmac::{self, Key};
use aws_lc_rs::{constant_time, digest, pbkdf2, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::num::NonZeroU32;

/// Fewest iterations that are accepted (RFC 7677 section 4).
const MIN_ITERATIONS: u32 = 4_096;
/// Most iterations that are accepted: about a second on the thread that ships.
const MAX_ITERATIONS: u32 = 1_000_000;
/// Bytes of the nonce.
const NONCE_BYTES: usize = 24;
/// The channel binding "none": `n,,` in base64.
const CHANNEL_BINDING: &str = "c=biws";

/// The hash of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }
}

/// An exchange after its first message.
pub(crate) struct Exchange {
    hash: Hash,
    nonce: String,
    client_first_bare: String,
}

/// The signature that the server has to send at the end.
pub(crate) struct ServerSignature(Vec<u8>);

/// Begins an exchange; returns it and the first message of the client.
pub(crate) fn begin(hash: Hash, user: &str) -> (Exchange, String) {
    let mut nonce = [0; NONCE_BYTES];
    // Without randomness no TLS connection would have been opened either.
    rand::fill(&mut nonce).expect("the system has random numbers");
    with_nonce(hash, user, STANDARD.encode(nonce))
}

fn with_nonce(hash: Hash, user: &str, nonce: String) -> (Exchange, String) {
    let user = user.replace('=', "=3D").replace(',', "=2C");
    let client_first_bare = format!("n={user},r={nonce}");
    let first = format!("n,,{client_first_bare}");
    (Exchange { hash, nonce, client_first_bare }, first)
}

impl Exchange {
    /// Answers the first message of the server with the proof; returns the signature to be expected.
    ///
    /// # Errors
    /// The message is not that of a server of this exchange.
    pub(crate) fn prove(
        &self,
        server_first: &str,
        password: &str,
    ) -> Result<(String, ServerSignature), &'static str> {
        let value = |name: &str| {
            let mut fields = server_first.split(',');
            fields.find_map(|field| field.strip_prefix(name))
        };
        let nonce = value("r=").ok_or("no nonce in the first message of the server")?;
        // Otherwise an attacker could have the proof of another exchange repeated.
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the nonce of the server does not continue that of weir");
        }
        let salt = value("s=").and_then(|salt| STANDARD.decode(salt).ok()).ok_or("no salt")?;
        let iterations = value("i=").and_then(|count| count.parse().ok()).ok_or("no iterations")?;
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            return Err("the number of iterations is not between 4,096 and 1,000,000");
        }
        let iterations = NonZeroU32::new(iterations).ok_or("no iterations")?;

        let mut salted = vec![0; self.hash.digest().output_len()];
        let of = self.hash.pbkdf2();
        pbkdf2::derive(of, iterations, &salt, password.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&Key::new(self.hash.hmac(), key), text);
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(self.hash.digest(), client_key.as_ref());
        let without_proof = format!("{CHANNEL_BINDING},r={nonce}");
        let message = format!("{},{server_first},{without_proof}", self.client_first_bare);
        let signature = sign(stored_key.as_ref(), message.as_bytes());
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, signature)| key ^ signature).collect();

        let server_key = sign(&salted, b"Server Key");
        let server = sign(server_key.as_ref(), message.as_bytes()).as_ref().to_vec();
        Ok((format!("{without_proof},p={}", STANDARD.encode(proof)), ServerSignature(server)))
    }
}

impl ServerSignature {
    /// Whether the last message of the server proves that it knows the password.
    pub(crate) fn is_in(&self, server_final: &str) -> bool {
        let signature = server_final.split(',').find_map(|field| field.strip_prefix("v="));
        let signature = signature.and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
        constant_time::verify_slices_are_equal(&signature, &self.0).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677 section 3.
    #[test]
    fn the_exchange_is_that_of_the_rfc() {
        let (exchange, first) = with_nonce(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(first, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server_first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (proof, signature) = exchange.prove(server_first, "pencil").unwrap();
        assert_eq!(
            proof,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(signature.is_in("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!signature.is_in("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="));
        assert!(!signature.is_in("e=invalid-proof") && !signature.is_in(""));
    }

    #[test]
    fn a_server_of_another_exchange_gets_no_proof() {
        let (exchange, first) = with_nonce(Hash::Sha512, "a=b,c", "abc".to_owned());
        assert_eq!(first, "n,,n=a=3Db=2Cc,r=abc");
        for message in [
            "",
            "r=abc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=xyz1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=abc1,s=***,i=4096",
            "r=abc1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
            "r=abc1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4000000000",
            "r=abc1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1",
        ] {
            assert!(exchange.prove(message, "secret").is_err(), "{message}");
        }
    }
}
