//! Scripts that answer routes.

mod hostile;
mod loading;
mod maps;
mod responses;
mod waiting;

use crate::harness::{Response, Server, Weir};

/// One worker, so that every call meets the same engine. `routes` are lines of YAML flow mappings;
/// `files` the scripts.
fn weir(routes: &[&str], files: &[(&str, &str)], more: &str) -> Weir {
    let weir = Weir::new(&config(routes, more));
    files.iter().fold(weir, |weir, (name, text)| weir.file(name, text))
}

fn config(routes: &[&str], more: &str) -> String {
    let routes: String = routes.iter().map(|route| format!("      - {route}\n")).collect();
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n{more}\
         apis:\n  api:\n    base: /\n    routes:\n{routes}"
    )
}

fn start(routes: &[&str], files: &[(&str, &str)]) -> Server {
    weir(routes, files, "").start()
}

/// Asserts a problem document of this type.
fn assert_problem(response: &Response, status: u16, slug: &str, what: &str) {
    assert_eq!(response.status, status, "{what}: {}", response.text());
    assert_eq!(response.json()["type"], format!("urn:weir:problem:{slug}"), "{what}");
}
