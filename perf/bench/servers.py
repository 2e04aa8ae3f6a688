"""Starting the contenders and their upstream, and seeing that they do what the case is about."""

import grp
import gzip
import http.client
import json
import os
import pwd
import shutil
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

from . import credentials, payload
from .cases import CACHED_TOKENS, Case, Contender
from .processes import Fleet, Process, free_ports

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
#: Everything, for servers that are not pinned.
ALL_CORES = set(range(os.cpu_count() or 1))
SERVER_CORE = {0}
#: Every contender keeps its own connections to the upstream, up to 1000 each.
_UPSTREAM_CONNECTIONS = 16_000
_USER = pwd.getpwuid(os.getuid()).pw_name
_GROUP = grp.getgrgid(os.getgid()).gr_name
LOAD_CORE = {1} if len(ALL_CORES) > 1 else {0}


@dataclass(frozen=True)
class Server:
    """A running server and where its roles listen."""

    process: Process
    ports: dict[str, int]
    #: With its configuration and its socket, of nginx.
    folder: Path | None = None


class Workshop:
    """The run's folder with keys, tokens and bodies, and the programs to start."""

    def __init__(self, folder: Path, weir: Path):
        self.folder = folder
        self.weir = weir
        credentials.make_certificate(folder)
        self.signer = credentials.Signer(folder)
        self.signer.write_key_set(folder / "jwks.json")
        (folder / "hello.json").write_bytes(payload.HELLO)
        self._write_files()
        self.tokens = self.write_tokens("tokens", CACHED_TOKENS)

    def _write_files(self) -> None:
        """The folders that servers serve: with a compressed sibling, and without."""
        for name in ("static", "packed"):
            (self.folder / name).mkdir()
            (self.folder / name / "grid.json").write_bytes(payload.grid())
        packed = gzip.compress(payload.grid(), compresslevel=9, mtime=0)
        (self.folder / "static" / "grid.json.gz").write_bytes(packed)

    def write_tokens(self, name: str, count: int) -> Path:
        """A file of distinct tokens, one a line."""
        path = self.folder / name
        path.write_text("\n".join(self.signer.tokens(count)) + "\n")
        return path

    def body(self, case: Case) -> Path | None:
        """A file with the payload of a case, if it has one."""
        body = _body(case)
        if body is None:
            return None
        path = self.folder / f"payload-{case.name}.json"
        path.write_bytes(body)
        return path

    def start(self, fleet: Fleet, kind: str, *, workers: int = 1, cores: set[int],
              backend: int, connections: int = 4096, wait: bool = True,
              settings: dict[str, str] | None = None) -> Server:
        """Starts `weir`, `weir epoll`, `weir pools`, `weir thousand`, `nginx`, `haproxy` or `apache`, in
        front of the upstream on port `backend` if there is one."""
        starter = {"weir": self._weir, "weir epoll": self._weir, "nginx": self._nginx, "haproxy": self._haproxy,
                   "weir pools": self._weir_pools, "apache": self._apache,
                   "weir thousand": self._weir_thousand}[kind]
        command, ports, environment = starter(workers, backend, connections)
        backend_of_io = {"io": "epoll"} if kind == "weir epoll" else {}
        for path, value in {**backend_of_io, **(settings or {})}.items():
            command += ["--set", f"{path}={value}"]
        process = fleet.start(kind, command, cores=cores, environment=environment)
        if wait:
            process.wait_for(next(iter(ports.values())))
        return Server(process, ports, Path(command[-1]).parent)

    def start_upstream(self, fleet: Fleet, kind: str, cores: set[int]) -> Server:
        """Starts what answers behind the contenders: `small`, `echo` or `php`."""
        if kind == "php":
            return self._php(fleet, cores)
        if kind == "small":
            server = self.start(fleet, "nginx", cores=cores, backend=1,
                                connections=_UPSTREAM_CONNECTIONS)
            link = self.folder / "small.sock"
            link.unlink(missing_ok=True)
            # Each nginx has a socket in its folder; contenders find that of the upstream here.
            link.symlink_to(server.folder / "small.sock")
            return server
        port, = free_ports(1)
        command = [str(self.weir), "echo", "--listen", f"127.0.0.1:{port}",
                   "--workers", "1", "--json"]
        process = fleet.start("weir-echo", command, cores=cores)
        process.wait_for(port)
        return Server(process, {"hello": port})

    def _php(self, fleet: Fleet, cores: set[int]) -> Server:
        """php-fpm on sockets in the run's folder."""
        folder = self.new_folder("php")
        account = f"user = {_USER}\ngroup = {_GROUP}" if os.geteuid() == 0 else ""
        path = _fill("fpm.conf", folder, {}, 1, 1, 1, ACCOUNT=account, SOCKETS=self.folder)
        command = [str(php_fpm()), "-n", "-F", "-R", "-y", str(path)]
        process = fleet.start("php-fpm", command, cores=cores)
        until = time.monotonic() + 10
        while not all((self.folder / f"{name}.sock").exists() for name in ("weir", "nginx")):
            if time.monotonic() > until or process.popen.poll() is not None:
                raise RuntimeError(f"php-fpm does not start:\n{process.tail()}")
            time.sleep(0.01)
        return Server(process, {"hello": 1})

    def start_pools(self, fleet: Fleet, settings: dict[str, str], cores: set[int],
                    workers: int = 1) -> Server:
        """Starts weir on `pools.yaml` with settings over it."""
        command, ports, environment = self._weir_pools(workers, 1, 1)
        for path, value in settings.items():
            command += ["--set", f"{path}={value}"]
        process = fleet.start("weir", command, cores=cores, environment=environment)
        process.wait_for(ports["pools"])
        return Server(process, ports)

    def start_recording(self, fleet: Fleet, settings: dict[str, str], *, backend: int,
                        cores: set[int], folder: Path | None = None,
                        config: str = "recording.yaml") -> tuple[Server, Path]:
        """Starts weir on a configuration with settings over it; gives its folder, too, which
        may be that of a weir that ran before."""
        folder = folder or self.new_folder("recording")
        command, ports, environment = self._serve(config, folder, 1, backend)
        for path, value in settings.items():
            command += ["--set", f"{path}={value}"]
        process = fleet.start("weir", command, cores=cores, environment=environment)
        process.wait_for(ports["hello"])
        return Server(process, ports), folder

    def start_answers(self, fleet: Fleet, corpus: Path, cores: set[int]) -> Server:
        """Starts the upstream with a body for each path; `corpus` holds the folder of answers."""
        folder = self.new_folder("answers")
        ports = {"hello": free_ports(1)[0]}
        path = _fill("answers.conf", folder, ports, 1, 1, _UPSTREAM_CONNECTIONS, corpus)
        command = ["nginx", "-e", str(folder / "nginx.log"), "-c", str(path)]
        process = fleet.start("answers", command, cores=cores)
        process.wait_for(ports["hello"])
        return Server(process, ports)

    def start_upgrades(self, fleet: Fleet, kind: str, *, backend: int, connections: int,
                       cores: set[int], envoy: str = "envoy") -> Server:
        """Starts `weir` or `nginx` in front of a WebSocket or gRPC server on port `backend`, or
        `envoy`, by that program, in front of a gRPC server."""
        folder = self.new_folder(kind)
        if kind == "weir":
            command, ports, environment = self._serve("upgrades.yaml", folder, 1, backend)
            ports["calls"] = ports["hello"]
        elif kind == "envoy":
            ports = {"calls": free_ports(1)[0]}
            ports["hello"] = ports["calls"]
            path = _fill("envoy.yaml", folder, ports, 1, backend, connections)
            command = [envoy, "--config-path", str(path), "--concurrency", "1",
                       "--disable-hot-restart", "--log-level", "error"]
            environment = {}
        else:
            ports = dict(zip(("hello", "calls"), free_ports(2)))
            path = _fill("upgrades.conf", folder, ports, 1, backend, connections)
            command, environment = ["nginx", "-e", str(folder / "nginx.log"), "-c", str(path)], {}
        process = fleet.start(kind, command, cores=cores, environment=environment)
        process.wait_for(ports["hello"])
        return Server(process, ports)

    def _weir(self, workers: int, backend: int, _connections: int):
        folder = self.new_folder("weir")
        for name in ("tls.crt", "tls.key", "jwks.json"):
            shutil.copy(self.folder / name, folder)
        for name in ("static", "packed"):
            shutil.copytree(self.folder / name, folder / name)
        for beside in ("hello.js", "map.js", "fetch.js", "record.openapi.yaml"):
            shutil.copy(CONFIGS / beside, folder)
        return self._serve("weir.yaml", folder, workers, backend)

    def _weir_thousand(self, workers: int, backend: int, connections: int):
        command, ports, environment = self._weir(workers, backend, connections)
        config = Path(command[2])
        write_thousand(config.parent)
        with config.open("a") as file:
            file.write("include: thousand.yaml\n")
        return command, ports, environment

    def _weir_pools(self, workers: int, backend: int, _connections: int):
        folder = self.new_folder("weir")
        for script in ("hello.php", "slow.php"):
            shutil.copy(CONFIGS / script, folder)
        _write_programs(folder)
        command, ports, environment = self._serve("pools.yaml", folder, workers, backend)
        environment |= {"PERF_SOCKETS": str(self.folder), "PERF_USER": _USER}
        return command, {"pools": ports["hello"], "admin": ports["admin"]}, environment

    def _apache(self, workers: int, backend: int, connections: int):
        folder = self.new_folder("apache")
        (folder / "cgi").mkdir()
        _write_programs(folder / "cgi")
        ports = {"cgi": free_ports(1)[0]}
        account = ""
        if os.geteuid() == 0:
            # It does not run as root; so its user must find the scripts.
            account = "User www-data\nGroup www-data"
            os.chmod(self.folder, 0o711)
        path = _fill("apache.conf", folder, ports, workers, backend, connections,
                     ACCOUNT=account, MODULES="/usr/lib/apache2/modules")
        return ["apache2", "-D", "FOREGROUND", "-f", str(path)], ports, {}

    def _serve(self, config: str, folder: Path, workers: int, backend: int):
        shutil.copy(CONFIGS / config, folder / "weir.yaml")
        plain, tls, admin = free_ports(3)
        environment = {
            "PERF_PLAIN": f"127.0.0.1:{plain}", "PERF_TLS": f"127.0.0.1:{tls}",
            "PERF_ADMIN": f"127.0.0.1:{admin}", "PERF_BACKEND": f"127.0.0.1:{backend}",
            "PERF_DATA": str(folder / "data"), "PERF_SHARED": str(self.folder)}
        command = [str(self.weir), "serve", str(folder / "weir.yaml"),
                   "--workers", str(workers), "--json"]
        ports = {"hello": plain, "proxy": plain, "files": plain, "tls": tls, "admin": admin}
        return command, ports, environment

    def _nginx(self, workers: int, backend: int, connections: int):
        folder = self.new_folder("nginx")
        for name in ("tls.crt", "tls.key"):
            shutil.copy(self.folder / name, folder)
        shutil.copytree(self.folder / "static", folder / "static")
        shutil.copy(CONFIGS / "hello.php", folder)
        roles = ("hello", "hello_tls", "hello_h2", "proxy", "buffered", "unbuffered", "tls", "files",
                 "files_cached", "fastcgi")
        ports = dict(zip(roles, free_ports(len(roles))))
        path = _fill("nginx.conf", folder, ports, workers, backend, connections,
                     SOCKETS=self.folder)
        return ["nginx", "-e", str(folder / "nginx.log"), "-c", str(path)], ports, {}

    def _haproxy(self, workers: int, backend: int, connections: int):
        folder = self.new_folder("haproxy")
        for name in ("tls.pem", "hello.json"):
            shutil.copy(self.folder / name, folder)
        ports = dict(zip(("hello", "proxy", "tls"), free_ports(3)))
        path = _fill("haproxy.cfg", folder, ports, workers, backend, connections)
        return ["haproxy", "-db", "-f", str(path)], ports, {}

    def new_folder(self, name: str) -> Path:
        """A folder of its own within that of the run."""
        folder = self.folder / f"{name}-{len(os.listdir(self.folder))}"
        folder.mkdir()
        return folder


