"""What the machine says: CPU time of processes and cores, memory, and what machine it is."""

import ctypes
import errno
import os
import platform
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_TICK = 1 / os.sysconf("SC_CLK_TCK")


def target_folder() -> Path:
    """Where builds go, and what is fetched once."""
    return Path(os.environ.get("CARGO_TARGET_DIR", _ROOT / "target"))


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    for parent in found:
        for thread in _listing(f"/proc/{parent}/task"):
            found += map(int, _read(f"/proc/{parent}/task/{thread}/children").split())
    return found


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of these processes, all threads, exited ones too.

    The same time as fields 14 and 15 of `/proc/<pid>/stat`, read from the process's CPU clock
    (clock_getcpuclockid(3): the complement of the pid, shifted by three, and 2 for "scheduler"),
    because `stat` counts in ticks of 10 ms, which is 1 % of a short window.
    """
    return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in pids) / 1e9


def thread_seconds(pid: int) -> dict[str, float]:
    """CPU seconds of a process's threads by name, numbers at its end dropped; of threads that
    run now, to the nanosecond (first field of `/proc/<pid>/task/<tid>/schedstat`)."""
    found: dict[str, float] = {}
    for thread in _listing(f"/proc/{pid}/task"):
        folder = f"/proc/{pid}/task/{thread}"
        name = _read(f"{folder}/comm").strip().rstrip("0123456789").rstrip("-")
        fields = _read(f"{folder}/schedstat").split()
        if name and fields:
            found[name] = found.get(name, 0.0) + int(fields[0]) / 1e9
    return found


def main_thread_seconds(pid: int) -> float:
    """CPU seconds of the first thread of a process."""
    fields = _read(f"/proc/{pid}/task/{pid}/schedstat").split()
    return int(fields[0]) / 1e9 if fields else 0.0


def anonymous_bytes(pid: int) -> int:
    """Memory of a process that no file backs."""
    found = re.search(r"RssAnon:\s+(\d+) kB", _read(f"/proc/{pid}/status"))
    return int(found.group(1)) * 1024 if found else 0


def resident_bytes(pids: list[int]) -> int:
    """Resident memory, summed; pages that processes share count once for each."""
    pages = sum(int(_read(f"/proc/{pid}/statm").split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cores:
    """Seconds since boot, by core: doing nothing, and taken away by the hypervisor."""

    at: float
    idle: tuple[float, ...]
    steal: tuple[float, ...]

    @staticmethod
    def read() -> "Cores":
        idle, steal = [], []
        for line in _read("/proc/stat").splitlines():
            if re.match(r"cpu\d", line):
                fields = [int(field) * _TICK for field in line.split()[1:]]
                idle.append(fields[3] + fields[4])
                steal.append(fields[7])
        return Cores(time.monotonic(), tuple(idle), tuple(steal))

    def since(self, before: "Cores") -> "Window":
        seconds = self.at - before.at
        idle = sum(now - then for now, then in zip(self.idle, before.idle))
        steal = sum(now - then for now, then in zip(self.steal, before.steal))
        return Window(seconds, len(self.idle) * seconds - idle - steal, steal)


@dataclass(frozen=True)
class Window:
    """What all cores together did in `seconds`, in CPU seconds."""

    seconds: float
    busy: float
    steal: float


def environment(weir: Path) -> dict[str, str]:
    """Machine, kernel, versions, date and commit, for the reader of the results."""
    model = re.search(r"model name\s*:\s*(.*)", _read("/proc/cpuinfo"))
    return {
        "cpu": model.group(1) if model else platform.processor(),
        "cores": str(os.cpu_count()),
        "kernel": f"{platform.release()} ({_io_uring()})",
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": _commit(),
        "versions": ", ".join([
            _version("weir", str(weir), "--version"), _version("nginx", "nginx", "-v"),
            _version("HAProxy", "haproxy", "-v"), _version("wrk", "wrk", "-v"),
            _version("OpenSSL", "openssl", "version")]),
    }


def _io_uring() -> str:
    """Whether `weir`, whose `io` is `auto` in all runs, is on io_uring here; otherwise it is on epoll, as
    `weir epoll` is."""
    # `io_uring_setup` has this number everywhere; without arguments it fails with EFAULT where it is allowed.
    ctypes.CDLL(None, use_errno=True).syscall(425, 0, None)
    forbidden = ctypes.get_errno() in (errno.ENOSYS, errno.EPERM)
    return "io_uring not allowed: weir on epoll" if forbidden else "weir on io_uring"


def _version(name: str, *command: str) -> str:
    """`nginx 1.22.1`, whatever words the program puts around it."""
    number = re.search(r"\d+\.\d+[\w.+~-]*", _first_line(*command))
    return f"{name} {number.group()}" if number else f"{name} of unknown version"


def _commit() -> str:
    here = Path(__file__).parent
    text = _first_line("git", "-C", str(here), "rev-parse", "--short=12", "HEAD")
    # Results of cases that were measured before do not matter.
    changed = _first_line("git", "-C", str(here), "status", "--porcelain", "--untracked-files=no", "--",
                          ".", "../..", ":(exclude,top)perf/results", ":(exclude,top)docs")
    return text + (" with changes" if changed else "")


def _first_line(*command: str) -> str:
    """First line a program prints, on either stream; many print their version to the second."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return ""
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _listing(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, ProcessLookupError):
        return []
