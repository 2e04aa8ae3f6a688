"""Memory at rest and under many idle connections, and the time from start to the first answer."""

import resource
import selectors
import socket
import statistics
import time

from . import servers
from .cases import IDLE_CONNECTIONS
from .session import Session

_KINDS = ("weir", "nginx", "haproxy")
_REQUEST = b"GET /open/hello HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
#: Connections opened at once: fewer than a usual accept queue holds.
_OPENING = 200


def memory(session: Session) -> dict:
    """Bytes resident after the first answer, and with the idle connections open, by server."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = {}
    for kind in _KINDS:
        server = session.workshop.start(session.fleet, kind, cores=servers.ALL_CORES, backend=1,
                                        connections=IDLE_CONNECTIONS + 1000)
        opened = _open(server.ports["hello"], 1)
        time.sleep(1)
        idle = server.process.resident_bytes()
        opened += _open(server.ports["hello"], IDLE_CONNECTIONS - 1)
        time.sleep(1)
        found[kind] = {"idle": idle, "connections": server.process.resident_bytes(),
                       "open": _still_open(opened)}
        for connection in opened:
            connection.close()
        session.fleet.stop(server.process)
        session.say(f"memory {kind} {found[kind]}")
    return {"servers": found}


def start(session: Session) -> dict:
    """Seconds from starting the program to its first whole answer, by server and start."""
    found: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for _ in range(2 * session.pace.rounds + 1):
        for kind in _KINDS:
            before = time.monotonic()
            server = session.workshop.start(session.fleet, kind, cores=servers.ALL_CORES,
                                            backend=1, wait=False)
            first_answer(server, before + 10)
            found[kind].append(time.monotonic() - before)
            session.fleet.stop(server.process)
    session.say("start " + "  ".join(f"{kind} {statistics.median(seconds) * 1e3:.1f} ms"
                                     for kind, seconds in found.items()))
    return {"servers": found}


def _open(port: int, count: int) -> list[socket.socket]:
    """Connections that have sent a request, read its answer, and stay."""
    opened = []
    for first in range(0, count, _OPENING):
        batch = [_connect(port) for _ in range(min(_OPENING, count - first))]
        with selectors.DefaultSelector() as selector:
            for connection in batch:
                selector.register(connection, selectors.EVENT_READ, bytearray())
            while selector.get_map():
                ready = selector.select(10)
                if not ready:
                    raise RuntimeError("an idle connection got no answer within 10 s")
                for key, _ in ready:
                    key.data.extend(key.fileobj.recv(4096))
                    if _whole(key.data):
                        selector.unregister(key.fileobj)
        opened += batch
    return opened


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(_REQUEST)
    connection.setblocking(False)
    return connection


def _whole(answer: bytes) -> bool:
    """Whether head and body (by its Content-Length) are there; anything but 200 is an error."""
    head, end, body = bytes(answer).partition(b"\r\n\r\n")
    if not answer or not head.startswith(b"HTTP/1.1 200"[:len(head)]):
        raise RuntimeError(f"an idle connection was answered {head[:100]!r}")
    if not end:
        return False
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n")
               if line.startswith(b"content-length:")]
    return len(body) >= int(lengths[0])


def _still_open(connections: list[socket.socket]) -> int:
    """How many the server has not closed: nothing to read, not even the end."""
    count = 0
    for connection in connections:
        try:
            connection.recv(1)
        except BlockingIOError:
            count += 1
    return count


def first_answer(server: servers.Server, until: float, path: str = "/open/hello") -> None:
    """Asks until there is a whole answer."""
    request = _REQUEST.replace(b"/open/hello", path.encode())
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", server.ports["hello"]), 5) as connection:
                connection.sendall(request)
                answer = b""
                while not answer or not _whole(answer):
                    answer += connection.recv(4096)
                return
        except ConnectionError:
            time.sleep(0.0005)
    raise RuntimeError(f"{server.process.name} gave no answer:\n{server.process.tail()}")
