"""What a fleet costs a node: weir with PostgreSQL and OpenSearch against the same weir alone."""

from . import host
from .fleet_engines import PASSWORD, OpenSearch, Postgres
from .recording import ECHO, HELLO, Ground, Recorder
from .recording_cases import charge, end, others, warm
from .servers import LOAD_CORE
from .session import Session

ALONE, FLEET, SHIPPING = "alone", "fleet", "shipping"
CONTENDERS = (ALONE, FLEET, SHIPPING)
_KINDS = (HELLO, ECHO)


def cost(session: Session) -> dict:
    """CPU a request of the workers, by round, and of all other threads until everything is
    indexed, counted and shipped. Alone; as a node of a fleet with rate shares and quota slices;
    and that with keys indexed in OpenSearch. The engines share core 1 with the load."""
    workshop = session.workshop
    postgres = Postgres(session.fleet, workshop.new_folder("postgres"), LOAD_CORE)
    search = OpenSearch(session.fleet, workshop.new_folder("opensearch"),
                        host.target_folder() / "tmp", LOAD_CORE)
    secret = workshop.folder / "pg.pass"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    ground = Ground(session, "fleet.yaml", workshop.tokens)
    kinds = {}
    for kind in _KINDS:
        recorders = [ground.start(name, settings=_settings(name, kind, postgres, search, secret))
                     for name in CONTENDERS]
        for recorder in recorders:
            warm(ground, recorder, kind, session.pace.seconds)
        documents = search.count()
        saturated = _compare(session, ground, recorders, kind, None)
        # Half of what the slowest reaches: all do the same work, and OpenSearch keeps up.
        rate = round(min(found[SHIPPING]["rate"] for found in saturated["rounds"]) / 2, -2)
        fixed = {"rate": rate, **_compare(session, ground, recorders, kind, rate)}
        kinds[kind] = {**saturated, "fixed": fixed}
        requests = sum(found[SHIPPING]["requests"]
                       for load in (saturated, fixed) for found in load["rounds"])
        shipped = search.count() - documents
        if shipped < requests:
            raise RuntimeError(f"{shipped} documents of {requests} requests are in OpenSearch")
        end(ground, recorders)
    ground.close()
    for process in (search.process, postgres.process):
        session.fleet.stop(process)
    return {"kinds": kinds}


def _compare(session: Session, ground: Ground, recorders: list[Recorder], kind: str,
             rate: float | None) -> dict:
    """Rounds of one load, interleaved."""
    before = {r.name: r.spent() for r in recorders}
    rounds = []
    for number in range(session.pace.rounds):
        turn = number % len(recorders)
        order = recorders[turn:] + recorders[:turn]
        rounds.append(
            {r.name: charge(ground, r, kind, session.pace.seconds, rate) for r in order})
        session.say(f"fleet-cost {kind} {rate or 'saturated'} " + "  ".join(
            f"{name} {found['worker_us']:.2f}" for name, found in sorted(rounds[-1].items())))
    rest = {r.name: others(r.spent().since(before[r.name]), rounds, r.name) for r in recorders}
    session.say(f"fleet-cost {kind} {rest}")
    return {"rounds": rounds, "others_us": rest}


def _settings(name: str, kind: str, postgres: Postgres, search: OpenSearch,
              secret: object) -> dict[str, str]:
    if name == ALONE:
        return {}
    url = postgres.database(f"{name}_{kind}")
    fleet = {"fleet.name": name,
             "fleet.postgres": f'{{url: "{url}", password: "file:{secret}"}}'}
    if name == FLEET:
        return fleet
    return {**fleet, "upstreams.search.targets": f'["http://127.0.0.1:{search.port}"]',
            "tracker.sinks": "[{to: search, content: keys}]"}
