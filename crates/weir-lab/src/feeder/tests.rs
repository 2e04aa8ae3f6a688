use super::*;
use jsonwebtoken::{DecodingKey, Validation};
use serde_json::{Value, json};

fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), content).expect("written");
    file
}

fn rows(content: &[u8], edit: impl Fn(&mut CsvFile)) -> Result<Table, FeederError> {
    let file = file(content);
    let mut csv = CsvFile::new(file.path());
    edit(&mut csv);
    csv.read()
}

fn texts(table: &Table) -> Vec<Vec<&str>> {
    table.rows.iter().map(|row| row.iter().map(|value| &**value).collect()).collect()
}

#[test]
fn rows_of_a_file_with_a_head() {
    let text = "\u{feff}user, pass\r\nann,\"a,\"\"b\"\"\nc\"\r\nbob,x";
    let table = rows(text.as_bytes(), |_| {}).expect("rows");
    assert_eq!(table.columns, ["user", "pass"]);
    assert_eq!(texts(&table), [["ann", "a,\"b\"\nc"], ["bob", "x"]]);
}

#[test]
fn rows_of_jmeters_files() {
    let tabs = |csv: &mut CsvFile| {
        csv.columns = vec!["a".to_owned(), "b".to_owned()];
        csv.delimiter = "\t".to_owned();
        csv.quoted = false;
        csv.skip_first = true;
    };
    let table = rows(b"head\tx\n\"1\t2\t3\n4\n\n\xff\t", tabs).expect("rows");
    // Surplus values are dropped, missing ones are empty, a quotation mark is a character.
    assert_eq!(texts(&table), [["\"1", "2"], ["4", ""], ["", ""], ["\u{fffd}", ""]]);
}

#[test]
fn invalid_rows_are_rejected_with_their_line() {
    let refused = |content: &[u8]| rows(content, |_| {}).expect_err("refused").to_string();
    assert!(
        refused(b"a,b\n1,2\n\"1\"x,2\n").ends_with("line 3: text follows a closing quotation mark")
    );
    assert!(refused(b"a\n\"1\n2\n").ends_with("line 2: a quotation mark is not closed"));
    assert!(refused(b"").ends_with("has no row"));
    assert!(refused(b"a,b\n").ends_with("has no row"));
    assert!(CsvFile::new("/dev/zero").read().is_err());
    assert!(CsvFile::new("/nowhere").read().is_err());
}

fn tokens(algorithm: Algorithm) -> Tokens {
    Tokens {
        count: 3,
        algorithm,
        key: None,
        key_id: "lab".to_owned(),
        claims: serde_json::from_value(json!({"iss": "lab", "sub": "one"})).expect("claims"),
        now: 1_900_000_000,
        lifetime: 60,
    }
}

#[test]
fn tokens_are_verified_by_the_key_set_that_comes_with_them() {
    for algorithm in [Algorithm::RS256, Algorithm::ES256, Algorithm::HS256] {
        let signed = tokens(algorithm).sign().expect("signed");
        let set: jsonwebtoken::jwk::JwkSet =
            serde_json::from_value(signed.jwks.clone()).expect("a key set");
        let key = DecodingKey::from_jwk(set.find("lab").expect("the key")).expect("a key");
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&["lab"]);
        assert_eq!(signed.table.columns, ["token"]);
        let mut seen = Vec::new();
        for row in &signed.table.rows {
            let token = jsonwebtoken::decode::<Value>(&*row[0], &key, &validation).expect("valid");
            assert_eq!(token.claims["sub"], "one");
            assert_eq!(token.claims["exp"], 1_900_000_060_u64);
            seen.push(token.claims["jti"].clone());
        }
        seen.dedup();
        assert_eq!(seen.len(), 3, "each token is another");
    }
}

#[test]
fn keys_are_read_from_pem_and_redacted() {
    let pem = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let with = Tokens { key: Some(pem.clone()), ..tokens(Algorithm::ES256) };
    assert!(with.sign().is_ok());
    assert!(!format!("{with:?}").contains("PRIVATE"));
    let wrong = Tokens { key: Some(pem), ..tokens(Algorithm::RS256) };
    assert!(matches!(wrong.sign(), Err(FeederError::Key(_))));
    let wrong = Tokens { key: Some("no key".to_owned()), ..tokens(Algorithm::RS256) };
    assert!(matches!(wrong.sign(), Err(FeederError::Key(_))));
}
