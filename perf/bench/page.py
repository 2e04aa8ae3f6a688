"""The page docs/performance.md: groups of narrow tables, each with a chart, and the missed bars
with their reasons."""

import re
from dataclasses import dataclass

from . import cases, rows
from .reasons import REASONS
from .verdict import Verdict


@dataclass(frozen=True)
class Group:
    """A section of the page."""

    #: Heading, and name of the chart file without its extension.
    title: str
    slug: str
    cases: tuple[str, ...]


GROUPS = (
    Group("Static responses and reverse proxy", "proxy",
          ("hello", "get", "get-socket", "post-1k", "post-100k", "tls", cases.COLD)),
    Group("Files, FastCGI and CGI", "files", ("files", "fastcgi", "cgi")),
    Group("Validation, transformation and scripts", "content",
          ("validation", "routes-1000", "mediation-1k", "mediation-100k", "scripts",
           "scripts-map", cases.SCRIPT_MEMORY)),
    Group("WebSocket, gRPC and retries", "protocols",
          (cases.WEBSOCKET, cases.GRPC, cases.RETRIES)),
    Group("Recording: cost of the Tracker", "recording",
          (cases.TRACKER_MONITOR, cases.RECORDING_COST, cases.RECORDING_BURST,
           cases.RECORDING_P99, cases.RECORDING_SUSTAINED, cases.RECORDING_MEMORY)),
    Group("Search and resubmission", "search", (cases.RECORDING_SEARCH, cases.RESUBMISSION)),
    Group("Metering: cost of the Monitor", "metering", (cases.MONITOR_COST, cases.MONITOR_USAGE)),
    Group("Fleet: cost of shared state, searches", "fleet", (cases.FLEET_COST, cases.FLEET_SEARCH)),
    Group("Load generation with the Lab", "lab", (*cases.LAB, cases.LAB_USERS)),
    Group("Memory and start", "footprint", (cases.MEMORY, cases.START, cases.POOL_MEMORY)),
)

#: A bar for the ratio or the difference, not for an amount.
_RELATIVE = re.compile(r"[≤≥] ([\d.]+( ×|,|$)|[^\d+])")

_HEAD = ["case", "load", "weir", "reference", "ratio", "bar", ""]


def of_group(group: Group, results: dict[str, dict]) -> list[Verdict]:
    """The rows of a group, in the order of its cases."""
    return [row for name in group.cases if name in results
            for row in rows.verdicts({name: results[name]})]


def page(results: dict[str, dict], table, charts: dict[str, str]) -> str:
    """The generated part of the page. `table` formats a head and rows as Markdown, `charts` has
    the address of the chart of a group, by slug, where there is one."""
    parts = [_overview(results)]
    for group in GROUPS:
        found = of_group(group, results)
        if not found:
            continue
        parts.append(f"## {group.title}")
        if group.slug in charts:
            parts.append(f"![{group.title}]({charts[group.slug]})")
        parts.append(table(_HEAD, [_cells(row) for row in found]))
    missed = _missed(results)
    if missed:
        parts += ["## Missed bars",
                  "Each bar that weir misses, with the measured ratio or amount and the reason. "
                  "\"Spread\" means that rounds of the run are on both sides of the bar.",
                  missed]
    parts += ["## Machine and versions", _environment(results)]
    return "\n\n".join(parts)


def _overview(results: dict[str, dict]) -> str:
    judged = [row.result for row in rows.verdicts(results)]
    met, missed, invalid = (sum(result.startswith(word) for result in judged)
                            for word in ("met", "MISSED", "INVALID"))
    text = f"{met} bars met, {missed} missed"
    return f"{text}, {invalid} without a valid round." if invalid else f"{text}."


def _cells(row: Verdict) -> list[str]:
    mark = {"met": "✓", "MISSED": "✗ missed"}.get(row.result.split(",")[0], "")
    if row.result.startswith("INVALID"):
        mark = "invalid"
    ratio = row.ratio.split(" (")[0]
    return [row.case, row.load.removesuffix(", saturated"), row.weir, row.reference, ratio,
            row.bar, mark]


def _missed(results: dict[str, dict]) -> str:
    """A list entry for each missed bar: its cells in one line, and the reason once."""
    entries: dict[str, list[str]] = {}
    for row in rows.verdicts(results):
        if not row.result.startswith("MISSED"):
            continue
        measured = row.ratio.split(" (")[0] if _RELATIVE.match(row.bar) else row.weir
        spread = " (spread)" if "rounds on both sides" in row.result else ""
        entries.setdefault(row.case, []).append(
            f"{measured}{spread}, bar {row.bar}; {row.load}")
    return "\n".join(f"- **{case}**: {' / '.join(cells)}. {reason(case)}"
                     for case, cells in entries.items())


def reason(case: str) -> str:
    """Why the bar of a case is missed."""
    return REASONS.get(case, "The reason has not been examined.")


def _environment(results: dict[str, dict]) -> str:
    """The machine once, and for each group of cases that were measured together commit and date."""
    machines = {f"{of['cpu']}, {of['cores']} cores, Linux {of['kernel']}; {of['versions']}."
                for of in (result["environment"] for result in results.values())}
    runs: dict[str, list[str]] = {}
    for name, result in results.items():
        of, pace = result["environment"], result["pace"]
        quick = " (quick, not for comparison)" if result["quick"] else ""
        run = (f"{of['date']}, commit {of['commit']}, {pace['rounds']} rounds of "
               f"{pace['seconds']} s{quick}")
        runs.setdefault(run, []).append(name)
    lines = [f"- {run}: {', '.join(names)}" for run, names in sorted(runs.items())]
    return "\n\n".join([*sorted(machines), "Runs:", "\n".join(lines)])
