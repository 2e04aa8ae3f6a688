//! Metrics of the control thread itself.

use super::archive;
use super::delivery::{self, Handle};
use super::telemetry::Counters;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_admin::metrics::Kind::{Counter, Gauge};
use weir_admin::metrics::{Family, LabelledRow, Row, Sample, counts};
use weir_events::delivery::SinkQueue;
use weir_journal::{Journal, Lag};
use weir_limit::{LeaseStatistics, Limiter, TokenStatistics};
use weir_monitor::Monitor;
use weir_monitor::billing::Prices;
use weir_resubmit::Resubmitter;
use weir_server::snapshot::Snapshot;
use weir_ship::{SinkLag, Sinks, Statistics};
use weir_store::clock;
use weir_tracker::Index;

#[rustfmt::skip]
const JOURNAL: &[Row<weir_journal::Statistics>] = &[
    (Counter, "weir_journal_records_total", |s| s.records as f64,
        "Appended records."),
    (Counter, "weir_journal_bytes_total", |s| s.bytes as f64,
        "Appended bytes."),
    (Counter, "weir_journal_refused_total", |s| s.refused as f64,
        "Appends rejected because the journal was full."),
    (Counter, "weir_journal_shortened_total", |s| s.shortened as f64,
        "Transactions recorded without all of their headers and bodies because the journal was full."),
    (Gauge, "weir_journal_waiting_counts", |s| s.pending_counts as f64,
        "Calls to be metered that wait in memory for room in the journal."),
    (Counter, "weir_journal_errors_total", |s| s.errors as f64,
        "File system errors."),
    (Counter, "weir_journal_damaged_bytes_total", |s| s.damaged_bytes as f64,
        "Damaged bytes on disk, each counted once."),
    (Counter, "weir_journal_dropped_files_total", |s| s.dropped as f64,
        "Files deleted by retention."),
    (Counter, "weir_journal_sealed_segments_total", |s| s.sealed as f64,
        "Sealed segments."),
    (Gauge, "weir_journal_unsealed_segments", |s| s.unsealed as f64,
        "Segments that wait for sealing."),
    (Gauge, "weir_journal_missing_files", |s| s.missing_files as f64,
        "Missing files at the start, neither deleted by retention nor accepted."),
    (Gauge, "weir_journal_missing_transactions", |s| s.missing_transactions as f64,
        "Transactions in missing files."),
    (Gauge, "weir_journal_damaged_checkpoints", |s| s.damaged_checkpoints as f64,
        "Checkpoints of followers damaged at the start: these followers started over."),
    (Gauge, "weir_journal_disk_bytes", |s| s.disk_bytes as f64,
        "Disk space used."),
];

#[rustfmt::skip]
const FOLLOWERS: &[Row<Lag>] = &[
    (Gauge, "weir_journal_follower_lag_records", |lag| lag.records as f64,
        "Transactions after the checkpoint of a follower."),
    (Gauge, "weir_journal_follower_lag_bytes", |lag| lag.bytes as f64,
        "Bytes after the checkpoint of a follower."),
    (Gauge, "weir_journal_follower_lag_seconds", |lag| lag.seconds,
        "Age of the oldest transaction that the checkpoint of a follower does not cover."),
];

#[rustfmt::skip]
const INDEX: &[Row<weir_tracker::Statistics>] = &[
    (Gauge, "weir_index_transactions", |s| s.transactions as f64,
        "Transactions in the index."),
    (Counter, "weir_index_indexed_total", |s| s.indexed as f64,
        "Indexed transactions."),
    (Gauge, "weir_index_lag_records", |s| s.lag_records as f64,
        "Transactions that are not indexed yet, open ones included."),
    (Gauge, "weir_index_lag_seconds", |s| s.lag_us as f64 / 1e6,
        "Time since the end of the transaction indexed last; 0 when all are indexed."),
    (Counter, "weir_index_damaged_total", |s| s.damaged as f64,
        "Parts of the index found damaged."),
    (Counter, "weir_index_skipped_total", |s| s.skipped as f64,
        "Transactions indexed without words or keys because reading them failed."),
    (Counter, "weir_index_restarts_total", |s| s.restarts as f64,
        "Restarts of the indexer after a failure."),
];

