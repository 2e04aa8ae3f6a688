//! Metrics of the control thread itself.

use super::delivery::{Handle, waited};
use super::telemetry::Counters;
use crate::billing::Prices;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_admin::metrics::{Family, Sample, Samples};
use weir_gateway::snapshot::Snapshot;
use weir_index::Index;
use weir_index::delivery::SinkQueue;
use weir_index::monitor::Monitor;
use weir_index::resubmit::Resubmitter;
use weir_journal::{Journal, Lag};

/// What the journal has and does.
pub(crate) fn journal(journal: &Journal) -> Vec<Family> {
    let stats = journal.statistics();
    let counter = Family::counter;
    vec![
        counter("weir_journal_records_total", "Records appended.", stats.records),
        counter("weir_journal_bytes_total", "Bytes appended.", stats.bytes),
        counter(
            "weir_journal_refused_total",
            "Appends for which there was no room.",
            stats.refused,
        ),
        counter(
            "weir_journal_shortened_total",
            "Transactions recorded without all of their headers and bodies for want of room.",
            stats.shortened,
        ),
        Family::gauge(
            "weir_journal_waiting_counts",
            "Calls to be counted that wait in memory for room in the journal.",
            stats.waiting_counts as f64,
        ),
        counter("weir_journal_errors_total", "Errors of the file system.", stats.errors),
        counter(
            "weir_journal_damaged_bytes_total",
            "Bytes on the disk found damaged, each counted once.",
            stats.damaged_bytes,
        ),
        counter("weir_journal_dropped_files_total", "Files dropped by retention.", stats.dropped),
        counter("weir_journal_sealed_segments_total", "Segments sealed.", stats.sealed),
        Family::gauge(
            "weir_journal_unsealed_segments",
            "Segments that wait to be sealed.",
            stats.unsealed as f64,
        ),
        Family::gauge(
            "weir_journal_missing_files",
            "Files found missing at the start that weir did not drop and nobody has accepted.",
            stats.missing_files as f64,
        ),
        Family::gauge(
            "weir_journal_missing_transactions",
            "Transactions that were in missing files.",
            stats.missing_transactions as f64,
        ),
        Family::gauge(
            "weir_journal_damaged_checkpoints",
            "Checkpoints of followers found damaged at the start: they began again.",
            stats.damaged_checkpoints as f64,
        ),
        Family::gauge("weir_journal_disk_bytes", "Disk space taken.", stats.disk_bytes as f64),
    ]
    .into_iter()
    .chain(followers(&journal.lags().unwrap_or_default()))
    .collect()
}

/// How far those who follow the journal are behind: nothing is dropped before they have passed it.
fn followers(lags: &[Lag]) -> [Family; 3] {
    let family = |name, help, value: fn(&Lag) -> f64| {
        let labels = |lag: &Lag| vec![("follower", lag.name.clone())];
        let samples = lags.iter().map(|lag| Sample::new(labels(lag), value(lag))).collect();
        Family { name, help, samples: Samples::Gauge(samples) }
    };
    [
        family(
            "weir_journal_follower_lag_records",
            "Transactions that a follower has not passed for good.",
            |lag| lag.records as f64,
        ),
        family(
            "weir_journal_follower_lag_bytes",
            "Bytes that a follower has not passed for good.",
            |lag| lag.bytes as f64,
        ),
        family(
            "weir_journal_follower_lag_seconds",
            "Since the oldest transaction was received that a follower has not passed for good.",
            |lag| lag.age.as_secs_f64(),
        ),
    ]
}

/// What the index has and does.
pub(crate) fn index(index: &Index) -> Vec<Family> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let stats = index.statistics(now.as_micros() as u64);
    vec![
        Family::gauge(
            "weir_index_transactions",
            "Transactions that can be found by the index.",
            stats.transactions as f64,
        ),
        Family::counter("weir_index_indexed_total", "Transactions indexed.", stats.indexed),
        Family::gauge(
            "weir_index_lag_records",
            "Transactions that are not indexed yet, those that are still open included.",
            stats.lag_records as f64,
        ),
        Family::gauge(
            "weir_index_lag_seconds",
            "Since the end of the transaction indexed last; 0 when nothing is left to index.",
            stats.lag_us as f64 / 1e6,
        ),
        Family::counter("weir_index_damaged_total", "Pieces found damaged.", stats.damaged),
        Family::counter(
            "weir_index_skipped_total",
            "Transactions indexed without words or keys, since reading them failed.",
            stats.skipped,
        ),
        Family::counter(
            "weir_index_restarts_total",
            "Times that indexing was broken off and began again.",
            stats.restarts,
        ),
    ]
}

/// What became of events, and what waits for each sink.
pub(crate) fn delivery(delivery: &Handle) -> [Family; 5] {
    let stats = delivery.statistics();
    let of = |value: fn(&SinkQueue) -> f64| -> Vec<Sample> {
        let labels = |sink: &SinkQueue| vec![("sink", sink.sink.clone())];
        stats.sinks.iter().map(|sink| Sample::new(labels(sink), value(sink))).collect()
    };
    let given_up = |why: &str, value: fn(&SinkQueue) -> u64| -> Vec<Sample> {
        let labels =
            |sink: &SinkQueue| vec![("sink", sink.sink.clone()), ("reason", why.to_owned())];
        stats.sinks.iter().map(|sink| Sample::new(labels(sink), value(sink) as f64)).collect()
    };
    let mut lost = given_up("room", |sink| sink.overtaken);
    lost.extend(given_up("age", |sink| sink.expired));
    [
        Family::counter("weir_events_delivered_total", "Events that sinks took.", stats.delivered),
        Family::counter("weir_events_failed_total", "Attempts to post in vain.", stats.failed),
        Family {
            name: "weir_events_given_up_total",
            help: "Events that no sink took: they were too many, or too old.",
            samples: Samples::Counter(lost),
        },
        Family {
            name: "weir_events_waiting",
            help: "Events that wait.",
            samples: Samples::Gauge(of(|sink| sink.waiting as f64)),
        },
        Family {
            name: "weir_events_oldest_seconds",
            help: "How long the oldest event has waited.",
            samples: Samples::Gauge(of(waited)),
        },
    ]
}

