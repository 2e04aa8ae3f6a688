"""Dashboards of requests: overview, upstreams, process pools."""

from panels import FULL, RED, THIRD, YELLOW, dashboard, graph, number, quantile, query, rate, row, table, variable
from queries import API, CLIENT, POOL, SERVER, UPSTREAM, by, error_share, gauge, share

OVERVIEW = dashboard(
    "Overview",
    "Requests, errors and durations by API and route, and what runs out first.",
    [
        row("Now"),
        number("Requests", "Requests per second of clients.", query(rate(f"{SERVER}_count", (), API)), unit="reqps"),
        number(
            "Error rate",
            "Share of requests with a 5xx status.",
            query(error_share()),
            unit="percentunit",
            steps=((0.001, YELLOW), (0.01, RED)),
        ),
        number(
            "Duration, 99th percentile",
            "From the end of the request head to the last byte of the response.",
            query(quantile(0.99, SERVER, (), API)),
            unit="s",
        ),
        number("In flight", "Requests in flight.", query(gauge("http_server_active_requests"))),
        number(
            "Instances",
            "Instances of weir that are scraped.",
            query("count(weir_build_info{§})"),
        ),
        number(
            "Targets out of service",
            "Upstream targets that health checks or failures have ejected.",
            query("count(weir_upstream_up{§} == 0) or vector(0)"),
            steps=((1, RED),),
        ),
        number(
            "Unrecorded requests",
            "Requests without a recorded transaction in the range of the dashboard: the journal was full.",
            query("sum(increase(weir_unrecorded_total{§}[$__range]))"),
            steps=((1, RED),),
            decimals=0,
        ),
        number(
            "Configurations rejected",
            "Reloads in the range of the dashboard that changed nothing, because the configuration had an error.",
            query('sum(increase(weir_config_reloads_total{§, result="refused"}[$__range]))'),
            steps=((1, YELLOW),),
            decimals=0,
        ),
        row("Rate, errors, durations"),
        graph(
            "Requests by API", "Requests per second.", by(f"{SERVER}_count", "weir_api", API), unit="reqps", stack=True
        ),
        graph(
            "Requests by status",
            "Requests per second, by status of the response.",
            by(f"{SERVER}_count", "http_response_status_code", API),
            unit="reqps",
            stack=True,
        ),
        graph(
            "Error rate by API",
            "Share of requests with a 5xx status.",
            query(error_share(("weir_api",)), "{{weir_api}}"),
            unit="percentunit",
        ),
        graph(
            "Durations",
            "Percentiles over all selected APIs.",
            *(query(quantile(q, SERVER, (), API), name) for q, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))),
            unit="s",
        ),
        graph(
            "99th percentile by API",
            "Duration that 99 of 100 requests do not exceed.",
            query(quantile(0.99, SERVER, ("weir_api",), API), "{{weir_api}}"),
            unit="s",
        ),
        graph(
            "Cut off, timed out, malformed",
            "Requests that ended without a complete response or were not acceptable HTTP.",
            query(rate("weir_aborted_requests_total"), "aborted"),
            query(rate("weir_request_timeouts_total"), "timeout"),
            query(rate("weir_bad_requests_total"), "malformed"),
            unit="reqps",
        ),
        table(
            "Routes",
            "Requests, errors and durations of each route.",
            [
                ("Requests/s", rate(f"{SERVER}_count", ("weir_api", "http_route"), API), "reqps"),
                ("Errors", error_share(("weir_api", "http_route")), "percentunit"),
                ("p50", quantile(0.5, SERVER, ("weir_api", "http_route"), API), "s"),
                ("p99", quantile(0.99, SERVER, ("weir_api", "http_route"), API), "s"),
            ],
        ),
        row("Saturation"),
        graph(
            "CPU",
            "Cores in use, and the number of workers, which is what requests can use.",
            query("rate(process_cpu_seconds_total{§}[$__rate_interval])", "{{instance}}"),
            query("weir_workers{§}", "workers of {{instance}}"),
            width=THIRD,
        ),
        graph(
            "Connections of clients",
            "Open connections.",
            query(gauge("weir_connections", ("instance",)), "{{instance}}"),
            width=THIRD,
        ),
        graph(
            "Turned away",
            "Connections above limits.connections, and requests and connections without a free file descriptor.",
            query(rate("weir_connections_refused_total"), "connections refused"),
            query(rate("weir_descriptors_exhausted_total"), "no file descriptor"),
            query(rate("weir_upstream_busy_total"), "upstream connections in use"),
            query(rate("weir_pool_rejected_total"), "pool"),
            unit="ops",
            width=THIRD,
        ),
        graph(
            "Bodies",
            "Bytes of bodies, both directions.",
            query(rate("weir_request_body_bytes_total"), "requests"),
            query(rate("weir_response_body_bytes_total"), "responses"),
            unit="Bps",
        ),
        graph(
            "Response cache",
            "Requests of routes with a cache, by result of the lookup.",
            by("weir_cache_requests_total", "result"),
            unit="reqps",
        ),
    ],
    [variable("api", "API", "weir_api", f"{SERVER}_count")],
)