#[rustfmt::skip]
const DELIVERY: &[Row<delivery::Counters>] = &[
    (Counter, "weir_events_delivered_total", |c| get(&c.delivered) as f64,
        "Events delivered."),
    (Counter, "weir_events_failed_total", |c| get(&c.failed) as f64,
        "Failed attempts to deliver."),
];

#[rustfmt::skip]
const SINKS: &[Row<SinkQueue>] = &[
    (Gauge, "weir_events_waiting", |sink| sink.waiting as f64,
        "Events that wait for delivery."),
    (Gauge, "weir_events_oldest_seconds", SinkQueue::oldest_seconds,
        "Age of the oldest event that waits."),
];

#[rustfmt::skip]
const DROPPED_EVENTS: &[LabelledRow<SinkQueue>] = &[
    (Counter, "weir_events_given_up_total", "reason",
        |sink| counts(&["room", "age"], &[sink.overflowed, sink.expired]),
        "Events dropped before delivery: the queue was full, or they were too old."),
];

#[rustfmt::skip]
const SHIP: &[Row<(String, Statistics)>] = &[
    (Counter, "weir_ship_docs_total", |(_, sink)| sink.docs as f64,
        "Transactions that a sink has acknowledged."),
    (Counter, "weir_ship_rejected_total", |(_, sink)| sink.rejected as f64,
        "Transactions that a sink has rejected."),
    (Counter, "weir_ship_rejected_dropped_total", |(_, sink)| sink.rejected_dropped as f64,
        "Rejected transactions that are not listed any more because there are too many."),
    (Counter, "weir_ship_gap_records_total", |(_, sink)| sink.gap_records as f64,
        "Transactions that were not sent to a sink, or without payload, because the journal had no \
         more room for its backlog."),
    (Counter, "weir_ship_retries_total", |(_, sink)| sink.retries as f64,
        "Requests to a sink that were repeated."),
    (Gauge, "weir_ship_paused", |(_, sink)| f64::from(u8::from(sink.paused.is_some())),
        "Whether a sink rejects everything until an operator changes something."),
];

#[rustfmt::skip]
const SHIP_LAG: &[Row<(String, SinkLag)>] = &[
    (Gauge, "weir_ship_lag_seconds", |(_, lag)| lag.seconds,
        "Age of the oldest transaction that a sink has not acknowledged."),
    (Gauge, "weir_ship_lag_bytes", |(_, lag)| lag.bytes as f64,
        "Bytes of the journal after the last transaction that a sink has acknowledged."),
];

#[rustfmt::skip]
const ARCHIVE: &[Row<weir_archive::Statistics>] = &[
    (Counter, "weir_archive_segments_total", |s| s.segments as f64,
        "Segments of the journal uploaded to the archive."),
    (Counter, "weir_archive_bytes_total", |s| s.bytes as f64,
        "Bytes uploaded to the archive."),
    (Counter, "weir_archive_transactions_total", |s| s.transactions as f64,
        "Transactions uploaded to the archive."),
    (Counter, "weir_archive_failures_total", |s| s.failures as f64,
        "Failed attempts to upload to the archive."),
    (Counter, "weir_archive_gap_records_total", |s| s.gap_records as f64,
        "Transactions that were not uploaded to the archive, or without headers and bodies, because \
         the journal had no more room for its backlog."),
    (Counter, "weir_archive_deleted_segments_total", |s| s.deleted as f64,
        "Segments deleted from the archive by retention."),
    (Gauge, "weir_archive_failing_seconds",
        |s| s.failing_since.map_or(0.0, |since| since.elapsed().as_secs_f64()),
        "Time for which all attempts to upload to the archive have failed."),
];

#[rustfmt::skip]
const ARCHIVE_LAG: &[Row<Lag>] = &[
    (Gauge, "weir_archive_lag_seconds", |lag| lag.seconds,
        "Age of the oldest transaction that the archive does not have; up to an hour until its segment \
         is sealed."),
    (Gauge, "weir_archive_lag_bytes", |lag| lag.bytes as f64,
        "Bytes of the journal that the archive does not have."),
];

