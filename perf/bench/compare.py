"""Two builds of weir side by side, in the cases of this benchmark: whether a change made one slower."""

import argparse
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from .cases import CASES, FIXED, SATURATED, Case
from .cell import Pace
from .processes import Fleet
from .servers import Server, Workshop
from .session import Session

_OLD, _NEW = "weir old", "weir new"


class _TwoBuilds(Workshop):
    """Starts either build as a contender of its own."""

    def __init__(self, folder: Path, old: Path, new: Path):
        super().__init__(folder, new)
        self._builds = {_OLD: old, _NEW: new}

    def start(self, fleet: Fleet, kind: str, **more) -> Server:
        build = self._builds.get(kind)
        if build is None:
            return super().start(fleet, kind, **more)
        usual, self.weir = self.weir, build
        try:
            return super().start(fleet, "weir", **more)
        finally:
            self.weir = usual


def main() -> int:
    """Prints CPU per request of both builds and the median of the ratios; 2 for a wrong command line."""
    names = [case.name for case in CASES if any(c.server == "weir" for c in case.contenders)]
    parser = argparse.ArgumentParser(
        prog="perf/compare", description="Compares two builds of weir, interleaved; see perf/README.md.")
    parser.add_argument("old", type=Path, help="the weir before a change (a release build)")
    parser.add_argument("new", type=Path, help="the weir after it")
    parser.add_argument("--case", action="append", choices=names, metavar="NAME",
                        help=f"may be repeated (default hello, get, post-1k): {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    parser.add_argument("--seconds", type=int, default=3, metavar="N", help="length of a measured window")
    arguments = parser.parse_args()
    pace = Pace(arguments.rounds, arguments.seconds, repeats=2, patience=5, long_seconds=0,
                endurance_seconds=0, transactions=0)
    with tempfile.TemporaryDirectory(prefix="weir-compare-") as folder:
        path = Path(folder)
        workshop = _TwoBuilds(path, arguments.old.resolve(), arguments.new.resolve())
        with Fleet(path) as fleet:
            session = Session(fleet, workshop, pace, lambda line: print(line, file=sys.stderr, flush=True))
            for name in arguments.case or ["hello", "get", "post-1k"]:
                _compare(session, next(case for case in CASES if case.name == name))
    return 0


def _compare(session: Session, case: Case) -> None:
    ours = [contender for contender in case.contenders if contender.server == "weir"]
    both = tuple(replace(one, name=f"{one.name} {kind[5:]}", server=kind) for one in ours for kind in (_OLD, _NEW))
    for cell in session.run(replace(case, contenders=both, bars=(), loads=(SATURATED, FIXED)))["cells"]:
        for one in ours:
            print(row(case.name, cell, one.name), flush=True)


def row(case: str, cell: dict, name: str) -> str:
    """One line: medians in µs of CPU per request, and the ratio new ÷ old with its range over rounds."""
    pairs = [(r[f"{name} old"]["cpu_us"], r[f"{name} new"]["cpu_us"]) for r in cell["rounds"]]
    if not pairs:
        return f"{case:10} {cell['load']:10} {name:24} no valid round"
    old, new = (statistics.median(values) for values in zip(*pairs))
    ratios = [after / before for before, after in pairs]
    return (f"{case:10} {cell['load']:10} {name:24} {old:7.2f} µs -> {new:7.2f} µs  "
            f"{statistics.median(ratios):.3f} ({min(ratios):.3f}–{max(ratios):.3f}) in {len(ratios)} rounds")
