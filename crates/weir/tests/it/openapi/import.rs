//! Configurations made of OpenAPI documents.

use super::example;
use crate::harness::{self, Weir, weir};
use std::path::Path;

fn import(dir: &Path, args: &[&str]) -> (String, String) {
    let output = weir(dir, &[&["import", "openapi"], args].concat());
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_is_written_serves_and_what_is_left_out_has_its_reason() {
    let document = std::fs::read(example().join("orders.openapi.yaml")).expect("the document");
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("orders.openapi.yaml"), &document).expect("written");
    let (config, told) = import(dir.path(), &["orders.openapi.yaml", "--mock"]);
    assert!(config.contains("{op: \"placeOrder\", mock: true}"), "{config}");
    assert!(told.contains("4 operations with routes, 1 left out"), "{told}");
    assert!(told.contains("left out: quote:"), "{told}");
    let server = Weir::new(&config)
        .file("orders.openapi.yaml", &document)
        .args(&["--set", "listen.0.addr=127.0.0.1:0"])
        .start();
    assert_eq!(server.connect().get("/orders").status, 401);
    let echo = harness::echo(&[]);
    let upstream = format!("http://{}", echo.listen[0]);
    let to = ["orders.openapi.yaml", "--upstream", &upstream, "-o", "weir.yaml"];
    import(dir.path(), &to);
    let checked = weir(dir.path(), &["check"]);
    assert!(checked.status.success(), "{checked:?}");
    // What is there stays as it is.
    let again = weir(dir.path(), &[&["import", "openapi"], &to[..]].concat());
    assert!(!again.status.success());
}

#[test]
fn what_is_no_openapi_document_is_refused_with_a_place() {
    let dir = tempfile::tempdir().expect("a folder");
    for (text, code) in [
        ("swagger: '2.0'\n", "bad-openapi"),
        ("a: [\n", "syntax"),
        ("openapi: 4.0.0\n", "bad-openapi"),
    ] {
        std::fs::write(dir.path().join("a.yaml"), text).expect("written");
        let output = weir(dir.path(), &["import", "openapi", "a.yaml"]);
        assert_eq!(output.status.code(), Some(2));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains(code) && told.contains("a.yaml:"), "{told}");
    }
    let output = weir(dir.path(), &["import", "openapi", "absent.yaml"]);
    assert_eq!(output.status.code(), Some(2));
}