#[rustfmt::skip]
const MONITOR: &[Row<weir_monitor::Statistics>] = &[
    (Counter, "weir_monitor_counted_total", |s| s.counted as f64,
        "Calls metered."),
    (Counter, "weir_monitor_other_total", |s| s.overflow as f64,
        "Calls metered in the overflow row because there were too many combinations."),
    (Counter, "weir_monitor_writes_total", |s| s.writes as f64,
        "Writes of counts to the database."),
    (Gauge, "weir_monitor_lag_seconds", |s| s.lag.as_secs_f64(),
        "Time since the transaction metered last was received; 0 when all are metered and written."),
    (Counter, "weir_monitor_restarts_total", |s| s.restarts as f64,
        "Restarts of metering after a failure."),
];

#[rustfmt::skip]
const RESUBMISSION: &[LabelledRow<weir_resubmit::Statistics>] = &[
    (Counter, "weir_resubmission_attempts_total", "result",
        |s| counts(
            &["succeeded", "failed", "refused", "unknown"],
            &[s.succeeded, s.failed, s.refused, s.unknown],
        ),
        "Resubmitted transactions, by result."),
    (Counter, "weir_resubmission_jobs_total", "event",
        |s| counts(&["made", "finished", "cancelled"], &[s.created, s.finished, s.cancelled]),
        "Jobs, by event."),
];

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Metrics of the journal, its followers, and what two kinds of them do: the archive and sinks.
pub(crate) fn journal(
    journal: &Journal,
    archive: Option<&archive::Handle>,
    sinks: Option<&Sinks>,
) -> Vec<Family> {
    // Reads files: once for all.
    let lags = journal.lags().unwrap_or_default();
    let labels = |lag: &Lag| vec![("follower", lag.name.clone())];
    let mut families: Vec<_> = Family::table(JOURNAL, &journal.statistics())
        .chain(Family::table_of(FOLLOWERS, &lags, labels))
        .collect();
    families.extend(archive.into_iter().flat_map(|archive| self::archive(archive, &lags)));
    families.extend(sinks.into_iter().flat_map(|sinks| ship(sinks, &lags)));
    families
}

/// Metrics of the index.
pub(crate) fn index(index: &Index) -> Vec<Family> {
    let now = clock::now();
    Family::table(INDEX, &index.statistics(now.as_micros() as u64)).collect()
}

/// Metrics of the delivery of events.
pub(crate) fn delivery(delivery: &Handle) -> Vec<Family> {
    let counters = delivery.counters();
    let queues = counters.sinks.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let sink = |sink: &SinkQueue| vec![("sink", sink.sink.clone())];
    let dropped = Family::labelled(DROPPED_EVENTS, &queues, sink);
    let sinks = Family::table_of(SINKS, &queues, sink);
    Family::table(DELIVERY, counters).chain(dropped).chain(sinks).collect()
}

/// Metrics of shipping.
fn ship(sinks: &Sinks, lags: &[Lag]) -> Vec<Family> {
    let states = sinks.states().into_iter();
    let figures: Vec<_> = states.map(|(name, state)| (name, state.statistics)).collect();
    if figures.is_empty() {
        return Vec::new();
    }
    let mut lags = SinkLag::by_sink(lags);
    let lag = |(name, _): &(String, Statistics)| lags.remove_entry(name);
    let lags: Vec<_> = figures.iter().filter_map(lag).collect();
    Family::table_of(SHIP, &figures, |(name, _)| vec![("sink", name.clone())])
        .chain(Family::table_of(SHIP_LAG, &lags, |(name, _)| vec![("sink", name.clone())]))
        .collect()
}

/// Metrics of the archive.
fn archive(archive: &archive::Handle, lags: &[Lag]) -> Vec<Family> {
    let lag = lags.iter().find(|lag| lag.name == weir_archive::FOLLOWER);
    Family::table(ARCHIVE, &archive.statistics())
        .chain(lag.into_iter().flat_map(|lag| Family::table(ARCHIVE_LAG, lag)))
        .collect()
}

