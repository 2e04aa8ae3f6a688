//! YAML 1.2 (and so JSON) to nodes, bounded in depth and in what aliases expand to.

use super::node::{Data, Member, Node, Scalar, Spot};
use super::texts::FileId;
use crate::finding::{Report, codes};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use std::collections::HashMap;

/// Deepest nesting of lists and mappings.
const DEPTH: usize = 64;
/// Most nodes that all aliases of one text may expand to together.
const ALIAS_NODES: usize = 100_000;
/// A mapping with more members than this gets an index for its duplicate keys.
const SMALL: usize = 16;

/// Parses one text; `None` when nothing can be made of it (a finding says why) or it is empty.
pub(crate) fn parse(text: &str, file: FileId, report: &mut Report) -> Option<Node> {
    let mut builder = Builder {
        file,
        stack: Vec::new(),
        anchors: HashMap::new(),
        alias_nodes: 0,
        root: None,
        documents: 0,
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let step = match event {
            Ok((event, span)) => builder.take(event, span, report),
            Err(error) => {
                syntax_error(text, file, &error, report);
                return None;
            }
        };
        if step.is_none() {
            return None;
        }
    }
    builder.root
}

fn syntax_error(text: &str, file: FileId, error: &ScanError, report: &mut Report) {
    let line = error.marker().line().max(1);
    let at = |line: usize, column: usize| Spot {
        file,
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column + 1).unwrap_or(u32::MAX),
        width: 1,
    };
    // A tab is what confused the parser if one indents this line or the last one before it that
    // is not empty.
    let lines: Vec<&str> = text.lines().take(line).collect();
    let tab =
        lines.iter().enumerate().rev().filter(|(_, l)| !l.trim().is_empty()).take(2).find_map(
            |(number, l)| {
                let indent = &l[..l.len() - l.trim_start().len()];
                indent.find('\t').map(|column| (number + 1, column))
            },
        );
    match tab {
        Some((line, column)) => report
            .error(codes::TAB, at(line, column), "a tab indents this line")
            .help("YAML indents with spaces only: replace the tab by spaces"),
        None => report.error(
            codes::SYNTAX,
            at(line, error.marker().col()),
            format!("this is not YAML: {}", error.info()),
        ),
    };
}

/// An open list or mapping.
struct Open {
    node: Node,
    anchor: usize,
    /// Key that waits for its value.
    key: Option<(String, Spot)>,
    /// Keys so far, once there are many.
    index: HashMap<String, Spot>,
}

struct Builder {
    file: FileId,
    stack: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    alias_nodes: usize,
    root: Option<Node>,
    documents: usize,
}

impl Builder {
    fn spot(&self, span: Span) -> Spot {
        let (start, end) = (span.start, span.end);
        let width =
            if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { 1 };
        Spot {
            file: self.file,
            line: u32::try_from(start.line()).unwrap_or(u32::MAX).max(1),
            column: u32::try_from(start.col() + 1).unwrap_or(u32::MAX),
            width: u32::try_from(width).unwrap_or(u32::MAX).max(1),
        }
    }

    /// Takes one event; `None` when the text is to be given up.
    fn take(&mut self, event: Event<'_>, span: Span, report: &mut Report) -> Option<()> {
        let at = self.spot(span);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    report
                        .error(codes::SYNTAX, at, "a second document begins here")
                        .help("one file holds one document: remove the `---`, or use `include:`");
                    return None;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                if let Some(tag) = tag.filter(|t| !t.is_yaml_core_schema()) {
                    report.error(codes::SYNTAX, at, format!("the tag `{tag}` means nothing here"));
                }
                let scalar = Scalar {
                    text: text.into_owned(),
                    plain: style == ScalarStyle::Plain,
                    from_file: false,
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

    fn open(&mut self, at: Spot, data: Data, anchor: usize, report: &mut Report) -> Option<()> {
        if self.stack.len() >= DEPTH {
            report.error(codes::TOO_DEEP, at, format!("nested deeper than {DEPTH} levels"));
            return None;
        }
        let node = Node { at: Spot { width: 1, ..at }, data };
        self.stack.push(Open { node, anchor, key: None, index: HashMap::new() });
        Some(())
    }

    fn alias(&mut self, id: usize, at: Spot, report: &mut Report) -> Option<()> {
        // An anchor inside itself is not there yet.
        let Some((node, size)) = self.anchors.get(&id) else {
            report.error(codes::ALIAS, at, "this alias stands inside what it refers to");
            return None;
        };
        self.alias_nodes += size;
        if self.alias_nodes > ALIAS_NODES || self.stack.len() + depth(node) > DEPTH {
            let message = format!("aliases expand to more than {ALIAS_NODES} nodes or too deep");
            report.error(codes::ALIAS, at, message);
            return None;
        }
        let node = node.clone();
        self.add(node, 0, report)
    }

    fn add(&mut self, node: Node, anchor: usize, report: &mut Report) -> Option<()> {
        if anchor > 0 {
            let size = count(&node);
            self.alias_nodes += size;
            if self.alias_nodes > ALIAS_NODES {
                report.error(codes::ALIAS, node.at, "anchors hold too much");
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
                    if let Some(first) = duplicate(members, &mut open.index, &key, at) {
                        report
                            .error(codes::DUPLICATE_KEY, at, format!("`{key}` stands here twice"))
                            .related(first, "first here");
                    } else {
                        members.push(Member { key, at, value: node });
                    }
                }
                None => match node.data {
                    Data::Scalar(scalar) => open.key = Some((scalar.text, node.at)),
                    Data::List(_) | Data::Map(_) => {
                        report
                            .error(codes::SYNTAX, node.at, "a key must be a text")
                            .help("quote texts that begin with `[` or `{`");
                        open.key = Some((String::new(), node.at));
                    }
                },
            },
            Data::Scalar(_) => {}
        }
        Some(())
    }
}

/// Where `key` already stands. Large mappings get an index, so that ten thousand names load fast.
fn duplicate(
    members: &[Member],
    index: &mut HashMap<String, Spot>,
    key: &str,
    at: Spot,
) -> Option<Spot> {
    if members.len() < SMALL {
        return members.iter().find(|m| m.key == key).map(|m| m.at);
    }
    if index.is_empty() {
        index.extend(members.iter().map(|m| (m.key.clone(), m.at)));
    }
    if let Some(first) = index.get(key) {
        return Some(*first);
    }
    index.insert(key.to_owned(), at);
    None
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