#: Operations of the document of the case with many routes.
_ROUTES = 1000


def write_thousand(folder: Path) -> None:
    """An API of a thousand operations, each with the body of `record.openapi.yaml`, and with every
    policy there is for requests; the document, and the routes bound to it."""
    one = (CONFIGS / "record.openapi.yaml").read_text()
    head, operation = one.split("paths:\n")
    operation, _, components = operation.partition("components:\n")
    path, operation = operation.split("\n", 1)
    paths = "".join(
        f"  /record-{number}:\n" + operation.replace("takeRecord", f"takeRecord{number}")
        for number in range(_ROUTES))
    components = f"components:\n{components}" if components else ""
    (folder / "thousand.openapi.yaml").write_text(f"{head}paths:\n{paths}{components}")
    routes = "".join(f"      - {{op: takeRecord{number}, proxy: {{upstream: backend, path: /echo}}}}\n"
                     for number in range(_ROUTES))
    (folder / "thousand.yaml").write_text(f"""apis:
  thousand:
    base: /thousand
    openapi: thousand.openapi.yaml
    auth: issuer
    clients: {{allow: [127.0.0.0/8], deny: [127.9.0.0/16]}}
    limit: {{rate: 10000000/s, key: consumer}}
    cors: {{origins: ["https://app.perf.invalid"]}}
    compress: true
    request: {{headers: {{set: {{x-from: perf}}, remove: [x-none]}}}}
    response: {{headers: {{set: {{x-by: weir}}}}}}
    routes:
{routes}""")


