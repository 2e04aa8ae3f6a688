//! Takes the report's chart library in, which `make report` installs.
//!
//! Without it the build fails, unless `WEIR_WITHOUT_CONSOLE` is set: reports then say how to get charts.

use std::fs;
use std::path::{Path, PathBuf};

/// What is taken in: constant and file of the package.
const FILES: [(&str, &str); 3] =
    [("SCRIPT", "dist/uPlot.iife.min.js"), ("STYLE", "dist/uPlot.min.css"), ("LICENSE", "LICENSE")];

/// If set and not empty, weir builds without the console and without the charts of the Lab's reports.
const WITHOUT: &str = "WEIR_WITHOUT_CONSOLE";

fn main() {
    // A folder: a file that is not there would make every build one from scratch.
    println!("cargo:rerun-if-changed=report");
    println!("cargo:rerun-if-changed=build.rs");
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let package = root.join("report/node_modules/uplot");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    println!("cargo:rerun-if-env-changed={WITHOUT}");
    let without = std::env::var_os(WITHOUT).is_some_and(|value| !value.is_empty());
    let library = library(&package);
    if library.is_none() && !without {
        println!(
            "cargo::error=the chart library of the Lab's reports is missing: run `make report console` (needs npm), or \
             set {WITHOUT}=1 for a weir without console and charts"
        );
    }
    let code = library.unwrap_or_else(|| "None".to_owned());
    let code = format!("const LIBRARY: Option<Library> = {code};\n");
    if let Err(error) = fs::write(out.join("library.rs"), code) {
        println!("cargo::error=the chart library cannot be taken in: {}: {error}", out.display());
    }
}

/// The library as an expression, if all of its files are there.
fn library(package: &Path) -> Option<String> {
    let mut fields = String::new();
    for (name, file) in FILES {
        let path = package.join(file);
        path.is_file().then_some(())?;
        fields.push_str(&format!("{}: include_str!({:?}), ", name.to_lowercase(), path.to_str()?));
    }
    Some(format!("Some(Library {{ {fields}}})"))
}
