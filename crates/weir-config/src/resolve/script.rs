//! Scripts.

use super::keys;
use super::{Fields, Resolver, reply};
use crate::config::{Script, Scripts, UpstreamId};
use crate::draft::{self, Node};
use crate::finding::codes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_script::{Program, Settings};

/// Longest uninterrupted CPU time of a call, where nothing is said and at most.
const CPU: Duration = Duration::from_millis(20);
const MOST_CPU: Duration = Duration::from_secs(1);
/// Memory of an engine, in bytes: where nothing is said, at least and at most.
const MEMORY: u64 = 32 << 20;
const LEAST_MEMORY: u64 = 4 << 20;
const MOST_MEMORY: u64 = 1 << 30;

impl Resolver<'_> {
    pub(super) fn scripts(&mut self, root: &Fields<'_>) -> Scripts {
        let fields = root.object("scripts", &keys::SCRIPTS);
        let written = fields.and_then(|f| Some((f.get("memory")?, f.size("memory")?)));
        let memory = written.map_or(MEMORY, |(node, memory)| {
            if !(LEAST_MEMORY..=MOST_MEMORY).contains(&memory) {
                let message = "`memory` must be from 4MiB to 1GiB";
                self.report.error(codes::BAD_VALUE, node.at, message);
            }
            memory
        });
        Scripts { memory: usize::try_from(memory).unwrap_or(usize::MAX) }
    }

    pub(super) fn script(&mut self, node: &Node) -> Option<Script> {
        let fields = Fields::new(node, &keys::SCRIPT);
        let file = if node.text().is_some() { node } else { fields.get("file")? };
        let fields = if node.text().is_some() {
            Fields::new(super::fields::nothing(), &keys::SCRIPT)
        } else {
            fields
        };
        let fetch = fields.many("fetch").iter().map(|node| {
            let name = node.text()?;
            let upstream = self.upstreams.find(name, node.at, self.report)?;
            Some((name.to_owned(), UpstreamId(upstream)))
        });
        let fetch: Option<Vec<_>> = fetch.collect();
        let cpu = fields.duration("cpu").unwrap_or(CPU);
        if let (Some(node), true) = (fields.get("cpu"), cpu > MOST_CPU) {
            let message = "the CPU time of a call must be at most 1s";
            self.report
                .error(codes::BAD_VALUE, node.at, message)
                .help("move longer work to an upstream");
        }
        let config = match fields.raw("config") {
            Some(node) => node.to_json().ok()?,
            None => "null".to_owned(),
        };
        let shared = fields.text("state") == Some("shared");
        let indent = fields.number("indent", 0);
        let program = self.program(file, Settings { shared, config, cpu, indent });
        Some(Script {
            program: Arc::new(program?),
            formats: self.formats(&fields, usize::from(indent), reply::ROOT),
            fetch: fetch?,
            isolated: fields.text("isolation") == Some("thread"),
        })
    }

    /// A script that maps: what it does for which method is its own affair.
    pub(super) fn map_script(&mut self, node: &Node) -> Option<Script> {
        let script = self.script(node)?;
        if !script.program.exports().iter().any(|name| name == "default") {
            let message =
                format!("{} has no default export, which a map needs", script.program.name());
            self.report.error(codes::BAD_SCRIPT, node.at, message);
            return None;
        }
        Some(script)
    }

    fn program(&mut self, file: &Node, settings: Settings) -> Option<Program> {
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
            Ok(program) => Some(program),
            Err(fault) if missing && fault.module == entry && fault.line == 0 => {
                self.report.error(codes::MISSING_FILE, file.at, fault.message);
                None
            }
            Err(fault) => {
                let message = match fault.line {
                    0 => format!("{}: {}", fault.module, fault.message),
                    line => format!("{}:{line}: {}", fault.module, fault.message),
                };
                self.report.error(codes::BAD_SCRIPT, file.at, message);
                None
            }
        }
    }
}
