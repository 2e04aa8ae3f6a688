//! The exports of several nodes as one, newest first.
//!
//! Of each node, one line is here, and what its stream has read ahead: a chunk, or a batch of this node. The
//! last line says whether the export is complete: `end`, or `failed` if a node has failed in between.

use super::{Cursor, Position, missing, nodes, open_stream};
use crate::api::stream::{LineSender, ReaderLeft, line};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use tokio::task::{JoinSet, spawn_blocking};
use uuid::Uuid;
use weir_fleet::Handle;
use weir_fleet::peers::{Peer, PeerRequest, PeerStream, Peers};
use weir_model::{TransactionId, UnixMicros};
use weir_tracker::document::{
    ExportEnd, ExportFailure, Exported, FailedExport, MissingNode, Nodes,
};
use weir_tracker::{Cursor as Place, Export, ExportStep};

/// Bytes of one batch: the next transactions wait until it is sent.
const BATCH_BYTES: usize = 256 << 10;

/// A line of an export.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::api) struct Line {
    place: Place,
    text: String,
}

/// What a node sends next.
#[derive(Debug)]
pub(in crate::api) enum Item {
    Line(Line),
    End(Box<Exported>),
}

/// Where the lines of a node come from.
pub(in crate::api) enum NodeLines {
    Here(Box<LocalLines>),
    Peer(Box<PeerStream>),
    #[cfg(test)]
    Test(VecDeque<Result<Item, String>>),
}

impl NodeLines {
    /// The export of this node.
    pub(in crate::api) fn here(export: Export) -> Self {
        Self::Here(Box::new(LocalLines { export: Some(export), ready: VecDeque::new() }))
    }

    /// The next line of the node with this name.
    async fn next(&mut self, node: &str) -> Result<Item, String> {
        match self {
            Self::Here(lines) => lines.next(node).await,
            Self::Peer(stream) => next_of(stream, node).await,
            #[cfg(test)]
            Self::Test(items) => items.pop_front().unwrap_or(Err("the end".to_owned())),
        }
    }
}

/// The export of this node.
pub(in crate::api) struct LocalLines {
    /// Absent after a panic.
    export: Option<Export>,
    ready: VecDeque<Item>,
}

impl LocalLines {
    async fn next(&mut self, node: &str) -> Result<Item, String> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(item);
            }
            let mut export = self.export.take().ok_or("the export was aborted")?;
            let node = node.to_owned();
            let read = spawn_blocking(move || {
                let items = batch(&mut export, &node);
                (export, items)
            });
            let (export, items) = read.await.map_err(|error| error.to_string())?;
            self.export = Some(export);
            self.ready = items?;
        }
    }
}

/// The next lines of this node, possibly none.
fn batch(export: &mut Export, node: &str) -> Result<VecDeque<Item>, String> {
    let (mut items, mut bytes) = (VecDeque::new(), 0);
    while bytes < BATCH_BYTES {
        match export.step().map_err(|error| error.to_string())? {
            Some(ExportStep::Found(mut one)) => {
                node.clone_into(&mut one.summary.node);
                let place = Place::new(one.summary.time.0, one.summary.id.0);
                let text = line(&*one);
                bytes += text.len();
                items.push_back(Item::Line(Line { place, text }));
            }
            Some(ExportStep::Pending) => break,
            Some(ExportStep::End(end)) => {
                items.push_back(Item::End(Box::new(end)));
                break;
            }
            None => return Err("it has ended".to_owned()),
        }
    }
    Ok(items)
}

/// The next line of another node.
async fn next_of(stream: &mut PeerStream, node: &str) -> Result<Item, String> {
    loop {
        let line = stream.line().await.map_err(|error| error.to_string())?;
        let line = line.ok_or("its response has ended early")?;
        if !line.is_empty() {
            return parse(&line, node);
        }
    }
}

/// A line of another node, with the name of the node.
fn parse(line: &[u8], node: &str) -> Result<Item, String> {
    #[derive(Deserialize)]
    struct Head {
        id: TransactionId,
        time: UnixMicros,
    }
    let unreadable = || "its response cannot be read".to_owned();
    if let Ok(Head { id, time }) = serde_json::from_slice(line) {
        let text = std::str::from_utf8(line).map_err(|_| unreadable())?;
        let members = text.strip_prefix('{').ok_or_else(unreadable)?;
        let name = serde_json::Value::from(node);
        let text = format!("{{\"node\":{name},{members}\n");
        return Ok(Item::Line(Line { place: Place::new(time.0, id.0), text }));
    }
    let end = serde_json::from_slice::<ExportEnd>(line);
    end.map(|end| Item::End(Box::new(end.end))).map_err(|_| unreadable())
}

/// The export of a node, as far as it was read.
struct Node {
    id: Uuid,
    name: String,
    lines: NodeLines,
    /// The next line.
    head: Option<Line>,
    end: Option<Box<Exported>>,
    /// Where the export of the node continues.
    position: Position,
}

/// Why there is no further line.
enum Stop {
    ReaderLeft,
    Failed(MissingNode),
}

