//! `plain TARGET SECONDS FOLDER...`: checks every file of the folders, then changes of them.
//!
//! An input that fails is written to `plain-failure-TARGET` in the current folder.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use weir_fuzz::{TARGETS, mutations};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (name, seconds) = (arguments.next(), arguments.next().and_then(|s| s.parse().ok()));
    let target = TARGETS.iter().find(|(known, _)| Some(*known) == name.as_deref());
    let (Some(&(name, check)), Some(seconds)) = (target, seconds) else {
        eprintln!("usage: plain TARGET SECONDS FOLDER...");
        return ExitCode::from(2);
    };
    let folders = arguments.filter_map(|folder| mutations::seeds(Path::new(&folder)).ok());
    let seeds: Vec<Vec<u8>> = folders.flatten().collect();
    if seeds.is_empty() {
        eprintln!("no seeds for {name}");
        return ExitCode::from(2);
    }
    match mutations::run(check, &seeds, Duration::from_secs(seconds), mutations::random_seed()) {
        Ok(runs) => {
            println!("{name}: {runs} inputs from {} seeds, every property held", seeds.len());
            ExitCode::SUCCESS
        }
        Err(input) => {
            let file = format!("plain-failure-{name}");
            let written = std::fs::write(&file, &input).map_or_else(|e| e.to_string(), |()| file);
            eprintln!("{name}: failed on {} bytes: {written}", input.len());
            ExitCode::FAILURE
        }
    }
}
