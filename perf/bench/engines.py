"""What weir holds in memory for an engine of scripts."""

import http.client
import time

from . import host, servers
from .session import Session

#: Workers of the two that are compared; each has an engine if there is a script.
_WORKERS = (1, 9)
#: What answers the one route.
_HANDLERS = {"script": f'script: "{servers.CONFIGS}/hello.js"', "reply": "reply: {json: {result: OK}}"}
#: Connections that come one after the other, so that every worker has some.
_CONNECTIONS = 400


def memory(session: Session) -> dict:
    """Bytes that no file backs of a weir that has served by a script or by a reply, by the number
    of its workers."""
    found = []
    for workers in _WORKERS:
        row = {"workers": workers}
        for kind, handler in _HANDLERS.items():
            settings = {"apis.open.routes": f"[{{get: /hello, {handler}}}]"}
            server = session.workshop.start_pools(session.fleet, settings, servers.ALL_CORES,
                                                  workers)
            for _ in range(_CONNECTIONS):
                _ask(server.ports["pools"])
            time.sleep(1)
            row[kind] = host.anonymous_bytes(server.process.popen.pid)
            session.fleet.stop(server.process)
            session.say(f"memory of {workers} workers with a {kind}: {row[kind] >> 10} KiB")
        found.append(row)
    return {"workers": found}


def _ask(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/hello")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"/hello answers {answer.status}")
