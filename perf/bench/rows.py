"""From measurements to verdicts: the rows of the tables."""

import operator
import statistics

from . import cases, fleet_rows, lab_rows, monitor_rows, recording_rows, resubmission
from .cases import CASES, Bar
from .verdict import Verdict

#: A server that is idle for more than this share did not decide its throughput.
_IDLE_LIMIT = 0.10
#: CPU of a message of a WebSocket, and of a unary gRPC call, in proportion to nginx.
_MESSAGE = 0.90
_SERVERS = {"weir": "weir", "nginx": "nginx", "haproxy": "HAProxy"}


FIGURE_HEAD = ["case", "load", "server", "CPU per request (rounds)", "requests/s", "p50", "p99",
               "server idle", "wrk busy", "upstream busy", "others"]


def verdicts(results: dict[str, dict]) -> list[Verdict]:
    """A row for each bar of every case that has results, in the order of the cases."""
    found: list[Verdict] = []
    for case in CASES:
        for cell in results.get(case.name, {}).get("cells", []):
            for bar in case.bars:
                # Results of before a contender was there say nothing about its bar.
                if all(bar.subject in each for each in cell["rounds"]):
                    found.append(_compared(bar, cell))
    found += _cold(results.get(cases.COLD))
    found += _memory(results.get(cases.MEMORY))
    found += _start(results.get(cases.START))
    found += _pool_memory(results.get(cases.POOL_MEMORY))
    found += _script_memory(results.get(cases.SCRIPT_MEMORY))
    found += _websocket(results.get(cases.WEBSOCKET))
    found += _grpc(results.get(cases.GRPC))
    found += _retries(results.get(cases.RETRIES))
    found += recording_rows.verdicts(results)
    found += monitor_rows.verdicts(results)
    found += fleet_rows.verdicts(results.get(cases.FLEET_COST))
    found += fleet_rows.searches(results.get(cases.FLEET_SEARCH))
    found += lab_rows.verdicts(results)
    found += resubmission.verdicts(results.get(cases.RESUBMISSION))
    return found


def figures(results: dict[str, dict]) -> list[list[str]]:
    """A row for every contender of every cell."""
    rows = []
    for case in CASES:
        for cell in results.get(case.name, {}).get("cells", []):
            for contender in case.contenders:
                # Results are kept for long: there may be contenders that they do not know.
                if cell["rounds"] and contender.name not in cell["rounds"][0]:
                    continue
                rows.append([case.name, _load(cell), contender.name,
                             *_figures(cell["rounds"], contender.name)])
    return rows


def _figures(rounds: list[dict], name: str) -> list[str]:
    if not rounds:
        return ["INVALID", *[""] * 7]
    of = lambda field: statistics.median(r[name][field] for r in rounds)  # noqa: E731
    cpu = [r[name]["cpu_us"] for r in rounds]
    return [f"{of('cpu_us'):.2f} µs ({min(cpu):.2f}–{max(cpu):.2f})", f"{of('rate'):,.0f}",
            _milliseconds(of("p50_us")), _milliseconds(of("p99_us")),
            *(f"{of(field):.0%}" for field in ("idle", "load_busy", "upstream_busy", "foreign"))]


def _compared(bar: Bar, cell: dict) -> Verdict:
    judged = cell["load"] in bar.loads
    text = bar.text(cell["load"]) if judged else "–"
    rounds = cell["rounds"]
    if not rounds:
        reasons = "; ".join(cell["reasons"])
        return Verdict(bar.title, _load(cell), "", "", "", text, f"INVALID: {reasons}")
    field = {"rate": "rate", "p99": "p99_us"}.get(bar.figure, "cpu_us")
    weir, reference = ([r[name][field] for r in rounds] for name in (bar.subject, bar.reference))
    compare = operator.sub if bar.figure == "above" else operator.truediv
    ratios = [compare(ours, theirs) for ours, theirs in zip(weir, reference)]
    ratio = statistics.median(ratios)
    form = "{:+.2f} µs" if bar.figure == "above" else "{:.2f}"
    middle, low, high = (form.format(value) for value in (ratio, min(ratios), max(ratios)))
    return Verdict(
        bar.title, _load(cell), _amount(bar, weir),
        f"{bar.reference} {_amount(bar, reference)}", f"{middle} ({low}–{high})", text,
        _result(bar, ratio, ratios, cell) if judged else "–",
        f"{_beside(bar, rounds, bar.subject)} | {_beside(bar, rounds, bar.reference)}")


