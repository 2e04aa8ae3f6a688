//! Files that the reader of a page has already.

use crate::harness::weir;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use std::fs;
use std::path::Path;

/// Creates a file or folder of a kind that its name says.
pub(super) fn create(folder: &Path, name: &str) {
    let path = folder.join(name);
    if path.exists() {
        return;
    }
    if name.ends_with('/') {
        fs::create_dir_all(path).unwrap();
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if matches!(extension, "crt" | "key" | "crl") {
        authority(&path);
    } else if name.ends_with("jwks.json") {
        let made = weir(folder, &["jwt", "keypair", ".given-keys"]);
        assert!(made.status.success(), "{made:?}");
        fs::copy(folder.join(".given-keys/jwks.json"), &path).unwrap();
    } else if name.ends_with(".openapi.yaml") {
        fs::copy(super::root().join("examples/openapi/orders.openapi.yaml"), &path).unwrap();
    } else {
        fs::write(&path, "given\n").unwrap();
    }
}

/// A certificate that is its own authority, its key, and its list of revoked certificates: none.
fn authority(path: &Path) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::CrlSign,
    ];
    let certificate = params.self_signed(&key).unwrap();
    fs::write(path.with_extension("crt"), certificate.pem()).unwrap();
    fs::write(path.with_extension("key"), key.serialize_pem()).unwrap();
    let revoked = CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        next_update: date_time_ymd(2124, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let revoked = revoked.signed_by(&Issuer::new(params, key)).unwrap();
    fs::write(path.with_extension("crl"), revoked.pem().unwrap()).unwrap();
}
