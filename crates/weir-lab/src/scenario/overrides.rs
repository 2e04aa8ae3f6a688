//! Overrides of a scenario file: a level, another target, single values.

use super::{Cell, Level, Overrides, Scenario};
use crate::measure::{Method, resized, size};
use crate::protocol::RoundSize;
use std::path::Path;
use weir_document::document::{self, Document};
use weir_document::draft::{Data, Node};
use weir_document::finding::codes;

/// Longest load of a quick run without `levels.quick`, in seconds.
const MAX_QUICK_SECONDS: f64 = 5.0;

/// Reads the document with all overrides.
pub(super) fn read(path: &Path, text: &str, over: &Overrides) -> Document {
    let mut document = Document::read(path, text);
    levels(&mut document, over.level);
    for (path, value) in &over.sets {
        document.set(path, value);
    }
    if let Some(base) = &over.target {
        if let Some(target) = document.root.as_ref().and_then(|root| root.get("target")) {
            // HTTP/2 and timeouts stay as in the file.
            let path = if target.members().is_some() { "target.base" } else { "target" };
            document.set(path, &serde_json::Value::from(base.as_str()).to_string());
        }
        if let Some(Node { data: Data::Map(members), .. }) = &mut document.root {
            members.retain(|member| !matches!(member.key.as_str(), "server" | "backend" | "cases"));
        }
    }
    document
}

/// Applies the values of a level in the file.
fn levels(document: &mut Document, level: Level) {
    let Document { root: Some(root), report, .. } = document else { return };
    let Some(name) = name(level) else { return };
    let settings = root.get("levels").and_then(|levels| levels.get(name)).cloned();
    for member in settings.as_ref().and_then(Node::members).unwrap_or_default() {
        if let Err(why) = document::put(root, &member.key, member.value.clone()) {
            report.error(codes::BAD_OVERRIDE, member.at, why);
        }
    }
}

/// The key of a level.
fn name(level: Level) -> Option<&'static str> {
    match level {
        Level::Quick => Some("quick"),
        Level::Usual => None,
        Level::Full => Some("full"),
    }
}

/// Whether the file defines this level.
pub(super) fn is_defined(root: &Node, level: Level) -> bool {
    name(level)
        .is_some_and(|name| root.get("levels").is_some_and(|levels| levels.get(name).is_some()))
}

/// Shortens a scenario without `levels.quick`: first and last values of the matrix, short loads, no
/// protocol.
pub(super) fn shorten(scenario: &mut Scenario) {
    let cells = &scenario.cells;
    let is_end = |(at, value): (usize, &(String, String))| {
        let of = |cell: Option<&Cell>| cell.and_then(|cell| cell.values.get(at)) == Some(value);
        of(cells.first()) || of(cells.last())
    };
    let keep: Vec<bool> =
        cells.iter().map(|cell| cell.values.iter().enumerate().all(is_end)).collect();
    let mut keep = keep.into_iter();
    scenario.cells.retain(|_| keep.next().unwrap_or(true));
    scenario.method = Method::Once;
    for cell in &mut scenario.cells {
        if size(&cell.program)
            .is_some_and(|e| matches!(e, RoundSize::Seconds(s) if s > MAX_QUICK_SECONDS))
        {
            cell.program = resized(&cell.program, RoundSize::Seconds(MAX_QUICK_SECONDS));
        }
    }
}

#[cfg(test)]
mod tests;
