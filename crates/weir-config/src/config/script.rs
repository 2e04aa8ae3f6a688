//! Scripts: JavaScript that answers a route, or maps what goes to or comes from another handler.

use super::UpstreamId;
use std::sync::Arc;
use weir_document::source_map::Span;
use weir_expr::Format;
use weir_module::Program;

/// A script that is called.
#[derive(Debug)]
pub struct Script {
    /// The script with all its imports.
    pub program: Arc<Program>,
    /// Formats its values are offered in, in order of preference; never empty.
    pub formats: Vec<Format>,
    /// Upstreams that its `fetch` reaches, by name.
    pub fetch: Vec<(String, UpstreamId)>,
    /// It has a thread of its own instead of a share of each worker.
    pub isolated: bool,
}

/// What holds for every script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scripts {
    /// Bytes of memory of one engine; every worker has one.
    pub memory: usize,
}

/// A script as it is written, to be compiled.
#[derive(Debug)]
pub struct ScriptSource {
    /// The script with all its imports.
    pub program: Arc<Program>,
    /// Where its file is named.
    pub at: Span,
    /// Where it is a map, which needs a default export.
    pub map_at: Option<Span>,
}