UPSTREAMS = dashboard(
    "Upstreams",
    "Health, durations, connections and retries of upstream targets.",
    [
        row("Health"),
        table(
            "Targets",
            "State and traffic of each target.",
            [
                (
                    "In service",
                    gauge("weir_upstream_up", ("weir_upstream", "server_address", "server_port"), UPSTREAM, "min"),
                    "bool_yes_no",
                ),
                (
                    "Requests/s",
                    rate(f"{CLIENT}_count", ("weir_upstream", "server_address", "server_port"), UPSTREAM),
                    "reqps",
                ),
                (
                    "Errors",
                    share(
                        rate(
                            f"{CLIENT}_count",
                            ("weir_upstream", "server_address", "server_port"),
                            f'{UPSTREAM}, error_type=~".+"',
                        ),
                        rate(f"{CLIENT}_count", ("weir_upstream", "server_address", "server_port"), UPSTREAM),
                    ),
                    "percentunit",
                ),
                ("p99", quantile(0.99, CLIENT, ("weir_upstream", "server_address", "server_port"), UPSTREAM), "s"),
            ],
        ),
        graph(
            "Ejections",
            "Targets taken out of service, by reason: health checks, consecutive failures, error rate.",
            query(
                rate("weir_upstream_taken_out_total", ("weir_upstream", "weir_reason"), UPSTREAM),
                "{{weir_upstream}}: {{weir_reason}}",
            ),
            unit="ops",
        ),
        graph(
            "Failed health checks, failed DNS queries",
            "Health checks that a target did not pass, and queries for the addresses of targets without a result.",
            query(
                rate("weir_upstream_checks_total", ("weir_upstream",), f'{UPSTREAM}, weir_result="bad"'),
                "{{weir_upstream}}: check",
            ),
            query(
                rate("weir_upstream_resolutions_total", ("weir_upstream",), f'{UPSTREAM}, weir_result="bad"'),
                "{{weir_upstream}}: DNS",
            ),
            unit="ops",
        ),
        row("Requests"),
        graph(
            "Requests",
            "Attempts per second; a retry is another attempt.",
            by(f"{CLIENT}_count", "weir_upstream", UPSTREAM),
            unit="reqps",
        ),
        graph(
            "Errors",
            "Attempts that failed, by error: a status from 400, or the reason without a response.",
            query(
                rate(f"{CLIENT}_count", ("weir_upstream", "error_type"), f'{UPSTREAM}, error_type=~".+"'),
                "{{weir_upstream}}: {{error_type}}",
            ),
            unit="reqps",
        ),
        graph(
            "Median duration",
            "From the choice of a connection to the last byte of the response.",
            query(quantile(0.5, CLIENT, ("weir_upstream",), UPSTREAM), "{{weir_upstream}}"),
            unit="s",
        ),
        graph(
            "99th percentile",
            "Duration that 99 of 100 attempts do not exceed.",
            query(quantile(0.99, CLIENT, ("weir_upstream",), UPSTREAM), "{{weir_upstream}}"),
            unit="s",
        ),
        row("Connections, retries"),
        graph(
            "Connections",
            "Open connections by state.",
            query(
                gauge("http_client_open_connections", ("weir_upstream", "http_connection_state"), UPSTREAM),
                "{{weir_upstream}}: {{http_connection_state}}",
            ),
        ),
        graph(
            "New and reused connections",
            "Connection attempts, and requests on a connection that was open already.",
            query(rate("weir_upstream_connects_total", ("weir_upstream",), UPSTREAM), "{{weir_upstream}}: new"),
            query(rate("weir_upstream_reused_total", ("weir_upstream",), UPSTREAM), "{{weir_upstream}}: reused"),
            unit="ops",
        ),
        graph(
            "Retries",
            "Retries by reason.",
            query(
                rate("weir_upstream_retries_total", ("weir_upstream", "weir_reason"), UPSTREAM),
                "{{weir_upstream}}: {{weir_reason}}",
            ),
            unit="ops",
        ),
        graph(
            "Retries denied, requests without a connection",
            "Retries that a budget, the number of attempts or the deadline denied, and requests rejected because every connection was in use.",
            query(
                rate("weir_upstream_retries_refused_total", ("weir_upstream", "weir_reason"), UPSTREAM),
                "{{weir_upstream}}: {{weir_reason}}",
            ),
            query(
                rate("weir_upstream_busy_total", ("weir_upstream",), UPSTREAM),
                "{{weir_upstream}}: all connections in use",
            ),
            unit="ops",
        ),
        graph(
            "Hedged requests",
            "By the attempt that won.",
            by("weir_upstream_hedges_total", "weir_winner", UPSTREAM),
            unit="ops",
            width=THIRD,
        ),
        graph(
            "Mirrored requests",
            "By outcome.",
            by("weir_mirror_requests_total", "weir_outcome"),
            unit="ops",
            width=THIRD,
        ),
        graph(
            "gRPC",
            "Ended calls by status code.",
            by("weir_upstream_grpc_total", "rpc_grpc_status_code", UPSTREAM),
            unit="ops",
            width=THIRD,
        ),
        graph(
            "Fallbacks",
            "Calls of an API composition replaced by their fallback.",
            query(rate("weir_call_fallbacks_total", ("instance",)), "{{instance}}"),
            unit="ops",
            width=FULL,
        ),
    ],
    [variable("upstream", "Upstream", "weir_upstream", "weir_upstream_up")],
)