/// Metrics of the export of telemetry.
pub(crate) fn telemetry(exports: &Counters, stats: &Snapshot) -> Vec<Family> {
    let dropped = [
        ("room", get(&exports.overflowed) + stats.spans_dropped),
        ("refused", get(&exports.rejected)),
        ("failed", get(&exports.failed)),
    ];
    let posts = exports.posts.iter().zip(["traces", "metrics"]).flat_map(|(counts, signal)| {
        counts.iter().zip(["taken", "failed"]).map(move |(count, result)| {
            let labels = vec![("signal", signal.to_owned()), ("result", result.to_owned())];
            Sample::new(labels, get(count))
        })
    });
    vec![
        Family::single(
            Counter,
            "weir_telemetry_spans_exported_total",
            "Spans that a collector accepted.",
            get(&exports.exported) as f64,
        ),
        Family::counters(
            "weir_telemetry_spans_dropped_total",
            "Spans that no collector accepted, by reason.",
            "reason",
            dropped,
        ),
        Family::single(
            Gauge,
            "weir_telemetry_spans_waiting",
            "Spans that wait for export.",
            get(&exports.waiting) as f64,
        ),
        Family::single(
            Counter,
            "weir_telemetry_untraced_total",
            "Sampled requests that were not traced because of the limit per second.",
            stats.untraced as f64,
        ),
        Family::new(
            Counter,
            "weir_telemetry_posts_total",
            "Requests to a collector, by result.",
            posts,
        ),
    ]
}

/// Metrics of resubmission.
pub(crate) fn resubmission(resubmitter: &Resubmitter) -> Vec<Family> {
    Family::labelled(RESUBMISSION, &[resubmitter.statistics()], |_| Vec::new()).collect()
}

/// Metrics of the Monitor.
pub(crate) fn monitor(monitor: &Monitor, prices: &Prices) -> Vec<Family> {
    let unpriced = Family::single(
        Counter,
        "weir_monitor_unpriced_total",
        "Calls metered without a price because the expression of their plan failed.",
        prices.unpriced() as f64,
    );
    Family::table(MONITOR, &monitor.statistics()).chain([unpriced]).collect()
}

#[rustfmt::skip]
const FLEET: &[Row<weir_fleet::Statistics>] = &[
    (Gauge, "weir_fleet_nodes", |s| s.live as f64,
        "Nodes of the fleet that serve, as of the last heartbeat."),
    (Gauge, "weir_fleet_clock_offset_seconds", |s| s.offset_ms as f64 / 1e3,
        "Clock of this node minus clock of the database."),
    (Counter, "weir_fleet_failures_total", |s| s.failures as f64,
        "Failed attempts to connect to the database or to renew the lease."),
    (Counter, "weir_fleet_redis_failures_total", |s| s.redis_failures as f64,
        "Failed attempts to connect to Redis, and requests to it that failed or timed out."),
    (Counter, "weir_usage_replicated_total", |s| s.replicated as f64,
        "Buckets of usage sent to the database of the fleet."),
    (Gauge, "weir_usage_lag_seconds", |s| s.usage_lag.as_secs_f64(),
        "Time since all usage was in the database of the fleet that was counted up to then."),
    (Counter, "weir_fleet_peer_requests_total", |s| s.peers.sent as f64,
        "Requests sent to other nodes."),
    (Counter, "weir_fleet_peer_connections_total", |s| s.peers.opened as f64,
        "Connections opened to other nodes."),
    (Counter, "weir_fleet_peer_misses_total", |s| s.peers.missed as f64,
        "Requests to other nodes without a response within their deadline."),
    (Counter, "weir_fleet_peer_rejected_total", |s| s.peers.rejected as f64,
        "Requests received with a wrong or missing signature of a node."),
    (Gauge, "weir_config_drift", |s| f64::from(u8::from(s.drift)),
        "1 if nodes of the fleet have had different configurations for more than a minute."),
    (Gauge, "weir_config_version", |s| s.version.unwrap_or_default() as f64,
        "Version of the configuration in force; 0 for the own files alone."),
    (Counter, "weir_config_rollbacks_total", |s| s.rollbacks as f64,
        "Failed rollouts that this node has rolled back for all."),
];

