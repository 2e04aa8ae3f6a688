//! A certificate for development, created at the first start: `tls: self-signed`.
//!
//! It is stored in `<data>/tls/self-signed.crt` and `.key`; the folder has mode 0700 and the files
//! 0600. It is replaced if it cannot be read, if it does not have the name of this machine, and in
//! the last 30 of its 365 days.

use super::TlsError;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_config::secret_file;

const VALID_DAYS: i64 = 365;
const RENEW: Duration = Duration::from_secs(30 * 86_400);

/// The stored certificate, or a new one.
pub(super) fn load_or_make(data: &Path, now: SystemTime) -> Result<Arc<CertifiedKey>, TlsError> {
    let folder = data.join("tls");
    let names = names();
    if let Some(kept) = load(&folder, &names, now) {
        return Ok(Arc::new(kept));
    }
    let (certificate, key) = make(&names, now)?;
    prepare(&folder)?;
    write(&folder.join("self-signed.key"), key.serialize_pem().as_bytes())?;
    write(&folder.join("self-signed.crt"), certificate.pem().as_bytes())?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = aws_lc_rs::default_provider();
    Ok(Arc::new(CertifiedKey::from_der(vec![certificate.der().clone()], key, &provider)?))
}

/// The stored certificate, if it is complete, has these names, and is valid for a while.
fn load(folder: &Path, names: &[String], now: SystemTime) -> Option<CertifiedKey> {
    let read = |name| secret_file::read(&folder.join(name)).ok();
    let certificate = CertificateDer::from_pem_slice(&read("self-signed.crt")?).ok()?;
    let key = PrivateKeyDer::from_pem_slice(&read("self-signed.key")?).ok()?;
    let provider = aws_lc_rs::default_provider();
    let then = now.duration_since(UNIX_EPOCH).ok()?;
    for at in [then, then + RENEW] {
        is_valid(&certificate, names, UnixTime::since_unix_epoch(at))?;
    }
    // Fails if a crash left a key and a certificate that do not belong together.
    CertifiedKey::from_der(vec![certificate], key, &provider).ok()
}

/// Whether a self-signed certificate carries the names and holds at this time.
fn is_valid(certificate: &CertificateDer<'_>, names: &[String], at: UnixTime) -> Option<()> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let anchor = webpki::anchor_from_trusted_cert(certificate).ok()?;
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    let usage = webpki::KeyUsage::server_auth();
    parsed.verify_for_usage(algorithms, &[anchor], &[], at, usage, None, None).ok()?;
    for name in names {
        let name = name.as_str().try_into().ok()?;
        parsed.verify_is_valid_for_subject_name(&name).ok()?;
    }
    Some(())
}

fn make(names: &[String], now: SystemTime) -> Result<(rcgen::Certificate, KeyPair), TlsError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "weir self-signed");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = jiff::Timestamp::try_from(now)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .to_zoned(jiff::tz::TimeZone::UTC)
        .date();
    let day = |days: i64| {
        let date = today.saturating_add(jiff::Span::new().days(days));
        date_time_ymd(i32::from(date.year()), date.month() as u8, date.day() as u8)
    };
    // From yesterday, for clients whose clocks are behind.
    (params.not_before, params.not_after) = (day(-1), day(VALID_DAYS));
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?, key))
}

/// `localhost`, the loopback addresses and this machine's name.
fn names() -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    // Linux only; elsewhere the certificate is for loopback.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().to_ascii_lowercase();
    let is_dns_name = rustls_pki_types::DnsName::try_from(host.as_str()).is_ok();
    if is_dns_name && !names.contains(&host) {
        names.push(host);
    }
    names
}

fn prepare(folder: &Path) -> Result<(), TlsError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        // It may have been there with another mode.
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o700)))
        .map_err(|source| TlsError::File { path: folder.to_owned(), source })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), TlsError> {
    secret_file::replace(path, bytes)
        .map_err(|source| TlsError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("is there").permissions().mode() & 0o777
    }

    fn now() -> SystemTime {
        SystemTime::now()
    }

    #[test]
    fn it_is_made_once_and_kept_privately() {
        let data = tempfile::tempdir().expect("a folder");
        let first = load_or_make(data.path(), now()).expect("made");
        let folder = data.path().join("tls");
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("self-signed.key")), 0o600);
        assert_eq!(mode(&folder.join("self-signed.crt")), 0o600);
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
        let second = load_or_make(data.path(), now() + 300 * DAY).expect("kept");
        assert_eq!(first.cert, second.cert);
    }

    #[test]
    fn it_carries_every_name_and_works() {
        let (certificate, _) = make(&names(), now()).expect("made");
        let at = now().duration_since(UNIX_EPOCH).expect("after 1970");
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        assert!(is_valid(certificate.der(), &names, UnixTime::since_unix_epoch(at)).is_some());
        let other = ["example.com".to_owned()];
        assert!(is_valid(certificate.der(), &other, UnixTime::since_unix_epoch(at)).is_none());
    }

    #[test]
    fn it_is_made_anew_when_it_is_near_its_end_or_broken() {
        let data = tempfile::tempdir().expect("a folder");
        let first = load_or_make(data.path(), now()).expect("made");
        let second = load_or_make(data.path(), now() + 340 * DAY).expect("renewed");
        assert_ne!(first.cert, second.cert);

        let key = data.path().join("tls/self-signed.key");
        let other = KeyPair::generate().expect("a key");
        for broken in [b"no key".to_vec(), other.serialize_pem().into_bytes()] {
            let before = load_or_make(data.path(), now() + 340 * DAY).expect("kept");
            fs::write(&key, broken).expect("written");
            let after = load_or_make(data.path(), now() + 340 * DAY).expect("renewed");
            assert_ne!(before.cert, after.cert);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_told() {
        let data = tempfile::NamedTempFile::new().expect("a file");
        let error = load_or_make(data.path(), now()).expect_err("a file is no folder");
        assert!(error.to_string().contains("tls"), "{error}");
    }
}
