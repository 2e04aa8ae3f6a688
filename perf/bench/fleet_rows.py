"""Bars of the cases of a fleet."""

import statistics

from .verdict import Verdict

#: CPU of the workers in a fleet, by that of the same weir alone.
_WORKERS = 1.03
#: Microseconds of all threads a request more, keys indexed in OpenSearch.
_ALL = 3.0
#: Seconds until a transaction is acknowledged.
_LAG = 5.0
#: A search over three nodes, by that of the slowest node alone.
_SEARCH = 2.0
_TRAFFIC = {"hello": "hello with token, rate and quota", "echo": "1 KiB echo with token, rate and quota"}
_LOAD = "100 connections, saturated"


def verdicts(result: dict | None) -> list[Verdict]:
    """The rows of `fleet-cost`."""
    rows = []
    for kind, found in (result or {}).get("kinds", {}).items():
        fixed = found["fixed"]
        loads = ((_LOAD, found), (f"100 connections, fixed rate {fixed['rate']:,.0f}/s", fixed))
        for load, measured in loads:
            rows += [_workers(kind, name, load, measured["rounds"]) for name in ("fleet", "shipping")]
            rows.append(_all(kind, load, measured))
        rows.append(_lag(kind, *loads[1]))
    return rows


def _workers(kind: str, name: str, load: str, rounds: list[dict]) -> Verdict:
    on, alone = (statistics.median(r[each]["worker_us"] for r in rounds) for each in (name, "alone"))
    ratios = [r[name]["worker_us"] / r["alone"]["worker_us"] for r in rounds]
    ratio = statistics.median(ratios)
    sides = ", rounds on both sides" if min(ratios) <= _WORKERS <= max(ratios) else ""
    title = {"fleet": "fleet with PostgreSQL", "shipping": "fleet, keys into OpenSearch"}[name]
    return Verdict(f"{title}, workers alone, {_TRAFFIC[kind]}", load, f"{on:.2f} µs",
                   f"alone {alone:.2f} µs", f"{ratio:.3f} ({min(ratios):.3f}–{max(ratios):.3f})",
                   f"≤ {_WORKERS:.2f}", ("met" if ratio <= _WORKERS else "MISSED") + sides)


def _all(kind: str, load: str, found: dict) -> Verdict:
    others, alone = found["others_us"]["shipping"], found["others_us"]["alone"]
    extra = others["all"] - alone["all"]
    more = [r["shipping"]["worker_us"] - r["alone"]["worker_us"] + extra for r in found["rounds"]]
    base = statistics.median(r["alone"]["worker_us"] for r in found["rounds"]) + alone["all"]
    middle = statistics.median(more)
    threads = ", ".join(f"{name} {others.get(name, 0.0):.2f}"
                        for name in ("ship", "fleet", "monitor", "tracker"))
    return Verdict(f"fleet, keys into OpenSearch, all threads, {_TRAFFIC[kind]}", load,
                   f"{middle:+.2f} µs", f"alone {base:.2f} µs", f"{min(more):+.2f} to {max(more):+.2f}",
                   f"≤ +{_ALL:.1f} µs", "met" if middle <= _ALL else "MISSED", threads)


def _lag(kind: str, load: str, found: dict) -> Verdict:
    lags = [r["shipping"]["ship_lag_s"] for r in found["rounds"]]
    return Verdict(f"lag of OpenSearch, {_TRAFFIC[kind]}", load, f"{statistics.median(lags):.1f} s",
                   "", f"{min(lags):.1f} to {max(lags):.1f} s", f"≤ {_LAG:.0f} s",
                   "met" if max(lags) <= _LAG else "MISSED")


def searches(result: dict | None) -> list[Verdict]:
    """The rows of `fleet-search`."""
    return [_search(kind, found) for kind, found in (result or {}).get("seconds", {}).items()]


def _search(kind: str, found: dict[str, list[float]]) -> Verdict:
    medians = {name: statistics.median(values) * 1e3 for name, values in found.items()}
    fleet = medians.pop("all")
    slowest = max(medians.values())
    ratio = fleet / slowest
    return Verdict(f"search over 3 nodes by {kind}", "one client", f"{fleet:.2f} ms",
                   f"slowest node {slowest:.2f} ms", f"{ratio:.2f}", f"≤ {_SEARCH:.1f}",
                   "met" if ratio <= _SEARCH else "MISSED")
