//! Which crate may depend on which (the table in ARCHITECTURE.md).

use super::{assert_none, files, root};

/// Each crate and the crates of this workspace it may name. Development dependencies count, too:
/// a test that needs a forbidden crate tests the wrong thing.
const ALLOWED: &[(&str, &[&str])] = &[
    ("weir-model", &[]),
    ("weir-wire", &[]),
    ("weir-http-client", &[]),
    ("weir-module", &[]),
    ("weir-script", &["weir-model", "weir-module"]),
    ("weir-document", &[]),
    ("weir-expr", &["weir-model"]),
    ("weir-config", &["weir-model", "weir-document", "weir-expr", "weir-module"]),
    ("weir-broker", &["weir-wire", "weir-model"]),
    ("weir-ring", &[]),
    ("weir-http", &["weir-wire", "weir-config", "weir-ring"]),
    ("weir-net", &["weir-model", "weir-config", "weir-document"]),
    ("weir-cache", &["weir-wire"]),
    ("weir-telemetry", &["weir-wire", "weir-model", "weir-config", "weir-http"]),
    ("weir-validate", &["weir-config", "weir-document", "weir-expr"]),
    ("weir-limit", &["weir-wire", "weir-config", "weir-expr", "weir-http"]),
    (
        "weir-auth",
        &["weir-wire", "weir-model", "weir-config", "weir-document", "weir-expr", "weir-http"],
    ),
    ("weir-files", &["weir-config", "weir-http"]),
    (
        "weir-upstream",
        &[
            "weir-wire",
            "weir-model",
            "weir-config",
            "weir-broker",
            "weir-http",
            "weir-net",
            "weir-telemetry",
        ],
    ),
    (
        "weir-record",
        &[
            "weir-wire",
            "weir-model",
            "weir-config",
            "weir-expr",
            "weir-journal",
            "weir-http",
            "weir-telemetry",
            "weir-auth",
        ],
    ),
    (
        "weir-gateway",
        &[
            "weir-wire",
            "weir-model",
            "weir-config",
            "weir-expr",
            "weir-document",
            "weir-journal",
            "weir-module",
            "weir-script",
            "weir-broker",
            "weir-http",
            "weir-net",
            "weir-cache",
            "weir-telemetry",
            "weir-validate",
            "weir-limit",
            "weir-auth",
            "weir-files",
            "weir-upstream",
            "weir-record",
        ],
    ),
    (
        "weir-server",
        &[
            "weir-auth",
            "weir-broker",
            "weir-config",
            "weir-gateway",
            "weir-http",
            "weir-journal",
            "weir-limit",
            "weir-model",
            "weir-net",
            "weir-record",
            "weir-ring",
            "weir-telemetry",
            "weir-upstream",
            "weir-wire",
        ],
    ),
    ("weir-journal", &["weir-model"]),
    ("weir-store", &["weir-model", "weir-journal"]),
    ("weir-tracker", &["weir-model", "weir-expr", "weir-journal", "weir-store"]),
    ("weir-monitor", &["weir-model", "weir-expr", "weir-journal", "weir-store"]),
    (
        "weir-fleet",
        &[
            "weir-model",
            "weir-config",
            "weir-limit",
            "weir-store",
            "weir-monitor",
            "weir-events",
            "weir-http-client",
        ],
    ),
    ("weir-events", &["weir-model", "weir-expr", "weir-journal", "weir-store", "weir-tracker"]),
    ("weir-kafka", &[]),
    ("weir-ship", &["weir-model", "weir-expr", "weir-journal", "weir-store", "weir-tracker"]),
    ("weir-archive", &["weir-model", "weir-journal", "weir-tracker"]),
    (
        "weir-resubmit",
        &["weir-model", "weir-config", "weir-expr", "weir-journal", "weir-store", "weir-tracker"],
    ),
    ("weir-lab", &["weir-ring", "weir-wire", "weir-document", "weir-expr", "weir-http-client"]),
    (
        "weir-admin",
        &[
            "weir-model",
            "weir-config",
            "weir-expr",
            "weir-document",
            "weir-auth",
            "weir-http-client",
            "weir-broker",
            "weir-gateway",
            "weir-server",
            "weir-http",
            "weir-net",
            "weir-telemetry",
            "weir-limit",
            "weir-store",
            "weir-tracker",
            "weir-monitor",
            "weir-ship",
            "weir-events",
            "weir-fleet",
            "weir-resubmit",
            "weir-lab",
        ],
    ),
    (
        "weir",
        &[
            "weir-wire",
            "weir-model",
            "weir-config",
            "weir-document",
            "weir-journal",
            "weir-broker",
            "weir-gateway",
            "weir-server",
            "weir-store",
            "weir-tracker",
            "weir-monitor",
            "weir-events",
            "weir-fleet",
            "weir-ship",
            "weir-archive",
            "weir-kafka",
            "weir-resubmit",
            "weir-lab",
            "weir-admin",
            "weir-script",
            "weir-http-client",
            "weir-net",
            "weir-telemetry",
            "weir-validate",
            "weir-limit",
            "weir-record",
        ],
    ),
];

