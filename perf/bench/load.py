"""One run of wrk: what it sent, what came back, what it cost."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import processes

#: What wrk runs.
SCRIPT = Path(__file__).resolve().parent.parent / "lua" / "load.lua"


@dataclass(frozen=True)
class Traffic:
    """What to send; `seconds` are whole because wrk takes no others."""

    url: str
    connections: int
    seconds: int
    cores: set[int]
    body: Path | None = None
    tokens: Path | None = None
    corpus: Path | None = None
    first: int = 0
    rate: float | None = None
    accept: str | None = None
    stop: int | None = None


@dataclass(frozen=True)
class Answers:
    """What wrk reports; latencies in microseconds, `cpu` in seconds."""

    requests: int
    seconds: float
    p50: int
    p99: int
    maximum: int
    errors: dict[str, int]
    cpu: float


def send(traffic: Traffic) -> Answers:
    """Runs wrk to its end; on an interruption it is ended with us."""
    command = ["wrk", "--threads", "1", "--connections", str(traffic.connections),
               "--duration", f"{traffic.seconds}s", "--timeout", "10s",
               "--script", str(SCRIPT), traffic.url, "--"]
    given = {"body": traffic.body, "tokens": traffic.tokens, "corpus": traffic.corpus,
             "first": traffic.first, "rate": traffic.rate, "accept": traffic.accept, "stop": traffic.stop}
    command += [f"{name}={value}" for name, value in given.items() if value is not None]
    output, usage = processes.run_to_end(command, traffic.cores, stderr=subprocess.STDOUT)
    return _parse(output, usage.ru_utime + usage.ru_stime)


def _parse(output: str, cpu: float) -> Answers:
    for line in output.splitlines():
        if line.startswith("RESULT "):
            said = json.loads(line.removeprefix("RESULT "))
            errors = {kind: count for kind, count in said["errors"].items() if count}
            return Answers(said["requests"], said["seconds"], said["p50_us"], said["p99_us"],
                           said["max_us"], errors, cpu)
    raise RuntimeError(f"wrk gave no result:\n{output}")
