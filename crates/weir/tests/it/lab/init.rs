//! Scenarios that `weir lab init` writes.

use crate::harness::{Weir, weir};
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes a scenario for a document and checks it. Returns the text.
fn init(dir: &Path, document: &str, more: &[&str]) -> String {
    let output = weir(dir, &[&["lab", "init", "--from", document], more].concat());
    assert!(output.status.success(), "{output:?}");
    let checked = weir(dir, &["lab", "check", "scenario.yaml"]);
    assert!(checked.status.success(), "{checked:?}");
    std::fs::read_to_string(dir.join("scenario.yaml")).unwrap()
}

#[test]
fn the_scenario_of_a_document_runs_against_a_server_of_the_same_document() {
    let folder = repository().join("examples/openapi");
    let document = std::fs::read(folder.join("orders.openapi.yaml")).unwrap();
    let server = Weir::new(&std::fs::read_to_string(folder.join("weir.yaml")).unwrap())
        .file("orders.openapi.yaml", &document)
        .args(&["--set", "listen.0.addr=127.0.0.1:0", "--set", "workers=1"])
        .start();
    let dir = tempfile::tempdir().unwrap();
    // The example serves the document below a path.
    let text = String::from_utf8(document).unwrap();
    let text = text.replacen("paths:", "servers: [{url: /shop/v1}]\npaths:", 1);
    std::fs::write(dir.path().join("orders.yaml"), text).unwrap();
    let target = format!("http://{}", server.listen[0]);
    let scenario = init(dir.path(), "orders.yaml", &["--target", &target]);
    let at = |name: &str| scenario.find(&format!("name: \"{name}\"")).unwrap();
    assert!(at("placeOrder") < at("listOrders") && at("listOrders") < at("getOrder"), "{scenario}");
    assert!(at("getOrder") < at("cancelOrder"), "{scenario}");
    assert!(scenario.contains("extract: {orders_id: {json: \"$[\\\"id\\\"]\"}}"), "{scenario}");
    assert!(scenario.contains("get: \"/shop/v1/orders/${orders_id}\""), "{scenario}");
    assert!(scenario.contains("# Left out: quote: the parameter `from`"), "{scenario}");
    assert!(!scenario.contains("\"id\":"), "read-only: {scenario}");
    // The credentials are in a file of their own.
    let credentials = dir.path().join("scenario.credentials.csv");
    assert_eq!(std::fs::read_to_string(&credentials).unwrap(), "apiKey\nREPLACE-ME\n");
    std::fs::write(credentials, "apiKey\nexample\n").unwrap();
    let once = "load={executor: shared-iterations, vus: 2, iterations: 6}";
    let output =
        weir(dir.path(), &["lab", "run", "scenario.yaml", "--set", once, "--out", "results"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = std::fs::read(dir.path().join("results/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    let total = &summary["cells"][0]["labels"][0];
    assert_eq!((&total["samples"], &total["ok"]), (&24.into(), &24.into()), "{text}");
    let run = std::fs::read_to_string(dir.path().join("results/run.json")).unwrap();
    assert!(!run.contains("apiKey\\nexample"), "{run}");
}

#[test]
fn the_document_of_the_admin_api_becomes_a_scenario() {
    let dir = tempfile::tempdir().unwrap();
    let document = repository().join("console/openapi.json");
    let scenario = init(dir.path(), document.to_str().unwrap(), &[]);
    assert!(scenario.matches("  - name: ").count() > 60, "{scenario}");
}

#[test]
fn a_url_becomes_a_small_scenario_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let url = "http://127.0.0.1:9/hello?a=1";
    let output = weir(dir.path(), &["lab", "init", url]);
    assert!(output.status.success(), "{output:?}");
    let checked = weir(dir.path(), &["lab", "check", "scenario.yaml"]);
    assert!(checked.status.success(), "{checked:?}");
    let again = weir(dir.path(), &["lab", "init", url]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force"), "{again:?}");
    assert!(weir(dir.path(), &["lab", "init", url, "--force"]).status.success());
}

#[test]
fn what_is_no_openapi_document_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    for text in ["swagger: '2.0'\n", "a: [\n", "openapi: 3.1.0\npaths: {}\n"] {
        std::fs::write(dir.path().join("a.yaml"), text).unwrap();
        let output = weir(dir.path(), &["lab", "init", "--from", "a.yaml"]);
        assert_eq!(output.status.code(), Some(2), "{text}: {output:?}");
        assert!(!dir.path().join("scenario.yaml").exists());
    }
}
