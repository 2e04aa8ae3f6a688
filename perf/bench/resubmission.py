"""Bulk resubmission: whether a job keeps to its rate, and its memory does not grow with it."""

import json
import shutil
import statistics
import time
import urllib.request
from datetime import datetime

from . import cases, host, load, servers
from .recording import Ground, Recorder
from .session import Session
from .verdict import Verdict

#: Transactions of a job, and requests a second that it is to send.
COUNT, RATE = 100_000, 2_000
#: What the rate may be off, and what late memory may be over early memory: the piece of the index
#: that is not written yet. The bodies of all would be six times as much.
_OFF, _GROWN = 0.05, 16 * cases.MIB


def run(session: Session) -> dict:
    """Records echoes, sends all of them again by one job, and looks at it every second."""
    count = min(COUNT, session.pace.transactions // 5)
    ground = Ground(session)
    recorder = ground.start("payload", cores=servers.ALL_CORES)
    while recorder.metrics().get("weir_index_indexed_total", 0) < count:
        port = recorder.server.ports["hello"]
        load.send(load.Traffic(
            url=f"http://127.0.0.1:{port}/answers/", connections=50, seconds=60,
            cores=servers.LOAD_CORE, corpus=ground.requests, stop=count))
        recorder.settle()
    began = time.monotonic()
    job = _ask(recorder, "/v1/jobs", {"query": "method:POST", "rate": RATE, "again": True})
    job = _until(recorder, job["number"], "previewed", [])
    previewed = time.monotonic() - began
    found = _counts(job).get("pending", 0)
    before = recorder.server.process.cpu_seconds()
    _ask(recorder, f"/v1/jobs/{job['number']}/run", {})
    samples: list[int] = []
    job = _until(recorder, job["number"], "finished", samples)
    seconds = (datetime.fromisoformat(job["ended"])
               - datetime.fromisoformat(job["began"])).total_seconds()
    spent = recorder.server.process.cpu_seconds() - before
    session.say(f"resubmission {found:,} previewed in {previewed:.1f} s, sent in {seconds:.1f} s: "
                f"{_counts(job)}, {max(samples) / 2**20:.1f} MiB")
    ground.stop(recorder)
    shutil.rmtree(recorder.data, ignore_errors=True)
    ground.close()
    return {"found": found, "wanted_rate": RATE, "preview_s": previewed, "sent_s": seconds,
            "counts": _counts(job), "samples": samples, "cpu_us": spent * 1e6 / max(1, found)}


def _until(recorder: Recorder, number: int, state: str, samples: list[int]) -> dict:
    """Looks at a job until it is in this state; its memory goes to `samples`."""
    until = time.monotonic() + 600
    while time.monotonic() < until:
        job = _ask(recorder, f"/v1/jobs/{number}")
        if job["state"] == state:
            return job
        samples.append(host.anonymous_bytes(recorder.pid))
        time.sleep(1 if state == "finished" else 0.1)
    raise RuntimeError(f"job {number} is not {state} after 600 s")


def _counts(job: dict) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in job["transactions"]:
        counts[one["state"]] = counts.get(one["state"], 0) + one["count"]
    return counts


def _ask(recorder: Recorder, path: str, body: dict | None = None) -> dict:
    url = f"http://127.0.0.1:{recorder.server.ports['admin']}{path}"
    token = (recorder.data / "admin.token").read_text().strip()
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def verdicts(result: dict | None) -> list[Verdict]:
    """The rate, and memory over the time of sending."""
    if not result:
        return []
    found, samples = result["found"], result["samples"]
    title = f"bulk resubmission of {found:,}"
    rate = found / result["sent_s"]
    done = result["counts"].get("succeeded", 0)
    ratio = rate / result["wanted_rate"]
    fifth = max(1, len(samples) // 5)
    early = statistics.median(samples[fifth:2 * fifth] or samples)
    late = statistics.median(samples[-fifth:])
    on_time = abs(ratio - 1) <= _OFF and done == found
    return [
        Verdict(f"{title}, rate", f"previewed in {result['preview_s']:.1f} s", f"{rate:,.0f}/s",
                f"set {result['wanted_rate']:,}/s", f"{ratio:.3f}", "± 5 %",
                "met" if on_time else "MISSED",
                f"{done:,} succeeded, {result['cpu_us']:.0f} µs CPU each"),
        Verdict(f"{title}, anonymous memory", f"{len(samples)} s",
                f"{max(samples) / cases.MIB:.1f} MiB at most",
                f"{early / cases.MIB:.1f} MiB early, {late / cases.MIB:.1f} MiB late",
                f"{late / early:.2f}", f"+ {_GROWN // cases.MIB} MiB",
                "met" if late <= early + _GROWN else "MISSED"),
    ]
