//! Files of a folder: what is found, what is never found, and how it is sent.

mod changes;
mod clients;
mod codings;
mod ranges;
mod responses;
mod traversal;

use crate::harness::{Server, Weir};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A weir that serves `public` in its folder by this route.
fn serve(route: &str, files: &[(&str, &[u8])]) -> Server {
    start("", &[route], files)
}

/// With more at the top, and more routes.
fn start(more: &str, routes: &[&str], files: &[(&str, &[u8])]) -> Server {
    let routes: String = routes.iter().map(|route| format!("      - {route}\n")).collect();
    let weir = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nlimits: {{connections: 500}}\n{more}\
         apis:\n  site:\n    base: /\n    routes:\n{routes}"
    ));
    let public = weir.dir().join("public");
    fs::create_dir(&public).unwrap();
    for (name, content) in files {
        put(&public, name, content);
    }
    weir.start()
}

/// The folder that is served.
fn public(server: &Server) -> PathBuf {
    server.dir().join("public")
}

/// Writes a file that was last changed an hour ago.
fn put(folder: &Path, name: &str, content: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
}

/// Bytes that are no text and repeat late.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = Vec::with_capacity(length + 8);
    while noise.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    noise.truncate(length);
    noise
}
