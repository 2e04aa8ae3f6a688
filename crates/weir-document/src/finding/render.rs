//! Renders findings with source excerpts, in the style of a compiler.

use super::{Finding, Findings, Severity};
use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

/// Longer lines are not shown: a minified JSON file is one line.
const MAX_LINE: usize = 400;

pub(super) fn render(findings: &Findings, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut out = String::new();
    // Each text is split into lines once, not for each finding.
    let texts = findings.texts.iter();
    let lines = texts.map(|t| (t.path.as_path(), t.text.lines().collect())).collect();
    for finding in &findings.list {
        let group = group(&lines, finding);
        out.push_str(&renderer.render(&[group]));
        out.push_str("\n\n");
    }
    out
}

/// The lines of the texts by their path.
type Lines<'a> = HashMap<&'a Path, Vec<&'a str>>;

fn group<'a>(texts: &Lines<'a>, finding: &'a Finding) -> Group<'a> {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(finding.message.as_str()).id(finding.code);
    let mut group = Group::with_title(title);
    let place = (finding.file.as_path(), finding.line, finding.column, finding.width);
    if let Some(snippet) = snippet(texts, place, |span| AnnotationKind::Primary.span(span)) {
        group = group.element(snippet);
    } else if finding.line > 0 || !finding.file.as_os_str().is_empty() {
        let mut origin = Origin::path(finding.file.to_string_lossy());
        if finding.line > 0 {
            origin = origin.line(finding.line).char_column(finding.column);
        }
        group = group.element(origin);
    }
    for location in &finding.related {
        let place = (location.file.as_path(), location.line, location.column, location.width);
        let label = location.label.as_str();
        let mark = |span| AnnotationKind::Context.span(span).label(label);
        group = group.elements(snippet(texts, place, mark));
    }
    if let Some(help) = &finding.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    group
}

/// The line of a location (file, line, column, width), with a mark on a range of its bytes.
fn snippet<'a>(
    texts: &Lines<'a>,
    (file, number, column, width): (&'a Path, usize, usize, usize),
    mark: impl FnOnce(Range<usize>) -> Annotation<'a>,
) -> Option<Snippet<'a, Annotation<'a>>> {
    let line = *texts.get(file)?.get(number.checked_sub(1)?)?;
    if line.len() > MAX_LINE {
        return None;
    }
    let byte = |character: usize| {
        line.char_indices().nth(character).map_or(line.len(), |(index, _)| index)
    };
    let start = byte(column.saturating_sub(1));
    let end = byte(column.saturating_sub(1) + width.max(1));
    let snippet = Snippet::source(line).line_start(number).path(file.to_string_lossy());
    Some(snippet.annotation(mark(start..end.max(start))))
}
