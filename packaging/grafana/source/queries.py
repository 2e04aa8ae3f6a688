"""Queries that several dashboards have: the metrics of requests, shares, sums."""

from panels import grouped, query, rate, selection

SERVER = "http_server_request_duration_seconds"
CLIENT = "http_client_request_duration_seconds"
API = 'weir_api=~"$api"'
UPSTREAM = 'weir_upstream=~"$upstream"'
POOL = 'weir_pool=~"$pool"'
ERRORS = 'http_response_status_code=~"5.."'


def share(part, all_of):
    return f"{part} / ({all_of} > 0)"


def error_share(labels=(), more=API):
    """Share of requests with a 5xx status; 0 where there are only others."""
    everything = rate(f"{SERVER}_count", labels, more)
    return share(f"({rate(f'{SERVER}_count', labels, f'{more}, {ERRORS}')} or 0 * {everything})", everything)


def by(metric, label, more=""):
    return query(rate(metric, (label,), more), f"{{{{{label}}}}}")


def gauge(metric, labels=(), more="", operation="sum"):
    return f"{operation}{grouped(labels)} ({metric}{{{selection(more)}}})"
