//! No way out of the folder, and none to what is hidden in it.

use super::{public, put, serve, start};
use std::fs;
use std::os::unix::fs::symlink;

const ALL: &str = "{get: \"/*\", files: public}";
const SECRET: &str = "do not read this";

/// Ways that led out of other servers' folders, at one time or another.
const CORPUS: &[&str] = &[
    "/../secret.txt",
    "/../../secret.txt",
    "/a/../../secret.txt",
    "/./../secret.txt",
    "/a/./../../secret.txt",
    "/..",
    "/../",
    "/%2e%2e/secret.txt",
    "/%2E%2E/secret.txt",
    "/.%2e/secret.txt",
    "/%2e./secret.txt",
    "/a/%2e%2e/%2e%2e/secret.txt",
    "/..%2fsecret.txt",
    "/..%2Fsecret.txt",
    "/%2e%2e%2fsecret.txt",
    "/%2e%2e%2Fsecret.txt",
    "/a%2f..%2f..%2fsecret.txt",
    "/..%5csecret.txt",
    "/..\\secret.txt",
    "/a/..\\..\\secret.txt",
    "/%5c..%5csecret.txt",
    "/%252e%252e/secret.txt",
    "/%252e%252e%252fsecret.txt",
    "/..%252fsecret.txt",
    "/%25%32%65%25%32%65/secret.txt",
    "/%c0%ae%c0%ae/secret.txt",
    "/%e0%80%ae%e0%80%ae/secret.txt",
    "/..%c0%afsecret.txt",
    "/%uff0e%uff0e/secret.txt",
    "/\u{ff0e}\u{ff0e}/secret.txt",
    "/%ef%bc%8e%ef%bc%8e/secret.txt",
    "/..;/secret.txt",
    "/.;/../secret.txt",
    "/a/..;/..;/secret.txt",
    "/....//secret.txt",
    "/..../secret.txt",
    "/.../secret.txt",
    "/..%00/secret.txt",
    "/secret.txt%00.html",
    "/a%00",
    "/a.txt%00/../../secret.txt",
    "/..%0d%0a/secret.txt",
    "/..%20/secret.txt",
    "/%20../secret.txt",
    "//secret.txt",
    "///etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "/%2fetc%2fpasswd",
    "/%2Fetc/passwd",
    "/a//../../secret.txt",
    "/a/%2f../../secret.txt",
    "/file:///etc/passwd",
    "/C:/secret.txt",
    "/~root/secret.txt",
    "/proc/self/cwd/secret.txt",
    "/out/secret.txt",
    "/absolute/secret.txt",
    "/absolute",
    "/direct.txt",
    "/loop",
    "/chain/secret.txt",
    "/up/secret.txt",
    "/proc",
    "/proc/self/environ",
    "/.env",
    "/.git/config",
    "/a/.hidden",
    "/%2eenv",
    "/%2Egit/config",
    "/a/%2ehidden",
    "/a/../.env",
    "/.env?x",
    "/pipe",
    "/pipe/",
    "/device",
    "/socket",
];

#[test]
fn no_path_leads_out_of_the_folder() {
    let server = serve(ALL, &[("a/b.txt", b"b"), ("a.txt", b"a"), ("index.html", b"i")]);
    let (public, outside) = (public(&server), server.dir());
    fs::write(outside.join("secret.txt"), SECRET).unwrap();
    for hidden in [".env", ".git/config", "a/.hidden"] {
        put(&public, hidden, SECRET.as_bytes());
    }
    symlink("..", public.join("out")).unwrap();
    symlink(outside, public.join("absolute")).unwrap();
    symlink("../secret.txt", public.join("direct.txt")).unwrap();
    symlink("loop", public.join("loop")).unwrap();
    symlink("out", public.join("chain")).unwrap();
    symlink("a/../..", public.join("up")).unwrap();
    symlink("/proc/self/cwd", public.join("proc")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(public.join("pipe")).status().unwrap();
    assert!(made.success());
    symlink("/dev/zero", public.join("device")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(public.join("socket")).unwrap();
    for path in CORPUS {
        // Whoever does not like a path may close; each has a connection of its own.
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        let response = client.response();
        assert!(matches!(response.status, 400 | 404), "{path}: {}", response.status);
        assert!(!response.text().contains(SECRET), "{path}");
    }
    assert_eq!(server.connect().get("/a/../a.txt").text(), "a", "and it serves on");
    assert!(server.stderr().is_empty(), "{}", server.stderr());
}

#[test]
fn symbolic_links_that_stay_inside_are_followed() {
    let server = serve(ALL, &[("a/b.txt", b"b"), ("a/index.html", b"i")]);
    let public = public(&server);
    symlink("a", public.join("same")).unwrap();
    symlink("../a/b.txt", public.join("a/link.txt")).unwrap();
    symlink("../..", public.join("a/out")).unwrap();
    let mut client = server.connect();
    for (path, body) in [("/same/b.txt", "b"), ("/a/link.txt", "b"), ("/same/", "i")] {
        assert_eq!(client.get(path).text(), body, "{path}");
    }
    assert_eq!(client.get("/same").header("location"), Some("/same/"));
    assert_eq!(client.get("/a/out/public/a/b.txt").status, 404, "out, and in again");
}

#[test]
fn dot_files_are_served_where_that_is_said() {
    let server = start(
        "",
        &[
            "{get: \"/all/*\", files: {root: public, dot_files: true}}",
            "{get: \"/.well-known/*\", files: public/.well-known}",
            "{get: \"/*\", files: public}",
        ],
        &[(".well-known/security.txt", b"s"), (".env", b"e"), ("a", b"a")],
    );
    let mut client = server.connect();
    for (path, status) in [
        ("/all/.env", 200),
        ("/all/.well-known/security.txt", 200),
        ("/all/../.env", 404),
        ("/all/%2e%2e/.env", 404),
        ("/all/..", 404),
        ("/.well-known/security.txt", 200),
        ("/.env", 404),
        ("/a", 200),
    ] {
        assert_eq!(client.get(path).status, status, "{path}");
    }
}

/// The folder itself may be reached by a link, and another one put in its place.
#[test]
fn the_folder_may_be_a_link_that_is_switched() {
    let server = start(
        "",
        &["{get: \"/*\", files: public/current}"],
        &[("current/a.txt", b"first"), ("next/a.txt", b"second")],
    );
    let public = public(&server);
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").text(), "first");
    fs::rename(public.join("current"), public.join("first")).unwrap();
    symlink("next", public.join("current")).unwrap();
    crate::harness::eventually("the other folder", || client.get("/a.txt").text() == "second");
    fs::remove_file(public.join("current")).unwrap();
    crate::harness::eventually("no folder", || client.get("/a.txt").status == 404);
    symlink("first", public.join("current")).unwrap();
    crate::harness::eventually("the first one again", || client.get("/a.txt").text() == "first");
}
