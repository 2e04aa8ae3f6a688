"""The command line: what to run, how long, against which weir."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from . import (calls, cold, engines, fleet_cases, fleet_search, footprint, host, lab_cases,
               monitor_cases, pools, recording_cases, report, resubmission, retrying, rows, servers,
               upgrades)
from .cases import (CASES, COLD, FLEET_COST, FLEET_SEARCH, GRPC, LAB, LAB_USERS, LONG, MEMORY,
                    MONITOR_COST, MONITOR_USAGE, NAMES, POOL_MEMORY, RECORDING_BURST, RECORDING_COST,
                    RECORDING_MEMORY, RECORDING_P99, RECORDING_SEARCH, RECORDING_SUSTAINED,
                    RESUBMISSION, RETRIES, SCRIPT_MEMORY, START, TRACKER_MONITOR, WEBSOCKET)
from .cell import Pace
from .processes import Fleet
from .servers import Workshop
from .session import Session

_ROOT = Path(__file__).resolve().parents[2]
_RESULTS = _ROOT / "perf" / "results"
_PAGE = _ROOT / "docs" / "performance.md"
#: Program, and the Debian package it comes from.
_TOOLS = {"nginx": "nginx", "haproxy": "haproxy", "wrk": "wrk", "openssl": "openssl",
          "ab": "apache2-utils", "zstd": "zstd", "apache2": "apache2", "php-cgi": "php-cgi"}

_FULL = Pace(rounds=7, seconds=2, repeats=3, patience=0, long_seconds=60,
             endurance_seconds=600, transactions=5_000_000)
_QUICK = Pace(rounds=1, seconds=1, repeats=0, patience=0, long_seconds=5,
              endurance_seconds=20, transactions=50_000)


def main() -> int:
    """Returns the exit code: 0 measured (whatever the verdicts), 1 not measured, 2 usage."""
    arguments = _parse()
    if arguments.report:
        return _written(report.write(_RESULTS, _PAGE))
    problem = _missing(arguments.weir)
    if problem:
        print(problem, file=sys.stderr)
        return 1
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: sys.exit(1))
    try:
        _run(arguments)
    except KeyboardInterrupt:
        print("interrupted; every process of the run is ended", file=sys.stderr)
        return 1
    except RuntimeError as error:
        print(f"perf: {error}", file=sys.stderr)
        return 1
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="perf/run", description="Compares weir with nginx and HAProxy; see perf/README.md.")
    parser.add_argument("--quick", action="store_true",
                        help="about four minutes; results apart, docs/performance.md untouched")
    parser.add_argument("--report", action="store_true",
                        help="measure nothing; write docs/performance.md and its charts anew")
    parser.add_argument("--case", action="append", choices=NAMES, metavar="NAME",
                        help=f"only this one, may be repeated: {', '.join(NAMES)}")
    parser.add_argument("--long", action="store_true",
                        help=f"what takes long, too: {', '.join(LONG)}")
    parser.add_argument("--rounds", type=_positive, metavar="N",
                        help=f"rounds of every cell (default {_FULL.rounds})")
    parser.add_argument("--seconds", type=_positive, metavar="N",
                        help=f"length of a measured window (default {_FULL.seconds})")
    parser.add_argument("--wait", type=float, default=0, metavar="SECONDS",
                        help="wait so long, at most, before each round for the machine to be quiet")
    parser.add_argument("--weir", type=Path, default=host.target_folder() / "release" / "weir", metavar="PATH",
                        help="the binary (default: the release build)")
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _missing(weir: Path) -> str:
    packages = [package for tool, package in _TOOLS.items() if not shutil.which(tool)]
    if not servers.php_fpm():
        packages.append("php-fpm")
    if packages:
        return f"missing; install with: apt-get install {' '.join(packages)}"
    if not os.access(weir, os.X_OK):
        return f"no weir at {weir}; build it with: cargo build --release"
    return ""


def _run(arguments: argparse.Namespace) -> None:
    default = _QUICK if arguments.quick else _FULL
    pace = replace(default, rounds=arguments.rounds or default.rounds,
                   seconds=arguments.seconds or default.seconds, patience=arguments.wait)
    folder = _RESULTS / "quick" if arguments.quick else _RESULTS
    page = None if arguments.quick else _PAGE
    header = {"environment": host.environment(arguments.weir), "quick": arguments.quick,
              "pace": {"rounds": pace.rounds, "seconds": pace.seconds}}
    with tempfile.TemporaryDirectory(prefix="weir-perf-") as temporary:
        path = Path(temporary)
        with Fleet(path) as fleet:
            session = Session(fleet, Workshop(path, arguments.weir.resolve()), pace, _say)
            for name in arguments.case or _default(arguments):
                report.save(folder, name, {"case": name, **header, **_measure(session, name)})
    problem = report.write(folder, page)
    print(report.summary(report.load(folder)))
    print(_count(report.load(folder)))
    if problem:
        _say(problem)


def _written(problem: str) -> int:
    if problem:
        _say(problem)
    return 1 if problem else 0


def _default(arguments: argparse.Namespace) -> list[str]:
    return [name for name in NAMES if arguments.long or name not in LONG]


def _measure(session: Session, name: str) -> dict:
    apart = {COLD: cold.run, MEMORY: footprint.memory, START: footprint.start,
             POOL_MEMORY: pools.memory, SCRIPT_MEMORY: engines.memory,
             RECORDING_COST: recording_cases.cost, RECORDING_BURST: recording_cases.burst,
             RECORDING_P99: recording_cases.latency,
             RECORDING_SUSTAINED: recording_cases.sustained,
             RECORDING_SEARCH: recording_cases.search,
             RECORDING_MEMORY: recording_cases.memory,
             MONITOR_COST: monitor_cases.cost, TRACKER_MONITOR: monitor_cases.four,
             MONITOR_USAGE: monitor_cases.usage,
             FLEET_COST: fleet_cases.cost, FLEET_SEARCH: fleet_search.run,
             RESUBMISSION: resubmission.run, WEBSOCKET: upgrades.run,
             GRPC: calls.run, RETRIES: retrying.run,
             LAB_USERS: lab_cases.users,
             **{lab: lambda session, lab=lab: lab_cases.run(session, lab) for lab in LAB}}
    if name in apart:
        return apart[name](session)
    return session.run(next(case for case in CASES if case.name == name))


def _count(results: dict[str, dict]) -> str:
    found = [row.result for row in rows.verdicts(results)]
    return ", ".join(f"{sum(r.startswith(word) for r in found)} {word}"
                     for word in ("met", "MISSED", "INVALID"))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
