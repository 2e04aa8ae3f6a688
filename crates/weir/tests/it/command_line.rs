//! Commands that end by themselves, and their exit codes.

use crate::harness::weir;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn here() -> &'static Path {
    Path::new(".")
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    for args in [&["no-such-command"][..], &["echo", "--delay", "5"], &["jwt", "mint"], &[]] {
        assert_eq!(weir(here(), args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn every_command_has_help_with_examples() {
    let commands = [
        &["serve"][..],
        &["check"],
        &["routes"],
        &["explain"],
        &["schema"],
        &["echo"],
        &["lab", "hit"],
        &["jwt", "mint"],
        &["jwt", "inspect"],
        &["jwt", "keypair"],
        &["key", "new"],
        &["completions"],
        &["health"],
        &["man"],
    ];
    for command in commands {
        let help = stdout(&weir(here(), &[command, &["--help"]].concat()));
        assert!(help.contains("Example"), "{command:?}: {help}");
    }
}

#[test]
fn completions_know_the_commands() {
    let script = stdout(&weir(here(), &["completions", "bash"]));
    assert!(script.contains("weir__subcmd__echo") || script.contains("weir__echo"));
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().expect("a folder");
    stdout(&weir(dir.path(), &["man", "man1"]));
    let page = |name: &str| std::fs::read_to_string(dir.path().join("man1").join(name));
    let help = stdout(&weir(here(), &["--help"]));
    let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let names: Vec<&str> = commands
        .expect("commands")
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let text = page(&format!("weir-{name}.1")).expect(name);
        assert!(text.contains(".SH NAME"), "{name}");
    }
    assert!(page("weir-serve.1").expect("a page").contains("Examples"));
    assert!(page("weir.1").expect("a page").contains("WEIR_ADMIN"));
}

#[test]
fn a_misspelt_option_has_a_suggestion() {
    for line in [["search", "--limt", "1"], ["tail", "--jsn", "x"], ["serve", "--lissten", "x"]] {
        let output = weir(here(), &line);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line:?}: {message}");
        assert!(message.contains("a similar argument exists: '--"), "{line:?}: {message}");
    }
}

#[test]
fn unknown_keys_are_reported_in_linear_time() {
    let dir = tempfile::tempdir().expect("a folder");
    let check = |name: &str, count: usize| {
        let keys: String = (0..count).map(|i| format!("unknown-key-{i}: 1\n")).collect();
        let names = (0..count).map(|i| format!("    - {{get: /{i}, proxy: unknown-{i}}}\n"));
        let upstreams = (0..count).map(|i| format!("  up-{i}: {{targets: [\"http://a\"]}}\n"));
        let routes = format!(
            "upstreams:\n{}apis:\n  a:\n    base: /\n    routes:\n{}",
            upstreams.collect::<String>(),
            names.collect::<String>()
        );
        std::fs::write(dir.path().join(name), keys + &routes).expect("a file");
        let start = std::time::Instant::now();
        let output = weir(dir.path(), &["check", name]);
        assert!(!output.status.success());
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(told.contains("unknown key `unknown-key-7`"), "{told}");
        assert!(told.contains("more findings are not listed"), "{told}");
        start.elapsed()
    };
    let few = check("few.yaml", 1000);
    let many = check("many.yaml", 20_000);
    // Twenty times as many: four hundred times the time where it is quadratic.
    assert!(many < few * 100, "{many:?} for 20,000, {few:?} for 1,000");
}

#[test]
fn a_new_key_comes_with_its_hash() {
    let key: Value =
        serde_json::from_str(&stdout(&weir(here(), &["key", "new", "--json"]))).unwrap();
    assert!(key["key"].as_str().unwrap().starts_with("weir_"));
    assert_eq!(key["hash"].as_str().unwrap().len(), "sha256:".len() + 64);
}

#[test]
fn a_token_is_valid_with_its_own_key_and_no_other() {
    for alg in ["RS256", "ES256", "ES384", "EdDSA"] {
        let dir = tempfile::tempdir().unwrap();
        stdout(&weir(dir.path(), &["jwt", "keypair", "mine", "--alg", alg]));
        stdout(&weir(dir.path(), &["jwt", "keypair", "other", "--alg", alg]));
        let mint = ["jwt", "mint", "--key", "mine/key.pem", "--iss", "me", "--claim", "n=1"];
        let token = stdout(&weir(dir.path(), &mint));
        std::fs::write(dir.path().join("token"), format!("Bearer {token}")).unwrap();
        let inspect = ["jwt", "inspect", "token", "--json", "--jwks", "mine/jwks.json"];
        let seen: Value = serde_json::from_str(&stdout(&weir(dir.path(), &inspect))).unwrap();
        assert_eq!(seen["verified"], true);
        assert_eq!((&seen["header"]["alg"], &seen["claims"]["n"]), (&alg.into(), &1.into()));
        let other = ["jwt", "inspect", "token", "--jwks", "other/jwks.json"];
        assert_eq!(weir(dir.path(), &other).status.code(), Some(1), "{alg}");
    }
}

#[test]
fn an_expired_token_is_shown_and_not_valid() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("secret"), "not very secret\n").unwrap();
    let mint = ["jwt", "mint", "--secret-file", "secret", "--expired", "10s"];
    std::fs::write(dir.path().join("token"), stdout(&weir(dir.path(), &mint))).unwrap();
    let output = weir(dir.path(), &["jwt", "inspect", "token", "--secret-file", "secret"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("\"alg\": \"HS256\"") && text.contains("the token has expired"),
        "{text}"
    );
    stdout(&weir(dir.path(), &["jwt", "inspect", "token"]));
}

#[test]
fn keys_are_private_and_never_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    stdout(&weir(dir.path(), &["jwt", "keypair", "keys"]));
    let key = dir.path().join("keys/key.pem");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let before = std::fs::read(&key).unwrap();
    assert_eq!(weir(dir.path(), &["jwt", "keypair", "keys"]).status.code(), Some(1));
    assert_eq!(std::fs::read(&key).unwrap(), before);
}
