//! Takes the report's chart library in, if it was installed (`make report`).
//!
//! Without it the crate builds all the same, and reports say how to get charts.

use std::fs;
use std::path::{Path, PathBuf};

/// What is taken in: constant and file of the package.
const FILES: [(&str, &str); 3] =
    [("SCRIPT", "dist/uPlot.iife.min.js"), ("STYLE", "dist/uPlot.min.css"), ("LICENSE", "LICENSE")];

fn main() {
    // A folder: a file that is not there would make every build one from scratch.
    println!("cargo:rerun-if-changed=report");
    println!("cargo:rerun-if-changed=build.rs");
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let package = root.join("report/node_modules/uplot");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    let code = library(&package).unwrap_or_else(|| "None".to_owned());
    let code = format!("const LIBRARY: Option<Library> = {code};\n");
    if let Err(error) = fs::write(out.join("library.rs"), code) {
        println!("cargo:warning=the report's chart library cannot be taken in: {error}");
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
