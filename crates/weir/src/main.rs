//! weir: hosts, fronts, records, meters and measures REST traffic.
//!
//! This crate is the command line and the one place where the others are put together.

mod cli;
mod commands;
mod descriptors;
mod duration;
mod echo;
mod exit;
mod findings;
mod output;
mod serve;
mod source;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::run(cli::Cli::parse().command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::error(&format!("{error:#}"));
            exit::Exit::Failure.into()
        }
    }
}
