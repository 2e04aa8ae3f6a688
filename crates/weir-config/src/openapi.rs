//! OpenAPI documents (3.0 and 3.1): validated and bound to routes. Their requirements on requests
//! and responses become [`crate::validation`].
//!
//! A document is used unchanged: nothing in it is substituted, nothing is fetched from the network.

mod calls;
mod cursor;
mod example;
mod generate;
mod import;
mod operation;
mod parameter;
mod publish;
mod schema;
mod security;

pub use calls::{CallCredential, ExampleBody, ExampleCall, ExampleCalls, example_calls};
pub(crate) use cursor::{Cursor, Documents, is_true};
pub(crate) use example::ExampleSelection;
pub use import::{CompileSchemas, ImportHandler, Imported, import_openapi};
pub(crate) use operation::{Compiler, Modes, Operation, Unvalidated};
pub(crate) use schema::{Direction, Schemas};
pub(crate) use security::{RequiredScheme, Requirement, Scheme};

use weir_document::draft::{Described, Node};
use weir_document::finding::{Diagnostics, codes};
use weir_document::source_map::SourceMap;

/// A dialect of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 3.0.x.
    V30,
    /// 3.1.x.
    V31,
}

/// A document and the documents that it refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description<'d> {
    documents: &'d [Described],
    texts: &'d SourceMap,
    root: usize,
    pub(crate) version: Version,
}

/// The dialect of JSON Schema 2020-12, the default of OpenAPI 3.1.
const DIALECTS: [&str; 4] = [
    "https://spec.openapis.org/oas/3.1/dialect/base",
    "https://spec.openapis.org/oas/3.1/dialect/2024-10-25",
    "https://spec.openapis.org/oas/3.1/dialect/2024-11-10",
    "https://json-schema.org/draft/2020-12/schema",
];

impl<'d> Description<'d> {
    /// The document in a file that was read; `named` is the location of its name in the
    /// configuration. `None` with a finding.
    pub(crate) fn open(
        (documents, texts): Documents<'d>,
        path: &std::path::Path,
        named: &Node,
        report: &mut Diagnostics,
    ) -> Option<Self> {
        let path = weir_document::draft::canonical(path);
        // A file that could not be read has a finding.
        let root = documents.iter().position(|d| d.path == path)?;
        let node = &documents[root].root;
        let version = node.get("openapi").and_then(Node::text);
        let mut fault = |node: &Node, message: String| {
            report.error(codes::BAD_OPENAPI, node.at, message).related(named.at, "referenced here");
        };
        let version = match version {
            Some(text) if text == "3.0" || text.starts_with("3.0.") => Ok(Version::V30),
            Some(text) if text == "3.1" || text.starts_with("3.1.") => Ok(Version::V31),
            Some(text) => {
                Err(format!("unsupported OpenAPI version `{text}`: weir supports 3.0 and 3.1"))
            }
            None if node.get("swagger").is_some() => {
                Err("Swagger 2.0 is not supported: convert the document to OpenAPI 3".to_owned())
            }
            None => Err("not an OpenAPI document: `openapi: 3.…` is missing".to_owned()),
        };
        let version = version.map_err(|message| fault(node, message)).ok()?;
        if let Some(dialect) = node.get("jsonSchemaDialect")
            && !dialect.text().is_some_and(|d| DIALECTS.contains(&d.trim_end_matches('#')))
        {
            fault(dialect, "only JSON Schema 2020-12 is supported".to_owned());
            return None;
        }
        Some(Self { documents, texts, root, version })
    }
}
