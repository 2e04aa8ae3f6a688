//! Scripts.

use super::xml::{XML_WRITTEN, formats_key};
use super::{Fields, Resolver, reply};
use crate::config::{Script, ScriptSource, Scripts};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_document::draft::{self, Node};
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::{Kind, format};
use weir_model::UpstreamId;
use weir_module::{Program, Settings};

settings! {
    /// JavaScript handler: requests are handled by a JavaScript module.
    pub(super) struct ScriptKeys is "a script" {
        /// Path of the module, relative to this file.
        file = by_hand(Kind::Text).required(),
        /// Upstreams that `fetch` of the script may call, as `http://NAME/path`.
        fetch = by_hand(Kind::OneOrMany(&Kind::Format(format::NAME))).absent("none"),
        /// Value of `request.config`, frozen. Views of the configuration do not show the value.
        config = by_hand(Kind::Json).redacted().default("null"),
        formats = same(formats_key("Formats of returned values in order of preference.")),
        /// Spaces per level of indentation, as in `JSON.stringify`; 0 for compact output.
        indent: u8 = integer(0, 10).default("0"),
        /// Format of XML output.
        xml = by_hand(Kind::Object(&XML_WRITTEN)),
        /// Maximum uninterrupted CPU time of a call, up to 1s. Other requests of the same worker
        /// can be delayed by this time.
        cpu: Duration = positive().default("20ms"),
        /// Thread of the script: that of the worker, or with `thread` a thread of its own, which
        /// does not delay the worker.
        isolated: bool =
            value(Kind::Enum(&["worker", "thread"]), |node| Some(node.text()? == "thread"))
                .name("isolation")
                .default("worker"),
        /// Lifetime of the module state (values at the top level): one call, or that of the engine.
        /// Each worker has its own engine.
        shared: bool = value(Kind::Enum(&["call", "shared"]), |node| Some(node.text()? == "shared"))
            .name("state")
            .default("call"),
    },
    short: Some("file"),
    misspellings: &[
        ("path", "write `file`"),
        ("timeout", "write `limits: {request: …}` for the whole request, or `cpu`"),
        ("upstreams", "write `fetch: [NAME]`"),
        (
            "memory",
            "memory is a limit of the engine: write `scripts: {memory: …}` in the main file",
        ),
    ],
}

/// Maximum uninterrupted CPU time of a call.
const MAX_CPU: Duration = Duration::from_secs(1);
/// Memory of an engine in bytes.
const ENGINE_SIZES: std::ops::RangeInclusive<usize> = 4 << 20..=1 << 30;

impl Resolver<'_> {
    pub(super) fn scripts(&mut self, root: &Fields<'_>) -> Scripts {
        let fields = root.object_or_empty("scripts", Scripts::SHAPE);
        let scripts = Scripts::read(&fields);
        let is_out = !ENGINE_SIZES.contains(&scripts.memory);
        if let Some(node) = fields.get("memory").filter(|_| is_out) {
            let message = "`memory` must be from 4MiB to 1GiB";
            self.report.error(codes::BAD_VALUE, node.at, message);
        }
        scripts
    }

    pub(super) fn script(&mut self, node: &Node) -> Option<Script> {
        let (file, fields) = if node.text().is_some() {
            (node, Fields::empty(ScriptKeys::SHAPE))
        } else {
            let fields = Fields::new(node, ScriptKeys::SHAPE);
            (fields.get("file")?, fields)
        };
        let fetch = fields.many("fetch").iter().map(|node| {
            let name = node.text()?;
            let upstream = self.upstreams.find(name, node.at, self.report)?;
            Some((name.to_owned(), UpstreamId(upstream)))
        });
        let fetch: Option<Vec<_>> = fetch.collect();
        let ScriptKeys { indent, cpu, isolated, shared } = ScriptKeys::read(&fields);
        if let (Some(node), true) = (fields.get("cpu"), cpu > MAX_CPU) {
            let message = "the CPU time of a call must be at most 1s";
            self.report
                .error(codes::BAD_VALUE, node.at, message)
                .help("move longer work to an upstream");
        }
        let config = fields.raw("config").and_then(|node| node.to_json().ok());
        let config = config.unwrap_or_else(|| "null".to_owned());
        let program = self.program(file, Settings { shared, config, cpu, indent });
        Some(Script {
            program: program?,
            formats: self.formats(&fields, usize::from(indent), reply::ROOT),
            fetch: fetch?,
            isolated,
        })
    }

    /// The `script` of a transformation; methods are not distinguished.
    pub(super) fn map_script(&mut self, node: &Node) -> Option<Script> {
        let script = self.script(node)?;
        if let Some(source) = self.uncompiled.scripts.last_mut() {
            source.map_at = Some(node.at);
        }
        Some(script)
    }

    fn program(&mut self, file: &Node, settings: Settings) -> Option<Arc<Program>> {
        if self.draft.sealed {
            self.report.error(codes::BAD_FILE, file.at, "files cannot be read here");
            return None;
        }
        let path = self.draft.texts.resolve(file.at.file, file.text()?);
        let Some(entry) = path.to_str() else {
            self.report.error(codes::BAD_FILE, file.at, "the path is not UTF-8");
            return None;
        };
        let mut missing = false;
        let mut read = |name: &str| {
            self.report.reads(Path::new(name));
            draft::file_text(Path::new(name)).map_err(|fault| {
                missing |= fault.code == codes::MISSING_FILE;
                fault.message
            })
        };
        match Program::load(entry, settings, &mut read) {
            Ok(program) => {
                let program = Arc::new(program);
                let source = Arc::clone(&program);
                self.uncompiled.scripts.push(ScriptSource {
                    program: source,
                    at: file.at,
                    map_at: None,
                });
                Some(program)
            }
            Err(fault) if missing && fault.module == entry && fault.line == 0 => {
                self.report.error(codes::MISSING_FILE, file.at, fault.message);
                None
            }
            Err(fault) => {
                self.report.error(codes::BAD_SCRIPT, file.at, fault.to_string());
                None
            }
        }
    }
}
