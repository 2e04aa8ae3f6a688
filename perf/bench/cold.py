"""What the first sight of a token costs: RS256 verified, against found in the cache.

Each round starts weir anew, warms it up on a route without authentication, then sends every token
of a set once, and the whole set once more. The second pass shows whether the cache held the set.
"""

import statistics

from . import servers
from .cases import COLD_TOKENS, Contender
from .load import Traffic, send
from .session import Session

_OPEN = Contender("weir open", "weir", path="/open/small")
_GUARDED = Contender("weir guarded", "weir", path="/guarded/small", token=True)


def run(session: Session) -> dict:
    """CPU per request in microseconds: without auth, with cold tokens, with the same again."""
    tokens = session.workshop.write_tokens("cold-tokens", COLD_TOKENS)
    upstream = session.workshop.start_upstream(session.fleet, "small", servers.LOAD_CORE)
    rounds = []
    for _ in range(session.pace.rounds):
        server = session.workshop.start(session.fleet, "weir", cores=servers.SERVER_CORE,
                                        backend=upstream.ports["hello"])
        _pass(server, _OPEN, None)
        passes = {"open_us": _pass(server, _OPEN, None),
                  "cold_us": _pass(server, _GUARDED, tokens),
                  "again_us": _pass(server, _GUARDED, tokens)}
        session.fleet.stop(server.process)
        rounds.append(passes)
        session.say("cold-token " + "  ".join(f"{k} {v:.2f}" for k, v in passes.items()))
    session.fleet.stop(upstream.process)
    return {"passes": rounds,
            **{name: statistics.median(r[name] for r in rounds) for name in rounds[0]}}


def _pass(server: servers.Server, contender: Contender, tokens) -> float:
    """Every token once, or as many requests without one, over few connections."""
    before = server.process.cpu_seconds()
    answers = send(Traffic(url=servers.url(contender, server), connections=10, seconds=20,
                           cores=servers.LOAD_CORE, tokens=tokens, stop=COLD_TOKENS))
    if answers.errors:
        raise RuntimeError(f"cold-token: {contender.name}: {answers.errors}")
    return (server.process.cpu_seconds() - before) / answers.requests * 1e6
