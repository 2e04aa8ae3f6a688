//! YAML 1.2 (and thus JSON) to nodes, with limits on depth and on the expansion of aliases.

use super::node::{Data, Member, Node, Scalar};
use crate::finding::{Diagnostics, codes};
use crate::secret_names::names_secret;
use crate::source_map::{FileId, Span};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use std::collections::HashMap;

/// Maximum nesting of lists and mappings.
const MAX_DEPTH: usize = 64;
/// Maximum number of nodes to which all aliases of a text may expand.
const MAX_ALIAS_NODES: usize = 100_000;

/// The text cannot be parsed; a finding has the reason.
#[derive(Debug)]
pub(super) struct Unreadable;

/// Parses a text; `None` if the text is empty. Its first line begins at column `offset` (from 0) of
/// the text shown to the user.
pub(super) fn parse(
    text: &str,
    file: FileId,
    offset: u32,
    report: &mut Diagnostics,
) -> Result<Option<Node>, Unreadable> {
    let mut builder = Builder { file, offset, ..Builder::default() };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => builder.take(event, span, report).ok_or(Unreadable)?,
            Err(error) => {
                report.redact_unread(file);
                syntax_error(text, &builder, &error, report);
                return Err(Unreadable);
            }
        }
    }
    Ok(builder.root)
}

/// Characters of an unquoted IPv6 address in brackets with a port.
fn bare_ipv6(line: &str) -> Option<&str> {
    let open = line.find('[')?;
    let close = open + line[open..].find("]:")?;
    line[open + 1..close].parse::<std::net::Ipv6Addr>().ok()?;
    let port = line[close + 2..].find(|c: char| !c.is_ascii_digit());
    Some(&line[open..port.map_or(line.len(), |end| close + 2 + end)])
}

fn syntax_error(text: &str, builder: &Builder, error: &ScanError, report: &mut Diagnostics) {
    let line = error.marker().line().max(1);
    // The cause is on this line or on the last non-empty line before it.
    let lines: Vec<(usize, &str)> = text.lines().take(line).enumerate().collect();
    let near = || lines.iter().rev().filter(|(_, l)| !l.trim().is_empty()).take(2);
    let tab = near().find_map(|(number, l)| {
        let indent = &l[..l.len() - l.trim_start().len()];
        indent.find('\t').map(|column| (number + 1, column))
    });
    if let Some((line, column)) = tab {
        report
            .error(codes::TAB, builder.place(line, column, 1), "a tab in the indentation")
            .help("replace the tab by spaces: YAML permits only spaces");
        return;
    }
    let address = near().find_map(|(number, l)| Some((number + 1, l, bare_ipv6(l)?)));
    if let Some((line, l, address)) = address {
        let column = l.find(address).map_or(0, |byte| l[..byte].chars().count());
        let at = builder.place(line, column, address.len());
        report
            .error(codes::SYNTAX, at, "quote addresses in brackets: otherwise they begin a list")
            .help(format!("write `\"{address}\"`"));
        return;
    }
    let at = builder.place(line, error.marker().col(), 1);
    report.error(codes::SYNTAX, at, format!("not YAML: {}", error.info()));
}

/// An open list or mapping.
struct Open {
    node: Node,
    anchor: usize,
    /// Key whose value has not been read yet.
    key: Option<(String, Span)>,
    /// Locations of the keys so far.
    keys: HashMap<String, Span>,
}

#[derive(Default)]
struct Builder {
    file: FileId,
    /// Column of the first character.
    offset: u32,
    stack: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    alias_nodes: usize,
    root: Option<Node>,
    documents: usize,
}

impl Builder {
    /// `line` from 1, `column` from 0.
    fn place(&self, line: usize, column: usize, width: usize) -> Span {
        let offset = if line <= 1 { self.offset } else { 0 };
        Span {
            file: self.file,
            line: u32::try_from(line).unwrap_or(u32::MAX).max(1),
            column: u32::try_from(column + 1).unwrap_or(u32::MAX).saturating_add(offset),
            width: u32::try_from(width).unwrap_or(u32::MAX).max(1),
            until: None,
        }
    }

    fn span(&self, span: saphyr_parser::Span) -> Span {
        let (start, end) = (span.start, span.end);
        let width =
            if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { 1 };
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let until = (end.line() > start.line()).then(|| (number(end.line()), number(end.col())));
        Span { until, ..self.place(start.line(), start.col(), width) }
    }

