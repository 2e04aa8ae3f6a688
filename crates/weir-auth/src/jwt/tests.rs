use super::{verify as verify_with, *};

/// An auth with its keys.
struct Keyed {
    auth: JwtAuth,
    keys: Vec<VerificationKey>,
}

fn verify(keyed: &Keyed, token: &[u8], now: u64) -> Result<Verified, FailureKind> {
    verify_with(&keyed.auth, &keyed.keys, token, now)
}

use jsonwebtoken::{DecodingKey, EncodingKey};
use proptest::prelude::*;
use serde_json::json;
use std::sync::LazyLock;
use std::time::Duration;
use weir_config::TokenRules;

const NOW: u64 = 1_800_000_000;
const SECRET: &[u8] = b"a shared secret of more than 32 bytes";

/// A key pair of each kind, made once: RSA keys are slow to make.
struct Pairs {
    rsa: rcgen::KeyPair,
    p256: rcgen::KeyPair,
    p384: rcgen::KeyPair,
    ed: rcgen::KeyPair,
}

static PAIRS: LazyLock<Pairs> = LazyLock::new(|| {
    let make = |algorithm| rcgen::KeyPair::generate_for(algorithm).expect("a key pair");
    Pairs {
        rsa: make(&rcgen::PKCS_RSA_SHA256),
        p256: make(&rcgen::PKCS_ECDSA_P256_SHA256),
        p384: make(&rcgen::PKCS_ECDSA_P384_SHA384),
        ed: make(&rcgen::PKCS_ED25519),
    }
});

fn signing_key(algorithm: Algorithm) -> EncodingKey {
    use Algorithm::{ES256, ES384, EdDSA, HS256, HS384, HS512};
    let pem = |pair: &rcgen::KeyPair| pair.serialize_pem();
    match algorithm {
        HS256 | HS384 | HS512 => EncodingKey::from_secret(SECRET),
        ES256 => EncodingKey::from_ec_pem(pem(&PAIRS.p256).as_bytes()).expect("a key"),
        ES384 => EncodingKey::from_ec_pem(pem(&PAIRS.p384).as_bytes()).expect("a key"),
        EdDSA => EncodingKey::from_ed_pem(pem(&PAIRS.ed).as_bytes()).expect("a key"),
        _ => EncodingKey::from_rsa_pem(pem(&PAIRS.rsa).as_bytes()).expect("a key"),
    }
}

fn key(kid: Option<&str>, algorithms: &[Algorithm]) -> VerificationKey {
    use Algorithm::{ES256, ES384, EdDSA, HS256, HS384, HS512};
    let pem = |pair: &rcgen::KeyPair| pair.public_key_pem();
    let key = match algorithms[0] {
        HS256 | HS384 | HS512 => DecodingKey::from_secret(SECRET),
        ES256 => DecodingKey::from_ec_pem(pem(&PAIRS.p256).as_bytes()).expect("a key"),
        ES384 => DecodingKey::from_ec_pem(pem(&PAIRS.p384).as_bytes()).expect("a key"),
        EdDSA => DecodingKey::from_ed_pem(pem(&PAIRS.ed).as_bytes()).expect("a key"),
        _ => DecodingKey::from_rsa_pem(pem(&PAIRS.rsa).as_bytes()).expect("a key"),
    };
    VerificationKey { kid: kid.map(str::to_owned), algorithms: algorithms.to_vec(), key }
}

fn auth(algorithms: &[Algorithm], keys: Vec<VerificationKey>) -> Keyed {
    let rules = TokenRules { require_exp: true, ..TokenRules::default() };
    Keyed { auth: JwtAuth { rules, algorithms: algorithms.to_vec(), remote: None }, keys }
}

fn shared() -> Keyed {
    auth(&[Algorithm::HS256], vec![key(None, &[Algorithm::HS256])])
}

/// A token whose header and claims are exactly these, signed as `algorithm` says.
fn sign(header: &Value, claims: &Value, algorithm: Algorithm) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(header), part(claims));
    let signature = jsonwebtoken::crypto::sign(
        message.as_bytes(),
        &signing_key(algorithm),
        <&str>::from(algorithm).parse().expect("an algorithm"),
    )
    .expect("a signature");
    format!("{message}.{signature}")
}

