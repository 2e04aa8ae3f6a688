//! Keystore Configuration.

use super::*;
use crate::program::Keystore;
use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::sync::Arc;

const PASSWORD: &str = "s3cret";

/// The properties of a file.
fn of_file(file: &Path) -> Vec<(String, String)> {
    let file = file.to_str().expect("text").to_owned();
    [("keyStore", file), ("keyStorePassword", PASSWORD.to_owned())]
        .map(|(name, value)| (format!("javax.net.ssl.{name}"), value))
        .into()
}

fn options(keystore: &[(String, String)]) -> Options {
    let keystore = KeystoreProperties::new(keystore).expect("known properties");
    Options { keystore, ..Options::default() }
}

fn config([preload, alias, start, end]: [&str; 4]) -> String {
    let names = ["preload", "clientCertAliasVarName", "startIndex", "endIndex"];
    let values: Vec<(&str, &str)> = names.into_iter().zip([preload, alias, start, end]).collect();
    element("KeystoreConfig", &values)
}

/// The keystore of a plan with these elements, somewhere in it.
fn keystore(elements: &str, options: &Options) -> Result<Option<Arc<Keystore>>, Vec<String>> {
    let inside = group(&sampler("s", &[], elements));
    load_with(&inside, options).map(|plan| plan.program.keystore)
}

/// The aliases that a plan selects.
fn aliases(elements: &str, options: &Options) -> Vec<String> {
    let keystore = keystore(elements, options).expect("a plan").expect("a keystore");
    keystore.entries.iter().map(|entry| entry.alias.clone()).collect()
}

/// A keystore with the keys `a`, `b` and `c` of an authority, which is in the file.
fn written() -> tempfile::TempDir {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "root");
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
    let root = root.expect("an authority");
    let mut store = KeyStore::new();
    for alias in ["A", "b", "c"] {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, alias);
        let own = params.signed_by(&key, &root).expect("a certificate");
        let chain = [own.der(), root.der()].map(|der| Certificate::from_der(der).expect("DER"));
        let key = PrivateKey::from_der(key.serialized_der()).expect("a key");
        let chain = PrivateKeyChain::new(alias, key, chain);
        store.add_entry(alias, KeyStoreEntry::PrivateKeyChain(chain));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = store
        .writer(PASSWORD)
        .encryption_iterations(10)
        .mac_iterations(10)
        .write()
        .expect("a keystore");
    std::fs::write(folder.path().join("users.p12"), bytes).expect("written");
    folder
}

#[test]
fn without_a_file_only_a_variable_matters() {
    assert!(keystore("", &Options::default()).expect("a plan").is_none());
    let found = keystore(&config(["True", "", "", ""]), &Options::default());
    assert!(found.expect("a plan").is_none());
    let found = keystore(&config(["True", "who", "", ""]), &Options::default());
    let found = found.expect("a plan").expect("an empty keystore");
    assert!(found.alias.is_some() && found.entries.is_empty());
    let without_name = options(&[("javax.net.ssl.keyStore".to_owned(), String::new())]);
    assert!(keystore("", &without_name).expect("a plan").is_none());
}

