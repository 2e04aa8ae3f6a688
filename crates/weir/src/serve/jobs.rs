//! The thread that runs jobs of the fleet: it finds their transactions on all nodes, and has each sent by
//! the node that has it, at the rate of the job.

use super::messages::Messages;
use super::thread::{Running, Thread, ThreadContext};
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use uuid::Uuid;
use weir_admin::jobs::{FIND_ITEMS, SEND_ITEMS};
use weir_fleet::Handle;
use weir_fleet::database::DatabaseError;
use weir_fleet::jobs::{JobCursor, LeasedJob, Leases, PageItem, PendingItem};
use weir_fleet::peers::{Peer, PeerError, PeerRequest, PeerResponse, Peers, Person};
use weir_resubmit::{
    FindItems, FoundItems, JobItemAddress, MAX_SENT, Pace, Resubmitter, SendItems, SentItems,
};
use weir_store::ledger::{Again, Job, JobState};

/// The thread.
const THREAD: Thread = Thread { name: "fleet-jobs", task: "jobs of the fleet:", nice: 0 };
/// Time between passes while a job runs.
const BUSY_INTERVAL: Duration = Duration::from_millis(100);
/// Time between passes while none does.
const IDLE_INTERVAL: Duration = Duration::from_secs(2);
/// Passes without work after which the connection is closed.
const IDLE_PASSES: u32 = 5;
/// Most attempts of a job in flight, on all nodes.
const MAX_SENDING: usize = 1_000;
/// Deadline of a node for its part. Shorter than the lease of a job: that is renewed in each pass.
const PART_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests for a page of a preview that a node may leave unanswered before its transactions are missing.
const MAX_SILENT_PAGES: u32 = 3;

/// Starts the thread.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn start(
    fleet: &Handle,
    resubmitter: &Resubmitter,
    messages: &Messages,
) -> anyhow::Result<Running> {
    let context = ThreadContext::new(messages);
    let stopped = Arc::new(Notify::new());
    let wake = Arc::clone(&stopped);
    let runner = JobRunner {
        fleet: fleet.clone(),
        leases: Leases::new(fleet.clone()),
        resubmitter: resubmitter.clone(),
        pace: None,
        silent: HashMap::new(),
        idle: 0,
        stopped,
    };
    type State = (JobRunner, ThreadContext);
    let run = async |(runner, context): &mut State| runner.run(context).await;
    let recover = |(runner, _): &mut State| runner.leases.disconnect();
    let state = (runner, context.clone());
    Ok(THREAD.start_async(&context, move || wake.notify_one(), state, run, recover)?)
}

/// Runs jobs of the fleet.
struct JobRunner {
    fleet: Handle,
    leases: Leases,
    resubmitter: Resubmitter,
    /// Number of the running job, and its pace.
    pace: Option<(i64, Pace)>,
    /// Pages of the preview of a job that a node has left unanswered in a row.
    silent: HashMap<(i64, Uuid), u32>,
    /// Passes without work in a row.
    idle: u32,
    stopped: Arc<Notify>,
}

