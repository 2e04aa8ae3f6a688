//! Paths and methods that servers read in more than one way lead around no authentication.

use super::assert_problem;
use crate::harness::{RealServer, Server, Upstream, Weir, key_hash, weir};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;

/// What only an administrator may read.
const PROTECTED: &str = "for administrators only";

/// Spellings of `/admin/x` that some server reads as that.
const SPELLINGS: &[&str] = &[
    "//admin/x",
    "/admin//x",
    "///admin///x",
    "/admin%2fx",
    "/admin%2Fx",
    "/%2fadmin/x",
    "/%2Fadmin%2Fx",
    "/..%2fadmin/x",
    "/.%2fadmin/x",
    "/%2e%2fadmin/x",
    "/open/..%2fadmin/x",
    "/open/%2e%2e%2fadmin/x",
    "/open/..;/admin/x",
    "/open/..;a=b/admin/x",
    "/open/..%3b/admin/x",
    "/.;/admin/x",
    "/.;x/admin/x",
    "/;x/admin/x",
    "/;/admin/x",
    "/admin;x/x",
    "/admin;/x",
    "/admin;a=b;c/x",
    "/admin%3bx/x",
    "/admin/x;y",
    "/admin\\x",
    "\\admin\\x",
    "/\\admin/x",
    "/admin%5cx",
    "/%5cadmin%5Cx",
    "/open\\..\\admin\\x",
    "/open/..\\admin/x",
    "/open/..%5cadmin/x",
];

/// In front of an upstream: everything is open but `/admin`.
fn front(upstream: SocketAddr, more: &str) -> Server {
    Weir::new(&format!(
        "listen: [\"127.0.0.1:0\"]\nworkers: 1\nauth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         consumers: {{root: {{api_keys: [\"{}\"]}}}}\n\
         upstreams: {{files: {{targets: [\"http://{upstream}\"]}}}}\n\
         apis:\n  all:\n    base: /\n{more}    routes:\n      \
         - {{path: \"/admin/*\", auth: keys, proxy: files}}\n      \
         - {{path: \"/*\", proxy: files}}\n",
        key_hash("the key")
    ))
    .start()
}

/// Asks for each spelling, with the methods that get content.
fn none_leads_in(server: &Server, what: &str) {
    let own = server.connect().request("GET", "/admin/x", &[("x-key", "the key")], "");
    assert_eq!((own.status, own.text().as_str()), (200, PROTECTED), "{what}");
    assert_eq!(server.connect().get("/open/y").text(), "for everybody", "{what}");
    assert_problem(&server.connect().get("/admin/x"), 401, "missing-credential", what);
    for path in SPELLINGS {
        // The server may close the connection behind what it does not like.
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let response = client.response();
        assert!(matches!(response.status, 400 | 401), "{what} {path}: {}", response.status);
        assert!(!response.text().contains(PROTECTED), "{what} {path}");
    }
    for method in ["get", "Get", "gET", "hEAD", "PoST", "post", "propfind"] {
        let response = server.connect().request(method, "/admin/x", &[], "");
        assert_problem(&response, 501, "not-implemented", method);
    }
}

#[test]
fn no_spelling_of_a_path_reaches_what_another_route_protects_on_real_file_servers() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [("admin", PROTECTED), ("open", "for everybody")] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        let file = if name == "admin" { "x" } else { "y" };
        std::fs::write(folder.path().join(name).join(file), content).unwrap();
    }
    let kept = "    path_normalization: {escaped_slashes: keep, backslashes: keep, empty_segments: keep, path_parameters: keep}\n";
    for (what, files) in [
        ("Go", RealServer::go_files(folder.path())),
        ("Python", RealServer::python_files(folder.path())),
    ] {
        let Some(files) = files else { continue };
        none_leads_in(&front(files.addr, ""), what);
        none_leads_in(&front(files.addr, kept), &format!("{what}, ambiguous paths kept"));
    }
}

