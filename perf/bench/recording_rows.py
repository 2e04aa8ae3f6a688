"""Bars of the recording cases: weir with recording on, against itself with recording off."""

import statistics

from . import cases
from .verdict import Verdict

#: Microseconds of all threads a request, on minus off, by traffic and setting.
_COST = {("hello", "keys"): 2.0, ("hello", "payload"): 4.0,
         ("echo", "keys"): 9.0, ("echo", "payload"): 28.0}
#: The same of the workers alone.
_WORKERS = {"hello": 0.8, "echo": 2.0}
_TRAFFIC = {"hello": "hello", "echo": "1 KiB echo"}
_SETTINGS = ("keys", "payload")
_BURST, _LAG_SECONDS, _P99 = 0.95, 5.0, 1.20
#: Share of the rate without recording.
_SUSTAINED = {"hello": 0.88, "echo": 0.80}
_DISK_BYTES = 1.1 * cases.KIB
#: p99 in milliseconds.
_SEARCH = {"id": 10, "key": 40, "rare word": 150, "two words in a row": 500, "common word": 60}
_MEMORY = 200 * cases.MIB
#: How much more the last fifth of the samples may be than the second, to count as flat.
_FLAT = 1.10
_START_SECONDS = 1.0


def verdicts(results: dict[str, dict]) -> list[Verdict]:
    """A row for each bar of the recording cases that have results."""
    makers = {cases.RECORDING_COST: _cost, cases.RECORDING_BURST: _burst,
              cases.RECORDING_P99: _p99, cases.RECORDING_SUSTAINED: _sustained,
              cases.RECORDING_SEARCH: _search, cases.RECORDING_MEMORY: _memory}
    return [row for name, make in makers.items() if name in results
            for row in make(results[name])]


def _cost(result: dict) -> list[Verdict]:
    rows = []
    for kind, found in result["kinds"].items():
        for setting in _SETTINGS:
            more = [r[setting]["worker_us"] - r["off"]["worker_us"] for r in found["rounds"]]
            others, none = found["others_us"][setting], found["others_us"]["off"]
            extra = others["all"] - none["all"]
            threads = ", ".join(f"{name} {others.get(name, 0.0):.2f}"
                                for name in ("tracker", "journal-seal", "journal-supply"))
            off = statistics.median(r["off"]["worker_us"] for r in found["rounds"])
            rows.append(_more(f"recording, all threads, {_TRAFFIC[kind]}, `index: {setting}`",
                              [m + extra for m in more], off + none["all"], _COST[kind, setting],
                              threads))
            rows.append(_more(f"recording, workers alone, {_TRAFFIC[kind]}, `index: {setting}`",
                              more, off, _WORKERS[kind], ""))
    return rows


def _more(title: str, more: list[float], off: float, bar: float, beside: str) -> Verdict:
    middle = statistics.median(more)
    return Verdict(title, "100 connections, saturated", f"{middle:+.2f} µs", f"off {off:.2f} µs",
                   f"{min(more):+.2f} to {max(more):+.2f}", f"≤ +{bar:.1f} µs",
                   _met(middle <= bar, min(more) <= bar <= max(more)), beside)


def _burst(result: dict) -> list[Verdict]:
    rows = []
    for setting in _SETTINGS:
        ratios = [r[setting]["rate"] / r["off"]["rate"] for r in result["bursts"]]
        ratio = statistics.median(ratios)
        lag = max(r[setting]["lag_s"] for r in result["bursts"])
        met = ratio >= _BURST and lag <= _LAG_SECONDS
        rows.append(Verdict(
            f"burst of `ab -k -n 20000 -c 150`, `index: {setting}`", "hello",
            f"{statistics.median(r[setting]['rate'] for r in result['bursts']):,.0f}/s",
            f"off {statistics.median(r['off']['rate'] for r in result['bursts']):,.0f}/s",
            f"{ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f})",
            f"≥ {_BURST:.2f}, lag ≤ {_LAG_SECONDS:.0f} s",
            _met(met, min(ratios) <= _BURST <= max(ratios)), f"lag at most {lag:.1f} s"))
    return rows


