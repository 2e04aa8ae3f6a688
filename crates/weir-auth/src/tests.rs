use super::*;
use jsonwebtoken::EncodingKey;
use serde_json::json;
use weir_config::{
    Algorithm, ApiKey, ApiKeySource, Auth, Consumer, JwtAuth, KeyHash, KeySource, TokenKeys,
    TokenRules,
};
use weir_document::finding::Diagnostics;
use weir_document::source_map::Span;
use weir_expr::Expr;

const NOW: u64 = 1_800_000_000;
const SECRET: &[u8] = b"a shared secret of more than 32 bytes";

fn jwt(name: &str, issuer: &str) -> Auth {
    Auth {
        name: name.into(),
        kind: AuthKind::Jwt(Box::new(JwtAuth {
            rules: TokenRules {
                issuers: vec![issuer.into()],
                require_exp: true,
                scopes: vec!["read".into()],
                ..TokenRules::default()
            },
            algorithms: vec![Algorithm::HS256],
            remote: None,
        })),
    }
}

/// One shared secret for both token auths.
fn keys() -> VerificationKeys {
    let keys = [0, 1].map(|auth| TokenKeys {
        auth: AuthId(auth),
        source: KeySource::Secret(String::from_utf8_lossy(SECRET).into_owned()),
        at: Span::NOWHERE,
        algorithms: vec![(Algorithm::HS256, Span::NOWHERE)],
    });
    VerificationKeys::compile(&keys, &mut Diagnostics::default())
}

fn consumer(name: &str, when: Option<&str>, key: Option<&str>) -> Consumer {
    let hash = |key: &str| {
        let mut hash = [0; 32];
        hash.copy_from_slice(
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes()).as_ref(),
        );
        ApiKey { hash: KeyHash(hash), name: None, expires: None }
    };
    Consumer {
        name: name.into(),
        plan: None,
        matches: when
            .map(|when| (AuthId(0), Expr::compile(when, &["claims"]).expect("an expression"))),
        api_keys: key.map(hash).into_iter().collect(),
    }
}

/// Two token auths (0 "corp", 1 "part\"ner") and API keys in a header (2) and in the query (3).
fn config() -> Config {
    Config {
        auths: vec![
            jwt("corp", "https://corp/"),
            jwt("part\"ner", "https://partner/"),
            Auth {
                name: "keys".into(),
                kind: AuthKind::ApiKey(ApiKeySource::Header("x-api-key".into())),
            },
            Auth {
                name: "query".into(),
                kind: AuthKind::ApiKey(ApiKeySource::Query("key".into())),
            },
        ],
        consumers: vec![
            consumer("acme", Some("claims.client_id == \"acme\""), None),
            consumer("any", Some("claims.client_id != \"nobody\""), Some("a-key")),
        ],
        ..weir_config::load_text("weir.yaml", "listen: 127.0.0.1:0\n")
            .finish()
            .expect("a configuration")
            .0
    }
}

fn token(issuer: &str, client: &str, lifetime: i64) -> String {
    let claims = json!({
        "iss": issuer, "exp": NOW as i64 + lifetime, "client_id": client, "sub": client, "scope": "read write",
    });
    let key = EncodingKey::from_secret(SECRET);
    jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).expect("a token")
}

fn access(auths: &[usize], anonymous: bool) -> Access {
    let rule = |&auth| AccessRule { auth: AuthId(auth), scopes: vec![] };
    Access { any_of: auths.iter().map(rule).collect(), anonymous }
}

fn headers(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.push(name, value.as_bytes());
    }
    headers
}

struct Door {
    config: Config,
    counters: Arc<AuthCounters>,
    authenticator: Authenticator,
}

impl Door {
    fn new() -> Self {
        let config = config();
        let (counters, none) = (Arc::new(AuthCounters::default()), RevokedKeys::default());
        let authenticator =
            Authenticator::new(&config, Arc::clone(&counters), keys(), Remote::default(), &none);
        Self { config, counters, authenticator }
    }

    fn knock(
        &self,
        access: &Access,
        fields: &[(&str, &str)],
    ) -> Result<Rc<Principal>, AuthFailure> {
        self.at(access, &headers(fields), None, NOW)
    }

    fn at(
        &self,
        access: &Access,
        headers: &Headers,
        query: Option<&[u8]>,
        now: u64,
    ) -> Result<Rc<Principal>, AuthFailure> {
        let presented =
            PresentedCredentials { headers, query, certificate: None, may_verify: &|| true };
        self.authenticator.authenticate(&self.config, access, presented, now)
    }

    fn counted(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.counters.cache_hits), read(&self.counters.cache_misses))
    }
}

