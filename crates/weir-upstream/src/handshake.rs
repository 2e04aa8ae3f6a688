//! Why a TLS handshake with a target failed: the certificate, and the failed check.
//!
//! Clients see these texts: they contain the configured name of the upstream, and no address.

use rustls::{CertificateError, Error};
use std::io;

/// The reason, if the error is a TLS error.
pub(crate) fn failed_check(error: &io::Error, upstream: &str) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(why) => {
            format!("TLS: the certificate of the upstream `{upstream}` {}", check(why))
        }
        Error::AlertReceived(alert) => {
            format!("TLS: the upstream `{upstream}` ended the handshake with the alert {alert:?}")
        }
        other => format!("TLS: the handshake with the upstream `{upstream}` failed: {other}"),
    })
}

/// The failed check of a certificate, without its names and times.
fn check(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "is not valid for the host of the target"
        }
        CertificateError::UnknownIssuer => {
            "is not signed by a trusted authority (`tls: {ca: …}` of the upstream)"
        }
        CertificateError::Revoked => "has been revoked",
        CertificateError::BadSignature => "has an invalid signature",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not a server certificate"
        }
        CertificateError::BadEncoding => "cannot be read",
        _ => "is not acceptable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_check_is_named_and_other_errors_are_not_of_tls() {
        let of =
            |error: Error| failed_check(&io::Error::new(io::ErrorKind::InvalidData, error), "u");
        let expired = of(Error::InvalidCertificate(CertificateError::Expired)).expect("a reason");
        assert_eq!(expired, "TLS: the certificate of the upstream `u` has expired");
        let other = of(Error::NoCertificatesPresented).expect("a reason");
        assert!(other.starts_with("TLS: the handshake with the upstream `u` failed"), "{other}");
        assert_eq!(failed_check(&io::ErrorKind::ConnectionRefused.into(), "u"), None);
    }
}
