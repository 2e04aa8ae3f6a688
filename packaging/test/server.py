"""weir and its peer, for the tests of the packages: started on free ports, stopped by signals."""

import contextlib
import getpass
import hashlib
import http.client
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEY = "wk_test"


def binary():
    """The binary to test: WEIR_BIN, or that of the debug build."""
    path = Path(os.environ.get("WEIR_BIN") or ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/weir")
    if not path.exists():
        raise FileNotFoundError(f"{path}: build it (cargo build -p weir), or set WEIR_BIN")
    return str(path)


class Peer(http.server.BaseHTTPRequestHandler):
    """Upstream, collector and authorization server: 200 for everything, after `?ms=` milliseconds."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        if "ms=" in self.path:
            time.sleep(int(self.path.rpartition("ms=")[2]) / 1000)
        body = json.dumps({"keys": []} if self.path == "/jwks" else {"active": False}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def peer():
    """The URL of a running peer."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Peer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Weir:
    """A running weir; `listen` and `admin` are its addresses, `process` its process."""

    def __init__(self, configuration, arguments=(), **environment):
        self.folder = tempfile.mkdtemp()
        Path(self.folder, "weir.yaml").write_text(configuration, encoding="utf-8")
        env = {**os.environ, "USER": getpass.getuser(), "AGENT": str(ROOT / "examples/python/agent.py"), **environment}
        env["KEY_HASH"] = f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"
        self.errors = open(Path(self.folder, "stderr"), "w+", encoding="utf-8")
        command = [binary(), "serve", "--json", *arguments, "weir.yaml"]
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise RuntimeError(f"weir did not start:\n{self.errors.read()}")
        ready = json.loads(line)
        self.listen, self.admin = ready["listen"][0], ready["admin"]

    def get(self, path, address=None, **headers):
        """Status and body of a request, by default to the first listener."""
        connection = http.client.HTTPConnection(address or self.listen, timeout=30)
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def scrape():
    """The metrics of a weir with every subsystem in use, in the format of Prometheus."""
    configuration = (ROOT / "packaging/test/scrape/weir.yaml").read_text(encoding="utf-8")
    with peer() as url, Weir(configuration, PEER=url) as weir:
        for path in ("/", "/shop/a", "/gone/a", "/app/x", "/guarded", "/none"):
            weir.get(path)
        for _ in range(2):
            weir.get("/guarded", x_api_key=KEY)
        weir.get("/guarded", authorization="Bearer opaque")
        # Events of failed transactions wait once their record was read.
        for _ in range(100):
            text = weir.get("/metrics", weir.admin)[1]
            if "weir_events_waiting{" in text:
                return text
            time.sleep(0.1)
        return text