fn bearer(token: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {token}"))
}

#[test]
fn without_a_credential_anonymous_callers_pass_only_where_said() {
    let door = Door::new();
    assert_eq!(door.knock(&access(&[0], false), &[]).unwrap_err().kind(), FailureKind::Missing);
    let nobody = door.knock(&access(&[0], true), &[]).expect("anonymous");
    assert_eq!((nobody.auth(), nobody.consumer(), nobody.claims()), (None, None, None));
    assert!(
        door.knock(&access(&[], false), &[("authorization", "Basic x")]).is_ok(),
        "no auth at all"
    );
}

#[test]
fn records_name_a_token_by_its_subject_and_a_key_by_its_hash() {
    let door = Door::new();
    let own = bearer(&token("https://corp/", "acme", 60));
    let caller = door.knock(&access(&[0], false), &[(own.0, &own.1)]).expect("a token");
    assert_eq!((caller.subject(), caller.recorded()), (Some("acme"), Some("acme")));
    let keys = access(&[2], false);
    let caller = door.knock(&keys, &[("x-api-key", "a-key")]).expect("a key");
    let id = door.config.consumers[1].api_keys[0].hash.id();
    assert_eq!((caller.subject(), caller.recorded()), (None, Some(id.as_str())));
    assert_eq!(id.len(), "sha256:".len() + 8);
    // A resubmission is of the same key; still nobody takes it for a subject.
    let (auth, consumer) = ("keys", "any");
    let stored = RecordedPrincipal { auth, consumer, subject: &id, ..Default::default() };
    let again = recorded_principal(&door.config, &keys, &stored).expect("it is admitted");
    assert_eq!(again, caller);
}

#[test]
fn a_wrong_credential_is_refused_even_where_anonymous_callers_pass() {
    let door = Door::new();
    let old = bearer(&token("https://corp/", "acme", -1));
    for (fields, kind) in [
        ([("authorization", "Bearer x")], FailureKind::Malformed),
        ([("authorization", "Basic eDp5")], FailureKind::Malformed),
        ([("authorization", &old.1)], FailureKind::Expired),
        ([("x-api-key", "wrong")], FailureKind::UnknownApiKey),
    ] {
        let failure = door.knock(&access(&[0, 2], true), &fields).unwrap_err();
        assert_eq!(failure.kind(), kind);
        assert_eq!(failure.problem().status(), 401);
    }
}

#[test]
fn any_way_in_is_enough() {
    let door = Door::new();
    let partner = bearer(&token("https://partner/", "x", 60));
    let both = access(&[0, 1], false);
    assert_eq!(
        door.knock(&both, &[(partner.0, &partner.1)]).expect("the second").auth(),
        Some(AuthId(1))
    );
    let key = door.knock(&access(&[0, 2], false), &[("X-API-Key", "a-key")]).expect("a key");
    assert_eq!((key.auth(), key.consumer()), (Some(AuthId(2)), Some(ConsumerId(1))));
    let broken_and_key = [("authorization", "Bearer x"), ("x-api-key", "a-key")];
    assert!(door.knock(&access(&[0, 2], false), &broken_and_key).is_ok());
    let elsewhere = bearer(&token("https://elsewhere/", "x", 60));
    let failure = door.knock(&both, &[(elsewhere.0, &elsewhere.1)]).unwrap_err();
    assert_eq!((failure.kind(), failure.auth()), (FailureKind::Issuer, Some(AuthId(0))));
}

#[test]
fn a_repeated_credential_is_refused_whatever_else_is_there() {
    let door = Door::new();
    let good = bearer(&token("https://corp/", "acme", 60));
    let twice = [(good.0, &good.1[..]), (good.0, &good.1), ("x-api-key", "a-key")];
    assert_eq!(
        door.knock(&access(&[0, 2], true), &twice).unwrap_err().kind(),
        FailureKind::Repeated
    );
}

#[test]
fn a_key_in_the_query_is_found() {
    let door = Door::new();
    let found = door.at(&access(&[3], false), &Headers::new(), Some(b"a=1&key=a%2Dkey"), NOW);
    assert_eq!(found.expect("a key").consumer(), Some(ConsumerId(1)));
}

