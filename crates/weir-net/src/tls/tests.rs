use super::*;
use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};
use rustls::client::{ClientConnection, Resumption};
use rustls::{ClientConfig, HandshakeKind, RootCertStore, ServerConnection};
use rustls_pki_types::{PrivateKeyDer, ServerName};

fn certificate(names: &[&str], algorithm: &'static SignatureAlgorithm) -> Arc<CertifiedKey> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let key = KeyPair::generate_for(algorithm).expect("a key");
    let made = CertificateParams::new(names).expect("names").self_signed(&key).expect("signed");
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = aws_lc_rs::default_provider();
    Arc::new(CertifiedKey::from_der(vec![made.der().clone()], key, &provider).expect("a pair"))
}

fn ec(names: &[&str]) -> Arc<CertifiedKey> {
    certificate(names, &rcgen::PKCS_ECDSA_P256_SHA256)
}

fn server(certificates: &[&Arc<CertifiedKey>], previous: Option<&ServerTls>) -> ServerTls {
    let certificates = certificates.iter().map(|c| Arc::clone(c)).collect();
    ServerTls::of(certificates, None, previous).expect("a server")
}

/// A client that trusts these certificates and remembers sessions.
fn client(trusted: &[&Arc<CertifiedKey>], alpn: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in trusted {
        roots.add(certificate.cert[0].clone()).expect("a root");
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    config.resumption = Resumption::in_memory_sessions(16);
    Arc::new(config)
}

/// A handshake in memory; gives the client's side of it.
fn shake(
    client: &Arc<ClientConfig>,
    server: &ServerTls,
    name: &str,
) -> Result<ClientConnection, rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client), name)?;
    let mut server = ServerConnection::new(Arc::clone(server.config()))?;
    for _ in 0..8 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory");
        }
        let mut wire = &wire[..];
        while !wire.is_empty() {
            server.read_tls(&mut wire).expect("memory");
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).expect("memory");
        }
        let mut wire = &wire[..];
        while !wire.is_empty() {
            client.read_tls(&mut wire).expect("memory");
            client.process_new_packets()?;
        }
    }
    assert!(!client.is_handshaking());
    Ok(client)
}

fn presented(client: &Arc<ClientConfig>, server: &ServerTls, name: &str) -> Vec<u8> {
    let client = shake(client, server, name).expect("a handshake");
    client.peer_certificates().expect("certificates")[0].to_vec()
}

#[test]
fn the_name_chooses_exact_before_wildcard_before_the_first() {
    let (first, wild, exact) =
        (ec(&["first.example"]), ec(&["*.shop.example"]), ec(&["eu.Shop.example"]));
    let resolver = BySni::new(&[first.clone(), wild.clone(), exact.clone()]).expect("a resolver");
    for (name, expected) in [
        (None, &first),
        (Some("first.example"), &first),
        (Some("unheard.example"), &first),
        (Some("shop.example"), &first),
        (Some("us.shop.example"), &wild),
        (Some("US.SHOP.example"), &wild),
        (Some("a.us.shop.example"), &first),
        (Some("eu.shop.example"), &exact),
    ] {
        let found = resolver.find(name, &[SignatureScheme::ECDSA_NISTP256_SHA256]);
        assert!(Arc::ptr_eq(found, expected), "{name:?}");
    }
}

#[test]
fn of_two_kinds_of_key_the_client_gets_one_it_can_verify() {
    let (p384, p256) =
        (certificate(&["a.example"], &rcgen::PKCS_ECDSA_P384_SHA384), ec(&["a.example"]));
    let resolver = BySni::new(&[p384.clone(), p256.clone()]).expect("a resolver");
    let with = |scheme| resolver.find(Some("a.example"), &[scheme]);
    assert!(Arc::ptr_eq(with(SignatureScheme::ECDSA_NISTP256_SHA256), &p256));
    assert!(Arc::ptr_eq(with(SignatureScheme::ECDSA_NISTP384_SHA384), &p384));
    assert!(Arc::ptr_eq(with(SignatureScheme::RSA_PKCS1_SHA1), &p384));
}