fn outcome(
    auth: &Keyed,
    header: &Value,
    claims: &Value,
    algorithm: Algorithm,
) -> Result<Verified, FailureKind> {
    verify(auth, sign(header, claims, algorithm).as_bytes(), NOW)
}

/// What becomes of a well signed token with these claims.
fn claiming(auth: &Keyed, claims: &Value) -> Result<Verified, FailureKind> {
    outcome(auth, &json!({"alg": "HS256"}), claims, Algorithm::HS256)
}

impl std::fmt::Debug for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Verified({})", self.claims)
    }
}

#[test]
fn every_algorithm_verifies_its_own_tokens_and_nothing_altered() {
    use Algorithm::*;
    for algorithm in
        [HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA]
    {
        let auth = auth(&[algorithm], vec![key(None, &[algorithm])]);
        let header = json!({"alg": format!("{algorithm:?}"), "typ": "JWT"});
        let token = sign(&header, &json!({"exp": NOW + 60, "sub": "me"}), algorithm);
        let verified = verify(&auth, token.as_bytes(), NOW).expect("a valid token");
        assert_eq!(verified.subject.as_deref(), Some("me"));
        assert_eq!(verified.expires, Some(NOW + 60));

        let forged = sign(&header, &json!({"exp": NOW + 60, "sub": "you"}), algorithm);
        let message = forged.rsplit_once('.').expect("a signature").0;
        let signature = token.rsplit_once('.').expect("a signature").1;
        let spliced = format!("{message}.{signature}");
        assert_eq!(verify(&auth, spliced.as_bytes(), NOW).unwrap_err(), FailureKind::Signature);
    }
}

#[test]
fn none_is_refused_in_any_case_and_with_any_signature() {
    for none in ["none", "None", "NONE", "nOnE", ""] {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": none}).to_string());
        let payload = URL_SAFE_NO_PAD.encode(json!({"exp": NOW + 60}).to_string());
        for signature in ["", "AAAA"] {
            let token = format!("{header}.{payload}.{signature}");
            assert_eq!(
                verify(&shared(), token.as_bytes(), NOW).unwrap_err(),
                FailureKind::Algorithm,
                "{none}"
            );
        }
    }
}

#[test]
fn a_public_key_is_no_shared_secret() {
    // The classic: a token signed by HMAC with the public key, which is no secret, as its key.
    let public = PAIRS.rsa.public_key_pem();
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    let payload = URL_SAFE_NO_PAD.encode(json!({"exp": NOW + 60}).to_string());
    let message = format!("{header}.{payload}");
    let forger = EncodingKey::from_secret(public.as_bytes());
    let signature =
        jsonwebtoken::crypto::sign(message.as_bytes(), &forger, jsonwebtoken::Algorithm::HS256)
            .expect("signed");
    let token = format!("{message}.{signature}");
    let rsa = auth(&[Algorithm::RS256], vec![key(None, &[Algorithm::RS256])]);
    assert_eq!(verify(&rsa, token.as_bytes(), NOW).unwrap_err(), FailureKind::Algorithm);
    // Even where both kinds are accepted, each key serves its own only.
    let both = auth(&[Algorithm::RS256, Algorithm::HS256], vec![key(None, &[Algorithm::RS256])]);
    assert_eq!(verify(&both, token.as_bytes(), NOW).unwrap_err(), FailureKind::UnknownKey);
}

#[test]
fn an_algorithm_that_is_not_accepted_is_refused_although_the_key_fits() {
    let auth = auth(&[Algorithm::HS512], vec![key(None, &[Algorithm::HS256, Algorithm::HS512])]);
    assert_eq!(claiming(&auth, &json!({"exp": NOW + 60})).unwrap_err(), FailureKind::Algorithm);
}

