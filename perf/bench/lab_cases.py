"""What a request costs the Lab, beside other load generators on the same nginx.

A round runs every generator once, one after the other, on core 1, against one nginx on core 0; the
next round starts with another generator, and ratios are taken within a round.
"""

from dataclasses import asdict, dataclass, replace

from . import generators, host, servers
from .cases import LAB_CLOSED, LAB_HTTP2, LAB_OPEN, LAB_ROWS, LAB_TLS
from .generators import Generator, Order
from .session import Session

#: More of the machine's time than this taken by others makes a run void.
_STEAL_LIMIT = 0.05
#: Share of a core that programs outside the run may take.
_FOREIGN_LIMIT = 0.10
#: Users of the memory case.
USERS = 10_000


@dataclass(frozen=True)
class Kind:
    """One way of sending: against whom, where to."""

    against: tuple[str, ...]
    role: str = "hello"
    connections: tuple[int, ...] = (50,)
    rate: int | None = None
    http2: bool = False
    #: The Lab writes a row for each request besides.
    rows: bool = False


_KINDS = {
    LAB_CLOSED: Kind(("wrk", "ab", "oha", "hey"), connections=(50, 150)),
    LAB_ROWS: Kind(("wrk",), rows=True),
    LAB_OPEN: Kind(("wrk2",), rate=20_000),
    LAB_TLS: Kind(("wrk",), role="hello_tls", connections=(50, 150)),
    LAB_HTTP2: Kind(("h2load",), role="hello_h2", http2=True),
}


def run(session: Session, name: str) -> dict:
    """The rounds of every number of connections."""
    kind = _KINDS[name]
    contenders = [generators.weir(session.workshop.weir), *generators.others(kind.against)]
    server = session.workshop.start(session.fleet, "nginx", cores=servers.SERVER_CORE, backend=1,
                                    connections=2 * USERS)
    scheme = "http" if kind.role == "hello" else "https"
    url = f"{scheme}://127.0.0.1:{server.ports[kind.role]}/"
    cells = []
    rows = session.workshop.new_folder("rows") / "rows.jtl" if kind.rows else None
    for connections in kind.connections:
        order = Order(url, connections, session.pace.seconds, kind.rate, kind.http2, rows)
        cells.append({"connections": connections, "rate": kind.rate,
                      "missing": [n for n in kind.against if n not in _names(contenders)],
                      "rounds": _rounds(session, name, contenders, order, server)})
    session.fleet.stop(server.process)
    return {"cells": cells}


def users(session: Session) -> dict:
    """Largest resident memory of a generator with so many users that each have a connection."""
    server = session.workshop.start(session.fleet, "nginx", cores=servers.SERVER_CORE, backend=1,
                                    connections=2 * USERS)
    order = Order(f"http://127.0.0.1:{server.ports['hello']}/", USERS, 5)
    spent = generators.weir(session.workshop.weir).run(order, servers.LOAD_CORE)
    # Twice as long is no more: memory does not grow with the number of requests.
    longer = generators.weir(session.workshop.weir).run(
        Order(order.url, order.connections, 2 * order.seconds), servers.LOAD_CORE)
    session.fleet.stop(server.process)
    session.say(f"lab-users {spent.memory / 2**20:.1f} MiB, {longer.memory / 2**20:.1f} MiB")
    return {"users": USERS, "once": asdict(spent), "longer": asdict(longer)}


def _names(contenders: list[Generator]) -> list[str]:
    return [generator.name for generator in contenders]


def _rounds(session: Session, name: str, contenders: list[Generator], order: Order,
            server: servers.Server) -> list[dict]:
    for generator in contenders:
        generator.run(replace(order, seconds=1), servers.LOAD_CORE)
    rounds: list[dict] = []
    tries = session.pace.rounds + session.pace.repeats
    for number in range(tries):
        turn = number % len(contenders)
        found = {generator.name: _measure(generator, order, server)
                 for generator in contenders[turn:] + contenders[:turn]}
        told = "  ".join(f"{n} {one['cpu_us']:.2f} µs" + (f" ({one['invalid']})" if one["invalid"]
                         else "") for n, one in sorted(found.items()))
        session.say(f"{name}/{order.connections} {told}")
        rounds.append(found)
        if sum(_good(each) for each in rounds) >= session.pace.rounds:
            break
    return [each for each in rounds if _good(each)][:session.pace.rounds] or [
        each for each in rounds if not any(one["invalid"] for one in each.values())]


def _measure(generator: Generator, order: Order, server: servers.Server) -> dict:
    cores, before = host.Cores.read(), server.process.cpu_seconds()
    spent = generator.run(order, servers.LOAD_CORE)
    window = host.Cores.read().since(cores)
    served = server.process.cpu_seconds() - before
    ours = served + spent.cpu_us * spent.requests / 1e6
    steal = window.steal / window.seconds
    invalid = f"{spent.errors} errors" if spent.errors else ""
    if steal > _STEAL_LIMIT:
        invalid = f"steal {steal:.0%}"
    return {**asdict(spent), "server_busy": served / window.seconds, "steal": steal,
            "foreign": max(0.0, window.busy - ours) / window.seconds, "invalid": invalid}


def _good(found: dict) -> bool:
    return all(not one["invalid"] and one["foreign"] <= _FOREIGN_LIMIT for one in found.values())
