use super::*;
use proptest::prelude::*;

#[test]
fn paths_are_normalised() {
    for (path, normal) in [
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b/"),
        ("//a", "//a"),
        ("/%61", "/a"),
        ("/a%2fb", "/a%2Fb"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.", "/a/"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("/.hidden", "/.hidden"),
        ("/a/...", "/a/..."),
        ("/a//../b", "/a/b"),
        ("/%E4%bd%a0", "/%E4%BD%A0"),
        ("/a%252fb", "/a%252fb"),
    ] {
        assert_eq!(normalise(path).as_deref(), Ok(normal), "{path}");
    }
}

#[test]
fn bad_paths_are_refused() {
    for (path, error) in [
        ("", PathError::Relative),
        ("*", PathError::Relative),
        ("a", PathError::Relative),
        ("/%", PathError::Escape),
        ("/%4", PathError::Escape),
        ("/%zz", PathError::Escape),
        ("/%00", PathError::Escape),
        ("/..", PathError::AboveRoot),
        ("/a/../..", PathError::AboveRoot),
        ("/%2e%2e/etc/passwd", PathError::AboveRoot),
    ] {
        assert_eq!(normalise(path), Err(error), "{path}");
    }
}

#[test]
fn queries_are_decoded_as_forms() {
    let pairs: Vec<_> = query_pairs("a=1&b=x+y&&c&d=%2B%3d").collect();
    let pairs: Vec<_> = pairs.iter().map(|(a, b)| (a.as_ref(), b.as_ref())).collect();
    assert_eq!(pairs, [("a", "1"), ("b", "x y"), ("c", ""), ("d", "+=")]);
}

proptest! {
    /// Normalising twice gives what normalising once gave, and no dot segment is left.
    #[test]
    fn normalising_is_idempotent(path in "/([a-c./%25]|%2[eEfF]|%61|%00){0,24}") {
        if let Ok(once) = normalise(&path) {
            let twice = normalise(&once);
            prop_assert_eq!(twice.as_deref(), Ok(once.as_ref()));
            prop_assert!(segments(&once).all(|s| !matches!(decode(s).as_ref(), "." | "..")));
        }
    }

    #[test]
    fn what_is_encoded_decodes_again(text in ".*") {
        let mut out = String::new();
        encode(&text, &mut out);
        prop_assert_eq!(decode(&out), text);
    }
}