#[test]
fn the_kid_chooses_the_key() {
    let other = || VerificationKey {
        key: DecodingKey::from_secret(b"another secret, also more than 32 bytes"),
        ..key(Some("other"), &[Algorithm::HS256])
    };
    let claims = json!({"exp": NOW + 60});
    let with_kid = |auth: &Keyed, kid: &str| {
        outcome(auth, &json!({"alg": "HS256", "kid": kid}), &claims, Algorithm::HS256).err()
    };
    let named = auth(&[Algorithm::HS256], vec![other(), key(Some("mine"), &[Algorithm::HS256])]);
    assert_eq!(with_kid(&named, "mine"), None);
    assert_eq!(with_kid(&named, "other"), Some(FailureKind::Signature));
    assert_eq!(with_kid(&named, "unheard of"), Some(FailureKind::UnknownKey));
    assert_eq!(claiming(&named, &claims).err(), None, "without a kid every key is tried");

    let unnamed = auth(&[Algorithm::HS256], vec![other(), key(None, &[Algorithm::HS256])]);
    assert_eq!(with_kid(&unnamed, "unheard of"), None, "a key without a name takes any kid");
    assert_eq!(with_kid(&unnamed, "other"), Some(FailureKind::Signature));
}

#[test]
fn exp_is_required_and_holds_up_to_its_second() {
    let mut auth = shared();
    assert_eq!(claiming(&auth, &json!({})).unwrap_err(), FailureKind::MissingClaim);
    for (exp, kind) in [
        (json!(NOW + 1), None),
        (json!(NOW), Some(FailureKind::Expired)),
        (json!(NOW as f64 + 0.5), None),
        (json!(0), Some(FailureKind::Expired)),
        (json!(-5), Some(FailureKind::Expired)),
        (json!(1e300), None),
        (json!("2100-01-01"), Some(FailureKind::Malformed)),
        (json!(null), Some(FailureKind::Malformed)),
        (json!([NOW + 60]), Some(FailureKind::Malformed)),
    ] {
        assert_eq!(claiming(&auth, &json!({"exp": exp})).err(), kind, "{exp}");
    }
    auth.auth.rules.leeway = Duration::from_secs(30);
    assert_eq!(
        claiming(&auth, &json!({"exp": NOW - 29})).expect("within the leeway").expires,
        Some(NOW + 1)
    );
    assert_eq!(claiming(&auth, &json!({"exp": NOW - 30})).unwrap_err(), FailureKind::Expired);
    auth.auth.rules.require_exp = false;
    assert_eq!(claiming(&auth, &json!({})).expect("no exp wanted").expires, None);
    assert_eq!(claiming(&auth, &json!({"exp": 1})).unwrap_err(), FailureKind::Expired);
}

#[test]
fn nbf_holds_from_its_second() {
    let mut auth = shared();
    let nbf =
        |auth: &Keyed, nbf: Value| claiming(auth, &json!({"exp": NOW + 60, "nbf": nbf})).err();
    assert_eq!(nbf(&auth, json!(NOW)), None);
    assert_eq!(nbf(&auth, json!(NOW + 1)), Some(FailureKind::NotYetValid));
    assert_eq!(nbf(&auth, json!("soon")), Some(FailureKind::Malformed));
    auth.auth.rules.leeway = Duration::from_secs(30);
    assert_eq!(nbf(&auth, json!(NOW + 30)), None);
    assert_eq!(nbf(&auth, json!(NOW + 31)), Some(FailureKind::NotYetValid));
}

#[test]
fn issuer_audience_and_required_claims() {
    let mut auth = shared();
    auth.auth.rules.issuers = vec!["https://idp/".into()];
    auth.auth.rules.audiences = vec!["orders".into(), "bills".into()];
    auth.auth.rules.required_claims = vec!["client_id".into()];
    let good =
        json!({"exp": NOW + 60, "iss": "https://idp/", "aud": ["x", "bills"], "client_id": ""});
    let with = |name: &str, value: Option<Value>| {
        let mut claims = good.clone();
        let members = claims.as_object_mut().expect("an object");
        match value {
            Some(value) => members.insert(name.into(), value),
            None => members.remove(name),
        };
        claiming(&auth, &claims).err()
    };
    assert_eq!(with("aud", Some(json!("orders"))), None);
    for wrong in
        [None, Some(json!("https://idp")), Some(json!(["https://idp/"])), Some(json!(null))]
    {
        assert_eq!(with("iss", wrong), Some(FailureKind::Issuer));
    }
    for wrong in [
        None,
        Some(json!("order")),
        Some(json!([])),
        Some(json!({"orders": 1})),
        Some(json!([["orders"]])),
    ] {
        assert_eq!(with("aud", wrong), Some(FailureKind::Audience));
    }
    for wrong in [None, Some(json!(null))] {
        assert_eq!(with("client_id", wrong), Some(FailureKind::MissingClaim));
    }
}