/// What was traced and told.
pub(crate) fn telemetry(told: &Counters, stats: &Snapshot) -> [Family; 5] {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let dropped = [
        ("room", get(&told.overtaken) + stats.spans_lost),
        ("refused", get(&told.refused)),
        ("failed", get(&told.given_up)),
    ];
    let posts = told.posts.iter().zip(["traces", "metrics"]).flat_map(|(counts, signal)| {
        counts.iter().zip(["taken", "failed"]).map(move |(count, result)| {
            let labels = vec![("signal", signal.to_owned()), ("result", result.to_owned())];
            Sample::new(labels, get(count) as f64)
        })
    });
    let by_reason = |(reason, count): (&str, u64)| {
        Sample::new(vec![("reason", reason.to_owned())], count as f64)
    };
    [
        Family::counter(
            "weir_telemetry_spans_exported_total",
            "Spans that a collector took.",
            get(&told.exported),
        ),
        Family {
            name: "weir_telemetry_spans_dropped_total",
            help: "Spans that no collector took, by why.",
            samples: Samples::Counter(dropped.into_iter().map(by_reason).collect()),
        },
        Family::gauge(
            "weir_telemetry_spans_waiting",
            "Spans that wait to be taken.",
            get(&told.waiting) as f64,
        ),
        Family::counter(
            "weir_telemetry_untraced_total",
            "Requests that were to be traced and were not, because there were too many in a second.",
            stats.untraced,
        ),
        Family {
            name: "weir_telemetry_posts_total",
            help: "Requests to a collector, by what became of them.",
            samples: Samples::Counter(posts.collect()),
        },
    ]
}

/// What was sent again.
pub(crate) fn resubmission(resubmitter: &Resubmitter) -> [Family; 2] {
    let stats = resubmitter.statistics();
    let by = |name, help, label: &'static str, counts: &[(&str, u64)]| {
        let sample = |(value, count): &(&str, u64)| {
            Sample::new(vec![(label, (*value).to_owned())], *count as f64)
        };
        Family { name, help, samples: Samples::Counter(counts.iter().map(sample).collect()) }
    };
    let attempts = [
        ("succeeded", stats.succeeded),
        ("failed", stats.failed),
        ("refused", stats.refused),
        ("unknown", stats.unknown),
    ];
    let jobs = [("made", stats.made), ("finished", stats.finished), ("cancelled", stats.cancelled)];
    [
        by(
            "weir_resubmission_attempts_total",
            "Transactions sent again, by how that ended.",
            "result",
            &attempts,
        ),
        by("weir_resubmission_jobs_total", "Jobs, by what became of them.", "event", &jobs),
    ]
}

/// What was counted.
pub(crate) fn monitor(monitor: &Monitor, prices: &Prices) -> Vec<Family> {
    let stats = monitor.statistics();
    vec![
        Family::counter("weir_monitor_counted_total", "Calls counted.", stats.counted),
        Family::counter(
            "weir_monitor_other_total",
            "Calls counted as others, since there were too many combinations.",
            stats.others,
        ),
        Family::counter(
            "weir_monitor_writes_total",
            "Times that counts were written.",
            stats.writes,
        ),
        Family::counter(
            "weir_monitor_unpriced_total",
            "Calls counted whose price the expression of their plan did not give.",
            prices.unpriced(),
        ),
        Family::gauge(
            "weir_monitor_lag_seconds",
            "Since the transaction counted last was received; 0 when all is counted and written.",
            stats.lag.as_secs_f64(),
        ),
        Family::counter(
            "weir_monitor_restarts_total",
            "Times that counting was broken off and began again.",
            stats.restarts,
        ),
    ]
}

/// What happened to configurations.
#[derive(Default)]
pub(crate) struct Reloads {
    taken: AtomicU64,
    refused: AtomicU64,
    /// When the Config in force was loaded, in seconds since 1970.
    since: AtomicU64,
}

impl Reloads {
    /// The first Config is in force from now on.
    pub(crate) fn start() -> Self {
        let reloads = Self::default();
        reloads.since.store(now(), Ordering::Relaxed);
        reloads
    }

    /// Another Config is in force from now on.
    pub(crate) fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.since.store(now(), Ordering::Relaxed);
    }

    /// A configuration was refused.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// As families; `dropped` are lines that standard output and error did not take.
    pub(crate) fn families(&self, dropped: u64) -> Vec<Family> {
        let result = |name: &str, count: &AtomicU64| {
            let labels = vec![("result", name.to_owned())];
            Sample::new(labels, count.load(Ordering::Relaxed) as f64)
        };
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        vec![
            Family {
                name: "weir_build_info",
                help: "Version; always 1.",
                samples: Samples::Gauge(vec![Sample::new(version, 1.0)]),
            },
            Family {
                name: "weir_config_reloads_total",
                help: "Configurations loaded after the first, by what became of them.",
                samples: Samples::Counter(vec![
                    result("taken", &self.taken),
                    result("refused", &self.refused),
                ]),
            },
            Family::gauge(
                "weir_config_loaded_timestamp_seconds",
                "When the configuration in force was loaded.",
                self.since.load(Ordering::Relaxed) as f64,
            ),
            Family::counter(
                "weir_messages_dropped_total",
                "Lines that standard output and standard error did not take in time.",
                dropped,
            ),
        ]
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
