"""Load generators: how each is called, and what it says it did."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from . import processes

#: Requests that `ab` sends: it can only count, and keeps room for each.
_AB_REQUESTS = 60_000


@dataclass(frozen=True)
class Order:
    """What to send: over so many connections, for so long, at a rate or as fast as it goes."""

    url: str
    connections: int
    seconds: int
    rate: int | None = None
    http2: bool = False
    #: File that a row for each request goes to, of generators that can.
    rows: Path | None = None


@dataclass(frozen=True)
class Told:
    """What a generator says: requests answered, and those that went wrong."""

    requests: int
    seconds: float
    errors: int


@dataclass(frozen=True)
class Spent:
    """One run of a generator; `cpu_us` is user and system time for each request."""

    cpu_us: float
    rate: float
    requests: int
    errors: int
    #: Largest resident memory, bytes.
    memory: int


@dataclass(frozen=True)
class Generator:
    """A generator."""

    name: str
    command: Callable[[Order], list[str]]
    parse: Callable[[str], Told]

    def run(self, order: Order, cores: set[int]) -> Spent:
        """Runs it to its end on these cores; on an interruption it is ended with us."""
        output, usage = processes.run_to_end(self.command(order), cores)
        try:
            told = self.parse(output)
        except (AttributeError, KeyError, IndexError, ValueError) as error:
            raise RuntimeError(f"{self.name} gave no result:\n{output[-2000:]}") from error
        cpu = usage.ru_utime + usage.ru_stime
        return Spent(cpu / max(told.requests, 1) * 1e6, told.requests / told.seconds,
                     told.requests, told.errors, usage.ru_maxrss * 1024)


def weir(binary: Path) -> Generator:
    """`weir lab hit`: a full HDR histogram, as always."""
    def command(order: Order) -> list[str]:
        found = [str(binary), "lab", "hit", order.url, "--threads", "1", "--json",
                 "-c", str(order.connections), "-d", f"{order.seconds}s"]
        found += ["--rate", str(order.rate)] if order.rate else []
        found += ["--jtl", str(order.rows)] if order.rows else []
        return found + (["--http2"] if order.http2 else [])

    def parse(output: str) -> Told:
        said = json.loads(output.splitlines()[-1])
        return Told(said["samples"], said["seconds"],
                    sum(said["errors"].values()) + said["dropped"])
    return Generator("weir", command, parse)


def _wrk(order: Order) -> list[str]:
    return ["wrk", "-t1", f"-c{order.connections}", f"-d{order.seconds}s", order.url]


def _wrk2(order: Order) -> list[str]:
    return ["wrk2", *_wrk(order)[1:-1], f"-R{order.rate}", "--latency", order.url]


def _wrk_told(output: str) -> Told:
    requests, time, unit = re.search(r"(\d+) requests in ([\d.]+)(\w+),", output).groups()
    seconds = float(time) * {"ms": 1e-3, "s": 1.0, "m": 60.0}[unit]
    socket = re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    status = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    errors = sum(map(int, socket.groups())) if socket else 0
    return Told(int(requests), seconds, errors + (int(status[1]) if status else 0))


def _ab(order: Order) -> list[str]:
    return ["ab", "-k", "-q", "-n", str(_AB_REQUESTS), "-c", str(order.connections), order.url]


def _ab_told(output: str) -> Told:
    number = lambda name: re.search(rf"{name}:\s+([\d.]+)", output)[1]  # noqa: E731
    failed = int(number("Failed requests"))
    return Told(int(number("Complete requests")), float(number("Time taken for tests")), failed)


def _oha(order: Order) -> list[str]:
    return ["oha", "--no-tui", "--output-format", "json", "-z", f"{order.seconds}s",
            "-c", str(order.connections), order.url]


def _oha_told(output: str) -> Told:
    said = json.loads(output)
    answers = {int(status): count for status, count in said["statusCodeDistribution"].items()}
    # What is under way at the end is given up and told as an error.
    faults = {kind: count for kind, count in said["errorDistribution"].items()
              if "deadline" not in kind}
    wrong = sum(count for status, count in answers.items() if status >= 400)
    return Told(sum(answers.values()), said["summary"]["total"], wrong + sum(faults.values()))


def _hey(order: Order) -> list[str]:
    return ["hey", "-z", f"{order.seconds}s", "-c", str(order.connections), "-cpus", "1",
            order.url]


def _hey_told(output: str) -> Told:
    answers = [(int(status), int(count)) for status, count in
               re.findall(r"\[(\d{3})\]\s+(\d+) responses", output)]
    faults = re.findall(r"^\s+\[(\d+)\]\s+\S+ \"?http", output, re.MULTILINE)
    wrong = sum(count for status, count in answers if status >= 400)
    return Told(sum(count for _, count in answers),
                float(re.search(r"Total:\s+([\d.]+) secs", output)[1]),
                wrong + sum(map(int, faults)))


def _h2load(order: Order) -> list[str]:
    protocol = [] if order.http2 else ["--h1"]
    return ["h2load", *protocol, "-t1", f"-c{order.connections}", "-m1", f"-D{order.seconds}",
            order.url]


def _h2load_told(output: str) -> Told:
    seconds = float(re.search(r"finished in ([\d.]+)s", output)[1])
    counts = re.search(r"requests: (\d+) total, .*?(\d+) done, .*?(\d+) failed", output)
    return Told(int(counts[2]), seconds, int(counts[3]))


_OTHERS = {generator.name: generator for generator in (
    Generator("wrk", _wrk, _wrk_told), Generator("wrk2", _wrk2, _wrk_told),
    Generator("ab", _ab, _ab_told), Generator("oha", _oha, _oha_told),
    Generator("hey", _hey, _hey_told), Generator("h2load", _h2load, _h2load_told))}


def others(names: tuple[str, ...]) -> list[Generator]:
    """Those of these that are installed."""
    return [_OTHERS[name] for name in names if shutil.which(name)]
