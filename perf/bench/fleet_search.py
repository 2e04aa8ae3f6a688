"""Searches over the nodes of a fleet against the same searches in each node alone."""

import json
import statistics
import time

from . import corpus
from .fleet_engines import PASSWORD, Postgres
from .recording import ECHO, Ground, Recorder
from .recording_cases import end
from .servers import ALL_CORES, LOAD_CORE
from .session import Session

_NODES = ("one", "two", "three")
_KEY = "openssl rand -base64 32 makes a better one"


def run(session: Session) -> dict:
    """Seconds of queries by id, key and field, interleaved: of any node over all, and of each node over
    its own transactions. One client, without other load."""
    workshop = session.workshop
    postgres = Postgres(session.fleet, workshop.new_folder("postgres"), LOAD_CORE)
    secret = workshop.folder / "pg.pass"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    url = postgres.database("search")
    ground = Ground(session, "fleet.yaml", workshop.tokens)
    nodes = [ground.start(name, settings=_settings(name, url, secret), cores=ALL_CORES)
             for name in _NODES]
    count = 0
    for node in nodes:
        count += node.drive(ECHO, session.pace.seconds, requests=ground.requests).requests
        node.settle()
    _wait_for_members(nodes)
    queries = _queries(nodes, ground)
    times: dict[str, dict[str, list[float]]] = {}
    for kind, asked in queries.items():
        found = times.setdefault(kind, {"all": [], **{name: [] for name in _NODES}})
        for number, query in enumerate(asked):
            found["all"].append(_timed(nodes[number % len(nodes)], query, ""))
            for node in nodes:
                found[node.name].append(_timed(node, query, "here"))
        session.say(f"fleet-search {kind} " + "  ".join(
            f"{name} {statistics.median(values) * 1e3:.2f} ms" for name, values in found.items()))
    end(ground, nodes)
    ground.close()
    session.fleet.stop(postgres.process)
    return {"transactions": count, "seconds": times}


def _settings(name: str, url: str, secret: object) -> dict[str, str]:
    # Without a quota: its leases are not what is measured.
    return {"fleet.node": name, "plans.unlimited": "{rate: 10000000/s}", "fleet.key": f'"{_KEY}"',
            "fleet.advertise": '"http://${env:PERF_ADMIN}"', "tracker.keys.order": "$.order",
            "fleet.postgres": f'{{url: "{url}", password: "file:{secret}"}}'}


def _wait_for_members(nodes: list[Recorder]) -> None:
    until = time.monotonic() + 60
    while any(node.metrics().get("weir_fleet_nodes") != len(nodes) for node in nodes):
        if time.monotonic() > until:
            raise RuntimeError("the nodes do not know each other")
        time.sleep(0.2)


def _queries(nodes: list[Recorder], ground: Ground) -> dict[str, list[str]]:
    """Alternately of transactions of each node."""
    pages = [node.get("/v1/transactions", limit=100, node="here")["transactions"] for node in nodes]
    hits = [hit for hits in zip(*pages) for hit in hits]
    bodies = ground.requests.read_bytes().split(b"\n")
    orders = [json.loads(bodies[n])["order"] for n in range(0, corpus.BODIES, 40)][:len(hits)]
    return {"id": [f"id:{hit['id']}" for hit in hits],
            "key": [f"key.order:{order}" for order in orders],
            "field": ["status:200 method:POST"] * 60}


def _timed(node: Recorder, query: str, scope: str) -> float:
    began = time.monotonic()
    page = node.get("/v1/transactions", q=query, limit=50, node=scope)
    took = time.monotonic() - began
    if not scope and not page["transactions"]:
        raise RuntimeError(f"{query} finds nothing")
    return took
