"""What a message of a WebSocket costs, and what an open one holds, in weir and in nginx."""

import os
import resource
import statistics
import sys
import time
from pathlib import Path

from . import servers, sockets
from .processes import free_ports
from .session import Session

#: As many as the descriptors of this process and of what is between allow, up to this.
CONNECTIONS = 10_000
MESSAGE = 32
AT_ONCE = 50
_KINDS = ("weir", "nginx")


def run(session: Session) -> dict:
    """CPU for a message there and back in microseconds, and bytes resident, by server and round."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(CONNECTIONS, (hard - 2000) // 2)
    port, = free_ports(1)
    backend = session.fleet.start(
        "sockets", [sys.executable, "-m", "bench.sockets", str(port)], cores=servers.LOAD_CORE,
        environment={"PYTHONPATH": str(Path(__file__).resolve().parents[1])})
    backend.wait_for(port)
    os.sched_setaffinity(0, servers.LOAD_CORE)
    rounds = []
    for number in range(session.pace.rounds):
        order = _KINDS if number % 2 == 0 else _KINDS[::-1]
        rounds.append({kind: _one(session, kind, port, count) for kind in order})
        session.say("websocket " + "  ".join(
            f"{kind} {one['cpu_us']:.2f} µs {one['bytes'] / 2**20:.1f} MiB"
            for kind, one in sorted(rounds[-1].items())))
    os.sched_setaffinity(0, servers.ALL_CORES)
    session.fleet.stop(backend)
    of = lambda kind, name: statistics.median(one[kind][name] for one in rounds)  # noqa: E731
    return {"rounds": rounds, "connections": count, "message_bytes": MESSAGE,
            "cpu_ratio": of("weir", "cpu_us") / of("nginx", "cpu_us"),
            "weir_bytes": of("weir", "bytes"), "nginx_bytes": of("nginx", "bytes")}


def _one(session: Session, kind: str, backend: int, count: int) -> dict:
    # nginx closes what is idle once fewer than a sixteenth of its connections are free, and takes
    # open WebSockets for idle.
    server = session.workshop.start_upgrades(session.fleet, kind, backend=backend,
                                             connections=3 * count,
                                             cores=servers.SERVER_CORE)
    opened = sockets.connect(server.ports["hello"], count)
    frame = sockets.message(MESSAGE)
    sockets.talk(opened, frame, AT_ONCE, 1)
    before = server.process.cpu_seconds()
    back = sockets.talk(opened, frame, AT_ONCE, session.pace.seconds)
    cpu = server.process.cpu_seconds() - before
    time.sleep(0.5)
    found = {"cpu_us": cpu / back * 1e6, "messages": back,
             "bytes": server.process.resident_bytes()}
    for connection in opened:
        connection.close()
    session.fleet.stop(server.process)
    return found
