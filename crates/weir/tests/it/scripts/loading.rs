//! How scripts come in: checked, imported, reloaded.

use super::{config, start, weir};
use crate::harness;

#[test]
fn a_script_that_cannot_be_used_is_a_finding_with_its_place() {
    for (text, found) in [
        ("export default () => {\n  return 1 +;\n}", "a.js:2: SyntaxError"),
        ("const a = 1;\n\nnull.b;\nexport default () => 1", "a.js:3: TypeError"),
        ("import './gone.js';\nexport default () => 1", "gone.js` does not exist"),
        ("export const x = 1", "neither a default export nor one named as a method"),
        ("export default 1", "`default` is no function"),
        ("for (;;) {}\nexport default () => 1", "top level takes longer"),
    ] {
        let output = weir(&["{get: /, script: a.js}"], &[("a.js", text)], "").refused();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(found) && stderr.contains("bad-script"), "{found}: {stderr}");
    }
    let output = weir(&["{get: /, script: gone.js}"], &[], "").refused();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("missing-file"), "{stderr}");
    let routes = ["{get: /, script: {file: a.js, cpu: 2s, fetch: nobody}}"];
    let output = weir(&routes, &[("a.js", "export default () => 1")], "").refused();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.contains("at most 1s") && stderr.contains("unknown upstream `nobody`"),
        "{stderr}"
    );
}

#[test]
fn a_change_of_a_script_or_of_what_it_imports_is_taken_over_whole_or_not_at_all() {
    let files = [
        ("a.js", "import { word } from './lib.js';\nexport default () => word"),
        ("lib.js", "export const word = 'one'"),
    ];
    let routes =
        ["{get: /a, script: a.js}", "{get: /apart, script: {file: a.js, isolation: thread}}"];
    let mut server = start(&routes, &files);
    let mut client = server.connect();
    assert_eq!(
        (client.get("/a").text(), client.get("/apart").text()),
        ("\"one\"".into(), "\"one\"".into())
    );
    server.replace("lib.js", "export const word = 'two'");
    server.event("reloaded");
    assert_eq!(
        (client.get("/a").text(), client.get("/apart").text()),
        ("\"two\"".into(), "\"two\"".into())
    );
    server.replace("lib.js", "export const word = ");
    server.event("reload-refused");
    assert_eq!(client.get("/a").text(), "\"two\"");
    // The file that was at fault is still watched.
    server.replace("lib.js", "export const word = 'three'");
    server.event("reloaded");
    assert_eq!(client.get("/a").text(), "\"three\"");
}

#[test]
fn shared_state_outlives_a_reload_that_changes_no_script() {
    let routes = ["{get: /n, script: {file: n.js, state: shared}}"];
    let mut server = start(&routes, &[("n.js", "let n = 0; export default () => ++n")]);
    let mut client = server.connect();
    assert_eq!((client.get("/n").text(), client.get("/n").text()), ("1".into(), "2".into()));
    server.reload(&config(&[routes[0], "{get: /other, reply: {}}"], ""));
    assert_eq!(client.get("/n").text(), "3");
    server.replace("n.js", "let n = 10; export default () => ++n");
    server.event("reloaded");
    assert_eq!(client.get("/n").text(), "11");
}

#[test]
fn types_are_printed_for_editors() {
    let folder = tempfile::tempdir().unwrap();
    let output = harness::weir(folder.path(), &["types"]);
    let types = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    for name in ["declare function fetch(", "declare const tracker", "interface Request"] {
        assert!(types.contains(name), "{name}");
    }
}