#[test]
fn an_index_or_a_script_is_reached_by_no_path_around_its_own_route() {
    let weir = Weir::new(&format!(
        "listen: [\"127.0.0.1:0\"]\nworkers: 1\nauth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         consumers: {{root: {{api_keys: [\"{}\"]}}}}\n\
         pools: {{c: {{protocol: cgi, root: bin, index: index.sh, user: {}}}}}\n\
         apis:\n  all:\n    base: /\n    routes:\n      \
         - {{path: /run.sh, auth: keys, reply: {{text: run}}}}\n      \
         - {{path: /sub/index.sh, auth: keys, reply: {{text: sub}}}}\n      \
         - {{get: /w/secret/index.html, auth: keys, files: www/secret/index.html}}\n      \
         - {{path: \"/w/*\", files: www}}\n      \
         - {{path: \"/keyed/*\", auth: keys, pool: c}}\n      \
         - {{path: \"/*\", pool: c}}\n",
        key_hash("the key"),
        rustix::process::geteuid().as_raw()
    ));
    let program = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s' \"$PATH_INFO\"\n";
    for script in ["run.sh", "open.sh", "sub/index.sh", "open/index.sh"] {
        let script = weir.dir().join("bin").join(script);
        std::fs::create_dir_all(script.parent().unwrap()).unwrap();
        std::fs::write(&script, program).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for page in ["secret", "open"] {
        let folder = weir.dir().join("www").join(page);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("index.html"), page).unwrap();
    }
    let server = weir.start();
    let mut client = server.connect();
    for path in ["/run.sh", "/sub/index.sh", "/w/secret/index.html", "/keyed/run.sh/x"] {
        assert_problem(&client.get(path), 401, "missing-credential", path);
    }
    for path in
        ["/run.sh/", "/run.sh/x", "/r%75n.sh/x", "/sub/", "/sub", "/sub/index.sh/x", "/w/secret/"]
    {
        assert_problem(&client.get(path), 400, "ambiguous-path", path);
    }
    for (path, text) in
        [("/open.sh/x", "/x"), ("/open/", ""), ("/w/open/", "open"), ("/w/open/index.html", "open")]
    {
        let response = client.get(path);
        assert_eq!((response.status, response.text().as_str()), (200, text), "{path}");
    }
    let own = client.request("GET", "/keyed/run.sh/x", &[("x-key", "the key")], "");
    assert_eq!((own.status, own.text().as_str()), (200, "/x"));
}

#[test]
fn ambiguous_paths_are_rejected_unless_the_route_keeps_them() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let routes = "\
        - {get: \"/projects/{id}\", path_normalization: {escaped_slashes: keep}, proxy: files}\n      \
        - {get: \"/items/*\", path_normalization: {empty_segments: keep, backslashes: keep}, proxy: files}\n      \
        - {get: \"/plain/*\", proxy: files}\n      \
        - {get: \"/strict/*\", path_normalization: {path_parameters: reject}, proxy: files}\n      \
        - {get: \"/app/{page}\", proxy: files}\n";
    let server = Weir::new(&format!(
        "listen: [\"127.0.0.1:0\"]\nworkers: 1\n\
         upstreams: {{files: {{targets: [\"http://{}\"]}}}}\n\
         apis:\n  all:\n    base: /\n    routes:\n      {routes}",
        upstream.addr
    ))
    .start();
    let mut client = server.connect();
    for path in [
        "/projects/group%2Fname",
        "/items//a",
        "/items/a\\b",
        "/plain/a/b",
        "/app/page;jsessionid=1",
        "/plain/a;v=1/b;w",
    ] {
        assert_eq!(client.get(path).status, 200, "{path}");
        let head = upstream.heads().pop().unwrap();
        assert!(head.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{path}: {head}");
    }
    let sent = upstream.heads().len();
    for path in [
        "/plain/a%2fb",
        "/plain//a",
        "/plain/a\\b",
        "/plain/a%5Cb",
        "/items/a%2Fb",
        "/projects/a%2F..%2Fb",
        "/items//../a",
        "/strict/a;v=1",
        "/;x/plain/a",
    ] {
        let response = server.connect().get(path);
        let (status, slug) = match path {
            // No route takes it as it is.
            "/;x/plain/a" => (404, "no-route"),
            _ => (400, "ambiguous-path"),
        };
        assert_problem(&response, status, slug, path);
    }
    assert_eq!(upstream.heads().len(), sent, "none of them was forwarded");
    let explained = weir(server.dir(), &["explain", "GET", "/plain/a%2fb", "weir.yaml"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("ambiguous-path"), "{explained}");
}

#[test]
fn the_check_warns_of_catch_alls_that_demand_less() {
    let check = |routes: &str| {
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "listen: [\"127.0.0.1:0\"]\nauth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
             consumers: {{root: {{api_keys: [\"{}\"]}}}}\n\
             upstreams: {{up: {{targets: [\"http://127.0.0.1:9\"]}}}}\n\
             apis: {{all: {{base: /, routes: [{routes}]}}}}\n",
            key_hash("k")
        );
        std::fs::write(dir.path().join("weir.yaml"), config).unwrap();
        let output = weir(dir.path(), &["check", "weir.yaml"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    let warned = check("{get: /admin, auth: keys, proxy: up}, {path: \"/*\", proxy: up}");
    assert!(warned.contains("weaker-catch-all") && warned.contains("other than GET"), "{warned}");
    let warned = check(
        "{path: \"/admin/*\", auth: keys, proxy: up}, {path: \"/*\", path_normalization: {empty_segments: keep}, proxy: up}",
    );
    assert!(warned.contains("weaker-catch-all") && warned.contains("empty_segments"), "{warned}");
    for routes in [
        "{path: \"/admin/*\", auth: keys, proxy: up}, {path: \"/*\", proxy: up}",
        "{get: /admin, auth: keys, proxy: up}, {path: /admin, auth: keys, proxy: up}, {path: \"/*\", proxy: up}",
        "{get: /admin, auth: keys, proxy: up}, {get: \"/*\", proxy: up}",
    ] {
        let silent = check(routes);
        assert!(!silent.contains("weaker-catch-all"), "{routes}: {silent}");
    }
}
