"""What recording costs: weir against itself with recording off."""

import json
import os
import random
import re
import shutil
import subprocess
import time
from pathlib import Path

from . import corpus, footprint, host, load, servers
from .recording import CONTENDERS, ECHO, HELLO, OFF, Ground, Recorder, Spent
from .session import Session

KINDS = (HELLO, ECHO)
#: What `ab` sends in a burst, and over how many connections.
BURST, BURST_CONNECTIONS = 20_000, 150
#: Bursts of each contender for each round: one lasts a fifth of a second, and tells little.
_BURSTS = 4
#: Seconds from one burst to the next, whoever is left alone meanwhile: a machine that has rested
#: longer is faster.
_TURN = 3.0
#: Windows of load before the first that counts.
_WARM = 3
#: Queries of each kind whose latency is taken.
_SEARCHES = 200


def cost(session: Session) -> dict:
    """CPU a request of the workers, by round, and of all other threads, over all rounds and until
    everything is indexed and sealed: they work in lumps, when a piece of the index is full."""
    ground = Ground(session)
    kinds: dict[str, dict] = {}
    for kind in KINDS:
        recorders = [ground.start(name) for name in CONTENDERS]
        for recorder in recorders:
            warm(ground, recorder, kind, session.pace.seconds)
        before = {r.name: r.spent() for r in recorders}
        rounds = []
        for number in range(session.pace.rounds):
            order = recorders[number % 3:] + recorders[:number % 3]
            rounds.append({r.name: charge(ground, r, kind, session.pace.seconds) for r in order})
            session.say(f"recording-cost {kind} " + "  ".join(
                f"{name} {found['worker_us']:.2f}" for name, found in sorted(rounds[-1].items())))
        rest = {r.name: others(r.spent().since(before[r.name]), rounds, r.name)
                for r in recorders}
        session.say(f"recording-cost {kind} {rest}")
        kinds[kind] = {"rounds": rounds, "others_us": rest}
        end(ground, recorders)
    ground.close()
    return {"kinds": kinds}


def warm(ground: Ground, recorder: Recorder, kind: str, seconds: int) -> None:
    """Until the files are made that are used again and again from then on."""
    for _ in range(_WARM):
        recorder.drive(kind, seconds, requests=ground.requests)
        recorder.settle()


def charge(ground: Ground, recorder: Recorder, kind: str, seconds: int,
           rate: float | None = None) -> dict:
    before = recorder.spent()
    answers = recorder.drive(kind, seconds, rate=rate, requests=ground.requests)
    lag = recorder.metrics().get("weir_ship_lag_seconds")
    recorder.settle()
    spent = recorder.spent().since(before)
    return {"worker_us": spent.threads.get("worker", 0.0) * 1e6 / answers.requests,
            "rate": answers.requests / answers.seconds, "p99_us": answers.p99,
            "requests": answers.requests, **({} if lag is None else {"ship_lag_s": lag})}


def others(spent: Spent, rounds: list[dict], name: str) -> dict[str, float]:
    """Microseconds a request by thread, and of `all` but the workers."""
    each = 1e6 / sum(found[name]["requests"] for found in rounds)
    threads = {thread: seconds * each for thread, seconds in spent.threads.items()}
    return {**threads, "all": spent.charged() * each - threads.get("worker", 0.0)}


def burst(session: Session) -> dict:
    """Requests/s of a burst as `ab` sends it, and how long the index lags behind it."""
    return {"bursts": bursts(session, CONTENDERS)}


def bursts(session: Session, contenders: dict[str, dict[str, str]]) -> list[dict]:
    """The same for any contenders: names and settings."""
    ground = Ground(session)
    recorders = [ground.start(name, settings=settings) for name, settings in contenders.items()]
    rounds = []
    shuffled = random.Random(1)
    for number in range(_BURSTS * session.pace.rounds + 1):
        order = shuffled.sample(recorders, len(recorders))
        found = {}
        for recorder in order:
            began = time.monotonic()
            rate = _ab(recorder)
            found[recorder.name] = {"rate": rate, "lag_s": recorder.settle()}
            time.sleep(max(0.0, began + _TURN - time.monotonic()))
        if number:
            rounds.append(found)
            session.say("burst " + "  ".join(
                f"{name} {f['rate']:,.0f}/s, lag {f['lag_s']:.1f} s" for name, f in found.items()))
    end(ground, recorders)
    ground.close()
    return rounds


