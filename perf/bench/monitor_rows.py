"""Bars of the Monitor's cases."""

import statistics

from . import cases
from .verdict import Verdict

#: Microseconds of all threads a counted call, on minus off.
_COST = 1.0
#: Milliseconds of a report.
_REPORT = 200.0


def verdicts(results: dict[str, dict]) -> list[Verdict]:
    """A row for each bar of the Monitor's cases that have results."""
    rows = []
    if cases.MONITOR_COST in results:
        rows.append(_cost(results[cases.MONITOR_COST]))
    if cases.MONITOR_USAGE in results:
        rows.append(_usage(results[cases.MONITOR_USAGE]))
    return rows


def _cost(result: dict) -> Verdict:
    others, none = result["others_us"]["monitor"], result["others_us"]["off"]
    extra = others["all"] - none["all"]
    more = [r["monitor"]["worker_us"] - r["off"]["worker_us"] + extra for r in result["rounds"]]
    off = statistics.median(r["off"]["worker_us"] for r in result["rounds"]) + none["all"]
    middle = statistics.median(more)
    threads = ", ".join(f"{name} {others.get(name, 0.0):.2f}"
                        for name in ("monitor", "journal-seal", "journal-supply"))
    return Verdict("counting, all threads, recording off", "100 connections, saturated",
                   f"{middle:+.2f} µs", f"off {off:.2f} µs", f"{min(more):+.2f} to {max(more):+.2f}",
                   f"≤ +{_COST:.1f} µs", "met" if middle <= _COST else "MISSED", threads)


def _usage(result: dict) -> Verdict:
    slowest = max(result["reports"], key=lambda report: report["ms"])
    return Verdict("usage report over five million calls, the slowest grouping", "one reader",
                   f"{slowest['ms']:.0f} ms", "", slowest["report"], f"≤ {_REPORT:.0f} ms",
                   "met" if slowest["ms"] <= _REPORT else "MISSED",
                   f"{slowest['rows']} rows")