def _result(bar: Bar, ratio: float, ratios: list[float], cell: dict) -> str:
    result = "met" if bar.met(ratio, cell["load"]) else "MISSED"
    idle = statistics.median(r[bar.reference]["idle"] for r in cell["rounds"])
    if bar.figure == "rate" and idle > _IDLE_LIMIT:
        result += f", but {bar.reference} was {idle:.0%} idle: held back by the load's core"
    if min(ratios) <= bar.bound_at(cell["load"]) <= max(ratios):
        result += ", rounds on both sides"
    if cell["disturbed"]:
        result += f", {cell['disturbed']} of {len(ratios)} rounds disturbed"
    return result


def _load(cell: dict) -> str:
    title = cases.TITLES[cell["load"]]
    return f"{title} {cell['rate']:,.0f}/s" if cell["rate"] else title


def _amount(bar: Bar, values: list[float]) -> str:
    middle = statistics.median(values)
    if bar.figure == "p99":
        return _milliseconds(middle)
    return f"{middle:,.0f}/s" if bar.figure == "rate" else f"{middle:.2f} µs"


def _beside(bar: Bar, rounds: list[dict], name: str) -> str:
    """What the bar is not about: requests/s, or CPU per request where throughput is judged."""
    rate = statistics.median(r[name]["rate"] for r in rounds)
    cpu = statistics.median(r[name]["cpu_us"] for r in rounds)
    p99 = statistics.median(r[name]["p99_us"] for r in rounds)
    first = f"{cpu:.2f} µs" if bar.figure == "rate" else f"{rate:,.0f}/s"
    return f"{first}, {_milliseconds(p99)}"


def _milliseconds(microseconds: float) -> str:
    return f"{microseconds / 1000:.2f} ms"


def _cold(result: dict | None) -> list[Verdict]:
    if not result:
        return []
    return [Verdict("a cold RS256 token, proxy GET small", "10 connections, each token once",
                    f"{result['cold_us']:.2f} µs",
                    f"no auth {result['open_us']:.2f} µs, seen again {result['again_us']:.2f} µs",
                    "", "reported", "–")]


def _memory(result: dict | None) -> list[Verdict]:
    if not result:
        return []
    rows = []
    for field, title, limit in (
            ("idle", "memory, idle", cases.MEMORY_IDLE_LIMIT),
            ("connections", f"memory, {cases.IDLE_CONNECTIONS:,} idle connections",
             cases.MEMORY_CONNECTIONS_LIMIT)):
        amounts = {kind: found[field] for kind, found in result["servers"].items()}
        met = amounts["weir"] <= limit
        kept = min(found["open"] for found in result["servers"].values())
        if field == "connections" and kept < cases.IDLE_CONNECTIONS:
            verdict = f"INVALID: only {kept:,} stayed open"
        else:
            verdict = "met" if met else "MISSED"
        rows.append(_absolute(title, amounts, lambda size: f"{size / cases.MIB:.1f} MiB", limit,
                              verdict))
    return rows


def _websocket(result: dict | None) -> list[Verdict]:
    if not result:
        return []
    cpu = {kind: statistics.median(one[kind]["cpu_us"] for one in result["rounds"])
           for kind in ("weir", "nginx")}
    ratio, load = result["cpu_ratio"], f"{result['connections']:,} open, 50 at once"
    size = {kind: f"{result[f'{kind}_bytes'] / cases.MIB:.1f} MiB" for kind in cpu}
    return [
        Verdict("a message of a WebSocket and its echo", load, f"{cpu['weir']:.2f} µs",
                f"nginx {cpu['nginx']:.2f} µs", f"{ratio:.2f}", f"≤ {_MESSAGE:.2f} × nginx",
                "met" if ratio <= _MESSAGE else "MISSED"),
        Verdict("memory, open WebSockets", load, size["weir"], f"nginx {size['nginx']}", "",
                f"≤ {cases.WEBSOCKET_LIMIT // cases.MIB} MiB",
                "met" if result["weir_bytes"] <= cases.WEBSOCKET_LIMIT else "MISSED")]


