"""Bars of the Lab's cases."""

import statistics

from . import cases
from .verdict import Verdict

#: Case, title, reference, and the bound of the ratio or, without a reference, in microseconds.
_BARS = (
    (cases.LAB_CLOSED, "closed HTTP/1.1, full histogram", "wrk", 0.75),
    (cases.LAB_ROWS, "closed HTTP/1.1, a row for each request", "wrk", 1.1),
    (cases.LAB_OPEN, "open model, 1 ms quantum", None, 8.0),
    (cases.LAB_TLS, "closed, TLS 1.3", "wrk", 0.75),
    (cases.LAB_HTTP2, "closed, HTTP/2", "h2load", 1.4),
)
_MEMORY = 150 * cases.MIB
#: Memory of a run twice as long, at most.
_GROWTH = 1.05


def verdicts(results: dict[str, dict]) -> list[Verdict]:
    """A row for each bar of the Lab's cases that have results, and for each other generator."""
    rows = []
    for case, title, reference, bound in _BARS:
        for cell in results.get(case, {}).get("cells", []):
            rows += _cell(title, reference, bound, cell)
    if cases.LAB_USERS in results:
        rows.append(_users(results[cases.LAB_USERS]))
    return rows


def _cell(title: str, reference: str | None, bound: float, cell: dict) -> list[Verdict]:
    rate = f", {cell['rate']:,}/s" if cell["rate"] else ""
    load = f"{cell['connections']} connections{rate}"
    rounds = cell["rounds"]
    if not rounds:
        return [Verdict(f"Lab: {title}", load, "", "", "", "", "INVALID: no valid round")]
    rows = []
    if reference is None:
        found = [each["weir"]["cpu_us"] for each in rounds]
        rows.append(Verdict(f"Lab: {title}", load, _micros(found), "", "", f"≤ {bound:.1f} µs",
                            "met" if statistics.median(found) <= bound else "MISSED"))
    names = [name for name in rounds[0] if name != "weir"]
    for name in sorted(names, key=lambda name: (name != reference, name)):
        rows.append(_compared(title, load, name, bound if name == reference else None, rounds))
    missing = [name for name in cell["missing"] if name == reference]
    rows += [Verdict(f"Lab: {title}", load, "", name, "", f"≤ {bound:.2f} × {name}", "INVALID: not installed")
             for name in missing]
    return rows


def _compared(title: str, load: str, name: str, bound: float | None, rounds: list[dict]) -> Verdict:
    ratios = [each["weir"]["cpu_us"] / each[name]["cpu_us"] for each in rounds]
    ratio = statistics.median(ratios)
    of = lambda who, field: [each[who][field] for each in rounds]  # noqa: E731
    result, bar = "–", "–"
    if bound is not None:
        bar = f"≤ {bound:.2f} × {name}"
        result = "met" if ratio <= bound else "MISSED"
        if min(ratios) <= bound <= max(ratios):
            result += ", rounds on both sides"
    rates = " | ".join(f"{statistics.median(of(who, 'rate')):,.0f}/s" for who in ("weir", name))
    return Verdict(f"Lab: {title}", load, _micros(of("weir", "cpu_us")),
                   f"{name} {_micros(of(name, 'cpu_us'))}",
                   f"{ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f})", bar, result, rates)


def _users(result: dict) -> Verdict:
    once, longer = result["once"]["memory"], result["longer"]["memory"]
    met = max(once, longer) <= _MEMORY and longer <= once * _GROWTH
    return Verdict("Lab: memory", f"{result['users']:,} users", f"{once / cases.MIB:.1f} MiB",
                   f"twice as long {longer / cases.MIB:.1f} MiB", "",
                   f"≤ {_MEMORY / cases.MIB:.0f} MiB", "met" if met else "MISSED",
                   f"{result['once']['requests']:,} requests, {result['longer']['requests']:,}")


def _micros(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} µs"
