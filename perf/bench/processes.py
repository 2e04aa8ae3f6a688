"""Processes of a run: started, pinned, remembered, ended by their id."""

import os
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path

from . import host


class Fleet:
    """Every process that was started and still runs; leaving the `with` block ends them."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._running: list["Process"] = []

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(list(self._running)):
            self.stop(process)

    def start(self, name: str, command: list[str], *, cores: set[int],
              environment: dict[str, str] | None = None) -> "Process":
        """Starts a program on these cores; what it prints goes to a log in the run's folder."""
        log = self._folder / f"{name}-{len(os.listdir(self._folder))}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                preexec_fn=lambda: os.sched_setaffinity(0, cores), start_new_session=True)
        process = Process(name, popen, log)
        self._running.append(process)
        return process

    def stop(self, process: "Process") -> None:
        """Ends one process: SIGTERM, two seconds, SIGKILL; its children, too."""
        self._running = [other for other in self._running if other is not process]
        pids = process.pids()
        if process.popen.poll() is None:
            process.popen.send_signal(signal.SIGTERM)
            try:
                process.popen.wait(2)
            except subprocess.TimeoutExpired:
                process.popen.kill()
                process.popen.wait()
        for pid in pids[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Process:
    """A running server."""

    def __init__(self, name: str, popen: subprocess.Popen, log: Path):
        self.name = name
        self.popen = popen
        self._log = log

    def pids(self) -> list[int]:
        return host.family(self.popen.pid)

    def cpu_seconds(self) -> float:
        return host.cpu_seconds(self.pids())

    def resident_bytes(self) -> int:
        return host.resident_bytes(self.pids())

    def wait_for(self, port: int, seconds: float = 10) -> None:
        """Until it accepts on `port`; a program that ends or never accepts is an error."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.popen.poll() is not None:
                raise RuntimeError(f"{self.name} ended at start:\n{self.tail()}")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError(f"{self.name} does not accept on port {port}:\n{self.tail()}")

    def tail(self) -> str:
        """The last lines it printed."""
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-20:])


def run_to_end(command: list[str], cores: set[int], *,
               stderr: int = subprocess.DEVNULL) -> tuple[str, resource.struct_rusage]:
    """Runs a program on these cores to its end: its output and usage. It is ended on an interruption."""
    popen = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True,
        start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    try:
        output = popen.stdout.read()
        _, status, usage = os.wait4(popen.pid, 0)
        popen.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if popen.returncode is None:
            popen.kill()
            popen.wait()
        popen.stdout.close()
    return output, usage


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now; held together while they are picked, so that they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports
