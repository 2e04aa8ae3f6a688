//! Client certificates (mTLS), parsed once per connection (RFC 5280).
//!
//! The TLS handshake (the verifier of the listener) verifies a certificate; this module finds its owner.
//! Validity is checked again with every request: connections outlive certificates.

use super::FailureKind;
use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use weir_config::CertificateName;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Most names of a kind that are read.
const NAMES: usize = 64;

/// The owner of a client certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// SHA-256 of the whole certificate.
    pub(super) fingerprint: [u8; 32],
    /// An object: see [`Certificate::read`].
    pub(super) claims: Value,
    /// The first second since 1970 at which it is no longer valid.
    expires: u64,
}

impl Certificate {
    /// Parses a certificate (DER); `None` if it is malformed.
    pub fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        let common_name = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
        let (mut dns, mut uri, mut email) = (Vec::new(), Vec::new(), Vec::new());
        let names = certificate.subject_alternative_name().ok().flatten();
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            let (list, text) = match name {
                GeneralName::DNSName(text) => (&mut dns, text),
                GeneralName::URI(text) => (&mut uri, text),
                GeneralName::RFC822Name(text) => (&mut email, text),
                _ => continue,
            };
            if list.len() < NAMES {
                list.push(*text);
            }
        }
        let hash = digest::digest(&digest::SHA256, der);
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(hash.as_ref());
        let validity = certificate.validity();
        let (from, to) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        let claims = json!({
            "subject": subject.to_string(),
            "common_name": common_name,
            "issuer": certificate.issuer().to_string(),
            "serial": HEXLOWER.encode(certificate.raw_serial()),
            "fingerprint": HEXLOWER.encode(&fingerprint),
            "dns": dns,
            "uri": uri,
            "email": email,
            "not_before": from,
            "not_after": to,
        });
        // The second `not_after` is the last one that it holds (RFC 5280 section 4.1.2.5).
        let expires = u64::try_from(to).unwrap_or_default().saturating_add(1);
        Some(Self { fingerprint, claims, expires })
    }

    /// The name of the owner, and the second at which the certificate expires.
    pub(super) fn owner(
        &self,
        name: CertificateName,
        now: u64,
    ) -> Result<(String, u64), FailureKind> {
        if now >= self.expires {
            return Err(FailureKind::CertificateExpired);
        }
        let first = |list: &str| self.claims[list].get(0).and_then(Value::as_str);
        let found = match name {
            CertificateName::Subject => self.claims["subject"].as_str(),
            CertificateName::CommonName => self.claims["common_name"].as_str(),
            CertificateName::Dns => first("dns"),
            CertificateName::Uri => first("uri"),
            CertificateName::Email => first("email"),
        };
        let found = found.filter(|name| !name.is_empty()).ok_or(FailureKind::CertificateName)?;
        Ok((found.to_owned(), self.expires))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn certificate(named: bool) -> Certificate {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        if named {
            params.distinguished_name.push(DnType::CommonName, "billing");
            params.distinguished_name.push(DnType::OrganizationName, "Acme");
            params.subject_alt_names = vec![
                SanType::DnsName("a.example.com".try_into().unwrap()),
                SanType::DnsName("b.example.com".try_into().unwrap()),
                SanType::URI("spiffe://acme/billing".try_into().unwrap()),
                SanType::Rfc822Name("ops@example.com".try_into().unwrap()),
            ];
        } else {
            params.distinguished_name = rcgen::DistinguishedName::new();
        }
        let key = KeyPair::generate().unwrap();
        Certificate::read(params.self_signed(&key).unwrap().der()).expect("a certificate")
    }

    #[test]
    fn its_owner_has_the_name_that_is_asked_for() {
        let names = [
            (CertificateName::CommonName, "billing"),
            (CertificateName::Dns, "a.example.com"),
            (CertificateName::Uri, "spiffe://acme/billing"),
            (CertificateName::Email, "ops@example.com"),
        ];
        for (name, owner) in names {
            assert_eq!(certificate(true).owner(name, 0).unwrap().0, owner);
            assert_eq!(certificate(false).owner(name, 0), Err(FailureKind::CertificateName));
        }
        let (subject, expires) = certificate(true).owner(CertificateName::Subject, 0).unwrap();
        assert!(subject.contains("CN=billing") && subject.contains("O=Acme"), "{subject}");
        assert_eq!(expires, 1_893_456_001);
    }

    #[test]
    fn after_its_time_it_is_nobodys() {
        let certificate = certificate(true);
        assert!(certificate.owner(CertificateName::Dns, 1_893_456_000).is_ok());
        let late = certificate.owner(CertificateName::Dns, 1_893_456_001);
        assert_eq!(late, Err(FailureKind::CertificateExpired));
    }

    #[test]
    fn what_is_no_certificate_is_none() {
        assert_eq!(Certificate::read(b""), None);
        assert_eq!(Certificate::read(&[0x30, 0x82, 0xff, 0xff, 0x30]), None);
    }
}
