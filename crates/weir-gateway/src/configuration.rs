//! Loading a configuration: resolved to plain data, then compiled. Compile errors are reported as
//! findings.

use crate::compiled::Compiled;
use crate::digest::ConfigurationDigest;
use std::sync::Arc;
use weir_config::{Config, Loaded, Source};
use weir_document::finding::Findings;

/// A configuration that can be served.
#[derive(Debug)]
pub struct Configuration {
    /// Plain data.
    pub config: Config,
    /// What was compiled with it.
    pub compiled: Compiled,
    /// Warnings.
    pub findings: Findings,
}

/// Loads a configuration from files.
///
/// # Errors
/// Every finding at once, at least one of them an error.
pub fn load(source: &Source) -> Result<Configuration, Findings> {
    compile(weir_config::load(source))
}

/// Loads a text without reading any file or the environment; `name` stands for its path.
///
/// # Errors
/// As [`load`].
pub fn load_text(name: &str, text: &str) -> Result<Configuration, Findings> {
    compile(weir_config::load_text(name, text))
}

fn compile(mut loaded: Loaded) -> Result<Configuration, Findings> {
    let uncompiled = std::mem::take(&mut loaded.uncompiled);
    let compiled = Compiled::new(loaded.config.as_ref(), uncompiled, &mut loaded.report);
    let (config, findings) = loaded.finish()?;
    let digest = Arc::new(ConfigurationDigest::new(&config, &findings));
    Ok(Configuration { config, compiled: Compiled { digest, ..compiled }, findings })
}