impl JobRunner {
    async fn run(&mut self, context: &mut ThreadContext) {
        while !context.stopped() {
            let started = Instant::now();
            let pause = match self.pass().await {
                Ok(pause) => {
                    context.succeeded();
                    pause.saturating_sub(started.elapsed())
                }
                Err(error) => {
                    context.failed(&format!("jobs of the fleet: {error}"));
                    self.leases.disconnect();
                    IDLE_INTERVAL
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.leases.changed(), if pause > BUSY_INTERVAL => {}
                () = self.stopped.notified() => {}
            }
        }
    }

    /// Performs all due work. Returns the time until the next pass.
    async fn pass(&mut self) -> Result<Duration, DatabaseError> {
        // Without a key, nodes do not query each other: each has its own jobs.
        let Some(peers) = self.fleet.peers() else { return Ok(IDLE_INTERVAL) };
        let running = self.leases.take(JobState::Running).await?;
        match &running {
            Some(leased) => self.send_due(leased, &peers).await?,
            None => self.pace = None,
        }
        // One page in between: a preview does not wait until another job has ended.
        let previewing = self.leases.take(JobState::Previewing).await?;
        if let Some(leased) = &previewing {
            self.preview(leased, &peers).await?;
        }
        if running.is_some() || previewing.is_some() {
            self.idle = 0;
            return Ok(if previewing.is_some() { Duration::ZERO } else { BUSY_INTERVAL });
        }
        self.idle = self.idle.saturating_add(1);
        if self.idle == IDLE_PASSES {
            self.leases.disconnect();
            self.silent.clear();
        }
        Ok(IDLE_INTERVAL)
    }

    /// Continues a preview by one page of one node.
    async fn preview(&mut self, leased: &LeasedJob, peers: &Peers) -> Result<(), DatabaseError> {
        let cursor = |node: &Uuid| leased.cursors.get(node).cloned().unwrap_or_default();
        let nodes: Vec<Uuid> =
            [peers.own].into_iter().chain(peers.others.iter().map(|peer| peer.id)).collect();
        // The other cursors are stored first: the preview ends with the page after which none is left.
        let open: Vec<Uuid> = nodes.into_iter().filter(|node| !cursor(node).end).collect();
        let mut leased = leased.clone();
        let Some(node) = open.first().copied() else {
            // The others have left the fleet meanwhile.
            leased.cursors.values_mut().for_each(|cursor| cursor.end = true);
            let own = JobCursor { end: true, ..cursor(&peers.own) };
            return self.leases.add_page(&leased, (peers.own, own), &[], true).await;
        };
        for node in &open {
            leased.cursors.entry(*node).or_default();
        }
        let Job { query, created, destination, again, number, .. } = &leased.job;
        let find = FindItems {
            query: query.clone(),
            created: created.0,
            to: destination.clone(),
            again: *again,
            after: leased.cursors.get(&node).and_then(|cursor| cursor.after.clone()),
        };
        let peer = peers.others.iter().find(|peer| peer.id == node);
        let found: Result<FoundItems, String> = match peer {
            None => {
                let resubmitter = self.resubmitter.clone();
                blocking(move || resubmitter.find_items(&find)).await
            }
            Some(peer) => self.query(peer, FIND_ITEMS, &find, &leased.job).await,
        };
        let silent = self.silent.entry((*number, node)).or_default();
        match found {
            Ok(found) => {
                *silent = 0;
                let cursor = JobCursor { end: found.next.is_none(), after: found.next };
                let items: Vec<PageItem> = found.items.into_iter().map(page_item).collect();
                self.leases.add_page(&leased, (node, cursor), &items, found.incomplete).await
            }
            Err(_) if *silent < MAX_SILENT_PAGES => {
                *silent += 1;
                tokio::time::sleep(BUSY_INTERVAL).await;
                Ok(())
            }
            // The job says that transactions may be missing.
            Err(_) => {
                let cursor = JobCursor { end: true, ..cursor(&node) };
                self.leases.add_page(&leased, (node, cursor), &[], true).await
            }
        }
    }

    /// Has the due transactions of a job sent.
    async fn send_due(&mut self, leased: &LeasedJob, peers: &Peers) -> Result<(), DatabaseError> {
        let (job, now) = (&leased.job, Instant::now());
        let changed =
            |(number, pace): &(i64, Pace)| *number != job.number || pace.rate() != job.rate;
        if self.pace.as_ref().is_none_or(changed) {
            self.pace = Some((job.number, Pace::new(job.rate, now)));
        }
        let due = self.pace.as_mut().map_or(0, |(_, pace)| pace.due(now));
        let limit = due.min(MAX_SENDING.saturating_sub(leased.sending));
        let nodes: Vec<Uuid> = [peers.own]
            .into_iter()
            .chain(peers.others.iter().filter(|peer| peer.is_up()).map(|peer| peer.id))
            .collect();
        let pending = match limit {
            0 => Vec::new(),
            limit => self.leases.pending(job.number, limit, &nodes).await?,
        };
        if pending.is_empty() && limit > 0 && leased.sending == 0 {
            if self.leases.end_if_done(&leased.lease).await? {
                self.resubmitter.count_finished();
                self.leases.release(&leased.lease).await?;
            }
            return Ok(());
        }
        let claimed = self.send(leased, peers, pending).await;
        if let Some((_, pace)) = &mut self.pace {
            pace.sent(claimed);
        }
        Ok(())
    }

    /// Has transactions sent by the nodes that have them. Returns the number of attempts. What a node did
    /// not get is still pending; whether a node without a response has sent its part, is in the database.
    async fn send(&self, leased: &LeasedJob, peers: &Peers, pending: Vec<PendingItem>) -> usize {
        let mut parts: BTreeMap<Uuid, Vec<JobItemAddress>> = BTreeMap::new();
        for PendingItem { id, node, lane, position, accepted } in pending {
            let part = parts.entry(node).or_default();
            if part.len() < MAX_SENT {
                part.push(JobItemAddress { id, lane, position, accepted });
            }
        }
        let job = &leased.job;
        let send = |items| SendItems {
            job: job.number,
            epoch: leased.lease.epoch,
            who: job.who.clone(),
            to: job.destination.clone(),
            again: job.again,
            unknown: job.sends() == Again::Unknown,
            items,
        };
        let own = parts.remove(&peers.own).map(send);
        let requests = peers.others.iter().filter_map(|peer| {
            let part = send(parts.remove(&peer.id)?);
            Some((peer.clone(), request(SEND_ITEMS, &part, job)))
        });
        let mut responses = self.fleet.query_peers(requests.collect(), PART_TIMEOUT);
        let mut claimed = 0;
        if let Some(part) = own {
            let resubmitter = self.resubmitter.clone();
            let sent = blocking(move || resubmitter.send_items(&part)).await;
            claimed += sent.map_or(0, |sent| sent.claimed);
        }
        while let Some((_, response)) = responses.next().await {
            claimed += document::<SentItems>(response).map_or(0, |sent| sent.claimed);
        }
        claimed
    }

    /// The response of a node to a request for a job.
    async fn query<T: DeserializeOwned>(
        &self,
        peer: &Peer,
        path: &str,
        body: &impl Serialize,
        job: &Job,
    ) -> Result<T, String> {
        document(self.fleet.query_peer(peer, &request(path, body, job), PART_TIMEOUT).await)
    }
}

/// A request for a job, on behalf of the operator who made it.
fn request(path: &str, body: &impl Serialize, job: &Job) -> PeerRequest {
    PeerRequest {
        method: Method::POST,
        target: path.to_owned(),
        // Numbers and texts only: this does not fail.
        body: serde_json::to_vec(body).unwrap_or_default().into(),
        person: Person {
            token: format!("job-{}", job.number),
            name: job.who.clone(),
            role: "operator".to_owned(),
        },
    }
}

fn document<T: DeserializeOwned>(response: Result<PeerResponse, PeerError>) -> Result<T, String> {
    let response = response.map_err(|error| error.to_string())?;
    if !response.status.is_success() {
        return Err(response.status.to_string());
    }
    serde_json::from_slice(&response.body).map_err(|error| error.to_string())
}

/// Runs what blocks.
async fn blocking<T: Send + 'static, E: std::fmt::Display + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

fn page_item(found: weir_resubmit::FoundItem) -> PageItem {
    let JobItemAddress { id, lane, position, .. } = found.item;
    PageItem { id, lane, position, reason: found.reason }
}
