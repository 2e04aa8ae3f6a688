//! Takes the console in, which `make console` builds.
//!
//! Without it the build fails, unless `WEIR_WITHOUT_CONSOLE` is set: the admin listener then says how to build
//! the console.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// If set and not empty, weir builds without the console and without the charts of the Lab's reports.
const WITHOUT: &str = "WEIR_WITHOUT_CONSOLE";

fn main() {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let console = root.join("../../console");
    // A folder that is there: one that is not would make every build one from scratch.
    let dist = console.join("dist");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", if dist.is_dir() { &dist } else { &console }.display());
    println!("cargo:rerun-if-env-changed={WITHOUT}");
    let without = std::env::var_os(WITHOUT).is_some_and(|value| !value.is_empty());
    let mut files = Vec::new();
    if !dist.join("index.html").is_file() {
        if !without {
            println!(
                "cargo::error=the console is not built: run `make report console` (needs npm), or set {WITHOUT}=1 \
                 for a weir without console and charts"
            );
        }
    } else if let Err(error) = list(&dist, "", &mut files) {
        println!("cargo::error=the console cannot be taken in: {}: {error}", dist.display());
    }
    files.sort();
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(error) = fs::write(out.join("console.rs"), code(&files)) {
        println!("cargo::error=the console cannot be taken in: {}: {error}", out.display());
    }
}

/// Files below a folder: names with slashes, and where they are.
fn list(folder: &Path, prefix: &str, found: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => list(&entry.path(), &format!("{name}/"), found)?,
            false => found.push((name, entry.path())),
        }
    }
    Ok(())
}

/// An expression for each file, with its compressed twin if there is one.
fn code(files: &[(String, PathBuf)]) -> String {
    let mut code = "const FILES: &[File] = &[\n".to_owned();
    for (name, path) in files.iter().filter(|(name, _)| !name.ends_with(".gz")) {
        let twin = files.iter().find(|(other, _)| *other == format!("{name}.gz"));
        let compressed =
            twin.map_or("None".to_owned(), |(_, path)| format!("Some(include_bytes!({path:?}))"));
        code.push_str(&format!(
            "    File {{ name: {name:?}, plain: include_bytes!({path:?}), compressed: {compressed} }},\n"
        ));
    }
    code + "];\n"
}