def _fill(template: str, folder: Path, ports: dict[str, int], workers: int, backend: int,
          connections: int, corpus: Path | None = None, **more: object) -> Path:
    names = {**more, "FOLDER": folder, "CORPUS": corpus, "WORKERS": workers, "BACKEND": backend,
             "CONNECTIONS": connections, "HELLO_BODY": payload.HELLO.decode(),
             "USER": _USER,
             **{role.upper(): port for role, port in ports.items()}}
    text = (CONFIGS / template).read_text()
    for name, value in names.items():
        text = text.replace(f"@{name}@", str(value))
    path = folder / template
    path.write_text(text)
    return path


def _write_programs(folder: Path) -> None:
    """What is started for each request: a shell script, and the script of PHP with a first line
    that makes it one."""
    shutil.copy(CONFIGS / "hello.cgi", folder)
    program = folder / "php.cgi"
    first = "#!/usr/bin/env -S php-cgi -n -d cgi.force_redirect=0\n"
    program.write_text(first + (CONFIGS / "hello.php").read_text())
    program.chmod(0o755)


def php_fpm() -> Path | None:
    """Debian's php-fpm, whose name has the version."""
    return next(iter(sorted(Path("/usr/sbin").glob("php-fpm*"))), None)


def verify(case: Case, contender: Contender, server: Server, workshop: Workshop) -> str:
    """Sends one request and compares the answer; returns the TLS version and cipher, if any.

    A contender that answers something else, or lets a request without a token through where it
    should not, would make the comparison void, so that is an error.
    """
    body = _body(case)
    expected = body if case.upstream == "echo" else payload.HELLO
    if contender.role.startswith("files"):
        expected = payload.grid()
    token = workshop.tokens.read_text().split()[0] if contender.token else None
    status, headers, answer, tls = _ask(contender, server, body, token)
    if contender.path.endswith(("/mediate", "/script-map", "/script-fetch")):
        answer, expected = _members(answer), _members(expected)
    if status != 200 or answer != expected:
        raise RuntimeError(f"{case.name}: {contender.name} answers {status}, {answer[:200]!r}\n"
                           f"{server.process.tail()}")
    if contender.token:
        if "ratelimit" not in headers:
            raise RuntimeError(f"{case.name}: {contender.name} does not limit: {headers}")
        status, *_ = _ask(contender, server, body, None)
        if status != 401:
            raise RuntimeError(f"{case.name}: {contender.name} answers {status} without a token")
    return tls


def _body(case: Case) -> bytes | None:
    if case.body is None:
        return None
    return payload.record(case.body) if case.record else payload.sized(case.body)


def url(contender: Contender, server: Server) -> str:
    """Where a contender is reached."""
    scheme = "https" if contender.role == "tls" else "http"
    return f"{scheme}://127.0.0.1:{server.ports[contender.role]}{contender.path}"


def _ask(contender: Contender, server: Server, body: bytes | None, token: str | None):
    port = server.ports[contender.role]
    tls = ""
    if contender.role == "tls":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
        connection.connect()
        tls = " ".join(connection.sock.cipher()[1::-1])
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers["Accept-Encoding"] = contender.accept or "identity"
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request("GET" if body is None else "POST", contender.path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if contender.accept:
        if answer.getheader("content-encoding") != contender.accept:
            raise RuntimeError(f"{contender.name} does not compress: {answer.getheaders()}")
        text = gzip.decompress(text)
    connection.close()
    return answer.status, {name.lower() for name, _ in answer.getheaders()}, text, tls


def _members(text: bytes) -> bytes:
    """A JSON object with its members in one order and without spaces."""
    try:
        return json.dumps(json.loads(text), sort_keys=True).encode()
    except ValueError:
        return text