#[test]
fn elements_select_the_keys_of_a_file() {
    let folder = written();
    let options = options(&of_file(&folder.path().join("users.p12")));
    assert_eq!(aliases("", &options), ["a"], "without an element");
    for ([start, end], selected) in [
        (["", ""], &["a", "b", "c"][..]),
        (["1", "-1"], &["b", "c"]),
        (["1", "1"], &["b"]),
        (["2", "9"], &["c"]),
        (["x", " 1"], &["a", "b", "c"]),
    ] {
        assert_eq!(aliases(&config(["True", "", start, end]), &options), selected);
    }
    let first = ("https.keyStoreStartIndex".to_owned(), "1".to_owned());
    let with_property = Options { properties: vec![first], ..options.clone() };
    assert_eq!(aliases(&config(["", "", "", ""]), &with_property), ["b", "c"]);
    // The first element that loads the keystore counts, otherwise the last one.
    let two = |preloads: [&str; 2]| {
        config([preloads[0], "", "1", "1"]) + &config([preloads[1], "", "2", "2"])
    };
    assert_eq!(aliases(&two(["True", "true"]), &options), ["b"]);
    assert_eq!(aliases(&two(["False", "True"]), &options), ["c"]);
    assert_eq!(aliases(&two(["", ""]), &options), ["c"]);

    let all = keystore(&config(["True", "host", "", ""]), &options).expect("a plan");
    let all = all.expect("a keystore");
    assert!(all.entries.iter().all(|entry| entry.key.cert.len() == 2), "with the authority");
    let alias = all.alias.expect("a variable");
    let plan = load_with(&group(&sampler("s", &[], &config(["", "host", "", ""]))), &options);
    let program = plan.expect("a plan").program;
    let constant = program.initial.iter().find(|(variable, _)| *variable == alias);
    assert_eq!(constant.and_then(|(_, text)| text.as_fixed()), Some("127.0.0.1"));
}

#[test]
fn mistakes_say_what_would_be_right() {
    let folder = written();
    let file = folder.path().join("users.p12");
    let refused = |elements: &str, more: &[(&str, &str)], expected: &str| {
        let mut properties = of_file(&file);
        let more =
            more.iter().map(|(name, value)| (format!("javax.net.ssl.{name}"), (*value).into()));
        properties.extend(more);
        let problems = keystore(elements, &options(&properties)).expect_err(expected).join("\n");
        assert!(problems.contains(expected), "{expected}: {problems}");
        assert!(!problems.contains(PASSWORD), "{problems}");
    };
    let java = folder.path().join("users.jks");
    std::fs::write(&java, [0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2]).expect("written");
    let java = java.to_str().expect("text");
    let all = config(["True", "", "", ""]);
    refused(&all, &[("keyStorePassword", "x")], "users.p12` is wrong (`-Djavax");
    refused(
        &all,
        &[("keyStore", java)],
        "is a JKS keystore, and the Lab reads PKCS#12: convert it",
    );
    refused(
        &all,
        &[("keyStore", "/missing.p12")],
        "KeystoreConfig `e`: `/missing.p12` cannot be read",
    );
    refused(&all, &[("keyStoreType", "BKS")], "of the type PKCS12");
    refused(&all, &[("keyStore", "NONE"), ("keyStoreType", "PKCS11")], "not `NONE`");
    refused("", &[("keyStore", "/missing.p12")], "TestPlan `p`: `/missing.p12` cannot be read");
    refused(&config(["", "", "3", ""]), &[], "an index of at least 3: it has 3, and the first");
    for [start, end] in [["2", "1"], ["-1", ""], ["0", "-2"]] {
        refused(&config(["", "", start, end]), &[], "`endIndex` is not smaller than `startIndex`");
    }
    let file = [("javax.net.ssl.keyStore".to_owned(), "users.p12".to_owned())];
    let problems = keystore(&all, &options(&file)).expect_err("no password").join("\n");
    assert!(
        problems.contains("needs its password: `-Djavax.net.ssl.keyStorePassword="),
        "{problems}"
    );
}

#[test]
fn system_properties_are_known_and_stay_secret() {
    let misspelt = [("javax.net.ssl.keystorePassword".to_owned(), PASSWORD.to_owned())];
    let error = KeystoreProperties::new(&misspelt).expect_err("unknown");
    assert!(error.contains("`javax.net.ssl.keystorePassword`") && !error.contains(PASSWORD));
    let known = KeystoreProperties::new(&of_file(Path::new("plans/keys/u.p12"))).expect("known");
    assert!(!format!("{known:?}").contains(PASSWORD));
    let plan = Path::new("plans/p.jmx");
    let relative = known.clone().relative_to(plan);
    assert_eq!(format!("{relative:?}"), format!("{known:?}").replace("plans/", ""));
    let at = relative.beside(Path::new("/agent/p.jmx"));
    assert_eq!(format!("{at:?}"), format!("{known:?}").replace("plans/", "/agent/"));
}