impl From<ReaderLeft> for Stop {
    fn from(_: ReaderLeft) -> Self {
        Self::ReaderLeft
    }
}

/// The exports of several nodes.
pub(in crate::api) struct NodesExport {
    nodes: Vec<Node>,
    /// The nodes of the export, for its end.
    of: Nodes,
    limit: usize,
    before: Cursor,
    /// The last line.
    last: Option<Place>,
    sent: usize,
    /// Nodes without a response: a continuation has all that they have.
    silent: Vec<Uuid>,
    incomplete: bool,
}

impl NodesExport {
    /// An export of at most `limit` transactions after the cursor `before`.
    pub(in crate::api) fn new(limit: usize, before: Cursor) -> Self {
        let (nodes, of) = (Vec::new(), Nodes::default());
        Self {
            nodes,
            of,
            limit,
            before,
            last: None,
            sent: 0,
            silent: Vec::new(),
            incomplete: false,
        }
    }

    /// Adds the lines of a node.
    pub(in crate::api) fn add(&mut self, (id, name): (Uuid, &str), lines: NodeLines) {
        let position = self.before.position(id);
        let name = name.to_owned();
        self.nodes.push(Node { id, name, lines, head: None, end: None, position });
    }

    /// Opens the exports of the other nodes with these requests; those without a response are missing.
    pub(in crate::api) async fn open(
        &mut self,
        (fleet, peers): (&Handle, &Peers),
        requests: Vec<(Peer, PeerRequest)>,
    ) {
        let mut opening = JoinSet::new();
        for (peer, request) in requests {
            let fleet = fleet.clone();
            opening.spawn(async move {
                let stream = open_stream(&fleet, &peer, &request).await;
                (peer, stream)
            });
        }
        let mut without = Vec::new();
        while let Some(opened) = opening.join_next().await {
            match opened {
                Ok((peer, Ok(stream))) => {
                    self.add((peer.id, &peer.name), NodeLines::Peer(Box::new(stream)));
                }
                Ok((peer, Err(reason))) => {
                    self.silent.push(peer.id);
                    without.push(missing(&peer, reason));
                }
                // A panic: nobody knows of which node.
                Err(_) => self.incomplete = true,
            }
        }
        self.incomplete |= !without.is_empty();
        self.of = nodes(peers, without);
    }

    /// Sends the export, and its last line.
    pub(in crate::api) async fn send(mut self, mut out: LineSender) -> Result<(), ReaderLeft> {
        // So that the head of the response is sent at once.
        out.send("\n".to_owned()).await?;
        let mut text = String::new();
        let last = match self.lines(&mut out, &mut text).await {
            Ok(end) => line(&ExportEnd { end }),
            Err(Stop::ReaderLeft) => return Err(ReaderLeft),
            Err(Stop::Failed(node)) => {
                let failed = FailedExport { transactions: self.sent as u64, node };
                line(&ExportFailure { failed })
            }
        };
        text.push_str(&last);
        out.send(text).await
    }

    /// Sends the lines of all nodes; the rest is in `text`.
    async fn lines(&mut self, out: &mut LineSender, text: &mut String) -> Result<Exported, Stop> {
        loop {
            for node in &mut self.nodes {
                if node.head.is_some() || node.end.is_some() {
                    continue;
                }
                if text.len() >= BATCH_BYTES {
                    out.send(std::mem::take(text)).await?;
                }
                match out.wait(text, node.lines.next(&node.name)).await? {
                    Ok(Item::Line(line)) => node.head = Some(line),
                    Ok(Item::End(end)) => node.end = Some(end),
                    Err(reason) => {
                        let (id, name) = (node.id.to_string(), node.name.clone());
                        return Err(Stop::Failed(MissingNode { id, name, reason }));
                    }
                }
            }
            // A node that has reached the limit has older transactions: those of others wait.
            let is_cut = |node: &Node| node.end.as_ref().is_some_and(|end| end.cut);
            let first = self
                .nodes
                .iter()
                .enumerate()
                .filter_map(|(index, node)| Some((node.head.as_ref()?.place, Reverse(index))))
                .max();
            let Some((place, Reverse(index))) = first else { return Ok(self.end()) };
            let is_last = self.sent == self.limit || self.nodes.iter().any(is_cut);
            if is_last && self.last != Some(place) {
                return Ok(self.end());
            }
            let node = &mut self.nodes[index];
            node.position = Position::After(place.to_string());
            let Some(line) = node.head.take() else { continue };
            // Several nodes may have the same transaction.
            if self.last.replace(place) != Some(place) {
                self.sent += 1;
                text.push_str(&line.text);
            }
        }
    }