    /// Processes an event; `None` if the rest of the text is skipped.
    fn take(
        &mut self,
        event: Event<'_>,
        span: saphyr_parser::Span,
        report: &mut Diagnostics,
    ) -> Option<()> {
        let at = self.span(span);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    report.error(codes::SYNTAX, at, "a second YAML document").help(
                        "a file can contain one document: remove the `---`, or use `include:`",
                    );
                    return None;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                if let Some(tag) = tag.filter(|t| !t.is_yaml_core_schema()) {
                    report.error(codes::SYNTAX, at, format!("unknown tag `{tag}`"));
                }
                let scalar = Scalar {
                    text: text.into_owned(),
                    plain: style == ScalarStyle::Plain,
                    from_file: false,
                    from_env: false,
                    lost: false,
                };
                self.add(Node { at, data: Data::Scalar(scalar) }, anchor, report)?;
            }
            Event::SequenceStart(anchor, _) => {
                self.open(at, Data::List(Vec::new()), anchor, report)?
            }
            Event::MappingStart(anchor, _) => {
                self.open(at, Data::Map(Vec::new()), anchor, report)?
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.stack.pop()?;
                self.add(open.node, open.anchor, report)?;
            }
            Event::Alias(id) => self.alias(id, at, report)?,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Some(())
    }

    fn open(
        &mut self,
        at: Span,
        data: Data,
        anchor: usize,
        report: &mut Diagnostics,
    ) -> Option<()> {
        if self.stack.len() >= MAX_DEPTH {
            report.error(codes::TOO_DEEP, at, format!("nested deeper than {MAX_DEPTH} levels"));
            return None;
        }
        let node = Node { at: Span { width: 1, until: None, ..at }, data };
        self.stack.push(Open { node, anchor, key: None, keys: HashMap::new() });
        Some(())
    }

    fn alias(&mut self, id: usize, at: Span, report: &mut Diagnostics) -> Option<()> {
        // The anchor is incomplete inside its own node.
        let Some((node, size)) = self.anchors.get(&id) else {
            report.error(codes::ALIAS, at, "the alias refers to a node that contains it");
            return None;
        };
        self.alias_nodes += size;
        if self.alias_nodes > MAX_ALIAS_NODES || self.stack.len() + depth(node) > MAX_DEPTH {
            let message =
                format!("aliases expand to more than {MAX_ALIAS_NODES} nodes, or too deep");
            report.error(codes::ALIAS, at, message);
            return None;
        }
        let node = node.clone();
        self.add(node, 0, report)
    }

    fn add(&mut self, node: Node, anchor: usize, report: &mut Diagnostics) -> Option<()> {
        if anchor > 0 {
            let size = count(&node);
            self.alias_nodes += size;
            if self.alias_nodes > MAX_ALIAS_NODES {
                report.error(codes::ALIAS, node.at, "anchors contain too many nodes");
                return None;
            }
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return Some(());
        };
        match &mut open.node.data {
            Data::List(items) => items.push(node),
            Data::Map(members) => match open.key.take() {
                Some((key, at)) => {
                    if let Some(first) = open.keys.get(&key) {
                        // No specific key is known here, so the message is general.
                        if names_secret(&key) || !matches!(node.data, Data::Scalar(_)) {
                            node.redact(report);
                        }
                        report
                            .error(codes::DUPLICATE_KEY, at, format!("duplicate key `{key}`"))
                            .related(*first, "first here");
                    } else {
                        open.keys.insert(key.clone(), at);
                        members.push(Member { key, at, value: node });
                    }
                }
                None => match node.data {
                    Data::Scalar(scalar) => open.key = Some((scalar.text, node.at)),
                    Data::List(_) | Data::Map(_) => {
                        report
                            .error(codes::SYNTAX, node.at, "a key must be a string")
                            .help("quote strings that begin with `[` or `{`");
                        open.key = Some((String::new(), node.at));
                    }
                },
            },
            Data::Scalar(_) => {}
        }
        Some(())
    }
}

fn count(node: &Node) -> usize {
    match &node.data {
        Data::Scalar(_) => 1,
        Data::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        Data::Map(members) => 1 + members.iter().map(|m| 1 + count(&m.value)).sum::<usize>(),
    }
}

fn depth(node: &Node) -> usize {
    match &node.data {
        Data::Scalar(_) => 0,
        Data::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Data::Map(members) => 1 + members.iter().map(|m| depth(&m.value)).max().unwrap_or(0),
    }
}