#[test]
fn handshakes_present_the_right_certificate_and_agree_on_a_protocol() {
    let (a, b) = (ec(&["a.example"]), ec(&["b.example"]));
    let server = server(&[&a, &b], None);
    let both = client(&[&a, &b], &[b"http/1.1", b"h2"]);
    assert_eq!(presented(&both, &server, "a.example"), a.cert[0].to_vec());
    assert_eq!(presented(&both, &server, "b.example"), b.cert[0].to_vec());
    let shaken = shake(&both, &server, "a.example").expect("a handshake");
    assert_eq!(shaken.alpn_protocol(), Some(&b"h2"[..]), "the server prefers HTTP/2");
    let old = client(&[&a], &[b"http/1.1"]);
    assert_eq!(
        shake(&old, &server, "a.example").expect("a handshake").alpn_protocol(),
        Some(&b"http/1.1"[..])
    );
}

fn kind(client: &Arc<ClientConfig>, server: &ServerTls) -> Option<HandshakeKind> {
    shake(client, server, "a.example").expect("a handshake").handshake_kind()
}

#[test]
fn sessions_resume_over_a_reload_that_changes_nothing() {
    let a = ec(&["a.example"]);
    let first = server(&[&a], None);
    let client = client(&[&a], &[]);
    assert_eq!(kind(&client, &first), Some(HandshakeKind::Full));
    assert_eq!(kind(&client, &first), Some(HandshakeKind::Resumed));
    // Parsed again from the same file.
    let same = Arc::new(CertifiedKey::new(a.cert.clone(), Arc::clone(&a.key)));
    let reloaded = server(&[&same], Some(&first));
    assert_eq!(kind(&client, &reloaded), Some(HandshakeKind::Resumed));
}

#[test]
fn a_new_certificate_is_seen_by_everybody() {
    let (old, new) = (ec(&["a.example"]), ec(&["a.example"]));
    let first = server(&[&old], None);
    let client = client(&[&old, &new], &[]);
    assert_eq!(kind(&client, &first), Some(HandshakeKind::Full));
    let second = server(&[&new], Some(&first));
    assert_eq!(kind(&client, &second), Some(HandshakeKind::Full));
    assert_eq!(presented(&client, &second, "a.example"), new.cert[0].to_vec());
}

#[test]
fn a_self_signed_listener_works_on_loopback_addresses() {
    let data = tempfile::tempdir().expect("a folder");
    let server =
        ServerTls::new(&Tls::SelfSigned, None, &Certificates::default(), data.path(), None)
            .expect("a server");
    let client = client(&[&server.certificates[0]], &[]);
    for name in ["localhost", "127.0.0.1", "::1"] {
        shake(&client, &server, name).expect("a handshake");
    }
    let reloaded = ServerTls::new(
        &Tls::SelfSigned,
        None,
        &Certificates::default(),
        data.path(),
        Some(&server),
    )
    .expect("a server");
    assert!(Arc::ptr_eq(server.config(), reloaded.config()));
}

#[test]
fn no_certificate_is_an_error() {
    let none = Certificates::default();
    let result =
        ServerTls::new(&Tls::Certificates(vec![]), None, &none, Path::new("/nowhere"), None);
    assert!(matches!(result, Err(TlsError::Empty)));
}

#[test]
fn a_certificate_says_its_name_and_its_end() {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    let made = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        params.distinguished_name.push(rcgen::DnType::CommonName, "someone");
        params.self_signed(&key).expect("signed").der().to_vec()
    };
    let end = 1_893_456_000;
    let named = expiration(&made(&["example.com", "other.example.com"]));
    assert_eq!(named, Some(("example.com".to_owned(), end)));
    let (name, found) = expiration(&made(&[])).expect("a certificate without names");
    assert!(name.contains("someone") && found == end, "{name}");
    assert_eq!(expiration(b"no certificate"), None);
}
