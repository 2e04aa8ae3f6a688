"""Running a case from its first server to its last: groups of loads, servers, the fixed rate."""

import statistics
from itertools import groupby
from typing import Callable

from . import servers
from .cases import SATURATED, Case, Load
from .cell import Cell, Pace
from .processes import Fleet
from .servers import Workshop


class Session:
    """What the cases of one run share."""

    def __init__(self, fleet: Fleet, workshop: Workshop, pace: Pace, say: Callable[[str], None]):
        self.fleet = fleet
        self.workshop = workshop
        self.pace = pace
        self.say = say

    def run(self, case: Case) -> dict:
        """All loads of a case; loads that need the same servers share them."""
        cells: list[dict] = []
        tls: dict[str, str] = {}
        for _, loads in groupby(case.loads, key=lambda load: (load.workers, load.pinned)):
            self._run_group(case, list(loads), cells, tls)
        return {"cells": cells, "tls": tls}

    def _run_group(self, case: Case, loads: list[Load], cells: list[dict],
                   tls: dict[str, str]) -> None:
        pinned, workers = loads[0].pinned, loads[0].workers
        upstream, backend = None, 1
        if case.upstream:
            cores = servers.LOAD_CORE if pinned else servers.ALL_CORES
            upstream = self.workshop.start_upstream(self.fleet, case.upstream, cores)
            backend = upstream.ports["hello"]
        cores = servers.SERVER_CORE if pinned else servers.ALL_CORES
        running = {
            kind: self.workshop.start(self.fleet, kind, workers=workers, cores=cores,
                                      backend=backend)
            for kind in dict.fromkeys(c.server for c in case.contenders)}
        for contender in case.contenders:
            said = servers.verify(case, contender, running[contender.server], self.workshop)
            if said:
                tls[contender.name] = said
        for load in loads:
            cell = Cell(case, load, running, upstream.process if upstream else None,
                        self.workshop)
            rate = _half_of_the_slowest(cells) if load.fixed_rate else None
            cells.append(cell.run(self.pace, rate, self.say))
        for server in (*running.values(), *([upstream] if upstream else [])):
            self.fleet.stop(server.process)


def _half_of_the_slowest(cells: list[dict]) -> float:
    """Half of the lowest median rate that a contender reached when saturated."""
    rounds = next(cell["rounds"] for cell in cells if cell["load"] == SATURATED.name)
    if not rounds:
        raise RuntimeError("no valid saturated round, so there is no rate to offer")
    slowest = min(statistics.median(r[name]["rate"] for r in rounds) for name in rounds[0])
    return float(round(slowest / 2, -2))
