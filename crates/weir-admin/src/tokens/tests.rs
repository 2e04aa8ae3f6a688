//! Tests of admin tokens.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn new(name: &str, role: Role) -> NewToken {
    NewToken { name: name.to_owned(), role, ..NewToken::first() }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_first_token_is_written_once_and_for_its_user_alone() {
    let data = tempfile::tempdir().unwrap();
    let (tokens, first) = Tokens::open(data.path()).unwrap();
    let first = first.unwrap();
    let token = read(&first).trim().to_owned();
    assert_eq!(tokens.authenticate(&token).unwrap().role, Role::Admin);
    for path in [&first, &tokens.path] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(!read(&tokens.path).contains(&token[PREFIX.len()..]));
    assert!(!format!("{tokens:?}").contains(&hash(&token)));
    let (tokens, again) = Tokens::open(data.path()).unwrap();
    assert_eq!(again, None);
    assert!(tokens.authenticate(&token).is_ok());
    assert!(tokens.authenticate(&token[..token.len() - 1]).is_err());
    assert!(tokens.authenticate("").is_err());
}

#[test]
fn tokens_come_and_go_durably() {
    let data = tempfile::tempdir().unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    let (token, info) = tokens.add(new("ci", Role::Viewer)).unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    let caller = tokens.authenticate(&token).unwrap();
    let held = (caller.id.as_str(), caller.name.as_str(), caller.role);
    assert_eq!(held, (info.id.as_str(), "ci", info.role));
    assert!(tokens.revoke(&info.id).unwrap());
    assert!(!tokens.revoke(&info.id).unwrap());
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    assert_eq!(tokens.authenticate(&token), Err(Unaccepted::Unknown));
    let last = &tokens.list()[0].id;
    assert!(matches!(tokens.revoke(last), Err(TokenError::Last)));
}

#[test]
fn names_and_numbers_are_bounded() {
    let data = tempfile::tempdir().unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    for name in ["", "a\nb", &"x".repeat(MAX_NAME_BYTES + 1)] {
        assert!(matches!(tokens.add(new(name, Role::Viewer)), Err(TokenError::Name)));
    }
    let entry = generate(new("x", Role::Viewer)).unwrap().1;
    tokens.lock().resize(MAX_TOKENS, entry);
    assert!(matches!(tokens.add(new("x", Role::Viewer)), Err(TokenError::Full)));
}

#[test]
fn files_without_scopes_are_read_and_stay_as_they_are() {
    let data = tempfile::tempdir().unwrap();
    let hash = hash("wadm_old");
    let old = format!(r#"[{{"id":"a1","name":"old","role":"viewer","sha256":"{hash}"}}]"#);
    fs::write(data.path().join("admin-tokens.json"), old).unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    let caller = tokens.authenticate("wadm_old").unwrap();
    assert!(caller.scope.is_unlimited());
    assert_eq!(tokens.lock()[0].copy().role, "viewer");
}

#[test]
fn a_token_expires_and_its_scope_is_kept() {
    let data = tempfile::tempdir().unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    let scope = TokenScope { apis: vec!["orders".to_owned()], ..TokenScope::default() };
    let now = clock::now().as_secs();
    let expires = Some(now + 60);
    let new = NewToken { scope: scope.clone(), expires, ..new("ci", Role::Operator) };
    let past = NewToken { expires: Some(now), ..new.clone() };
    assert!(matches!(tokens.add(past), Err(TokenError::Past)));
    let (token, info) = tokens.add(new).unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    assert_eq!(tokens.authenticate(&token).unwrap().scope, scope);
    assert_eq!(info_of(&tokens.lock()[1].copy()).unwrap().expires, Some(UnixSeconds(now + 60)));
    tokens.lock()[1].expires = Some(now - 1);
    assert_eq!(tokens.authenticate(&token), Err(Unaccepted::Expired(UnixSeconds(now - 1))));
    assert_eq!(tokens.holder(&info.id), None);
}

#[test]
fn an_account_has_a_few_tokens_and_the_last_is_the_newest() {
    let data = tempfile::tempdir().unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    let of_ann = NewToken { person: Some("oidc:ann".to_owned()), ..new("ann", Role::Viewer) };
    let all: Vec<_> =
        (0..=MAX_TOKENS_OF_PERSON).map(|_| tokens.add(of_ann.clone()).unwrap().0).collect();
    assert!(tokens.authenticate(&all[0]).is_err());
    assert!(all[1..].iter().all(|token| tokens.authenticate(token).is_ok()));
    assert!(tokens.is_of_person(&tokens.list()[1].id));
    assert!(!tokens.is_of_person(&tokens.list()[0].id));
}

#[test]
fn the_last_use_is_known_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    let id = tokens.list()[0].id.clone();
    assert_eq!(tokens.list()[0].last_used, None);
    assert!(tokens.touch(&id), "the first use is written");
    assert!(!tokens.touch(&id), "the next one within a minute is not");
    tokens.write_use();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    assert!(tokens.list()[0].last_used.is_some());
}

#[test]
fn a_damaged_file_is_an_error_and_no_new_beginning() {
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("admin-tokens.json"), "[{").unwrap();
    assert!(matches!(Tokens::open(data.path()), Err(TokenError::Malformed { .. })));
    assert!(!first_token(data.path()).exists());
}
