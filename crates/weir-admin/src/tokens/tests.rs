//! Tests of admin tokens.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn new(name: &str, role: Role) -> NewToken {
    NewToken { name: name.to_owned(), role, ..NewToken::first() }
}

/// A token of an account of the group `ops`.
fn of(person: &str) -> NewToken {
    let account = serde_json::from_str(r#"{"issuer":"i","groups":["ops"]}"#).unwrap();
    let person = Some(format!("oidc:{person}"));
    NewToken { person, account: Some(account), ..new("x", Role::Admin) }
}

/// Maps the accounts of [`of`] to the role viewer.
fn map_ops(tokens: &Tokens) {
    tokens.set_mapping(Box::new(|_| Some((Role::Viewer, TokenScope::default()))));
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
    assert!(matches!(tokens.add(new("x", Role::Viewer)), Err(TokenError::Full(MAX_TOKENS))));
    // Tokens of accounts take no place of others.
    assert!(tokens.add(of("ann")).is_ok());
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
    map_ops(&tokens);
    let of_ann = of("ann");
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

#[test]
fn the_rights_of_an_account_are_those_of_the_configuration_in_force() {
    let data = tempfile::tempdir().unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    let (token, info) = tokens.add(of("ann")).unwrap();
    let (old, _) = tokens.add(NewToken { account: None, ..of("bob") }).unwrap();
    assert_eq!(tokens.authenticate(&token), Err(Unaccepted::NoRights), "there is no mapping");
    let allowed = Arc::new(Mutex::new(Some((Role::Viewer, TokenScope::default()))));
    let rights = Arc::clone(&allowed);
    tokens.set_mapping(Box::new(move |_| rights.lock().unwrap().clone()));
    assert_eq!(tokens.authenticate(&token).unwrap().role, Role::Viewer, "not that of the sign-in");
    assert_eq!(tokens.authenticate(&old), Err(Unaccepted::NoRights), "its groups are unknown");
    *allowed.lock().unwrap() = None;
    assert_eq!(tokens.authenticate(&token), Err(Unaccepted::NoRights));
    assert_eq!(tokens.holder(&info.id), None);
    let copy = tokens.lock()[1].copy();
    assert_eq!(info_of(&copy).unwrap().account, of("ann").account, "other nodes map it, too");
}

#[test]
fn only_the_last_admin_token_cannot_be_revoked() {
    let data = tempfile::tempdir().unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    let first = tokens.list()[0].id.clone();
    let (_, temporary) = tokens
        .add(NewToken { expires: Some(clock::now().as_secs() + 60), ..new("b", Role::Admin) })
        .unwrap();
    assert!(matches!(tokens.revoke(&first), Err(TokenError::Last)));
    tokens.lock().retain(|entry| entry.id != first);
    assert!(tokens.revoke(&temporary.id).unwrap(), "it was not the one that remains");
}

#[test]
fn concurrent_revocations_leave_an_admin_token() {
    let data = tempfile::tempdir().unwrap();
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    for _ in 0..20 {
        tokens.add(new("b", Role::Admin)).unwrap();
        let ids: Vec<String> = tokens.list().into_iter().map(|token| token.id).collect();
        let (start, revoked) = (std::sync::Barrier::new(ids.len()), Mutex::new(0));
        std::thread::scope(|scope| {
            for id in &ids {
                scope.spawn(|| {
                    start.wait();
                    *revoked.lock().unwrap() += usize::from(tokens.revoke(id).is_ok());
                });
            }
        });
        assert_eq!((tokens.list().len(), *revoked.lock().unwrap()), (1, 1));
    }
}

#[test]
fn a_token_that_makes_room_is_revoked_on_all_nodes() {
    let (data, fleet_data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let fleet = Arc::new(TokenTable::open(fleet_data.path()).unwrap());
    let (tokens, _) = Tokens::open(data.path()).unwrap();
    let tokens = tokens.with_fleet(Some(Arc::clone(&fleet)));
    let add = |seconds: u64| {
        let expires = Some(clock::now().as_secs() + seconds);
        tokens.add(NewToken { expires, ..of("ann") }).unwrap().1.id
    };
    let all: Vec<String> = (0..=MAX_TOKENS_OF_PERSON as u64).map(|at| add(100 + at)).collect();
    assert!(fleet.is_revoked(&all[0]) && all[1..].iter().all(|id| !fleet.is_revoked(id)));
    // Expired ones that make room are revoked, too, and those that others have revoked make room.
    let entry = generate(NewToken { expires: Some(1), ..of("bob") }).unwrap().1;
    let expired = entry.id.clone();
    tokens.lock().resize(MAX_TOKENS_OF_PERSONS + 2, entry);
    fleet.revoke(&[all[1].clone()]).unwrap();
    let carl = tokens.add(of("carl")).unwrap().1.id;
    let kept: Vec<String> = tokens.lock().iter().map(|entry| entry.id.clone()).collect();
    assert!(kept.contains(&carl) && !kept.contains(&all[1]), "{kept:?}");
    assert!(!kept.contains(&expired));
}
