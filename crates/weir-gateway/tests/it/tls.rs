//! Certificates, with ones made for the test.

use std::path::Path;
use weir_config::{AuthId, Source, Tls};
use weir_gateway::configuration::{Configuration, load};
use weir_model::UpstreamId;

struct Identity {
    cert: String,
    key: String,
}

fn identity(name: &str) -> Identity {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("certificate");
    Identity { cert: made.cert.pem(), key: made.signing_key.serialize_pem() }
}

fn folder(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("folder");
    let write = |name: &str, text: &str| {
        std::fs::write(Path::new(folder.path()).join(name), text).expect("writable");
    };
    write("weir.yaml", text);
    for name in ["a", "b"] {
        let made = identity(&format!("{name}.example.com"));
        write(&format!("{name}.crt"), &made.cert);
        write(&format!("{name}.key"), &made.key);
    }
    folder
}

fn load_folder(text: &str) -> Result<Configuration, Vec<(&'static str, usize)>> {
    let folder = folder(text);
    let source = Source { path: folder.path().to_owned(), ..Default::default() };
    load(&source).map_err(|f| f.list.iter().map(|f| (f.code, f.line)).collect())
}

#[test]
fn certificates_of_listeners_are_parsed_with_their_keys() {
    let Configuration { config, .. } = load_folder(
        "listen:\n  - {addr: '127.0.0.1:0', tls: {cert: 'file:a.crt', key: 'file:a.key'}}\n  - {addr: '127.0.0.1:0', tls: [{cert: 'file:a.crt', key: 'file:a.key'}, {cert: 'file:b.crt', key: 'file:b.key'}]}\n",
    )
    .expect("loads");
    let counts: Vec<usize> = config
        .listen
        .iter()
        .map(|l| match &l.tls {
            Some(Tls::Certificates(keys)) => keys.len(),
            _ => 0,
        })
        .collect();
    assert_eq!(counts, [1, 2]);
    assert_eq!(config.sources.len(), 5);
}

#[test]
fn a_key_of_another_certificate_is_a_finding() {
    let found = load_folder(
        "listen:\n  - addr: 127.0.0.1:0\n    tls:\n      {cert: 'file:a.crt', key: 'file:b.key'}\n",
    );
    assert_eq!(found.expect_err("refused"), [("bad-certificate", 4)]);
}

#[test]
fn upstreams_take_their_own_roots_and_a_client_certificate() {
    let Configuration { config, compiled, .. } = load_folder(
        "upstreams:\n  a:\n    targets: ['https://127.0.0.1:1']\n    tls: {ca: 'file:a.crt', cert: 'file:b.crt', key: 'file:b.key', server_name: a.example.com}\napis: {a: {base: /, routes: [{get: /, proxy: a}]}}\n",
    )
    .expect("loads");
    let client = compiled.upstream_clients.get(UpstreamId(0)).expect("TLS");
    assert_eq!(client.alpn_protocols, [b"http/1.1".to_vec()]);
    assert!(client.client_auth_cert_resolver.has_certs());
    assert!(config.upstreams[0].tls.as_ref().expect("TLS").server_name.is_some());
}

#[test]
fn a_client_certificate_needs_its_key() {
    let found = load_folder(
        "upstreams:\n  a:\n    targets: ['https://127.0.0.1:1']\n    tls: {ca: 'file:a.crt', cert: 'file:b.crt'}\napis: {a: {base: /, routes: [{get: /, proxy: a}]}}\n",
    );
    assert_eq!(found.expect_err("refused"), [("missing-key", 4)]);
}

#[test]
fn a_server_name_is_one_name() {
    let found = load_folder(
        "upstreams:\n  a:\n    targets: ['https://127.0.0.1:1']\n    tls: {ca: 'file:a.crt', server_name: '*.example.com'}\napis: {a: {base: /, routes: [{get: /, proxy: a}]}}\n",
    );
    assert_eq!(found.expect_err("refused"), [("bad-value", 4)]);
}

/// What is accepted at load must verify at run time: each kind of key, with a token signed by it.
#[test]
fn keys_of_every_family_verify() {
    use jsonwebtoken::{Algorithm, EncodingKey, Header, Validation, decode, encode};
    let secret = "0123456789abcdef0123456789abcdef";
    let ec = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("key");
    let ed = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("key");
    let folder = tempfile::tempdir().expect("folder");
    let mut text = String::from("auth:\n");
    for (name, algorithm, key) in [
        ("hs", "HS256", secret.to_owned() + "\n"),
        ("ec", "ES256", ec.public_key_pem()),
        ("ed", "EdDSA", ed.public_key_pem()),
    ] {
        std::fs::write(folder.path().join(name), key).expect("writable");
        text.push_str(&format!(
            "  {name}: {{jwt: {{algorithms: {algorithm}, key: 'file:{name}'}}}}\n"
        ));
    }
    std::fs::write(folder.path().join("weir.yaml"), text).expect("writable");
    let source = Source { path: folder.path().to_owned(), ..Default::default() };
    let loaded = load(&source).map_err(|f| f.render(false)).expect("loads");
    let signers = [
        (Algorithm::HS256, EncodingKey::from_secret(secret.as_bytes())),
        (Algorithm::ES256, EncodingKey::from_ec_pem(ec.serialize_pem().as_bytes()).expect("key")),
        (Algorithm::EdDSA, EncodingKey::from_ed_pem(ed.serialize_pem().as_bytes()).expect("key")),
    ];
    let claims = serde_json::json!({"sub": "x", "exp": 4_000_000_000u64});
    for (auth, (algorithm, signer)) in signers.iter().enumerate() {
        let keys = loaded.compiled.verification_keys.of(AuthId(auth));
        let token = encode(&Header::new(*algorithm), &claims, signer).expect("token");
        let verified =
            decode::<serde_json::Value>(&token, &keys[0].key, &Validation::new(*algorithm));
        assert!(verified.is_ok(), "{algorithm:?}: {verified:?}");
    }
}

/// Run by [`without_the_systems_roots_there_is_a_finding`] in a process of its own.
#[test]
#[ignore = "needs an environment without root certificates"]
fn child_without_roots() {
    let found = load_folder("upstreams:\n  a: {targets: ['https://127.0.0.1:1']}\n");
    assert_eq!(found.expect_err("refused"), [("no-roots", 2)]);
}

#[test]
fn without_the_systems_roots_there_is_a_finding() {
    let empty = tempfile::NamedTempFile::new().expect("file");
    let status = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "tls::child_without_roots", "--ignored"])
        .env("SSL_CERT_FILE", empty.path())
        .env_remove("SSL_CERT_DIR")
        .stdout(std::process::Stdio::null())
        .status()
        .expect("runs");
    assert!(status.success());
}
