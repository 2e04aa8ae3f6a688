//! Overrides of a scenario file: a level, another target, single values.

use super::{Level, Overrides, Scenario};
use crate::measure::{Method, resized, size};
use crate::program::Program;
use crate::protocol::RoundSize;
use std::path::Path;
use weir_document::document::Document;
use weir_document::draft::{self, Data, Node};
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::{Kind, Names};

settings! {
    /// Overrides of `--quick` and `--full`: paths such as `load.0.duration`, and values.
    pub(super) static LEVELS is "the levels" {
        /// Overrides of a short run.
        quick = by_hand(SETTINGS).default(QUICK),
        /// Overrides of the complete run.
        full = by_hand(SETTINGS).default("nothing"),
    }
}

const SETTINGS: Kind = Kind::Table(Names::Parameter, &Kind::Json);
/// What `--quick` does without overrides.
const QUICK: &str =
    "the first and the last value of everything in the matrix, loads of at most 5 s";

/// Rounds of contenders in a quick run without `levels.quick`.
const QUICK_ROUNDS: usize = 2;
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
            members.retain(|member| {
                !matches!(
                    member.key.as_str(),
                    "server" | "prepare" | "backend" | "cases" | "contenders" | "bars"
                )
            });
        }
    }
    document
}

/// Applies the values of a level in the file.
fn levels(document: &mut Document, level: Level) {
    let Document { root: Some(root), report, .. } = document else { return };
    let settings = level_in(root, level).cloned();
    for member in settings.as_ref().and_then(Node::members).unwrap_or_default() {
        if let Err(why) = draft::put(root, &member.key, member.value.clone()) {
            report.error(codes::BAD_OVERRIDE, member.at, why);
        }
    }
}

/// The values of a level in the file.
pub(super) fn level_in(root: &Node, level: Level) -> Option<&Node> {
    let name = match level {
        Level::Quick => "quick",
        Level::Usual => return None,
        Level::Full => "full",
    };
    root.get("levels")?.get(name)
}

/// Shortens a scenario without `levels.quick`: first and last values of the matrix, short loads, no
/// protocol.
pub(super) fn shorten(scenario: &mut Scenario) {
    let (Some(first), Some(last)) = (scenario.cells.first(), scenario.cells.last()) else { return };
    let (first, last) = (first.values.clone(), last.values.clone());
    if let Method::Paired(rules) = &mut scenario.method {
        // Loads may depend on each other.
        (rules.rounds, rules.repeats) = (QUICK_ROUNDS, 1);
    } else {
        scenario.cells.retain(|cell| {
            let ends = cell.values.iter().zip(first.iter().zip(&last));
            ends.into_iter().all(|(value, (first, last))| value == first || value == last)
        });
        scenario.method = Method::Once;
    }
    for cell in &mut scenario.cells {
        // A background load ends with the round.
        [Some(&mut cell.program), cell.setup.as_mut()].into_iter().flatten().for_each(shorten_load);
    }
}

fn shorten_load(program: &mut Program) {
    if size(program)
        .is_some_and(|size| matches!(size, RoundSize::Seconds(s) if s > MAX_QUICK_SECONDS))
    {
        *program = resized(program, RoundSize::Seconds(MAX_QUICK_SECONDS));
    }
}

#[cfg(test)]
mod tests;
