//! The sinks of a running server, as the admin API uses them.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_journal::{Journal, Lag};
use weir_model::search_sink::Content;

use crate::backfill::{BackfillOptions, BackfillProgress};
use crate::destination::SinkKind;
use crate::request::{Request, Response};
use crate::shipper::FOLLOWER_PREFIX;
use crate::statistics::Statistics;

/// Most backfills that wait for the thread of the sinks.
const MAX_COMMANDS: usize = 16;

/// The response to a request, or why there is none.
pub type Sending = Pin<Box<dyn Future<Output = Result<Response, String>> + Send>>;
/// Sends a request to a sink by its name; the caller limits the time.
type SendRequest = dyn Fn(&str, Request) -> Sending + Send + Sync;

/// State of a sink.
#[derive(Clone, Debug)]
pub struct SinkState {
    /// What it is.
    pub kind: SinkKind,
    /// What it receives.
    pub content: Content,
    /// Figures.
    pub statistics: Statistics,
    /// The last backfill.
    pub backfill: Option<BackfillProgress>,
}

/// Lag of a sink: what it has not acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SinkLag {
    /// Transactions.
    pub records: u64,
    /// Bytes of the journal.
    pub bytes: u64,
    /// Seconds since the oldest of them was received.
    pub seconds: f64,
}

impl SinkLag {
    /// The lags of sinks by name, of those of all followers.
    #[must_use]
    pub fn by_sink(lags: &[Lag]) -> BTreeMap<String, Self> {
        let of_sink = |lag: &Lag| {
            let name = lag.name.strip_prefix(FOLLOWER_PREFIX)?.to_owned();
            let Lag { records, bytes, seconds, .. } = *lag;
            Some((name, Self { records, bytes, seconds }))
        };
        lags.iter().filter_map(of_sink).collect()
    }
}

/// Access to the sinks.
#[derive(Clone)]
pub struct Sinks(Arc<Inner>);

struct Inner {
    journal: Arc<Journal>,
    states: Mutex<BTreeMap<String, SinkState>>,
    commands: Mutex<Vec<(String, BackfillOptions)>>,
    wake: Box<dyn Fn() + Send + Sync>,
    send: Box<SendRequest>,
}

impl std::fmt::Debug for Sinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sinks").finish_non_exhaustive()
    }
}

impl Sinks {
    /// The sinks of a journal. `wake` wakes the thread of the sinks, `send` sends a request beside it.
    #[must_use]
    pub fn new(
        journal: &Arc<Journal>,
        wake: impl Fn() + Send + Sync + 'static,
        send: impl Fn(&str, Request) -> Sending + Send + Sync + 'static,
    ) -> Self {
        let (states, commands) = (Mutex::default(), Mutex::default());
        let (journal, wake, send) = (Arc::clone(journal), Box::new(wake), Box::new(send));
        Self(Arc::new(Inner { journal, states, commands, wake, send }))
    }

    /// All sinks by name.
    #[must_use]
    pub fn states(&self) -> BTreeMap<String, SinkState> {
        self.0.states.lock().clone()
    }

    /// The lag of each sink. Reads a transaction of each lane.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn lags(&self) -> io::Result<BTreeMap<String, SinkLag>> {
        Ok(SinkLag::by_sink(&self.0.journal.lags()?))
    }

    /// Publishes the state of all sinks: by their thread.
    pub fn publish(&self, states: BTreeMap<String, SinkState>) {
        *self.0.states.lock() = states;
    }

    /// The OpenSearch whose documents have the most, if there is one.
    #[must_use]
    pub fn searched(&self) -> Option<(String, Content)> {
        let states = self.0.states.lock();
        let searched = || states.iter().filter(|(_, state)| state.kind == SinkKind::OpenSearch);
        let all = || searched().map(|(name, state)| (name.clone(), state.content));
        all().find(|(_, content)| *content == Content::Payload).or_else(|| all().next())
    }

    /// Sends a request to a sink.
    pub fn send(&self, sink: &str, request: Request) -> Sending {
        (self.0.send)(sink, request)
    }

    /// Starts a backfill of an OpenSearch; false if there is no such sink, one is running, or too many
    /// wait.
    #[must_use]
    pub fn backfill(&self, sink: &str, options: BackfillOptions) -> bool {
        let is_free = |state: &SinkState| {
            state.kind == SinkKind::OpenSearch
                && state.backfill.as_ref().is_none_or(|backfill| !backfill.is_running())
        };
        if !self.0.states.lock().get(sink).is_some_and(is_free) {
            return false;
        }
        let mut commands = self.0.commands.lock();
        if commands.len() >= MAX_COMMANDS || commands.iter().any(|(name, _)| name == sink) {
            return false;
        }
        commands.push((sink.to_owned(), options));
        drop(commands);
        (self.0.wake)();
        true
    }

    /// The backfills to be started: by the thread of the sinks.
    #[must_use]
    pub fn take_commands(&self) -> Vec<(String, BackfillOptions)> {
        std::mem::take(&mut self.0.commands.lock())
    }
}
