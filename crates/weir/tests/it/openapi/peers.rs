//! Judged by others: Schemathesis (PyPI), which makes requests of a description and judges the
//! answers by it, and OpenAPI documents that others wrote (npm).
//!
//! Both are fetched once; where that cannot be done the tests say so and pass.

use super::{KEY, shop};
use crate::harness::{python_package, weir};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const DOCUMENTS: &str = "@readme/oas-examples@8.2.2";

fn done(command: &mut Command) -> Option<()> {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then_some(())
}

#[test]
fn schemathesis_finds_no_server_error_and_every_failure_as_documented() {
    let Some(program) = python_package(SCHEMATHESIS, "bin/schemathesis") else { return };
    let server = shop(&[]);
    let description = server.connect().request("GET", "/shop/v1/openapi.json", &[KEY], "");
    assert_eq!(description.status, 200);
    let file = server.dir().join("described.json");
    fs::write(&file, &description.body).expect("the description");
    let output = Command::new("timeout")
        .arg("300")
        .arg(program)
        .args(["run", "--no-color", "--phases", "examples,coverage,fuzzing", "--seed", "7"])
        .args(["--max-examples", "60", "--header", "x-api-key: example", "--checks", CHECKS])
        .args(["--url", &server.url("/shop/v1")])
        .arg(&file)
        .current_dir(server.dir())
        .output()
        .expect("Schemathesis runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(server.metric("weir_invalid_requests_total", &[]) > 50.0, "{told}");
    assert_eq!(server.metric("weir_invalid_answers_total", &[]), 0.0);
}

/// What it judges; what resources do over time is not for answers made of examples.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_schema_conformance,negative_data_rejection,positive_data_acceptance,\
    missing_required_header,unsupported_method,allow_header_conformance,ignored_auth";

/// The documents' folder.
fn documents() -> Option<PathBuf> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oas-examples-8.2.2");
    let documents = home.join("node_modules/@readme/oas-examples");
    if !documents.exists() {
        fs::create_dir_all(&home).ok()?;
        let npm =
            ["npm", "install", "--prefix", ".", "--ignore-scripts", "--no-audit", "--no-fund"];
        let mut install = Command::new("timeout");
        install.arg("300").args(npm).arg(DOCUMENTS).current_dir(&home);
        if done(&mut install).is_none() {
            eprintln!("SKIPPED: npm could not fetch {DOCUMENTS}");
            return None;
        }
    }
    Some(documents)
}

/// Every JSON and YAML file below a folder.
fn below(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            below(&path, found);
        } else if path.extension().is_some_and(|e| e == "json" || e == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn documents_of_others_are_taken_or_refused_with_a_reason() {
    let Some(folder) = documents() else { return };
    let mut files = Vec::new();
    for version in ["3.0", "3.1"] {
        below(&folder.join(version), &mut files);
    }
    assert!(files.len() > 50, "{}", files.len());
    let dir = tempfile::tempdir().expect("a folder");
    let (mut bound, mut usable) = (0, 0);
    for file in &files {
        let path = file.to_str().expect("a path");
        let output = weir(dir.path(), &["import", "openapi", path, "--mock"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => {}
            // Not every file is a document that weir knows, or has an operation that it can take.
            Some(2) => {
                let explained = told.contains(path) || told.contains("left out");
                assert!(explained, "{path}: {told}");
                continue;
            }
            code => panic!("{path}: {code:?} {told}"),
        }
        for reason in told.lines().filter_map(|line| line.split_once("left out: ")) {
            assert!(reason.1.contains(": "), "{path}: {told}");
        }
        fs::write(dir.path().join("weir.yaml"), &output.stdout).expect("written");
        let checked = weir(dir.path(), &["check", "--json"]);
        let found: Value = serde_json::from_slice(&checked.stdout)
            .unwrap_or_else(|error| panic!("{path}: {error} {checked:?}"));
        usable += usize::from(found["ok"] == true);
        bound += 1;
        for finding in found["findings"].as_array().expect("findings") {
            let missing = finding["message"].as_str().unwrap_or_default().contains("jwks.json");
            let warns = finding["severity"] == "warning";
            // The issuer's keys are for the operator to put there.
            assert!(missing || warns, "{path}: {finding}");
        }
    }
    assert!(bound > 45 && usable > 35, "{bound} taken, {usable} usable of {}", files.len());
}
