//! weir: hosts, proxies, records, meters and load-tests REST traffic.
//!
//! This crate is the command line. It connects the other crates.

mod admin_client;
mod backup;
mod commands;
mod contexts;
mod data_folder;
mod descriptors;
mod duration;
mod echo;
mod escape;
mod exit;
mod findings;
mod logins;
mod otlp;
mod output;
mod serve;
mod source;
mod table;

use std::process::ExitCode;

/// Keeps memory in small pages. The allocator requests huge pages, whose first byte makes 2 MiB
/// resident: an idle weir would need 18 MiB instead of 11. If the kernel refuses this setting,
/// memory is only larger.
fn small_pages() {
    let _ = nix::sys::prctl::set_thp_disable(true);
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    small_pages();
    match commands::run(commands::cli::parse().command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::error(&output::with_causes(&error));
            exit::Exit::Failure.into()
        }
    }
}
