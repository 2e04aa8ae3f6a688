//! `weir init`, `weir reload` and `weir diff`: a first configuration and its changes.

use crate::admin_api::{command, first_token, tokens};
use crate::harness::{Server, Upstream, Weir, weir};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

const CONFIG: &str = "\
listen: [{addr: \"127.0.0.1:0\"}]
workers: 2
upstreams: {shop: {targets: [\"http://127.0.0.1:1\"]}}
apis:
  orders:
    base: /
    resubmit: {headers: {set: {authorization: \"Bearer hush-hush\"}}}
    routes:
      - {get: /a, op: first, reply: {text: one}}
      - {get: /b, op: second, proxy: shop}
";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Exit code, standard output and standard error.
fn outcome(output: &Output) -> (i32, String, String) {
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn start() -> Server {
    Weir::new(CONFIG).start()
}

/// Serves the file that `weir init` has written in `dir`.
fn serve(dir: tempfile::TempDir) -> Server {
    let folder = dir.path().to_owned();
    let started = Weir::elsewhere(dir, &folder, "weir.yaml");
    started.args(&["--set", "listen.0.addr=127.0.0.1:0"]).start()
}

fn init(dir: &Path, args: &[&str]) -> (i32, String, String) {
    outcome(&weir(dir, &[&["init"], args].concat()))
}

#[test]
fn a_first_configuration_is_valid_and_serves() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = init(dir.path(), &[]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("weir serve"), "{out}");
    let (code, out, err) = outcome(&weir(dir.path(), &["check"]));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let server = serve(dir);
    let response = server.connect().get("/");
    assert_eq!(response.status, 200);
    assert!(response.text().contains("Welcome"), "{}", response.text());
    let (ok, out, err) = command(&server, &first_token(&server), &["search", "welcome"]);
    assert!(ok, "{out}{err}");
}

#[test]
fn an_existing_configuration_is_overwritten_only_by_force() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new/weir.yaml");
    assert_eq!(init(dir.path(), &["new"]).0, 0);
    std::fs::write(&path, "mine").unwrap();
    let (code, _, err) = init(dir.path(), &["new"]);
    assert_eq!(code, 1);
    assert!(err.contains("`new/weir.yaml` exists; --force overwrites it"), "{err}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(init(dir.path(), &["new", "--force"]).0, 0);
    assert!(std::fs::read_to_string(&path).unwrap().contains("Welcome"));
}

#[test]
fn a_first_configuration_proxies_a_service() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}", upstream.addr);
    let (code, _, err) = init(dir.path(), &["--proxy", &url]);
    assert_eq!(code, 0, "{err}");
    let server = serve(dir);
    assert_eq!(server.connect().get("/any/path?x=1").text(), "hi");
    assert!(upstream.heads()[0].starts_with("GET /any/path?x=1 "), "{:?}", upstream.heads());
    for wrong in ["127.0.0.1:80", "http://a/path", "ftp://a"] {
        assert_eq!(init(server.dir(), &["--force", "--proxy", wrong]).0, 2, "{wrong}");
    }
}

#[test]
fn a_first_configuration_has_the_operations_of_a_document() {
    let document = "openapi: 3.0.3\ninfo: {title: t, version: \"1\"}\npaths:\n  /pets:\n    get:\n      \
        operationId: list\n      responses:\n        \"200\":\n          description: ok\n          \
        content: {application/json: {example: [{name: cat}]}}\n";
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("pets.yaml"), document).unwrap();
    let (code, _, err) = init(dir.path(), &["--from", "pets.yaml", "--mock"]);
    assert_eq!(code, 0, "{err}");
    let written = std::fs::read_to_string(dir.path().join("weir.yaml")).unwrap();
    assert!(written.contains("file: \"pets.yaml\""), "{written}");
    // From another folder.
    let (code, _, err) = init(dir.path(), &["else", "--from", "pets.yaml", "--mock"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(outcome(&weir(dir.path(), &["check", "else"])).0, 0);
    let (code, ..) = init(dir.path(), &["none", "--from", "weir.yaml"]);
    assert_eq!(code, 2, "no OpenAPI document");
    assert!(!dir.path().join("none/weir.yaml").exists());
    let server = serve(dir);
    assert_eq!(server.connect().get("/pets").json()[0]["name"], "cat");
}

#[test]
fn a_reload_reports_its_result() {
    let server = start();
    let token = first_token(&server);
    let reload = |args: &[&str]| {
        let admin = format!("http://{}", server.admin.unwrap());
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("reload").args(args).args(["--admin", &admin]).env("WEIR_TOKEN", &token);
        outcome(&command.current_dir(server.dir()).output().unwrap())
    };
    server.replace("weir.yaml", CONFIG.replace("text: one", "text: two"));
    let (code, out, err) = reload(&[]);
    assert_eq!((code, out.as_str()), (0, "the configuration is in force\n"), "{err}");
    assert_eq!(server.connect().get("/a").text(), "two");

    server.replace("weir.yaml", CONFIG.replace("workers: 2", "workers: 1"));
    let (code, _, err) = reload(&[]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("`workers` changed from 2 to 1: needs a restart"), "{err}");

    server.replace("weir.yaml", CONFIG.replace("get: /a", "gett: /a"));
    let (code, out, err) = reload(&["--json"]);
    assert_eq!(code, 2, "{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["taken"], false);
    assert_eq!(result["findings"][0]["line"], 9, "{result}");
    assert_eq!(server.connect().get("/a").text(), "two", "the previous one stays in force");
    // The address would be in a file with errors.
    let (code, _, err) = outcome(&weir(server.dir(), &["reload"]));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("gett") && err.contains("stays in force"), "{err}");
}

#[test]
fn files_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let diff = |args: &[&str]| outcome(&weir(dir.path(), &[&["diff"], args].concat()));
    write("old.yaml", CONFIG);
    write("same.yaml", CONFIG);
    assert_eq!(diff(&["old.yaml", "same.yaml"]), (0, "no difference\n".to_owned(), String::new()));
    let new = CONFIG
        .replace("workers: 2", "workers: 4")
        .replace("hush-hush", "other-secret")
        .replace("text: one}", "text: one}, limits: {body: 1KiB}")
        .replace("{get: /b, op: second, proxy: shop}", "{get: /c, op: third, proxy: shop}");
    write("new.yaml", &new);
    let (code, out, err) = diff(&["old.yaml", "new.yaml"]);
    assert_eq!(code, 1, "{err}");
    for part in [
        "--- old.yaml\n+++ new.yaml\n",
        "\n-workers: 2\n+workers: 4\n",
        "route removed: orders: GET /b (second)\n",
        "route added: orders: GET /c (third)\n",
        "route changed: orders: GET /a (first)\n",
        "+   limit: bodies up to 1024 bytes\n",
        "`workers` changed from 2 to 4: needs a restart\n",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert!(!out.contains("hush") && !out.contains("other-secret"), "{out}");
    let (_, json, _) = diff(&["old.yaml", "new.yaml", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["routes"].as_array().unwrap().len(), 3, "{json}");
    write("wrong.yaml", "wrong: 1\n");
    assert_eq!(diff(&["old.yaml", "wrong.yaml"]).0, 2);
}

#[test]
fn a_file_is_compared_with_the_configuration_in_force() {
    let server = start();
    let tokens = tokens(&server);
    let operator = &tokens[2];
    let (ok, out, err) = command(&server, operator, &["diff", "weir.yaml"]);
    assert!(ok, "{out}{err}");
    std::fs::write(
        server.dir().join("new.yaml"),
        CONFIG.replace("text: one", "text: two").replace("workers: 2", "workers: 1"),
    )
    .unwrap();
    let (ok, out, err) = command(&server, operator, &["diff", "new.yaml"]);
    assert!(!ok, "{err}");
    assert!(out.contains("--- weir.yaml (in force)\n+++ new.yaml\n"), "{out}");
    assert!(out.contains("reply: {text: two}"), "{out}");
    assert!(out.ends_with("`workers` changed from 2 to 1: needs a restart\n"), "{out}");
    // Payloads may be seen with less than this.
    let (ok, _, err) = command(&server, &tokens[1], &["diff", "new.yaml"]);
    assert!(!ok && err.contains("403"), "{err}");
}