    fn end(&mut self) -> Exported {
        let mut end = Exported {
            transactions: self.sent as u64,
            incomplete: self.incomplete,
            nodes: Some(std::mem::take(&mut self.of)),
            ..Exported::default()
        };
        let silent = self.silent.iter().map(|node| (*node, self.before.position(*node)));
        let mut positions: BTreeMap<Uuid, Position> = silent.collect();
        for node in &mut self.nodes {
            end.cut |= node.head.is_some();
            if let Some(of_node) = node.end.take() {
                end.cut |= of_node.cut;
                end.incomplete |= of_node.incomplete;
                end.missing = end.missing.plus(&of_node.missing);
                if !of_node.cut {
                    node.position = Position::End;
                }
            }
            positions.insert(node.id, node.position.clone());
        }
        if end.cut {
            let last = self.last.map(|place| place.to_string());
            end.next = self.before.continued(last, positions).text();
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::stream::collect_lines;

    fn id(node: u128) -> Uuid {
        Uuid::from_u128(node)
    }

    /// The items of a node with transactions at these times, after a position.
    fn items(times: &[u64], position: &Position, limit: usize) -> VecDeque<Result<Item, String>> {
        let after = |time: &u64| {
            let place = Place::new(*time, u128::from(*time)).to_string();
            position.cursor().is_none_or(|after| place.as_str() < after)
        };
        let rest: Vec<u64> = times.iter().copied().filter(after).collect();
        let line = |time: &u64| {
            let (place, text) = (Place::new(*time, u128::from(*time)), format!("{time}\n"));
            Ok(Item::Line(Line { place, text }))
        };
        let cut = rest.len() > limit;
        let end = Exported { cut, ..Exported::default() };
        let end = Ok(Item::End(Box::new(end)));
        rest.iter().take(limit).map(line).chain([end]).collect()
    }

    fn export(nodes: &[&[u64]], limit: usize, cursor: Option<&str>) -> (Vec<u64>, Exported) {
        let before = Cursor::parse(cursor).ok().unwrap();
        let mut export = NodesExport::new(limit, before.clone());
        for (number, times) in nodes.iter().enumerate() {
            let id = id(number as u128);
            let position = before.position(id);
            if position != Position::End {
                export.add((id, "x"), NodeLines::Test(items(times, &position, limit)));
            }
        }
        let lines = collect_lines(|out| export.send(out));
        let mut lines: Vec<&str> = lines.lines().filter(|line| !line.is_empty()).collect();
        let end: ExportEnd = serde_json::from_str(lines.pop().unwrap()).unwrap();
        (lines.iter().map(|line| line.parse().unwrap()).collect(), end.end)
    }

    #[test]
    fn all_transactions_are_exported_once_newest_first() {
        let nodes: [&[u64]; 4] = [&[9, 7, 4, 1], &[8, 7, 3, 2], &[], &[6]];
        let (lines, end) = export(&nodes, 100, None);
        assert_eq!(lines, [9, 8, 7, 6, 4, 3, 2, 1]);
        assert_eq!((end.transactions, end.cut, end.next), (8, false, None));
    }

    #[test]
    fn an_export_that_reached_its_limit_is_continued_by_its_cursor() {
        let nodes: [&[u64]; 3] = [&[9, 7, 4, 1], &[8, 7, 3, 2], &[6, 5]];
        for limit in 1..12 {
            let (mut all, mut cursor) = (Vec::new(), None::<String>);
            loop {
                let (lines, end) = export(&nodes, limit, cursor.as_deref());
                assert!(lines.len() <= limit, "{limit}: {lines:?}");
                all.extend(lines);
                assert_eq!(end.cut, end.next.is_some());
                cursor = end.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(all, [9, 8, 7, 6, 5, 4, 3, 2, 1], "{limit}");
        }
    }

    #[test]
    fn a_node_that_fails_ends_the_export_by_name() {
        let mut export = NodesExport::new(100, Cursor::default());
        export.add((id(1), "one"), NodeLines::Test(items(&[9, 1], &Position::Start, 100)));
        let mut failing = items(&[8, 7], &Position::Start, 100);
        failing.pop_back();
        failing.push_back(Err("gone".to_owned()));
        export.add((id(2), "two"), NodeLines::Test(failing));
        let lines = collect_lines(|out| export.send(out));
        let last: ExportFailure = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(last.failed.transactions, 3);
        let MissingNode { name, reason, .. } = last.failed.node;
        assert_eq!((name.as_str(), reason.as_str()), ("two", "gone"));
        assert!(!lines.contains("\"end\""), "{lines}");
    }

    #[test]
    fn lines_of_another_node_get_its_name() {
        let transaction = r#"{"id":"019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55","time":"2026-11-20T10:00:00.000001Z","x":1}"#;
        let Ok(Item::Line(line)) = parse(transaction.as_bytes(), "a\"b") else { panic!("no line") };
        assert!(line.text.starts_with(r#"{"node":"a\"b","id":"019a"#), "{}", line.text);
        let end = parse(br#"{"end":{"transactions":1,"cut":false,"incomplete":true}}"#, "a");
        assert!(matches!(end, Ok(Item::End(end)) if end.incomplete));
        for wrong in ["", "{}", "[]", "{\"id\":1}"] {
            assert!(parse(wrong.as_bytes(), "a").is_err(), "{wrong}");
        }
    }
}