def _ab(recorder: Recorder) -> float:
    url = f"http://127.0.0.1:{recorder.server.ports['hello']}/hello"
    command = ["ab", "-k", "-q", "-n", str(BURST), "-c", str(BURST_CONNECTIONS), url]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, servers.LOAD_CORE))
    failed = re.search(r"Failed requests:\s+(\d+)", done.stdout)
    rate = re.search(r"Requests per second:\s+([\d.]+)", done.stdout)
    if not failed or not rate or int(failed.group(1)) or "Non-2xx" in done.stdout:
        raise RuntimeError(f"{recorder.name}: ab says\n{done.stdout}")
    return float(rate.group(1))


def sustained(session: Session) -> dict:
    """Requests/s over a long window, the time to index the backlog charged; and the disk space
    of what the echo left."""
    ground = Ground(session)
    found: dict[str, dict] = {}
    for kind in KINDS:
        for name in CONTENDERS:
            recorder = ground.start(name)
            figures = hold(session, ground, recorder, kind)
            if kind == ECHO and name != OFF:
                figures["disk"] = _disk(recorder)
            found[f"{kind} {name}"] = figures
            session.say(f"recording-sustained {kind} {name} {figures}")
            end(ground, [recorder])
    reference = _one_file(ground.folder)
    ground.close()
    return {"cells": found, "zstd_bytes": reference}


def hold(session: Session, ground: Ground, recorder: Recorder, kind: str) -> dict:
    """A long window of saturated load, and what the backlog after it makes of its rate."""
    answers = recorder.drive(kind, session.pace.long_seconds, requests=ground.requests)
    lag = recorder.settle()
    return {"rate": answers.requests / (answers.seconds + lag),
            "rate_before_lag": answers.requests / answers.seconds, "lag_s": lag,
            "p99_us": answers.p99, "requests": answers.requests,
            "unrecorded": recorder.metrics().get("weir_unrecorded_total", 0.0)}


def _disk(recorder: Recorder) -> dict:
    """Bytes for each transaction: sealed, by kind of file, and of the index."""
    spent = recorder.spent()
    sealed = spent.indexed * min(1.0, spent.sealed * (16 << 20) / spent.journal_bytes)
    sizes: dict[str, float] = {}
    for path in recorder.data.rglob("*"):
        if path.is_file() and path.suffix in (".meta", ".payload", ".failed"):
            sizes[path.suffix[1:]] = sizes.get(path.suffix[1:], 0) + path.stat().st_size
    index = sum(p.stat().st_size for p in (recorder.data / "index").rglob("*") if p.is_file())
    return {**{kind: size / sealed for kind, size in sizes.items()},
            "index": index / spent.indexed}


def _one_file(folder: Path) -> float:
    """Bytes for a request's and an answer's body together, all in one file under `zstd -3`."""
    text = (folder / "requests").read_bytes()
    text += b"".join((folder / "answers" / str(n)).read_bytes() for n in range(corpus.BODIES))
    packed = subprocess.run(["zstd", "-3", "-c", "-q"], input=text, capture_output=True, check=True)
    return len(packed.stdout) / corpus.BODIES


def latency(session: Session) -> dict:
    """p99 at half of the rate that weir without recording reaches saturated."""
    ground = Ground(session)
    kinds = {}
    for kind in KINDS:
        recorders = [ground.start(name) for name in CONTENDERS]
        for recorder in recorders:
            warm(ground, recorder, kind, session.pace.seconds)
        full = recorders[0].drive(kind, session.pace.seconds, requests=ground.requests)
        rate = round(full.requests / full.seconds / 2, -2)
        rounds = []
        for number in range(session.pace.rounds):
            order = recorders[number % 3:] + recorders[:number % 3]
            found = {}
            for recorder in order:
                answers = recorder.drive(kind, 2 * session.pace.seconds, rate=rate,
                                         requests=ground.requests)
                found[recorder.name] = {"p50_us": answers.p50, "p99_us": answers.p99}
            rounds.append(found)
            session.say(f"recording-p99 {kind} {rate:.0f}/s {found}")
        kinds[kind] = {"rate": rate, "rounds": rounds}
        end(ground, recorders)
    ground.close()
    return {"kinds": kinds}


def memory(session: Session) -> dict:
    """Anonymous memory under full load of the echo, every ten seconds."""
    ground = Ground(session)
    recorder = ground.start("payload")
    samples, left = [], session.pace.endurance_seconds
    while left > 0:
        recorder.drive(ECHO, min(10, left), requests=ground.requests)
        samples.append(host.anonymous_bytes(recorder.pid))
        left -= 10
        session.say(f"recording-memory {samples[-1] / 2**20:.1f} MiB, {recorder.metrics()}")
    end(ground, [recorder])
    ground.close()
    return {"samples": samples}


