"""The engines of a fleet: PostgreSQL from Debian's package, OpenSearch from Maven Central."""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from .processes import Fleet, Process, free_ports

PASSWORD = "sesame-of-perf"
_OPENSEARCH = "2.17.1"
#: Programs that refuse to run as root run as this user, that of the package.
_ACCOUNT = "postgres"
_UNPACK = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:unpack"


class Postgres:
    """A PostgreSQL with durable writes and a cache of 128 MiB."""

    def __init__(self, fleet: Fleet, folder: Path, cores: set[int]):
        self._programs = _postgres()
        self._folder = folder
        self.port, = free_ports(1)
        if os.geteuid() == 0:
            # The user must reach the folder within that of the run.
            folder.parent.chmod(0o711)
            shutil.chown(folder, _ACCOUNT, _ACCOUNT)
        password = folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        data = folder / "data"
        self._run("initdb", "--username=weir", "--auth=scram-sha-256", f"--pwfile={password}",
                  "--encoding=UTF8", "--no-locale", "-D", str(data))
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "",
                    "shared_buffers": "128MB"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.process = fleet.start(
            "postgres", _unprivileged([str(self._programs / "postgres"), "-D", str(data), "-p",
                                       str(self.port), *options]), cores=cores)
        self.process.wait_for(self.port)
        self._wait()

    def database(self, name: str) -> str:
        """Creates a database; its URL, without the password."""
        self._run("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "weir", "-d", "postgres",
                  "-qc", f"CREATE DATABASE {name}")
        return f"postgres://weir@127.0.0.1:{self.port}/{name}"

    def _wait(self) -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            ready = subprocess.run([self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p",
                                    str(self.port)], check=False)
            if ready.returncode == 0:
                return
            time.sleep(0.1)
        raise RuntimeError(f"PostgreSQL does not start:\n{self.process.tail()}")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(_unprivileged([str(self._programs / program), *arguments]),
                              capture_output=True, text=True, timeout=120, check=False,
                              cwd=self._folder, env={**os.environ, "PGPASSWORD": PASSWORD})
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")


class OpenSearch:
    """An OpenSearch of one node with a heap of 1 GiB and no plug-in."""

    def __init__(self, fleet: Fleet, folder: Path, cache: Path, cores: set[int]):
        home = _opensearch(cache)
        self.port, transport = free_ports(2)
        for name in ("config", "temporary"):
            (folder / name).mkdir()
        shutil.copy(home / "config" / "log4j2.properties", folder / "config")
        (folder / "config" / "opensearch.yml").write_text(
            f"cluster.name: perf\nnode.name: perf\ndiscovery.type: single-node\n"
            f"network.host: 127.0.0.1\nhttp.port: {self.port}\ntransport.port: {transport}\n"
            f"path.data: {folder}/data\npath.logs: {folder}/logs\n"
            "cluster.routing.allocation.disk.threshold_enabled: false\n")
        # Its check for root needs a native library, so it is not made.
        command = ["java", "-Xms1g", "-Xmx1g", "-XX:+UseSerialGC", "-Djava.awt.headless=true",
                   "-Djna.nosys=true", "-Djna.nounpack=true", "-Dlog4j2.disable.jmx=true",
                   f"-Djava.io.tmpdir={folder}/temporary", f"-Dopensearch.path.home={home}",
                   f"-Dopensearch.path.conf={folder}/config", "-Dopensearch.distribution.type=zip",
                   "-Dopensearch.bundled_jdk=false", "-cp", f"{home}/lib/*",
                   "org.opensearch.bootstrap.OpenSearch"]
        self.process: Process = fleet.start("opensearch", command, cores=cores)
        self.process.wait_for(self.port, 120)
        self._wait()

    def count(self) -> int:
        """Documents that a search finds now."""
        self._ask("POST", "/_refresh")
        return self._ask("GET", "/weir-*/_count?ignore_unavailable=true")["count"]

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                self._ask("GET", "/_cluster/health")
                return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        raise RuntimeError(f"OpenSearch does not start:\n{self.process.tail()}")

    def _ask(self, method: str, path: str) -> dict:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)


def _postgres() -> Path:
    """The folder of the newest PostgreSQL of Debian's packages."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"),
                   key=lambda path: int(path.parts[-3]))
    if not found:
        raise RuntimeError("missing; install with: apt-get install postgresql")
    return found[-1].parent


def _opensearch(cache: Path) -> Path:
    """The distribution without plug-ins, fetched once; the tests keep theirs in the same place."""
    home = cache / f"opensearch-{_OPENSEARCH}"
    if not home.exists():
        partial = cache / "opensearch-partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        artifact = f"org.opensearch.distribution.integ-test-zip:opensearch:{_OPENSEARCH}:zip"
        subprocess.run(["mvn", "-q", "-B", _UNPACK, f"-Dartifact={artifact}",
                        f"-DoutputDirectory={partial}"], check=True, timeout=600, cwd=partial)
        (partial / f"opensearch-{_OPENSEARCH}").rename(home)
        shutil.rmtree(partial)
    return home


def _unprivileged(command: list[str]) -> list[str]:
    if os.geteuid() != 0:
        return command
    return ["setpriv", f"--reuid={_ACCOUNT}", f"--regid={_ACCOUNT}", "--clear-groups", *command]