#[rustfmt::skip]
const LEASES: &[Row<LeaseStatistics>] = &[
    (Counter, "weir_fleet_lease_waits_total", |s| s.waits as f64,
        "Waits of requests for a lease of their quota."),
    (Counter, "weir_fleet_lease_denied_total", |s| s.denied as f64,
        "Requests rejected (503) because no lease of their quota came in time."),
    (Counter, "weir_fleet_overdraft_calls_total", |s| s.overdraft_calls as f64,
        "Calls admitted beyond a lease while the database could not be reached."),
    (Counter, "weir_fleet_late_grants_total", |s| s.late_grants as f64,
        "Leases that came after the end of their window: forfeit."),
];

#[rustfmt::skip]
const TOKENS: &[Row<TokenStatistics>] = &[
    (Gauge, "weir_fleet_token_buckets", |s| s.buckets as f64,
        "Buckets of rates whose tokens are leased."),
    (Counter, "weir_fleet_token_waits_total", |s| s.waits as f64,
        "Waits of requests for tokens of a rate."),
    (Counter, "weir_fleet_late_tokens_total", |s| s.late_grants as f64,
        "Leases of tokens for buckets that were evicted: forfeit."),
];

/// Metrics of the fleet.
pub(crate) fn fleet(fleet: &weir_fleet::Handle, limiter: &Limiter) -> Vec<Family> {
    let statistics = fleet.statistics();
    let up = |(engine, up): (&str, bool)| {
        Sample::new(vec![("engine", engine.to_owned())], u64::from(up))
    };
    let redis = statistics.redis.map(|up| ("redis", up));
    let up = Family::new(
        Gauge,
        "weir_fleet_up",
        "1 if this node is connected to the engine, and registered in PostgreSQL.",
        [("postgres", statistics.up)].into_iter().chain(redis).map(up),
    );
    let tokens = limiter.token_statistics();
    let local = [
        ("timeout", tokens.local_late),
        ("full", tokens.local_full),
        ("outage", tokens.local_outage),
    ];
    let local = Family::new(
        Counter,
        "weir_fleet_local_decisions_total",
        "Requests decided without the fleet because their tokens did not come in time, were not tracked, \
         or during an outage with `deny` or `allow`.",
        local.map(|(reason, count)| Sample::new(vec![("reason", reason.to_owned())], count)),
    );
    Family::table(FLEET, &statistics)
        .chain(Family::table(LEASES, &limiter.lease_statistics()))
        .chain(Family::table(TOKENS, &tokens))
        .chain([up, local])
        .collect()
}

/// Counters of configurations.
#[derive(Default)]
pub(crate) struct Reloads {
    taken: AtomicU64,
    refused: AtomicU64,
    failed_upgrades: AtomicU64,
    /// Load time of the current Config, in seconds since 1970.
    since: AtomicU64,
}

impl Reloads {
    /// The first Config was applied.
    pub(crate) fn start() -> Self {
        let reloads = Self::default();
        reloads.since.store(clock::now().as_secs(), Ordering::Relaxed);
        reloads
    }

    /// Another Config was applied.
    pub(crate) fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.since.store(clock::now().as_secs(), Ordering::Relaxed);
    }

    /// A configuration was rejected.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// An upgrade has failed; this process still serves.
    pub(crate) fn upgrade_failed(&self) {
        self.failed_upgrades.fetch_add(1, Ordering::Relaxed);
    }

    /// As metric families; `dropped` is the number of dropped output lines.
    pub(crate) fn families(&self, dropped: u64) -> Vec<Family> {
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        vec![
            Family::new(Gauge, "weir_build_info", "Version; always 1.", [Sample::new(version, 1)]),
            Family::counters(
                "weir_config_reloads_total",
                "Configurations loaded after the first, by result.",
                "result",
                [("taken", get(&self.taken)), ("refused", get(&self.refused))],
            ),
            Family::single(
                Gauge,
                "weir_config_loaded_timestamp_seconds",
                "Time when the configuration in force was loaded.",
                get(&self.since) as f64,
            ),
            Family::single(
                Counter,
                "weir_upgrade_failures_total",
                "Upgrades after which this process still served.",
                get(&self.failed_upgrades) as f64,
            ),
            Family::single(
                Counter,
                "weir_messages_dropped_total",
                "Lines that standard output and standard error did not accept in time.",
                dropped as f64,
            ),
        ]
    }
}
