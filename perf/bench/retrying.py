"""Retries when one of five targets fails: what clients see of it, and what the targets get.

Four answer, one breaks every connection. It is never taken out (`health: {failures: 0}`), so that a fifth
of all first tries fails for as long as the run lasts.
"""

import json
import socket
import struct
import sys
import urllib.request
from pathlib import Path

from . import servers
from .load import Traffic, send
from .processes import free_ports
from .session import Session

CONNECTIONS = 50


def run(session: Session) -> dict:
    """Requests, those that failed, and tries at targets for each request."""
    good = [session.workshop.start_upstream(session.fleet, "small", servers.LOAD_CORE)
            for _ in range(4)]
    port, = free_ports(1)
    bad = session.fleet.start(
        "failing", [sys.executable, "-m", "bench.retrying", str(port)], cores=servers.LOAD_CORE,
        environment={"PYTHONPATH": str(Path(__file__).resolve().parents[1])})
    bad.wait_for(port)
    targets = [f"http://127.0.0.1:{one.ports['hello']}" for one in good]
    rounds = []
    for _ in range(session.pace.rounds):
        server = session.workshop.start(session.fleet, "weir", cores=servers.SERVER_CORE,
                                        backend=port, settings={
            "upstreams.backend.targets": json.dumps([*targets, f"http://127.0.0.1:{port}"]),
            "upstreams.backend.health": "{failures: 0}",
            "upstreams.backend.retries": "{budget: 21%, minimum: 0, backoff: 1ms}"})
        url = f"http://127.0.0.1:{server.ports['hello']}/open/small"
        answers = send(Traffic(url=url, connections=CONNECTIONS, seconds=max(5, session.pace.seconds),
                               cores=servers.LOAD_CORE))
        metrics = _metrics(server.ports["admin"])
        tries = _sum(metrics, "http_client_request_duration_seconds_count")
        requests = _sum(metrics, "http_server_request_duration_seconds_count")
        failed = _sum(metrics, "http_server_request_duration_seconds_count", "_code=\"5")
        rounds.append({"requests": requests, "failed": failed, "tries": tries,
                       "retries": _sum(metrics, "weir_upstream_retries_total"),
                       "p99_us": answers.p99, "errors": answers.errors})
        session.fleet.stop(server.process)
        session.say(f"retries {rounds[-1]}")
    for one in (*(server.process for server in good), bad):
        session.fleet.stop(one)
    worst = min(1 - one["failed"] / one["requests"] for one in rounds)
    return {"rounds": rounds, "success": worst,
            "tries_each": max(one["tries"] / one["requests"] for one in rounds)}


def _metrics(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return answer.read().decode().splitlines()


def _sum(lines: list[str], name: str, part: str = "") -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines
               if line.startswith((f"{name}{{", f"{name} ")) and part in line)


def _fail(port: int) -> None:
    """Reads something of every connection and breaks it."""
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.settimeout(0.2)
        try:
            connection.recv(4096)
        except OSError:
            pass
        connection.close()


if __name__ == "__main__":
    _fail(int(sys.argv[1]))