def search(session: Session) -> dict:
    """Searches over many transactions under half load, and a start with that journal."""
    ground = Ground(session)
    settings = {"tracker.keys.order": "$.order"}
    recorder = ground.start("payload", settings=settings, cores=servers.ALL_CORES)
    count, rate = 0, 0.0
    while count < session.pace.transactions:
        answers = recorder.drive(ECHO, 10, requests=ground.requests)
        count, rate = count + answers.requests, answers.requests / answers.seconds
        session.say(f"recording-search {count:,} transactions")
    recorder.settle()
    latencies = {}
    for kind, queries in _queries(recorder, ground).items():
        latencies[kind] = _ask(recorder, ground, queries, rate / 2)
        session.say(f"recording-search {kind} p99 {_p99(latencies[kind]) * 1e3:.1f} ms")
    journal = sum(p.stat().st_size for p in recorder.data.rglob("*") if p.is_file())
    os.kill(recorder.pid, 9)
    recorder.server.process.popen.wait()
    folder = recorder.data.parent
    began = time.monotonic()
    again = ground.start("payload", folder=folder, settings=settings, cores=servers.ALL_CORES)
    footprint.first_answer(again.server, began + 60, path="/hello")
    first = time.monotonic() - began
    lag = again.settle()
    end(ground, [again])
    ground.close()
    return {"transactions": count, "latencies_s": latencies, "journal_bytes": journal,
            "first_answer_s": first, "caught_up_s": lag}


def _queries(recorder: Recorder, ground: Ground) -> dict[str, list[str]]:
    """So many of each kind; ids are those of transactions spread over the whole time."""
    bodies = ground.requests.read_bytes().split(b"\n")
    orders = [json.loads(bodies[n])["order"] for n in range(0, corpus.BODIES, 40)]
    words = corpus.vocabulary()
    text = ground.requests.read_text()
    rare = [word for word in reversed(words) if len(word) > 6 and word in text]
    return {"id": [f"id:{found}" for found in _some_ids(recorder)],
            "key": [f"key.order:{order}" for order in orders[:_SEARCHES]],
            "rare word": [f"body:{word}" for word in rare[:_SEARCHES]],
            "two words in a row": _phrases(bodies),
            "common word": [f"body:{word}" for word in words[:_SEARCHES]]}


def _phrases(bodies: list[bytes]) -> list[str]:
    """Two words from anywhere in the text of a body, next to each other."""
    chance, found = random.Random(corpus.SEED), []
    while len(found) < _SEARCHES:
        text = json.loads(bodies[chance.randrange(corpus.BODIES)])["text"].rstrip(".").split(" ")
        first = chance.randrange(len(text) - 1)
        found.append(f'body:"{text[first]} {text[first + 1]}"')
    return found


def _some_ids(recorder: Recorder) -> list[str]:
    found, cursor = [], ""
    while len(found) < _SEARCHES:
        page = recorder.get("/v1/transactions", limit=1000, cursor=cursor)
        found += [one["id"] for one in page["transactions"][::100]]
        cursor = page.get("next") or ""
        if not cursor:
            break
    return found[:_SEARCHES]


def _ask(recorder: Recorder, ground: Ground, queries: list[str], rate: float) -> list[float]:
    """Seconds that each query takes while the server serves at `rate`."""
    traffic = subprocess.Popen(
        ["wrk", "-t1", "-c50", "-d60s", "-s", str(load.SCRIPT),
         f"http://127.0.0.1:{recorder.server.ports['hello']}/answers/", "--",
         f"corpus={ground.requests}", "first=900000000000", f"rate={rate}"],
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, servers.LOAD_CORE))
    try:
        time.sleep(1)
        return [_timed(recorder, query) for query in queries]
    finally:
        traffic.kill()
        traffic.wait()
        recorder.settle()


def _timed(recorder: Recorder, query: str) -> float:
    began = time.monotonic()
    recorder.get("/v1/transactions", q=query, limit=50)
    return time.monotonic() - began


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)] if seconds else float("nan")


def end(ground: Ground, recorders: list[Recorder]) -> None:
    """Ends contenders and gives their disk space back."""
    for recorder in recorders:
        ground.stop(recorder)
        shutil.rmtree(recorder.data, ignore_errors=True)