def _p99(result: dict) -> list[Verdict]:
    rows = []
    for kind, found in result["kinds"].items():
        for setting in _SETTINGS:
            ratios = [r[setting]["p99_us"] / r["off"]["p99_us"] for r in found["rounds"]]
            ratio = statistics.median(ratios)
            on, off = (statistics.median(r[name]["p99_us"] for r in found["rounds"]) / 1000
                       for name in (setting, "off"))
            rows.append(Verdict(
                f"p99 at half load, {_TRAFFIC[kind]}, `index: {setting}`",
                f"100 connections, {found['rate']:,.0f}/s", f"{on:.2f} ms", f"off {off:.2f} ms",
                f"{ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f})", f"≤ {_P99:.2f}",
                _met(ratio <= _P99, min(ratios) <= _P99 <= max(ratios))))
    return rows


def _sustained(result: dict) -> list[Verdict]:
    rows = []
    cells = result["cells"]
    for kind in _TRAFFIC:
        off = cells[f"{kind} off"]
        for setting in _SETTINGS:
            on = cells[f"{kind} {setting}"]
            unrecorded = f", {on['unrecorded']:,.0f} not recorded" if on["unrecorded"] else ""
            share, bar = on["rate"] / off["rate"], _SUSTAINED[kind]
            rows.append(Verdict(
                f"sustained, backlog charged, {_TRAFFIC[kind]}, `index: {setting}`",
                f"100 connections, {on['requests']:,} requests", f"{on['rate']:,.0f}/s",
                f"off {off['rate']:,.0f}/s", f"{share:.2f}", f"≥ {bar:.2f}", _met(share >= bar),
                f"{on['rate_before_lag']:,.0f}/s before the lag of {on['lag_s']:.1f} s"
                + unrecorded))
    for setting in _SETTINGS:
        disk = cells[f"echo {setting}"]["disk"]
        each = sum(disk.values())
        bodies = result["zstd_bytes"]
        parts = ", ".join(f"{name} {size:.0f}" for name, size in sorted(disk.items()))
        rows.append(Verdict(
            f"disk of a sealed 1 KiB echo, `index: {setting}`", "both bodies and the index",
            f"{each:,.0f} B", f"`zstd -3` of the bodies {bodies:,.0f} B", f"{each / bodies:.2f}",
            f"≤ {_DISK_BYTES:,.0f} B", _met(each <= _DISK_BYTES), parts))
    return rows


def _search(result: dict) -> list[Verdict]:
    count = f"{result['transactions']:,} transactions, under half load"
    rows = []
    # A result may be older than a kind.
    for kind, bar in ((k, b) for k, b in _SEARCH.items() if k in result["latencies_s"]):
        seconds = sorted(result["latencies_s"][kind])
        p99 = seconds[int(len(seconds) * 0.99)] * 1e3
        rows.append(Verdict(f"search by {kind}", count, f"p99 {p99:.1f} ms",
                            f"median {statistics.median(seconds) * 1e3:.1f} ms", "",
                            f"≤ {bar} ms", _met(p99 <= bar), f"{len(seconds)} searches"))
    first = result["first_answer_s"]
    rows.append(Verdict("start after a kill, first answer",
                        f"data folder of {result['journal_bytes'] / 2**30:.1f} GiB",
                        f"{first * 1e3:.0f} ms", "", "", f"≤ {_START_SECONDS:.0f} s",
                        _met(first <= _START_SECONDS),
                        f"index complete {result['caught_up_s']:.1f} s later"))
    return rows


def _memory(result: dict) -> list[Verdict]:
    samples = result["samples"]
    fifth = max(1, len(samples) // 5)
    early = statistics.median(samples[fifth:2 * fifth] or samples)
    late = statistics.median(samples[-fifth:])
    met = max(samples) <= _MEMORY and late <= early * _FLAT
    return [Verdict("anonymous memory, recording 1 KiB echoes at full load",
                    f"{len(samples) * 10} s", f"{max(samples) / cases.MIB:.1f} MiB at most",
                    f"{early / cases.MIB:.1f} MiB early, {late / cases.MIB:.1f} MiB late",
                    f"{late / early:.2f}", f"≤ {_MEMORY // cases.MIB} MiB, flat", _met(met))]


def _met(met: bool, both: bool = False) -> str:
    return ("met" if met else "MISSED") + (", rounds on both sides" if both else "")
