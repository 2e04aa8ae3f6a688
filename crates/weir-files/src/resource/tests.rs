use super::decode_path;

fn path(rest: &str) -> Option<String> {
    decode_path(rest, false).map(|path| String::from_utf8_lossy(&path).into_owned())
}

#[test]
fn a_path_names_what_its_segments_say() {
    for (rest, expected) in [
        ("", ""),
        ("a", "a"),
        ("a/", "a/"),
        ("a/b%20c", "a/b c"),
        ("%C3%A4.txt", "ä.txt"),
        ("a%5Cb", "a\\b"),
        ("%252e%252e/x", "%2e%2e/x"),
        ("a...", "a..."),
        ("a%3Fb%23c", "a?b#c"),
    ] {
        assert_eq!(path(rest).as_deref(), Some(expected), "{rest}");
    }
}

#[test]
fn paths_that_could_mean_something_else_lead_nowhere() {
    for rest in [
        "/",
        "//",
        "a//b",
        "/etc/passwd",
        "..",
        "../x",
        "a/..",
        "a/../b",
        ".",
        "./a",
        "a%2Fb",
        "..%2F..%2Fetc",
        "%2e%2e/x",
        "%2E%2E",
        "a%00b",
        ".git/config",
        ".env",
        "a/.hidden",
        ".well-known/x",
        "...",
        "%2Egit",
    ] {
        assert_eq!(path(rest), None, "{rest}");
    }
    assert_eq!(decode_path(".well-known/x", true).as_deref(), Some(&b".well-known/x"[..]));
    for rest in ["..", ".", "a/../b", "%2e%2e"] {
        assert_eq!(decode_path(rest, true), None, "{rest}");
    }
}