def _grpc(result: dict | None) -> list[Verdict]:
    if not result:
        return []
    load = f"{result['connections']} connections, {result['streams']} calls at once over each"
    found = []
    for library, one in result["libraries"].items():
        title, rounds, ratio = f"a unary gRPC call to {library}", one["rounds"], one["cpu_ratio"]
        cpu = {kind: statistics.median(one[kind]["cpu_us"] for one in rounds) for kind in rounds[0]}
        found.append(Verdict(title, load, f"{cpu['weir']:.2f} µs", f"nginx {cpu['nginx']:.2f} µs",
                             f"{ratio:.2f}", f"≤ {_MESSAGE:.2f} × nginx",
                             "met" if ratio <= _MESSAGE else "MISSED"))
        if "envoy" in cpu:
            found.append(Verdict(title, load, f"{cpu['weir']:.2f} µs", f"Envoy {cpu['envoy']:.2f} µs",
                                 f"{cpu['weir'] / cpu['envoy']:.2f}", "–", "–"))
    return found


def _retries(result: dict | None) -> list[Verdict]:
    if not result:
        return []
    success, tries = result["success"], result["tries_each"]
    load = "one target of five fails"
    return [
        Verdict("retries: requests that succeed", load, f"{success:.3%}", "", "",
                f"≥ {cases.RETRIES_SUCCESS:.1%}",
                "met" if success >= cases.RETRIES_SUCCESS else "MISSED"),
        Verdict("retries: tries at targets for a request", load, f"{tries:.3f}", "", "",
                f"≤ {cases.RETRIES_TRIES}",
                "met" if tries <= cases.RETRIES_TRIES + 0.005 else "MISSED")]


def _start(result: dict | None) -> list[Verdict]:
    if not result:
        return []
    amounts = {kind: statistics.median(found) for kind, found in result["servers"].items()}
    limit = cases.START_LIMIT_SECONDS
    return [_absolute("start to first answer", amounts, lambda s: f"{s * 1e3:.1f} ms", limit,
                      "met" if amounts["weir"] <= limit else "MISSED")]


def _pool_memory(result: dict | None) -> list[Verdict]:
    if not result:
        return []
    few, many = sorted(result["agents"], key=lambda found: found["agents"])
    each = (many["bytes"] - few["bytes"]) / (many["agents"] - few["agents"])
    limit = cases.POOL_MEMORY_LIMIT
    return [Verdict("memory in weir for each agent", f"{few['agents']} and {many['agents']} agents",
                    f"{each / cases.KIB:.1f} KiB", "", "", f"≤ {limit // cases.KIB} KiB",
                    "met" if each <= limit else "MISSED")]


def _script_memory(result: dict | None) -> list[Verdict]:
    if not result:
        return []
    few, many = sorted(result["workers"], key=lambda found: found["workers"])
    workers = many["workers"] - few["workers"]
    grown = {kind: many[kind] - few[kind] for kind in ("script", "reply")}
    each = (grown["script"] - grown["reply"]) / workers
    limit = cases.SCRIPT_MEMORY_LIMIT
    return [Verdict("memory of an engine of scripts",
                    f"{few['workers']} and {many['workers']} workers, with one and without",
                    f"{each / cases.MIB:.2f} MiB", "", "", f"≤ {limit // cases.MIB} MiB",
                    "met" if each <= limit else "MISSED")]


def _absolute(title: str, amounts: dict[str, float], text, limit: float, verdict: str) -> Verdict:
    others = ", ".join(f"{_SERVERS[kind]} {text(amount)}" for kind, amount in amounts.items()
                       if kind != "weir")
    return Verdict(title, "one worker", text(amounts["weir"]), others, "",
                   f"≤ {text(limit).replace('.0 ', ' ')}", verdict)