#[test]
fn scopes_of_the_auth_and_of_the_rule_are_required() {
    let door = Door::new();
    let good = bearer(&token("https://corp/", "acme", 60));
    let with = |auth: usize, scope: &str| Access {
        any_of: vec![AccessRule { auth: AuthId(auth), scopes: vec![scope.into()] }],
        anonymous: true,
    };
    assert!(door.knock(&with(0, "write"), &[(good.0, &good.1)]).is_ok());
    let failure = door.knock(&with(0, "admin"), &[(good.0, &good.1)]).unwrap_err();
    assert_eq!((failure.kind(), failure.problem().status()), (FailureKind::InsufficientScope, 403));
    assert_eq!(
        failure.challenge(&door.config, &with(0, "admin")),
        "Bearer realm=\"corp\", error=\"insufficient_scope\", \
         error_description=\"The token lacks a required scope\", scope=\"read admin\""
    );
    // A key grants no scopes.
    assert!(door.knock(&with(2, "write"), &[("x-api-key", "a-key")]).is_err());
}

#[test]
fn consumers_are_recognised_by_their_claims_in_order() {
    let door = Door::new();
    for (client, consumer) in [("acme", Some(0)), ("other", Some(1)), ("nobody", None)] {
        let good = bearer(&token("https://corp/", client, 60));
        let principal =
            door.knock(&access(&[0], false), &[(good.0, &good.1)]).expect("a valid token");
        assert_eq!(principal.consumer(), consumer.map(ConsumerId), "{client}");
        assert_eq!(principal.subject(), Some(client));
        assert_eq!(principal.scopes(), ["read", "write"]);
        assert_eq!(principal.claims().expect("claims")["client_id"], client);
    }
    // The expression is for tokens of the first auth only.
    let partner = bearer(&token("https://partner/", "acme", 60));
    let principal =
        door.knock(&access(&[1], false), &[(partner.0, &partner.1)]).expect("a valid token");
    assert_eq!(principal.consumer(), None);
}

#[test]
fn verified_tokens_are_remembered_and_failures_are_not() {
    let door = Door::new();
    let good = bearer(&token("https://corp/", "acme", 2));
    let fields = [(good.0, &good.1[..])];
    let first = door.knock(&access(&[0], false), &fields).expect("valid");
    let second = door.knock(&access(&[0], false), &fields).expect("valid");
    assert!(Rc::ptr_eq(&first, &second));
    assert_eq!(door.counted(), (1, 1));
    // Another auth does not profit from it.
    assert!(door.knock(&access(&[1], false), &fields).is_err());
    assert_eq!(door.counted(), (1, 2));
    // Past its expiry it is not believed, remembered or not.
    let late = door.at(&access(&[0], false), &headers(&fields), None, NOW + 2);
    assert_eq!(late.unwrap_err().kind(), FailureKind::Expired);
    assert_eq!(door.counted(), (1, 3));
}

#[test]
fn challenges_name_the_ways_in_and_never_what_was_sent() {
    let door = Door::new();
    let ways = access(&[0, 1, 2, 3], false);
    let missing = door.knock(&ways, &[]).unwrap_err();
    assert_eq!(
        missing.challenge(&door.config, &ways),
        "Bearer realm=\"corp\", Bearer realm=\"part\\\"ner\", ApiKey realm=\"keys\", header=\"x-api-key\", \
         ApiKey realm=\"query\", query=\"key\""
    );
    let wrong = door.knock(&ways, &[("authorization", "Bearer se.cr.et")]).unwrap_err();
    let challenge = wrong.challenge(&door.config, &ways);
    assert_eq!(
        challenge,
        "Bearer realm=\"corp\", error=\"invalid_request\", \
         error_description=\"The credential is malformed\""
    );
    assert!(!format!("{wrong}{wrong:?}").contains("cr"));
}

#[test]
fn a_revoked_key_is_told_from_an_unknown_one_and_named_for_records() {
    let door = Door::new();
    let key = door.config.consumers[1].api_keys[0].hash;
    door.authenticator.revoke_keys(&RevokedKeys::from_iter([key]));
    let keys = access(&[0, 2], true);
    let forged = bearer("no token");
    let sent = [("x-api-key", "a-key"), (forged.0, forged.1.as_str())];
    let failure = door.knock(&keys, &sent).expect_err("it is revoked, also for anonymous callers");
    assert_eq!((failure.problem().slug(), failure.kind().is_counted()), ("api-key-revoked", true));
    let refused = door.authenticator.refused(failure).expect("it is known");
    assert_eq!((refused.recorded(), refused.auth()), (Some(key.id().as_str()), Some(AuthId(2))));
    assert_eq!(refused.consumer(), None);
    let unknown = door.knock(&keys, &[("x-api-key", "another")]).expect_err("unknown");
    assert_eq!(unknown.problem().slug(), "unknown-api-key");
    assert_eq!(door.authenticator.refused(unknown), None);
    door.authenticator.revoke_keys(&RevokedKeys::default());
    assert!(door.knock(&keys, &[("x-api-key", "a-key")]).is_ok());
}
