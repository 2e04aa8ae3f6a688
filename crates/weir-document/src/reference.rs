//! Reference documents in Markdown, from the descriptions of keys.

use crate::finding::words;
use crate::shape::Shape;
use std::fmt::Write;

fn title(shape: &Shape) -> String {
    let mut title = shape.name.to_owned();
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    title
}

/// Appends the keys of a mapping with type, default and meaning, below its title.
pub fn section(out: &mut String, shape: &Shape) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\n## {}\n\n{}\n", title(shape), shape.doc);
    for group in shape.groups {
        let rule = if group.required { "Exactly one of" } else { "At most one of" };
        let _ = write!(out, "\n{rule} {}.\n", words(group.keys));
    }
    out.push_str("\n| key | takes | default | meaning |\n|---|---|---|---|\n");
    for key in shape.keys {
        let default = if key.required { Some("required") } else { key.default.or(key.absent) };
        let takes = cell(&key.kind.describe());
        let _ = writeln!(
            out,
            "| `{}` | {takes} | {} | {} |",
            key.name,
            cell(default.unwrap_or("–")),
            cell(key.doc)
        );
    }
}

/// A text as a cell of a table, which a bar would end.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
