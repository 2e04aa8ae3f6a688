//! Loading a configuration: resolved to plain data, then compiled. What cannot be compiled is a
//! finding among the others.

use weir_config::{Config, Loaded, ScriptSource, Source};
use weir_document::finding::{Diagnostics, Findings, codes};
use weir_net::tls::{self, SystemRoots};

/// Loads a configuration from files.
///
/// # Errors
/// Every finding at once, at least one of them an error. On success the findings are warnings.
pub fn load(source: &Source) -> Result<(Config, Findings), Findings> {
    compile(weir_config::load(source))
}

/// Loads a text without reading any file or the environment; `name` stands for its path.
///
/// # Errors
/// As [`load`].
pub fn load_text(name: &str, text: &str) -> Result<(Config, Findings), Findings> {
    compile(weir_config::load_text(name, text))
}

fn compile(mut loaded: Loaded) -> Result<(Config, Findings), Findings> {
    let (report, mut roots) = (&mut loaded.report, SystemRoots::default());
    for source in &loaded.uncompiled.tls {
        tls::check(source, &mut roots, report);
    }
    for script in &loaded.uncompiled.scripts {
        check_script(script, report);
    }
    loaded.finish()
}

/// Compiles a script. A map needs a default export.
fn check_script(script: &ScriptSource, report: &mut Diagnostics) {
    let program = &script.program;
    if let Err(error) = weir_script::check(program) {
        report.error(codes::BAD_SCRIPT, script.at, error.to_string());
    } else if let Some(at) = script.map_at
        && !program.exports().iter().any(|name| name == "default")
    {
        let message = format!("{} has no default export, which a map needs", program.name());
        report.error(codes::BAD_SCRIPT, at, message);
    }
}