/// The crate of a manifest, and the crates of the workspace that it names.
fn edges(manifest: &str) -> (&str, Vec<&str>) {
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \""));
    let name = name.and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    let words = manifest.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    (name, words.filter(|word| word.starts_with("weir-")).collect())
}

fn problems(path: &str, manifest: &str) -> Vec<String> {
    let (name, edges) = edges(manifest);
    let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{path}: `{name}` has no row in the table of crates")];
    };
    let forbidden = edges.iter().filter(|edge| !allowed.contains(edge));
    forbidden.map(|edge| format!("{path}: `{name}` must not depend on `{edge}`")).collect()
}

/// Edges in the table that a crate does not have.
fn unused(path: &str, manifest: &str) -> Vec<String> {
    let (name, edges) = edges(manifest);
    let allowed = ALLOWED.iter().find(|(known, _)| *known == name).map_or(&[][..], |row| row.1);
    let unused = allowed.iter().filter(|edge| !edges.contains(edge));
    unused.map(|edge| format!("{path}: `{name}` does not depend on `{edge}`")).collect()
}

#[test]
fn a_forbidden_edge_is_seen() {
    let manifest = |name: &str, dependency: &str| {
        format!("[package]\nname = \"{name}\"\n[dependencies]\n{dependency}.workspace = true\n")
    };
    assert!(problems("p", &manifest("weir-gateway", "weir-wire")).is_empty());
    assert_eq!(problems("p", &manifest("weir-gateway", "weir-admin")).len(), 1);
    assert_eq!(problems("p", &manifest("weir-wire", "weir-config")).len(), 1);
    assert_eq!(problems("p", &manifest("weir-new", "weir-wire")).len(), 1);
    assert!(unused("p", &manifest("weir-cache", "weir-wire")).is_empty());
    assert_eq!(unused("p", &manifest("weir-cache", "weir-config")).len(), 1);
}

#[test]
fn crates_depend_downwards_only() {
    let manifests: Vec<_> = files("crates", &["toml"])
        .into_iter()
        .filter(|(path, _)| path.ends_with("/Cargo.toml"))
        .collect();
    assert_eq!(manifests.len(), ALLOWED.len(), "a crate is missing from the table, or too many");
    let problems: Vec<String> =
        manifests.iter().flat_map(|(path, text)| problems(path, text)).collect();
    assert_none(&problems);
    let unused: Vec<String> =
        manifests.iter().flat_map(|(path, text)| unused(path, text)).collect();
    assert_none(&unused);
}

/// Rows of the table of crates in a document: names, and what they may depend on.
fn rows(document: &str) -> Vec<(String, String)> {
    let cells = document.lines().filter_map(|line| line.strip_prefix("| `weir"));
    cells
        .filter_map(|rest| {
            let cells: Vec<&str> = rest.split('|').map(str::trim).collect();
            let name = format!("weir{}", cells.first()?.strip_suffix('`')?);
            Some((name, (*cells.get(2)?).to_owned()))
        })
        .collect()
}

#[test]
fn the_table_in_the_architecture_is_this_one() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let allowed = ALLOWED.iter().map(|(name, edges)| {
        let names: Vec<&str> = edges.iter().filter_map(|edge| edge.strip_prefix("weir-")).collect();
        let names = if names.is_empty() { "–".to_owned() } else { names.join(", ") };
        ((*name).to_owned(), names)
    });
    assert_eq!(rows(&document), allowed.collect::<Vec<_>>());
}

/// Places where a test kills weir are in no binary but that of tests.
#[test]
fn only_tests_turn_failpoints_on() {
    for (path, manifest) in files("crates", &["toml"]) {
        let released = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let on = released.lines().filter(|line| line.contains("failpoints"));
        let own = |line: &&str| *line == "failpoints = []";
        let on: Vec<String> =
            on.filter(|line| !own(line)).map(|l| format!("{path}: {l}")).collect();
        assert_none(&on);
    }
}
