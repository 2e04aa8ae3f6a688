//! weir: hosts, fronts, records, meters and measures REST traffic.
//!
//! This crate is the command line and the one place where the others are put together.

mod admin_client;
mod audit;
mod billing;
mod cli;
mod commands;
mod descriptors;
mod duration;
mod echo;
mod exit;
mod findings;
mod gaps;
mod monitor;
mod neutral;
mod output;
mod resubmit;
mod serve;
mod source;
mod table;
mod tracker;

use clap::Parser;
use std::process::ExitCode;

/// Keeps memory in small pages. The allocator asks for huge ones, of which the first byte makes
/// 2 MiB resident: an idle weir had 18 MiB instead of 11. Where the kernel refuses, it is only
/// larger.
fn small_pages() {
    let _ = nix::sys::prctl::set_thp_disable(true);
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    small_pages();
    match commands::run(cli::Cli::parse().command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::error(&format!("{error:#}"));
            exit::Exit::Failure.into()
        }
    }
}
