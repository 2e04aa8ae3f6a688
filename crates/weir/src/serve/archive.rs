//! The thread that uploads sealed segments to object storage, if that is configured.

use super::messages::Messages;
use super::post::Upstreams;
use super::thread::{Running, Settings, Thread, ThreadContext};
use crate::data_folder::index_settings;
use anyhow::Context;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_archive::{ArchiveError, BucketSettings, Credentials, Statistics, Uploader};
use weir_config::Archive;
use weir_fleet::identity::Identity;
use weir_journal::Journal;

/// The thread.
const THREAD: Thread = Thread { name: "archive", task: "archive: uploading", nice: 10 };
/// Interval of checks for sealed segments.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Pauses after failures: the first, and the longest.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(500);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Time after which failures are reported once more, as they hold back the journal.
const LONG_FAILURE: Duration = Duration::from_secs(10 * 60);

/// The running thread.
pub(super) struct Archiving {
    pub(super) handle: Handle,
    _thread: Running,
}

/// Handle of the thread.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Shared>);

struct Shared {
    settings: Settings,
    statistics: Mutex<Statistics>,
}

impl Handle {
    /// Applies a new Config.
    pub(super) fn reload(&self, upstreams: &Upstreams) {
        self.0.settings.reload(upstreams);
    }

    /// Figures since the start.
    pub(crate) fn statistics(&self) -> Statistics {
        self.0.statistics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts the thread for a recording journal, if there is an archive; otherwise the journal keeps
/// nothing for it.
///
/// # Errors
/// The settings are invalid, or local files cannot be read or written.
pub(super) fn start(
    upstreams: &Upstreams,
    journal: &Arc<Journal>,
    messages: &Messages,
) -> anyhow::Result<Option<Archiving>> {
    if upstreams.config.journal.archive.is_none() {
        weir_archive::remove_follower(journal).context("cannot end the archive")?;
        return Ok(None);
    }
    let shared = Shared { settings: Settings::new(upstreams), statistics: Mutex::default() };
    let handle = Handle(Arc::new(shared));
    let context = ThreadContext::new(messages);
    let uploader = open(upstreams, journal).context("cannot upload to the archive")?;
    let worker = Worker {
        shared: Arc::clone(&handle.0),
        context: context.clone(),
        journal: Arc::clone(journal),
        upstreams: upstreams.clone(),
        uploader,
        before: Statistics::default(),
        retry: Duration::ZERO,
        reported: false,
    };
    let shared = Arc::clone(&handle.0);
    let wake = move || shared.settings.changed.notify_one();
    let run = async |worker: &mut Worker| worker.run().await;
    let thread = THREAD.start_async(&context, wake, worker, run, Worker::recover)?;
    Ok(Some(Archiving { handle, _thread: thread }))
}

fn open(upstreams: &Upstreams, journal: &Arc<Journal>) -> anyhow::Result<Uploader> {
    let config = &upstreams.config;
    let archive = config.journal.archive.as_ref().context("there is no archive")?;
    let share = u64::from(archive.max_backlog);
    // Without an index of its own the node still gives the archive one of metadata and keys.
    let without = weir_tracker::Settings {
        depth: weir_tracker::Depth::Keys,
        keys: Arc::clone(&config.tracker.keys),
        ..weir_tracker::Settings::default()
    };
    let settings = weir_archive::Settings {
        bucket: bucket_settings(archive),
        node: Identity::open(&config.data)?.id(),
        name: config.fleet.as_ref().and_then(|fleet| fleet.node.clone()).unwrap_or_default(),
        index: index_settings(config).unwrap_or(without),
        keep: archive.keep,
        // In hundredths of a percent.
        max_backlog: config.journal.disk / 10_000 * share,
    };
    Ok(Uploader::open(journal, &config.data, settings)?)
}

fn bucket_settings(archive: &Archive) -> BucketSettings {
    let roots = archive.ca.iter().flat_map(|ca| &ca.certificates);
    let credentials = archive.credentials.clone();
    BucketSettings {
        location: archive.location.clone(),
        endpoint: archive.endpoint.clone(),
        region: archive.region.clone(),
        credentials: credentials
            .map(|(access_key, secret_key)| Credentials { access_key, secret_key }),
        path_style: archive.path_style,
        roots: roots.map(|root| root.to_vec()).collect(),
        plain: archive.plain,
    }
}

/// State of the thread.
struct Worker {
    shared: Arc<Shared>,
    context: ThreadContext,
    journal: Arc<Journal>,
    upstreams: Upstreams,
    uploader: Uploader,
    /// Figures of previous uploaders.
    before: Statistics,
    /// Pause after the last failure; zero without one.
    retry: Duration,
    /// A long failure was reported.
    reported: bool,
}

impl Worker {
    async fn run(&mut self) {
        while !self.context.stopped() {
            self.apply_config();
            let shared = Arc::clone(&self.shared);
            let changed = shared.settings.changed.notified();
            let step = tokio::select! {
                step = self.uploader.step() => step,
                // A request in flight is sent again: objects with the same name are the same.
                () = changed => continue,
            };
            let pause = match step {
                Ok(more) => {
                    self.succeeded();
                    if more { Duration::ZERO } else { CHECK_INTERVAL }
                }
                Err(error) => self.failed(&error),
            };
            self.publish();
            if !pause.is_zero() {
                let changed = shared.settings.changed.notified();
                let _ = tokio::time::timeout(pause, changed).await;
            }
        }
    }

    fn recover(&mut self) {
        std::thread::sleep(CHECK_INTERVAL);
        self.open_again();
    }

    fn apply_config(&mut self) {
        let upstreams = self.shared.settings.upstreams();
        if !Arc::ptr_eq(&upstreams.config, &self.upstreams.config) {
            self.upstreams = upstreams;
            self.open_again();
        }
    }

    /// Continues at the checkpoint, with the current settings.
    fn open_again(&mut self) {
        match open(&self.upstreams, &self.journal) {
            Ok(uploader) => {
                self.before = self.sum();
                self.uploader = uploader;
            }
            Err(error) => self.context.note(&format!("archive: {error:#}")),
        }
    }

    fn succeeded(&mut self) {
        if std::mem::take(&mut self.reported) {
            self.context.note("archive: uploads succeed again");
        }
        self.context.succeeded();
        self.retry = Duration::ZERO;
    }

    /// Reports a failure; returns the time until the next attempt.
    fn failed(&mut self, error: &ArchiveError) -> Duration {
        self.context.failed(&format!("archive: {error}"));
        let since = self.uploader.statistics().failing_since;
        let is_long = since.is_some_and(|since| since.elapsed() > LONG_FAILURE);
        if is_long && !std::mem::replace(&mut self.reported, true) {
            self.context.note(&format!(
                "archive: uploads have failed for {} minutes; the journal keeps up to `max_backlog` \
                 for them: {error}",
                LONG_FAILURE.as_secs() / 60,
            ));
        }
        self.retry = (self.retry * 2).clamp(MIN_RETRY_INTERVAL, MAX_RETRY_INTERVAL);
        self.retry
    }

    fn sum(&self) -> Statistics {
        let (before, now) = (&self.before, self.uploader.statistics());
        Statistics {
            segments: before.segments + now.segments,
            bytes: before.bytes + now.bytes,
            transactions: before.transactions + now.transactions,
            failures: before.failures + now.failures,
            gap_records: before.gap_records + now.gap_records,
            deleted: before.deleted + now.deleted,
            ..now.clone()
        }
    }

    fn publish(&self) {
        let statistics = self.sum();
        *self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner) = statistics;
    }
}