#[test]
fn scopes_come_from_scope_and_scp() {
    for (claims, expected) in [
        (json!({"scope": "a b  c"}), vec!["a", "b", "c"]),
        (json!({"scp": ["a", "b"]}), vec!["a", "b"]),
        (json!({"scp": "a b"}), vec!["a", "b"]),
        (json!({"scope": "a", "scp": ["b", 7]}), vec!["a", "b"]),
        (json!({"scope": {"a": 1}}), vec![]),
    ] {
        assert_eq!(scopes(claims.as_object().expect("an object")), expected);
    }
}

#[test]
fn malformed_tokens_are_refused() {
    let good = sign(&json!({"alg": "HS256"}), &json!({"exp": NOW + 60}), Algorithm::HS256);
    assert!(verify(&shared(), good.as_bytes(), NOW).is_ok());
    for bad in [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c.d",
        "a.b.c",
        "é.é.é",
        &good.replace('.', ".."),
        &format!("{good}="),
    ] {
        assert_eq!(
            verify(&shared(), bad.as_bytes(), NOW).unwrap_err(),
            FailureKind::Malformed,
            "{bad}"
        );
    }
    assert_eq!(verify(&shared(), b"\xff.\xff.\xff", NOW).unwrap_err(), FailureKind::Malformed);
    for header in [
        json!([]),
        json!({}),
        json!({"alg": 1}),
        json!({"alg": "HS256", "crit": ["b64"], "b64": false}),
    ] {
        let result = outcome(&shared(), &header, &json!({"exp": NOW + 60}), Algorithm::HS256);
        assert_eq!(result.unwrap_err(), FailureKind::Malformed, "{header}");
    }
    for claims in [json!([]), json!("x"), json!(1)] {
        assert_eq!(claiming(&shared(), &claims).unwrap_err(), FailureKind::Malformed);
    }
}

#[test]
fn deep_nesting_does_not_end_the_process() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    let message = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#),
        URL_SAFE_NO_PAD.encode(deep)
    );
    let key = signing_key(Algorithm::HS256);
    let signature =
        jsonwebtoken::crypto::sign(message.as_bytes(), &key, jsonwebtoken::Algorithm::HS256)
            .expect("signed");
    let token = format!("{message}.{signature}");
    assert_eq!(verify(&shared(), token.as_bytes(), NOW).unwrap_err(), FailureKind::Malformed);
}

#[test]
fn the_bearer_scheme_is_found_in_any_case_and_once() {
    let bearer_of = |values: &[&str]| {
        let mut headers = Headers::new();
        for value in values {
            headers.push("Authorization", value.as_bytes());
        }
        bearer(&headers).map(|token| token.map(<[u8]>::to_vec))
    };
    assert_eq!(bearer_of(&[]), Ok(None));
    assert_eq!(bearer_of(&["Bearer abc"]), Ok(Some(b"abc".to_vec())));
    assert_eq!(bearer_of(&["bEARER  abc"]), Ok(Some(b"abc".to_vec())));
    for bad in ["", "Bearer", "Bearer ", "Basic abc", "Bearerabc", "abc"] {
        assert_eq!(bearer_of(&[bad]), Err(FailureKind::Malformed), "{bad}");
    }
    assert_eq!(bearer_of(&["Bearer abc", "Bearer abc"]), Err(FailureKind::Repeated));
    let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES + 1));
    assert_eq!(bearer_of(&[&long]), Err(FailureKind::Malformed));
}

proptest! {
    #[test]
    fn no_text_gets_in(token in "[A-Za-z0-9_=.-]{0,120}") {
        prop_assert!(verify(&shared(), token.as_bytes(), NOW).is_err());
    }

    #[test]
    fn no_changed_character_gets_in(at in 0usize..200, to in prop::sample::select(b"aZ0-_.".to_vec())) {
        let good = sign(&json!({"alg": "HS256"}), &json!({"exp": NOW + 60, "sub": "me"}), Algorithm::HS256);
        let mut bad = good.clone().into_bytes();
        let at = at % bad.len();
        prop_assume!(bad[at] != to);
        bad[at] = to;
        prop_assert!(verify(&shared(), &bad, NOW).is_err());
    }
}
