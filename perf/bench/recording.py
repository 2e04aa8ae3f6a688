"""A weir that records, and what it says and spends: the ground of the recording cases.

The contenders are weir with recording off, with `index: keys` and with `index: payload`, all at
once on core 0; load and upstream are on core 1. What recording costs is charged in full: after a
window of load, the contender is left alone until everything is indexed and nothing more is sealed,
and all its CPU time since the window began counts. The last few segments of a lane wait for the
index to be written; that share of the work is charged as if it had been done, from what sealing the
others took.
"""

import json
import re
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from . import corpus, host, servers
from .load import Answers, Traffic, send
from .processes import Fleet
from .servers import Server
from .session import Session

OFF = "off"
#: Settings of each contender, over `recording.yaml`.
CONTENDERS = {
    OFF: {},
    "keys": {"tracker.enabled": "true", "tracker.index": "keys"},
    "payload": {"tracker.enabled": "true", "tracker.index": "payload"},
}
HELLO, ECHO = "hello", "echo"
#: Series of what follows the journal, and of usage that is replicated; there if it does.
_LAGS = ("weir_index_lag_seconds", "weir_monitor_lag_seconds", "weir_ship_lag_bytes")
#: Bytes of a segment of the journal.
_SEGMENT = 16 << 20
#: Seconds after which a contender that is not done indexing is given up.
_PATIENCE = 600


@dataclass(frozen=True)
class Spent:
    """CPU time and progress of a contender at a moment, or between two."""

    seconds: float
    threads: dict[str, float]
    indexed: float
    journal_bytes: float
    sealed: float

    def since(self, before: "Spent") -> "Spent":
        threads = {name: seconds - before.threads.get(name, 0.0)
                   for name, seconds in self.threads.items()}
        return Spent(self.seconds - before.seconds, threads, self.indexed - before.indexed,
                     self.journal_bytes - before.journal_bytes, self.sealed - before.sealed)

    def charged(self) -> float:
        """CPU seconds with what is left to seal charged at the price of what was sealed."""
        done = self.sealed * _SEGMENT
        if not done:
            return self.seconds
        left = max(0.0, self.journal_bytes - done) / done
        return self.seconds + left * self.threads.get("journal-seal", 0.0)


class Recorder:
    """One running contender."""

    def __init__(self, name: str, server: Server, folder: Path, tokens: Path | None = None):
        self.name = name
        self.server = server
        self.data = folder / "data"
        self._tokens = tokens
        self._next_id = 0

    @property
    def pid(self) -> int:
        return self.server.process.popen.pid

    def drive(self, kind: str, seconds: int, *, connections: int = 100,
              rate: float | None = None, requests: Path | None = None) -> Answers:
        """A window of load; any error makes the comparison void and is one here."""
        port = self.server.ports["hello"]
        path = "/hello" if kind == HELLO else "/answers/"
        answers = send(Traffic(
            url=f"http://127.0.0.1:{port}{path}", connections=connections, seconds=seconds,
            cores=servers.LOAD_CORE, rate=rate, first=self._next_id, tokens=self._tokens,
            corpus=requests if kind == ECHO else None))
        self._next_id += answers.requests + connections
        if answers.errors:
            raise RuntimeError(f"{self.name}, {kind}: {answers.errors}")
        return answers

    def spent(self) -> Spent:
        said = self.metrics()
        # The first thread of weir serves the admin API alone: here, the questions of this program.
        seconds = self.server.process.cpu_seconds() - host.main_thread_seconds(self.pid)
        return Spent(seconds, host.thread_seconds(self.pid),
                     said.get("weir_index_indexed_total", 0.0),
                     said.get("weir_journal_bytes_total", 0.0),
                     said.get("weir_journal_sealed_segments_total", 0.0))

    def settle(self) -> float:
        """Waits until all is indexed and nothing is being sealed; seconds until the former."""
        began = time.monotonic()
        until = began + _PATIENCE
        while any(value > 0 for name, value in self.metrics().items() if name.startswith(_LAGS)):
            _pause(until, self.name)
        indexed = time.monotonic() - began
        before = -1.0
        while (now := host.thread_seconds(self.pid).get("journal-seal", 0.0)) - before > 0.001:
            before = now
            time.sleep(1.2)
            _pause(until, self.name)
        return indexed

    def get(self, path: str, **parameters: object) -> dict:
        """A response of its admin API."""
        given = {name: value for name, value in parameters.items() if value}
        url = (f"http://127.0.0.1:{self.server.ports['admin']}{path}?"
               + urllib.parse.urlencode(given))
        token = (self.data / "admin.token").read_text().strip()
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def metrics(self) -> dict[str, float]:
        """The series of its metrics page by name; with labels, the greatest of a name."""
        port = self.server.ports["admin"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for name, value in re.findall(r"^(\w+)(?:\{[^}]*\})? (\S+)$", text, re.MULTILINE):
            found[name] = max(float(value), found.get(name, 0.0))
        return found


class Ground:
    """The upstream and the corpus that the contenders of a case share; and the configuration
    that they start from, with tokens for requests if it checks them."""

    def __init__(self, session: Session, config: str = "recording.yaml",
                 tokens: Path | None = None):
        self._session = session
        self._config = config
        self._tokens = tokens
        self.folder = session.workshop.new_folder("corpus")
        self.requests, _ = corpus.write(self.folder)
        self._answers = session.workshop.start_answers(session.fleet, self.folder,
                                                       servers.LOAD_CORE)

    @property
    def fleet(self) -> Fleet:
        return self._session.fleet

    def start(self, name: str, *, folder: Path | None = None,
              settings: dict[str, str] | None = None,
              cores: set[int] = servers.SERVER_CORE) -> Recorder:
        """Starts a contender; in a folder that another one left, if given."""
        server, folder = self._session.workshop.start_recording(
            self.fleet, {**CONTENDERS.get(name, {}), **(settings or {})}, cores=cores,
            backend=self._answers.ports["hello"], folder=folder, config=self._config)
        return Recorder(name, server, folder, self._tokens)

    def stop(self, *recorders: Recorder) -> None:
        for recorder in recorders:
            self.fleet.stop(recorder.server.process)

    def close(self) -> None:
        self.fleet.stop(self._answers.process)


def _pause(until: float, name: str) -> None:
    if time.monotonic() > until:
        raise RuntimeError(f"{name}: not done after {_PATIENCE} s")
    time.sleep(0.1)
