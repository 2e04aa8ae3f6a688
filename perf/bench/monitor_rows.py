"""Bars of the Monitor's cases."""

import statistics

from . import cases
from .verdict import Verdict

#: Microseconds of all threads a counted call, on minus off.
_COST = 1.0
#: Milliseconds of a report.
_REPORT = 200.0
_BURST = 0.90
#: The four cases, the first of which the others are compared with.
_OFF, *_ON = ("off", "monitor", "tracker", "both")
_TITLES = {"monitor": "Monitor", "tracker": "Tracker", "both": "Tracker and Monitor"}


def verdicts(results: dict[str, dict]) -> list[Verdict]:
    """A row for each bar of the Monitor's cases that have results."""
    rows = []
    if cases.MONITOR_COST in results:
        rows.append(_cost(results[cases.MONITOR_COST]))
    if cases.TRACKER_MONITOR in results:
        rows += _four(results[cases.TRACKER_MONITOR])
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


def _four(result: dict) -> list[Verdict]:
    rows = []
    for name in _ON:
        ratios = [r[name]["rate"] / r[_OFF]["rate"] for r in result["bursts"]]
        on, off = (statistics.median(r[each]["rate"] for r in result["bursts"])
                   for each in (name, _OFF))
        lag = max(r[name]["lag_s"] for r in result["bursts"])
        ratio = statistics.median(ratios)
        sides = ", rounds on both sides" if min(ratios) <= _BURST <= max(ratios) else ""
        rows.append(Verdict(
            f"burst of `ab -k -n 20000 -c 150`, {_TITLES[name]} on", "hello", f"{on:,.0f}/s",
            f"both off {off:,.0f}/s", f"{ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f})",
            f"≥ {_BURST:.2f}", ("met" if ratio >= _BURST else "MISSED") + sides,
            f"lag at most {lag:.1f} s"))
    off = result["sustained"][_OFF]["rate"]
    for name in _ON:
        on = result["sustained"][name]
        rows.append(Verdict(
            f"sustained, backlog charged, {_TITLES[name]} on",
            f"100 connections, {on['requests']:,} requests", f"{on['rate']:,.0f}/s",
            f"both off {off:,.0f}/s", f"{on['rate'] / off:.2f}", "–", "–",
            f"{on['rate_before_lag']:,.0f}/s before the lag of {on['lag_s']:.1f} s"))
    return rows


def _usage(result: dict) -> Verdict:
    slowest = max(result["reports"], key=lambda report: report["ms"])
    return Verdict("usage report over five million calls, the slowest grouping", "one reader",
                   f"{slowest['ms']:.0f} ms", "", slowest["report"], f"≤ {_REPORT:.0f} ms",
                   "met" if slowest["ms"] <= _REPORT else "MISSED",
                   f"{slowest['rows']} rows")