POOLS = dashboard(
    "Process pools",
    "Agents, queue, waiting and execution times.",
    [
        row("Pools"),
        table(
            "Pools",
            "State of each pool.",
            [
                ("Ready", gauge("weir_pool_ready", ("weir_pool",), POOL, "min"), "bool_yes_no"),
                ("Queue", gauge("weir_pool_queue_depth", ("weir_pool",), POOL), "short"),
                ("Highest queue", gauge("weir_pool_queue_depth_max", ("weir_pool",), POOL, "max"), "short"),
                ("Requests/s", rate("weir_pool_served_total", ("weir_pool",), POOL), "reqps"),
                (
                    "Wait, p99",
                    gauge("weir_pool_request_wait_seconds", ("weir_pool",), f'{POOL}, quantile="0.99"', "max"),
                    "s",
                ),
                (
                    "Duration, p99",
                    gauge("weir_pool_request_duration_seconds", ("weir_pool",), f'{POOL}, quantile="0.99"', "max"),
                    "s",
                ),
            ],
            height=7,
        ),
        graph(
            "Agents",
            "By state.",
            query(gauge("weir_pool_agents", ("weir_pool", "state"), POOL), "{{weir_pool}}: {{state}}"),
            stack=True,
        ),
        graph(
            "Queue",
            "Requests that wait for an agent.",
            query(gauge("weir_pool_queue_depth", ("weir_pool",), POOL), "{{weir_pool}}"),
        ),
        graph(
            "Busy agents",
            "Share of agents that handle a request.",
            query(
                share(
                    gauge("weir_pool_agents", ("weir_pool",), f'{POOL}, state="busy"'),
                    gauge("weir_pool_agents", ("weir_pool",), POOL),
                ),
                "{{weir_pool}}",
            ),
            unit="percentunit",
            most=1,
        ),
        graph(
            "Rejected",
            "Requests without an agent, by reason.",
            query(rate("weir_pool_rejected_total", ("weir_pool", "reason"), POOL), "{{weir_pool}}: {{reason}}"),
            unit="reqps",
        ),
        graph(
            "Mean wait, mean duration",
            "Time in the queue, and time that an agent took.",
            query(
                share(
                    rate("weir_pool_request_wait_seconds_total", ("weir_pool",), POOL),
                    rate("weir_pool_served_total", ("weir_pool",), POOL),
                ),
                "{{weir_pool}}: wait",
            ),
            query(
                share(
                    rate("weir_pool_request_duration_seconds_total", ("weir_pool",), POOL),
                    rate("weir_pool_served_total", ("weir_pool",), POOL),
                ),
                "{{weir_pool}}: duration",
            ),
            unit="s",
        ),
        graph(
            "Agents started and ended",
            "Starts, failed starts, planned replacements, crashes, kills.",
            *(
                query(rate(f"weir_pool_{name}_total", ("weir_pool",), POOL), f"{{{{weir_pool}}}}: {text}")
                for name, text in (
                    ("started", "started"),
                    ("failed_starts", "failed start"),
                    ("restarted", "recycled"),
                    ("crashed", "crashed"),
                    ("killed", "killed"),
                )
            ),
            unit="ops",
        ),
        graph(
            "Dropped log lines",
            "Lines of agents beyond 50 a second.",
            query(rate("weir_pool_log_dropped_total", ("weir_pool",), POOL), "{{weir_pool}}"),
            unit="ops",
            width=FULL,
        ),
    ],
    [variable("pool", "Pool", "weir_pool", "weir_pool_ready")],
)
