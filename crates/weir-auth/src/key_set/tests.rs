use super::*;

fn set() -> KeySet {
    let settings = RemoteKeys {
        url: "https://a/".to_owned(),
        upstream: weir_model::UpstreamId(0),
        target: "/".to_owned(),
        refresh: Duration::from_secs(300),
        timeout: Duration::from_secs(2),
    };
    KeySet::new(String::new(), settings, vec![Algorithm::ES256, Algorithm::RS256])
}

/// RFC 7517 appendix A.1, the EC key, under this name; beside it what is of no use.
fn document(kid: &str) -> Option<Vec<u8>> {
    let x = "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4";
    let y = "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM";
    Some(
        format!(
            "{{\"keys\": [{{\"kty\": \"EC\", \"crv\": \"P-256\", \"x\": \"{x}\", \"y\": \"{y}\", \
         \"use\": \"sig\", \"kid\": \"{kid}\", \"x5c\": [\"AA\"]}}, {{\"kty\": \"new\"}}, \
         {{\"kty\": \"oct\", \"k\": \"{}\"}}]}}",
            "A".repeat(64)
        )
        .into_bytes(),
    )
}

#[test]
fn another_set_has_another_number_and_the_same_one_the_same() {
    let set = set();
    assert!(set.current().keys.is_empty());
    set.take(document("a"));
    let first = set.current();
    assert_eq!(first.keys.len(), 1);
    assert_eq!(first.keys[0].kid.as_deref(), Some("a"));
    set.take(document("a"));
    assert_eq!(set.current().number, first.number);
    set.take(document("b"));
    assert_ne!(set.current().number, first.number);
    assert_eq!(set.current().keys[0].kid.as_deref(), Some("b"));
}

#[test]
fn failures_keep_the_keys_and_double_the_wait() {
    let set = set();
    set.take(document("a"));
    let after = |set: &KeySet| set.due.load(Relaxed).saturating_sub(set.now());
    assert!(after(&set) > 290_000);
    let mut waits = Vec::new();
    for _ in 0..9 {
        set.take(None);
        waits.push(after(&set).div_ceil(1000));
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(set.current().keys.len(), 1);
    // What is no key set is a failure as well.
    set.take(Some(b"<html>".to_vec()));
    set.take(Some(b"{\"keys\": []}".to_vec()));
    assert_eq!((set.series("x").failed, set.series("x").keys), (11, 1));
    set.take(document("a"));
    assert!(after(&set) > 290_000);
}

#[test]
fn unknown_names_have_a_set_fetched_once_in_thirty_seconds() {
    let set = set();
    assert!(set.may_fetch());
    assert!(!set.may_fetch());
    set.quiet.store(0, Relaxed);
    assert!(set.may_fetch());
}
