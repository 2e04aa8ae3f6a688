"""Dashboard of the fleet: membership, replication of usage, drift."""

from panels import THIRD, dashboard, graph, query, rate, row
from queries import gauge

FLEET = dashboard(
    "Fleet",
    "Nodes, their database, replication of usage and configuration drift.",
    [
        row("Nodes"),
        graph(
            "Live nodes",
            "Nodes that serve, as each node knows them.",
            query(gauge("weir_fleet_nodes", ("instance",)), "{{instance}}"),
            width=THIRD,
        ),
        graph(
            "Connected to the database",
            "1 for a node that is connected and registered; others work on their own.",
            query(gauge("weir_fleet_up", ("instance", "engine"), "", "min"), "{{instance}}: {{engine}}"),
            most=1,
            width=THIRD,
        ),
        graph(
            "Failures",
            "Failed attempts to connect or to renew the lease.",
            query(rate("weir_fleet_failures_total", ("instance",)), "{{instance}}"),
            unit="ops",
            width=THIRD,
        ),
        row("Quotas"),
        graph(
            "Leases",
            "Requests that waited for a slice of their quota, and those rejected with 503 because none came in time.",
            query(rate("weir_fleet_lease_waits_total"), "waited"),
            query(rate("weir_fleet_lease_denied_total"), "rejected"),
            unit="reqps",
            width=THIRD,
        ),
        graph(
            "Overdraft",
            "Calls admitted beyond slices while the database could not be reached.",
            query(rate("weir_fleet_overdraft_calls_total", ("instance",)), "{{instance}}"),
            unit="reqps",
            width=THIRD,
        ),
        graph(
            "Late slices",
            "Slices that came after the end of their window.",
            query(rate("weir_fleet_late_grants_total", ("instance",)), "{{instance}}"),
            unit="ops",
            width=THIRD,
        ),
        row("Queries over nodes"),
        graph(
            "Requests to other nodes",
            "Requests sent, those without a response within their deadline, and connections opened.",
            query(rate("weir_fleet_peer_requests_total", ("instance",)), "{{instance}}"),
            query(rate("weir_fleet_peer_misses_total", ("instance",)), "{{instance}}: no response"),
            query(rate("weir_fleet_peer_connections_total", ("instance",)), "{{instance}}: connections"),
            unit="reqps",
        ),
        graph(
            "Rejected signatures",
            "Requests received with a wrong or missing signature of a node.",
            query(rate("weir_fleet_peer_rejected_total", ("instance",)), "{{instance}}"),
            unit="reqps",
        ),
        row("Rates by token leases"),
        graph(
            "Waits for tokens",
            "Waits of requests for tokens of their rate, and tokens that came too late.",
            query(rate("weir_fleet_token_waits_total", ("instance",)), "{{instance}}: waits"),
            query(rate("weir_fleet_late_tokens_total", ("instance",)), "{{instance}}: late"),
            unit="ops",
        ),
        graph(
            "Decisions without Redis",
            "Requests decided by the node itself, by reason.",
            query(rate("weir_fleet_local_decisions_total", ("reason",)), "{{reason}}"),
            unit="reqps",
        ),
        graph(
            "Buckets of tokens",
            "Buckets of rates that a node holds.",
            query(gauge("weir_fleet_token_buckets", ("instance",)), "{{instance}}"),
        ),
        graph(
            "Failures of Redis",
            "Failed or late responses of Redis.",
            query(rate("weir_fleet_redis_failures_total", ("instance",)), "{{instance}}"),
            unit="ops",
        ),
        row("Usage, configuration, clocks"),
        graph(
            "Lag of usage",
            "Time since all usage was in the database that was counted up to then.",
            query(gauge("weir_usage_lag_seconds", ("instance",), "", "max"), "{{instance}}"),
            unit="s",
            width=THIRD,
        ),
        graph(
            "Replicated usage",
            "Buckets sent to the database.",
            query(rate("weir_usage_replicated_total", ("instance",)), "{{instance}}"),
            unit="ops",
            width=THIRD,
        ),
        graph(
            "Configuration drift",
            "1 while nodes have had different configurations for more than a minute.",
            query(gauge("weir_config_drift", (), "", "max"), "drift"),
            most=1,
            width=THIRD,
        ),
        graph(
            "Clock offset",
            "Clock of the node minus clock of the database, without its sign.",
            query("abs(" + gauge("weir_fleet_clock_offset_seconds", ("instance",)) + ")", "{{instance}}"),
            unit="s",
            width=THIRD,
        ),
    ],
)
