use super::*;
use proptest::prelude::*;

#[test]
fn paths_are_normalised() {
    for (path, normal) in [
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b/"),
        ("//a", "//a"),
        ("/a;b=1/c", "/a;b=1/c"),
        ("/a\\b", "/a\\b"),
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
        ("/%E4%bd%a0", "/%E4%BD%A0"),
        ("/a%252fb", "/a%252fb"),
    ] {
        assert_eq!(normalise(path).map(|n| n.path).as_deref(), Ok(normal), "{path}");
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
        ("/a//../b", PathError::AmbiguousDotSegments),
        ("/..%2fa", PathError::AmbiguousDotSegments),
        ("/.%2fa", PathError::AmbiguousDotSegments),
        ("/a/..;/b", PathError::AmbiguousDotSegments),
        ("/a/..%3bx/b", PathError::AmbiguousDotSegments),
        ("/a/.;x/b", PathError::AmbiguousDotSegments),
        ("/a\\..\\b", PathError::AmbiguousDotSegments),
        ("/a/..%5cb", PathError::AmbiguousDotSegments),
    ] {
        assert_eq!(normalise(path), Err(error), "{path}");
    }
}

#[test]
fn ambiguous_paths_have_other_readings() {
    let readings = |path: &str| -> Vec<String> {
        let normal = normalise(path).unwrap();
        let mut all: Vec<_> =
            normal.ambiguity.readings(&normal.path).map(|reading| reading.path).collect();
        all.sort();
        all.dedup();
        all
    };
    assert_eq!(readings("/a/.b/c.d"), [""; 0]);
    assert_eq!(readings("//a"), ["/a"]);
    assert_eq!(readings("/a%2fb"), ["/a/b"]);
    assert_eq!(readings("/a\\b"), ["/a/b"]);
    assert_eq!(readings("/%5ca"), ["//a", "/a"]);
    assert_eq!(readings("/a;x=1/b"), ["/a/b"]);
    assert_eq!(readings("/;x/a"), ["//a", "/a"]);
    assert_eq!(readings("/a;x%2fb"), ["/a", "/a/b", "/a;x/b"]);
}

#[test]
fn queries_are_decoded_as_forms() {
    let pairs: Vec<_> = query_pairs("a=1&b=x+y&&c&d=%2B%3d").collect();
    let pairs: Vec<_> = pairs.iter().map(|(a, b)| (a.as_ref(), b.as_ref())).collect();
    assert_eq!(pairs, [("a", "1"), ("b", "x y"), ("c", ""), ("d", "+=")]);
}

proptest! {
    /// Normalizing again changes nothing, and no dot segment remains.
    #[test]
    fn normalising_is_idempotent(path in "/([a-c./%25]|%2[eEfF]|%61|%00){0,24}") {
        if let Ok(once) = normalise(&path) {
            let once = once.path;
            let twice = normalise(&once).map(|normal| normal.path);
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
