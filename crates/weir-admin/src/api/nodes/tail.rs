//! The tails of several nodes as one, in the order of arrival.
//!
//! A node that does not respond is reported, and tried again after a pause; its tail continues where it was.
//! A slow reader delays the tails: what is not read stays in the journals of the nodes.

use super::{nodes as nodes_of, open_stream, target};
use crate::access::BASE;
use crate::api::stream::{LineSender, READ_INTERVAL, ReaderLeft, line};
use axum::http::Method;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;
use weir_fleet::Handle;
use weir_fleet::peers::{Peer, PeerRequest, PeerStream, Peers, Person};
use weir_model::TransactionId;
use weir_tracker::document::{MissingNode, Summary, TailNodes, TailPosition};
use weir_tracker::{MAX_PAGE_HITS, Tail};

/// Batches of all nodes that wait for the reader.
const MAX_QUEUED: usize = 4;
/// Lines of a batch of another node end after so many bytes.
const BATCH_BYTES: usize = 64 << 10;
/// First pause before a node is tried again; it doubles up to the last.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// Interval of checking which nodes there are.
const NODES_INTERVAL: Duration = Duration::from_secs(2);

/// The request for the tail of another node.
pub(in crate::api) fn tail_target(query: &str, cursor: Option<&str>) -> String {
    let parameters = [("q", Some(query)), ("cursors", Some("true")), ("cursor", cursor)];
    target(&format!("{BASE}/transactions/tail"), &parameters)
}

/// What the tail of a node reports.
enum Event {
    Lines(String),
    /// The node responds, or why it does not.
    State(Uuid, Result<(), String>),
    /// The tail of this node cannot be read.
    Failed,
}

/// A node, as the reader is told.
struct Node {
    name: String,
    /// `None`: it has not been tried yet.
    state: Option<Result<(), String>>,
    task: AbortHandle,
}

/// The tail of this node, for the tail of all.
pub(in crate::api) struct OwnTail {
    pub(in crate::api) name: String,
    pub(in crate::api) tail: Tail,
}

/// The tails of several nodes.
pub(in crate::api) struct NodesTail {
    fleet: Handle,
    person: Person,
    query: String,
    /// The only node; `None`: all.
    only: Option<Uuid>,
    nodes: BTreeMap<Uuid, Node>,
    /// The nodes without a response that the reader knows of.
    reported: Option<Vec<Uuid>>,
    tasks: JoinSet<()>,
    sender: Sender<Event>,
    receiver: Receiver<Event>,
}

impl NodesTail {
    /// The tails of all nodes, on behalf of a person.
    pub(in crate::api) fn new(fleet: Handle, person: Person, query: String) -> Self {
        let (sender, receiver) = channel(MAX_QUEUED);
        let (nodes, reported, tasks) = (BTreeMap::new(), None, JoinSet::new());
        Self { fleet, person, query, only: None, nodes, reported, tasks, sender, receiver }
    }

    /// The tail of this node only, whose stream is open.
    pub(in crate::api) fn only(mut self, peer: &Peer, stream: PeerStream) -> Self {
        self.only = Some(peer.id);
        self.follow(peer.id, &peer.name, Some(stream));
        self
    }

    /// Follows another node.
    fn follow(&mut self, id: Uuid, name: &str, stream: Option<PeerStream>) {
        let tail = PeerTail {
            fleet: self.fleet.clone(),
            id,
            name: name.to_owned(),
            person: self.person.clone(),
            query: self.query.clone(),
            events: self.sender.clone(),
            cursor: None,
            after: HashSet::new(),
        };
        let task = self.tasks.spawn(tail.follow(stream));
        self.nodes.insert(id, Node { name: name.to_owned(), state: None, task });
    }

    /// Sends lines until the reader leaves.
    pub(in crate::api) async fn send(
        mut self,
        own: Option<OwnTail>,
        mut out: LineSender,
    ) -> Result<(), ReaderLeft> {
        if let Some(own) = own {
            self.tasks.spawn(follow_own(own, self.sender.clone()));
        }
        self.update();
        // The reader knows from the first line that the others name their nodes.
        let first = self.report(Vec::new());
        out.send(first).await?;
        let (mut none, mut checked) = (String::new(), Instant::now());
        loop {
            let next = timeout(NODES_INTERVAL, self.receiver.recv());
            let lines = match out.wait(&mut none, next).await? {
                Ok(Some(Event::Lines(lines))) => lines,
                Ok(Some(Event::State(id, state))) => {
                    if let Some(node) = self.nodes.get_mut(&id) {
                        node.state = Some(state);
                    }
                    self.changes()
                }
                Ok(Some(Event::Failed) | None) => return Ok(()),
                Err(_) => String::new(),
            };
            out.send(lines).await?;
            if checked.elapsed() >= NODES_INTERVAL {
                checked = Instant::now();
                self.update();
                out.send(self.changes()).await?;
            }
        }
    }

    fn peers(&self) -> Option<Peers> {
        let mut peers = self.fleet.peers()?;
        peers.others.retain(|peer| self.only.is_none_or(|only| only == peer.id));
        Some(peers)
    }

    /// Follows nodes that have joined, and no longer those that have left.
    fn update(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        let Some(Peers { others, .. }) = self.peers() else { return };
        self.nodes.retain(|id, node| {
            // A task ends when its node has left for a moment.
            let stays = others.iter().any(|peer| peer.id == *id) && !node.task.is_finished();
            if !stays {
                node.task.abort();
            }
            stays
        });
        for Peer { id, name, .. } in others {
            if !self.nodes.contains_key(&id) {
                self.follow(id, &name, None);
            }
        }
    }

