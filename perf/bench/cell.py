"""One cell: a case at one load, its contenders in turn, round after round.

A round measures every contender once, one after the other, and the next round starts with another
one, so that whatever else the machine does falls on all of them alike; ratios are taken within a
round. A round counts when every measurement in it is valid; one that other programs disturbed is
repeated as long as tries are left. Of too many valid rounds the least disturbed are used: chosen
by what others did, never by the result.
"""

import time
from dataclasses import asdict, dataclass
from typing import Callable

from . import host, servers
from .cases import Case, Contender, Load
from .load import Traffic, send
from .processes import Process
from .servers import Server, Workshop

#: Share of the machine's time taken away by the hypervisor above which a measurement is void.
_STEAL_LIMIT = 0.05
#: Cores' worth of work done by programs outside the run above which a round is repeated.
_FOREIGN_LIMIT = 0.10
#: A fixed rate counts as held within this.
_RATE_TOLERANCE = 0.03


@dataclass(frozen=True)
class Pace:
    """How long and how often."""

    rounds: int
    seconds: int
    #: Rounds that may be repeated because they were invalid or disturbed.
    repeats: int
    #: Seconds to wait before a round, at most, for other programs to be quiet.
    patience: float
    #: Seconds of a window over which a backlog builds up.
    long_seconds: int
    #: Seconds of a window over which memory must not grow.
    endurance_seconds: int
    #: Transactions over which searches are timed.
    transactions: int


@dataclass(frozen=True)
class Measurement:
    """One contender in one round; shares are of one core, `idle` of the worker's time."""

    cpu_us: float
    rate: float
    p50_us: int
    p99_us: int
    idle: float
    load_busy: float
    upstream_busy: float
    foreign: float
    steal: float
    requests: int
    invalid: str


@dataclass(frozen=True)
class Cell:
    """What runs in a cell: the servers by kind, and their upstream."""

    case: Case
    load: Load
    servers: dict[str, Server]
    upstream: Process | None
    workshop: Workshop

    def run(self, pace: Pace, rate: float | None, say: Callable[[str], None]) -> dict:
        """Warms up, measures `pace.rounds` good rounds if it can, and returns them as JSON."""
        for contender in self.case.contenders:
            send(self._traffic(contender, 1, rate))
        rounds = []
        tries = pace.rounds + pace.repeats
        while sum(_good(r) for r in rounds) < pace.rounds and len(rounds) < tries:
            _wait_for_quiet(pace.patience)
            turn = len(rounds) % len(self.case.contenders)
            order = self.case.contenders[turn:] + self.case.contenders[:turn]
            rounds.append({c.name: self._measure(c, pace.seconds, rate) for c in order})
            say(f"{self.case.name}/{self.load.name} {_told(rounds[-1])}")
        used = sorted((r for r in rounds if _valid(r)), key=_disturbance)[:pace.rounds]
        return {"load": self.load.name, "rate": rate,
                "disturbed": sum(not _good(r) for r in used),
                "discarded": len(rounds) - len(used),
                "reasons": sorted({m.invalid for r in rounds for m in r.values() if m.invalid}),
                "rounds": [{name: asdict(m) for name, m in r.items()} for r in used]}

    def _traffic(self, contender: Contender, seconds: int, rate: float | None) -> Traffic:
        return Traffic(
            url=servers.url(contender, self.servers[contender.server]),
            connections=self.load.connections, seconds=seconds,
            cores=servers.LOAD_CORE if self.load.pinned else servers.ALL_CORES,
            body=self.workshop.body(self.case),
            tokens=self.workshop.tokens if contender.token else None, rate=rate,
            accept=contender.accept)

    def _measure(self, contender: Contender, seconds: int, rate: float | None) -> Measurement:
        process = self.servers[contender.server].process
        traffic = self._traffic(contender, seconds, rate)
        cores, used = host.Cores.read(), self._used(process)
        answers = send(traffic)
        spent = [now - then for now, then in zip(self._used(process), used)]
        window = host.Cores.read().since(cores)
        if self.case.whole:
            # Nothing can be told of others then.
            spent[0] = max(0.0, window.busy - answers.cpu)
        ours = sum(spent) + answers.cpu
        measurement = Measurement(
            cpu_us=spent[0] / max(answers.requests, 1) * 1e6,
            rate=answers.requests / answers.seconds,
            p50_us=answers.p50, p99_us=answers.p99,
            idle=1 - spent[0] / window.seconds / self.load.workers,
            load_busy=answers.cpu / window.seconds,
            upstream_busy=spent[1] / window.seconds,
            foreign=max(0.0, window.busy - ours) / window.seconds,
            steal=window.steal / window.seconds,
            requests=answers.requests, invalid="")
        reason = _why_invalid(measurement, answers.errors, rate)
        return Measurement(**{**asdict(measurement), "invalid": reason})

    def _used(self, process: Process) -> tuple[float, float]:
        if self.case.whole:
            return 0.0, 0.0
        return process.cpu_seconds(), self.upstream.cpu_seconds() if self.upstream else 0.0


def _why_invalid(measurement: Measurement, errors: dict[str, int], rate: float | None) -> str:
    if errors:
        return "errors: " + ", ".join(f"{count} {kind}" for kind, count in errors.items())
    if measurement.steal > _STEAL_LIMIT:
        return f"steal {measurement.steal:.0%}"
    if rate and abs(measurement.rate / rate - 1) > _RATE_TOLERANCE:
        return f"offered {rate:.0f}/s, achieved {measurement.rate:.0f}/s"
    return ""


def _wait_for_quiet(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        before = host.Cores.read()
        time.sleep(0.5)
        window = host.Cores.read().since(before)
        if window.busy / window.seconds <= _FOREIGN_LIMIT:
            return


def _valid(measured: dict[str, Measurement]) -> bool:
    return not any(m.invalid for m in measured.values())


def _good(measured: dict[str, Measurement]) -> bool:
    return _valid(measured) and _disturbance(measured) <= _FOREIGN_LIMIT


def _disturbance(measured: dict[str, Measurement]) -> float:
    """How much of a core other programs took, in the worst measurement of the round."""
    return max(m.foreign for m in measured.values())


def _told(measured: dict[str, Measurement]) -> str:
    return "  ".join(f"{name} {m.cpu_us:.2f} µs" + (f" ({m.invalid})" if m.invalid else "")
                     + (f" (others {m.foreign:.0%})" if m.foreign > _FOREIGN_LIMIT else "")
                     for name, m in sorted(measured.items()))
