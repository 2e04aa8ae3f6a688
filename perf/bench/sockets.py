"""WebSockets as the harness needs them: a server that gives back what it gets, and many clients.

`python -m bench.sockets PORT` is the server. Frames go as they are, masked or not: what is measured is
what passes them on.
"""

import selectors
import socket
import sys
import time

_REQUEST = (b"GET /chat HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
_ANSWER = (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
#: Opened at once: fewer than a usual accept queue holds.
_OPENING = 100


def message(length: int) -> bytes:
    """A frame of a client with so many bytes of text, of at most 125."""
    return bytes([0x81, 0x80 | length, 0, 0, 0, 0]) + b"m" * length


def connect(port: int, count: int) -> list[socket.socket]:
    """So many WebSockets that are open."""
    opened: list[socket.socket] = []
    for first in range(0, count, _OPENING):
        batch = []
        for _ in range(min(_OPENING, count - first)):
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(_REQUEST)
            batch.append(connection)
        for connection in batch:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                part = connection.recv(4096)
                if not part:
                    raise RuntimeError(f"no WebSocket: {head!r}")
                head += part
            if not head.startswith(b"HTTP/1.1 101"):
                raise RuntimeError(f"no WebSocket: {head!r}")
            connection.setblocking(False)
        opened += batch
    return opened


def talk(opened: list[socket.socket], frame: bytes, at_once: int, seconds: float) -> int:
    """Sends a message over one after the other, `at_once` of them waiting for theirs to come back;
    gives how many came back."""
    selector = selectors.DefaultSelector()
    for connection in opened:
        selector.register(connection, selectors.EVENT_READ)
    waiting: dict[socket.socket, int] = {}
    back, turn = 0, 0
    until = time.monotonic() + seconds
    while waiting or time.monotonic() < until:
        while len(waiting) < at_once and time.monotonic() < until:
            connection = opened[turn % len(opened)]
            turn += 1
            connection.send(frame)
            waiting[connection] = waiting.get(connection, 0) + len(frame)
        for key, _ in selector.select(1):
            part = key.fileobj.recv(65536)
            if not part:
                raise RuntimeError("a WebSocket was closed")
            left = waiting[key.fileobj] - len(part)
            if left <= 0:
                del waiting[key.fileobj]
                back += 1
            else:
                waiting[key.fileobj] = left
    selector.close()
    return back


def _serve(port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    listener.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ, None)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(connection, selectors.EVENT_READ, bytearray())
                continue
            try:
                part = key.fileobj.recv(65536)
            except ConnectionError:
                part = b""
            if not part:
                selector.unregister(key.fileobj)
                key.fileobj.close()
            elif key.data is None:
                key.fileobj.send(part)
            else:
                key.data.extend(part)
                if key.data.endswith(b"\r\n\r\n"):
                    key.fileobj.send(_ANSWER)
                    selector.modify(key.fileobj, selectors.EVENT_READ, None)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
