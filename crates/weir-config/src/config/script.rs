//! Scripts: JavaScript handlers and transformations.

use std::sync::Arc;
use weir_document::settings;
use weir_document::source_map::Span;
use weir_expr::Format;
use weir_model::UpstreamId;
use weir_module::Program;

/// A script of a route.
#[derive(Debug)]
pub struct Script {
    /// The script with all its imports.
    pub program: Arc<Program>,
    /// Formats of returned values in order of preference; never empty.
    pub formats: Vec<Format>,
    /// Upstreams that `fetch` of the script may call, by name.
    pub fetch: Vec<(String, UpstreamId)>,
    /// Whether the script has its own thread instead of running in each worker.
    pub isolated: bool,
}

settings! {
    /// Settings of all script engines.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Scripts is "the script settings" {
        /// Memory limit of an engine, from 4MiB to 1GiB. Each worker has an engine, and so has each
        /// script with its own thread.
        pub memory: usize = size().default("32MiB"),
    }
}

/// A script as source, to be compiled.
#[derive(Debug)]
pub struct ScriptSource {
    /// The script with all its imports.
    pub program: Arc<Program>,
    /// Location of the file name.
    pub at: Span,
    /// Location of the key if the script is a transformation, which needs a default export.
    pub map_at: Option<Span>,
}
