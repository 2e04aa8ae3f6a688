"""What weir holds in memory for an agent."""

import http.client
import threading
import time

from . import host, servers
from .session import Session

#: Agents of the two that are compared: the difference is theirs alone.
_COUNTS = (8, 72)
#: Requests that each agent has had.
_TURNS = 3


def memory(session: Session) -> dict:
    """Bytes that no file backs of a weir whose agents have all served, by their number."""
    found = []
    for count in _COUNTS:
        agents = {name: str(count) for name in ("min", "initial", "max", "starting")}
        settings = {f"pools.fastcgi.agents.{name}": value for name, value in agents.items()}
        server = session.workshop.start_pools(session.fleet, settings, servers.ALL_CORES)
        for _ in range(_TURNS):
            _all_at_once(server.ports["pools"], count)
        time.sleep(1)
        used = host.anonymous_bytes(server.process.popen.pid)
        found.append({"agents": count, "bytes": used})
        session.fleet.stop(server.process)
        session.say(f"memory with {count} agents: {used >> 10} KiB")
    return {"agents": found}


def _all_at_once(port: int, count: int) -> None:
    """So many slow requests at once, over the same number of client connections in either case;
    each agent must have had one."""
    agents: list[bytes] = []

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/slow")
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status == 200:
            agents.append(text)

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(set(agents)) != count:
        raise RuntimeError(f"{count} requests went to {len(set(agents))} agents")