    /// A line, if other nodes than before have no response, and all have been tried.
    fn changes(&mut self) -> String {
        if self.nodes.values().any(|node| node.state.is_none()) {
            return String::new();
        }
        let missing: Vec<MissingNode> = self.nodes.iter().filter_map(missing).collect();
        let ids =
            |missing: &[MissingNode]| missing.iter().map(|node| node.id.parse().ok()).collect();
        let silent: Option<Vec<Uuid>> = ids(&missing);
        if silent == self.reported {
            return String::new();
        }
        self.reported = silent;
        self.report(missing)
    }

    fn report(&self, missing: Vec<MissingNode>) -> String {
        let Some(peers) = self.peers() else { return String::new() };
        let mut nodes = nodes_of(&peers, missing);
        nodes.queried -= usize::from(self.only.is_some());
        line(&TailNodes { nodes })
    }
}

fn missing((id, node): (&Uuid, &Node)) -> Option<MissingNode> {
    let reason = node.state.as_ref()?.as_ref().err()?.clone();
    Some(MissingNode { id: id.to_string(), name: node.name.clone(), reason })
}

/// Follows this node.
async fn follow_own(OwnTail { name, mut tail }: OwnTail, events: Sender<Event>) {
    loop {
        let node = name.clone();
        let read = spawn_blocking(move || {
            let lines = tail.next(MAX_PAGE_HITS).map(|ended| {
                let named =
                    |transaction| Summary { node: node.clone(), ..Summary::from(transaction) };
                ended.iter().map(|transaction| line(&named(transaction))).collect::<String>()
            });
            (tail, lines)
        });
        let Ok((again, Ok(lines))) = read.await else {
            drop(events.send(Event::Failed).await);
            return;
        };
        tail = again;
        if !lines.is_empty() && events.send(Event::Lines(lines)).await.is_err() {
            return;
        }
        sleep(READ_INTERVAL).await;
    }
}

/// The tail of another node.
struct PeerTail {
    fleet: Handle,
    id: Uuid,
    name: String,
    person: Person,
    query: String,
    events: Sender<Event>,
    /// Where it continues.
    cursor: Option<String>,
    /// Transactions after the cursor: at most those of a batch of the node.
    after: HashSet<TransactionId>,
}

/// The reader has left, or the node has.
struct Over;

impl PeerTail {
    /// Follows the node until the reader leaves, or the node leaves the fleet.
    async fn follow(mut self, mut stream: Option<PeerStream>) {
        let mut pause = PAUSES[0];
        loop {
            let started = Instant::now();
            let opened = match stream.take() {
                Some(stream) => Ok(stream),
                None => self.open().await,
            };
            let (reason, has_responded) = match opened {
                Ok(stream) => match self.read(stream).await {
                    Ok(reason) => (reason, true),
                    Err(Over) => return,
                },
                Err(Some(reason)) => (Some(reason), false),
                Err(None) => return,
            };
            let is_brief = started.elapsed() < PAUSES[0];
            if has_responded && !is_brief {
                pause = PAUSES[0];
                if reason.is_none() {
                    // Its longest connection time is over.
                    continue;
                }
            }
            let reason = reason.unwrap_or_else(|| "it has ended its response".to_owned());
            if self.report(Err(reason)).await.is_err() {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    async fn report(&self, state: Result<(), String>) -> Result<(), Over> {
        self.events.send(Event::State(self.id, state)).await.map_err(|_| Over)
    }

    /// Opens a stream where the last one has ended; `None`: the node has left the fleet.
    async fn open(&self) -> Result<PeerStream, Option<String>> {
        let peers = self.fleet.peers().ok_or(None)?;
        let peer = peers.others.into_iter().find(|peer| peer.id == self.id).ok_or(None)?;
        let request = PeerRequest {
            method: Method::GET,
            target: tail_target(&self.query, self.cursor.as_deref()),
            body: Default::default(),
            person: self.person.clone(),
        };
        open_stream(&self.fleet, &peer, &request).await.map_err(Some)
    }

    /// Reads a stream to its end; the reason, if that is an error.
    async fn read(&mut self, mut stream: PeerStream) -> Result<Option<String>, Over> {
        #[derive(Deserialize)]
        struct Head {
            id: TransactionId,
        }
        self.report(Ok(())).await?;
        let mut text = String::new();
        loop {
            // What has arrived is sent together.
            let next = match stream.ready_line() {
                Some(line) => Ok(Some(line)),
                None => {
                    self.pass_on(&mut text).await?;
                    stream.line().await
                }
            };
            let line = match next {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(None),
                Err(error) => return Ok(Some(error.to_string())),
            };
            if let Ok(TailPosition { cursor }) = serde_json::from_slice(&line) {
                self.cursor = Some(cursor);
                self.after.clear();
            } else if let Ok(Head { id }) = serde_json::from_slice(&line)
                && self.after.insert(id)
                && let Some(named) = self.named(&line)
            {
                text.push_str(&named);
            }
            if text.len() >= BATCH_BYTES {
                self.pass_on(&mut text).await?;
            }
        }
    }

    async fn pass_on(&self, text: &mut String) -> Result<(), Over> {
        if text.is_empty() {
            return Ok(());
        }
        self.events.send(Event::Lines(std::mem::take(text))).await.map_err(|_| Over)
    }

    /// A summary with the name of the node.
    fn named(&self, text: &[u8]) -> Option<String> {
        let mut summary: Summary = serde_json::from_slice(text).ok()?;
        summary.node.clone_from(&self.name);
        Some(line(&summary))
    }
}
