//! The suites, at their quickest: every one of them to its end, no cell of its tables empty.

use crate::harness::weir;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Shorter than `--quick`, for those who only want to see that everything works.
const SHORTER: [(&str, &[&str]); 5] = [
    ("toro", &["load.duration=3s", "protocol.fixed.cut=1s"]),
    ("martini", &["load.duration=3s", "protocol.fixed.cut=1s"]),
    (
        "mware",
        &[
            "load.duration=3s",
            "load.ramp=500ms",
            "protocol.fixed.cut=1s",
            "feeders.tokens.jwt.count=50",
        ],
    ),
    (
        "linx",
        &[
            "matrix.users=[500]",
            "load.0.over=1s",
            "load.1.over=2s",
            "load.2.start=20/s",
            "load.2.precision=40%",
        ],
    ),
    ("openedge", &["load.2.over=3s", "matrix.delay=[0]"]),
];

/// Runs a suite; gives what it printed and its summary.
fn run(dir: &Path, name: &str, more: &[&str]) -> (String, Value) {
    let settings =
        SHORTER.iter().find(|(suite, _)| *suite == name).map_or(&[][..], |(_, sets)| *sets);
    let mut args = vec!["lab", "run", name, "--quick", "--out", "out"];
    for setting in settings {
        args.extend(["--set", setting]);
    }
    args.extend(more);
    let output = weir(dir, &args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let summary = fs::read_to_string(dir.join("out/summary.json"));
    let summary = summary.unwrap_or_else(|error| panic!("{name}: {error}\n{text}\n{errors}"));
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    // Whether this machine was quiet enough is not for this test to say.
    let verdict = summary["verdict"].as_str().unwrap_or_default();
    let code = output.status.code();
    assert!(
        matches!((verdict, code), ("QUICK", Some(0)) | ("INVALID", Some(3))),
        "{name}: {verdict}, {code:?}\n{text}\n{errors}"
    );
    (text, summary)
}

/// Fails for a table with an empty cell, and if there is none.
fn no_empty_cell(name: &str, text: &str) {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("CASE"));
    let split = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect::<Vec<_>>()
    };
    let columns = split(lines.next().unwrap_or_else(|| panic!("{name}: no table\n{text}")));
    let mut rows = 0;
    for line in lines.take_while(|line| !line.is_empty()) {
        let cells = split(line);
        assert_eq!(cells.len(), columns.len(), "{name}: {line}\n{text}");
        assert!(cells.iter().all(|cell| cell != "-"), "{name}: {line}\n{text}");
        rows += 1;
    }
    assert!(rows > 0, "{name}: {text}");
}

fn suite(name: &str, cells: usize) {
    let dir = tempfile::tempdir().expect("a folder");
    let (text, summary) = run(dir.path(), name, &[]);
    no_empty_cell(name, &text);
    let all = summary["cells"].as_array().expect("cells");
    assert_eq!(all.len(), cells, "{text}");
    for cell in all {
        let total = &cell["labels"][0];
        assert!(total["ok"].as_u64() > Some(0), "{cell}");
        assert_eq!(total["ok"], total["samples"], "nothing failed: {text}");
        assert!(cell["throughput"]["mean"].as_f64() > Some(0.0), "{text}");
        assert!(cell["server"]["memory"].as_u64() > Some(0), "{text}");
    }
    let table = fs::read_to_string(dir.path().join("out/summary.csv")).expect("a table");
    assert!(table.lines().count() > cells, "{table}");
    // Nothing was published about that few users of Linx.
    assert!(text.contains("the hardware differs") || name == "linx", "{text}");
}

#[test]
fn toro() {
    let dir = tempfile::tempdir().expect("a folder");
    let (text, summary) = run(dir.path(), "toro", &[]);
    no_empty_cell("toro", &text);
    assert_eq!(summary["cells"].as_array().map(Vec::len), Some(4));
    assert!(text.contains("relative to tracker=false monitor=true"), "{text}");
    opened(&dir.path().join("out/report.html"));
}

#[test]
fn martini() {
    suite("martini", 4);
}

#[test]
fn mware() {
    suite("mware", 4);
}

#[test]
fn linx() {
    suite("linx", 3);
}

#[test]
fn openedge() {
    suite("openedge", 4);
}

/// Against a server that is there already nothing is started, and cases of settings are left out.
#[test]
fn another_target_is_measured_as_it_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/martini");
    let config = fs::read_to_string(folder.join("weir.yaml")).expect("the example is there");
    let script = fs::read(folder.join("sayHello.js")).expect("its script");
    let server = crate::harness::Weir::new(&config)
        .file("sayHello.js", script)
        .args(&["--set", "listen.0.addr=127.0.0.1:0"])
        .start();
    let dir = tempfile::tempdir().expect("a folder");
    let target = format!("http://{}", server.listen[0]);
    let (text, summary) = run(dir.path(), "toro", &["--target", &target]);
    let cells = summary["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 1, "{text}");
    assert!(cells[0]["labels"][0]["ok"].as_u64() > Some(0), "{text}");
    assert!(!dir.path().join("out/servers").exists());
}

#[test]
fn suites_are_listed_and_shown() {
    let here = Path::new(".");
    let listed = weir(here, &["lab", "suites"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    for (name, _) in SHORTER {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
        let shown = weir(here, &["lab", "suites", name]);
        assert!(String::from_utf8_lossy(&shown.stdout).contains(&format!("name: {name}")));
    }
    assert_eq!(weir(here, &["lab", "suites", "nobody"]).status.code(), Some(1));
}

/// Opens a report in a browser: nothing is complained about.
fn opened(page: &Path) {
    let profile = tempfile::tempdir().expect("a profile");
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-background-networking", "--enable-logging=stderr"])
        .args(["--virtual-time-budget=4000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium is installed (make setup)");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(complaints, Vec::<&str>::new());
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(dom.contains("tracker=true monitor=true"), "{}", page.display());
}
