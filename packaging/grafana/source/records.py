"""Dashboards of what is recorded and metered: journal, Tracker, Monitor."""

from panels import FULL, RED, THIRD, YELLOW, dashboard, graph, number, query, rate, row
from queries import by, gauge

RECORDING = dashboard(
    "Recording",
    "Journal, its followers, and everything that is missing from it.",
    [
        row("Completeness, in the range of the dashboard"),
        *(
            number(
                title, meaning, query(f"sum(increase({metric}{{§}}[$__range]))"), steps=((1, RED),), decimals=0, width=4
            )
            for title, metric, meaning in (
                (
                    "Unrecorded",
                    "weir_unrecorded_total",
                    "Requests without a record, or with one that is less durable than configured.",
                ),
                (
                    "Shortened",
                    "weir_journal_shortened_total",
                    "Transactions recorded without all of their headers and bodies.",
                ),
                (
                    "Unmetered",
                    "weir_monitor_uncounted_total",
                    "Calls that are not metered because the journal had no room.",
                ),
                (
                    "Withheld",
                    "weir_capture_withheld_total",
                    "Bodies that were not recorded because they could not be redacted.",
                ),
                ("Damaged bytes", "weir_journal_damaged_bytes_total", "Damaged bytes found on disk."),
                ("File errors", "weir_journal_errors_total", "Errors of the file system."),
            )
        ),
        row("Journal"),
        graph(
            "Records",
            "Appended records per second.",
            query(rate("weir_journal_records_total", ("instance",)), "{{instance}}"),
            unit="ops",
            width=THIRD,
        ),
        graph(
            "Bytes",
            "Appended bytes per second.",
            query(rate("weir_journal_bytes_total", ("instance",)), "{{instance}}"),
            unit="Bps",
            width=THIRD,
        ),
        graph(
            "Disk space",
            "Space used; `journal.disk` is the limit.",
            query(gauge("weir_journal_disk_bytes", ("instance",)), "{{instance}}"),
            unit="bytes",
            width=THIRD,
        ),
        graph(
            "Without room",
            "Appends rejected, transactions shortened, requests without a record.",
            query(rate("weir_journal_refused_total"), "rejected"),
            query(rate("weir_journal_shortened_total"), "shortened"),
            query(rate("weir_unrecorded_total"), "unrecorded"),
            unit="ops",
        ),
        graph(
            "Segments",
            "Segments that wait for sealing, sealed segments and deleted files per second.",
            query(gauge("weir_journal_unsealed_segments", ("instance",)), "unsealed on {{instance}}"),
            query(rate("weir_journal_sealed_segments_total"), "sealed/s"),
            query(rate("weir_journal_dropped_files_total"), "deleted/s"),
        ),
        graph(
            "Missing",
            "Files and transactions missing at the start, checkpoints damaged at the start, counts waiting for room.",
            query(gauge("weir_journal_missing_files"), "files"),
            query(gauge("weir_journal_missing_transactions"), "transactions"),
            query(gauge("weir_journal_damaged_checkpoints"), "checkpoints"),
            query(gauge("weir_journal_waiting_counts"), "waiting counts"),
        ),
        row("Followers"),
        graph(
            "Lag",
            "Age of the oldest transaction that the checkpoint of a follower does not cover. The Tracker moves its checkpoint at least once an hour.",
            query(
                gauge("weir_journal_follower_lag_seconds", ("instance", "follower"), "", "max"),
                "{{follower}} on {{instance}}",
            ),
            unit="s",
        ),
        graph(
            "Retained for followers",
            "Bytes after the checkpoint of a follower, which the journal cannot delete.",
            query(
                gauge("weir_journal_follower_lag_bytes", ("instance", "follower"), "", "max"),
                "{{follower}} on {{instance}}",
            ),
            unit="bytes",
        ),
        graph(
            "Records after the checkpoint",
            "Transactions that a follower would read again after a crash.",
            query(
                gauge("weir_journal_follower_lag_records", ("instance", "follower"), "", "max"),
                "{{follower}} on {{instance}}",
            ),
            width=FULL,
        ),
    ],
)

TRACKER = dashboard(
    "Tracker and Monitor",
    "Index, metering, events, resubmission.",
    [
        row("Index"),
        graph(
            "Index lag",
            "Time since the end of the transaction indexed last; 0 without a backlog.",
            query(gauge("weir_index_lag_seconds", ("instance",), "", "max"), "{{instance}}"),
            unit="s",
            width=THIRD,
        ),
        graph(
            "Not indexed yet",
            "Transactions that are not indexed yet, open ones included.",
            query(gauge("weir_index_lag_records", ("instance",)), "{{instance}}"),
            width=THIRD,
        ),
        graph(
            "Indexed",
            "Transactions indexed per second.",
            query(rate("weir_index_indexed_total", ("instance",)), "{{instance}}"),
            unit="ops",
            width=THIRD,
        ),
        number("Transactions", "Transactions in the index.", query(gauge("weir_index_transactions"))),
        number(
            "Damaged parts",
            "Parts of the index found damaged; they are rebuilt.",
            query("sum(increase(weir_index_damaged_total{§}[$__range]))"),
            steps=((1, YELLOW),),
            decimals=0,
        ),
        number(
            "Skipped",
            "Transactions indexed without words or keys: a bug in weir.",
            query("sum(increase(weir_index_skipped_total{§}[$__range]))"),
            steps=((1, RED),),
            decimals=0,
        ),
        number(
            "Restarts",
            "Restarts of the indexer: a bug in weir.",
            query("sum(increase(weir_index_restarts_total{§}[$__range]))"),
            steps=((1, RED),),
            decimals=0,
        ),
        row("Metering"),
        graph(
            "Metered calls",
            "Calls per second; those in the overflow row had too many combinations.",
            query(rate("weir_monitor_counted_total"), "metered"),
            query(rate("weir_monitor_other_total"), "overflow row"),
            query(rate("weir_monitor_writes_total"), "writes to the database"),
            unit="ops",
            width=THIRD,
        ),
        graph(
            "Metering lag",
            "Time since the transaction metered last was received.",
            query(gauge("weir_monitor_lag_seconds", ("instance",), "", "max"), "{{instance}}"),
            unit="s",
            width=THIRD,
        ),
        graph(
            "Not billed correctly",
            "Calls that are not metered, and calls without a price.",
            query(rate("weir_monitor_uncounted_total"), "unmetered"),
            query(rate("weir_monitor_unpriced_total"), "without a price"),
            query(rate("weir_monitor_restarts_total"), "restarts"),
            unit="ops",
            width=THIRD,
        ),
        row("Events, resubmission"),
        graph(
            "Waiting events",
            "Events that wait for delivery.",
            query(gauge("weir_events_waiting", ("sink",)), "{{sink}}"),
            width=THIRD,
        ),
        graph(
            "Oldest event",
            "Age of the oldest event that waits.",
            query(gauge("weir_events_oldest_seconds", ("sink",), "", "max"), "{{sink}}"),
            unit="s",
            width=THIRD,
        ),
        graph(
            "Delivery",
            "Delivered events, failed attempts, dropped events.",
            query(rate("weir_events_delivered_total"), "delivered"),
            query(rate("weir_events_failed_total"), "failed"),
            query(rate("weir_events_given_up_total", ("sink", "reason")), "dropped for {{sink}}: {{reason}}"),
            unit="ops",
            width=THIRD,
        ),
        graph("Resubmitted transactions", "By result.", by("weir_resubmission_attempts_total", "result"), unit="ops"),
        graph(
            "Jobs",
            "Bulk resubmissions created, finished and cancelled.",
            by("weir_resubmission_jobs_total", "event"),
            unit="ops",
        ),
        row("Sinks of transactions"),
        graph(
            "Lag",
            "Age of the oldest transaction that a sink has not acknowledged.",
            query(gauge("weir_ship_lag_seconds", ("sink",), "", "max"), "{{sink}}"),
            unit="s",
            width=THIRD,
        ),
        graph(
            "Backlog",
            "Bytes of the journal after the last transaction that a sink has acknowledged.",
            query(gauge("weir_ship_lag_bytes", ("sink",)), "{{sink}}"),
            unit="bytes",
            width=THIRD,
        ),
        graph(
            "Transactions",
            "Acknowledged, rejected, and not sent because the journal had no room for the backlog.",
            query(rate("weir_ship_docs_total", ("sink",)), "{{sink}}"),
            query(rate("weir_ship_rejected_total", ("sink",)), "{{sink}}: rejected"),
            query(rate("weir_ship_gap_records_total", ("sink",)), "{{sink}}: not sent"),
            unit="ops",
            width=THIRD,
        ),
        graph(
            "Repeated requests, dropped rejections",
            "Requests to a sink that were repeated; rejected transactions that are not listed any more.",
            query(rate("weir_ship_retries_total", ("sink",)), "{{sink}}: repeated"),
            query(rate("weir_ship_rejected_dropped_total", ("sink",)), "{{sink}}: not listed"),
            unit="ops",
            width=THIRD,
        ),
        graph(
            "Paused",
            "1 while a sink rejects everything until an operator changes something.",
            query(gauge("weir_ship_paused", ("sink",), "", "max"), "{{sink}}"),
            most=1,
            width=THIRD,
        ),
    ],
)
