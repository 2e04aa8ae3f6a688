"""The Debian package: `WEIR_BIN=path python3 packaging/test/deb.py`.

Two versions of the package are built, and installed, used, upgraded, removed and purged in an overlay of this machine's
root, in a mount and network namespace of their own: once in a chroot without a service manager, once with systemd as
process 1 (systemd-nspawn). What needs root, overlayfs or a tool that is missing is SKIPPED.
"""

import contextlib
import hashlib
import http.client
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import server  # noqa: E402 (the path must be set first)
from commands import PATIENCE, run, skip, wait_for  # noqa: E402

ROOT = server.ROOT
UNITS = ROOT / "packaging/systemd"
VERSIONS = ("0.1.0", "0.1.1")
# Of the process that runs the tests: its temporary folder, and whether it has namespaces of its own.
FOLDER = Path(os.environ.get("WEIR_DEB_FOLDER", "/nonexistent"))
PRIVATE = os.environ.get("WEIR_DEB_PRIVATE") == "1"


def need(test, *tools):
    for tool, package in tools:
        if not shutil.which(tool):
            skip(test, f"{tool} is not installed (Debian: {package})")


def packages(test):
    """The packages of both versions, built by `main`."""
    need(test, *TOOLS)
    architecture = run("dpkg", "--print-architecture").stdout.strip()
    return [FOLDER / f"weir_{version}_{architecture}.deb" for version in VERSIONS]


TOOLS = (("dpkg-deb", "dpkg"), ("dpkg-shlibdeps", "dpkg-dev"), ("cargo", "rustup"), ("xz", "xz-utils"))


class Content(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.package = packages("content of the package")[0]
        cls.root = Path(FOLDER, "content")
        run("dpkg-deb", "--raw-extract", cls.package, cls.root)

    def test_the_binary_is_the_given_one(self):
        self.assertEqual(digest(self.root / "usr/bin/weir"), digest(server.binary()))

    def test_every_command_has_a_manual_page(self):
        text = run(server.binary(), "--help").stdout
        commands = re.findall(r"^  ([a-z]+) ", text.split("Commands:")[1].split("Options:")[0], re.MULTILINE)
        pages = {path.name for path in (self.root / "usr/share/man/man1").iterdir()}
        wanted = {"weir.1.gz"} | {f"weir-{command}.1.gz" for command in commands if command != "help"}
        self.assertGreater(len(wanted), 20)
        self.assertEqual(wanted - pages, set())

    def test_shells_read_the_completions(self):
        share = self.root / "usr/share"
        for shell, path in (
            ("bash", "bash-completion/completions/weir"),
            ("zsh", "zsh/vendor-completions/_weir"),
            ("fish", "fish/vendor_completions.d/weir.fish"),
        ):
            self.assertGreater((share / path).stat().st_size, 1000, shell)
            if shutil.which(shell):
                run(shell, "-n", share / path)
            else:
                print(f"SKIPPED syntax of the completions of {shell}: not installed")

    def test_the_configuration_is_that_of_weir_init(self):
        run(server.binary(), "check", self.root / "etc/weir/weir.yaml")
        with tempfile.TemporaryDirectory() as folder:
            run(server.binary(), "init", folder)
            first = Path(folder, "weir.yaml").read_text(encoding="utf-8")
        ours = (self.root / "etc/weir/weir.yaml").read_text(encoding="utf-8")
        # The same API, and the same examples behind it.
        ours, first = (re.sub(r"#.*weir explain.*", "", text).split("\napis:")[1:] for text in (ours, first))
        self.assertEqual(ours, first)
        self.assertEqual((self.root / "DEBIAN/conffiles").read_text(), "/etc/weir/weir.yaml\n")

    def test_monitoring_is_included(self):
        for folder in ("grafana", "prometheus"):
            ours = {path.name for path in (ROOT / "packaging" / folder).glob("weir-*.*")} - {"weir-tests.yaml"}
            self.assertEqual({path.name for path in (self.root / "usr/share/weir" / folder).iterdir()}, ours)

    def test_nobody_but_root_may_write(self):
        # Owners in the archive, as extracting does not keep them for everybody.
        for line in run("dpkg-deb", "--contents", self.package).stdout.splitlines():
            mode, owner = line.split()[:2]
            self.assertEqual(owner, "0/0", line)
            self.assertEqual((mode[5], mode[8]), ("-", "-"), line)

    def test_licenses_of_libraries_are_included(self):
        text = run("zcat", self.root / "usr/share/doc/weir/third-party.gz").stdout
        for library in ("tokio", "rustls", "aws-lc-sys", "rquickjs-sys"):
            self.assertTrue(re.search(rf"(?m)^{library} \S+: .*\[\d+", text), library)
        self.assertFalse(re.search(r"(?m)^proptest ", text), "only tests use it")

    def test_lintian_is_content(self):
        need("lintian", ("lintian", "lintian"))
        command = ["lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]
        # A development binary is not what is shipped: it may be dynamic, or have its debug lines.
        done = run(*command, "--suppress-tags", "unstripped-binary-or-object", self.package, check=False)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, ""))


class Units(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need("systemd units", ("systemd-analyze", "systemd"))

    def units(self, folder, *drop_ins):
        """The units, with the program that exists here."""
        text = (UNITS / "weir.service").read_text(encoding="utf-8").replace("/usr/bin/weir", server.binary())
        Path(folder, "weir.service").write_text(text, encoding="utf-8")
        shutil.copy(UNITS / "weir.socket", folder)
        for drop_in in drop_ins:
            Path(folder, "weir.service.d").mkdir(exist_ok=True)
            shutil.copy(drop_in, Path(folder, "weir.service.d"))

    def test_systemd_finds_no_error(self):
        for drop_in in (None, *sorted((UNITS / "examples").glob("*.conf"))):
            with tempfile.TemporaryDirectory() as folder:
                self.units(folder, *filter(None, [drop_in]))
                # `man` would look for pages of a package that is not installed.
                done = run(
                    "systemd-analyze", "verify", "--man=no", Path(folder, "weir.service"), Path(folder, "weir.socket")
                )
                lines = [line for line in done.stdout.splitlines() if "weir" in line]
                self.assertEqual(lines, [], drop_in)

    def test_the_exposure_is_at_most_2(self):
        done = run("systemd-analyze", "security", "--offline=true", "--no-pager", UNITS / "weir.service")
        score = float(re.search(r"Overall exposure level for weir.service: ([\d.]+)", done.stdout).group(1))
        self.assertLessEqual(score, 2.0, done.stdout)

    def test_systemd_waits_longer_than_weir_drains(self):
        reference = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")
        section = reference.split("## The graceful shutdown")[1].split("\n## ")[0]
        limits = dict(re.findall(r"^\| `(delay|deadline)` \| [^|]*\| (\d+)s \|", section, re.MULTILINE))
        drain = sum(map(int, limits.values()))
        unit = (UNITS / "weir.service").read_text(encoding="utf-8")
        stop = int(re.search(r"^TimeoutStopSec=(\d+)s$", unit, re.MULTILINE).group(1))
        self.assertEqual(len(limits), 2)
        self.assertGreater(stop, drain)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def get(path="/", port=8080, timeout=PATIENCE):
    """Status and body of a request with a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def serves(port=8080):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return get("/", port)[0] == 200
    return False


def account(root, name):
    """The entry of weir in the password or group database of a root folder."""
    lines = (root / f"etc/{name}").read_text(encoding="utf-8").splitlines()
    return next((line.split(":") for line in lines if line.startswith("weir:")), None)


class Machine:
    """An overlay of this machine's root; changes are in memory, and end with the namespace of the test."""

    def __init__(self, test, name):
        if not PRIVATE:
            skip(test, "mount and network namespaces are not permitted (root is needed)")
        self.root = Path(FOLDER, name, "merged")
        layers = Path(FOLDER, name)
        layers.mkdir()
        run("mount", "-t", "tmpfs", "tmpfs", layers)
        for folder in ("upper", "work", "merged"):
            (layers / folder).mkdir()
        options = f"lowerdir=/,upperdir={layers}/upper,workdir={layers}/work"
        done = run("mount", "-t", "overlay", "overlay", "-o", options, self.root, check=False)
        if done.returncode:
            skip(test, f"overlayfs is not permitted: {done.stdout.strip()}")
        if run("chroot", self.root, "dpkg", "-s", "weir", check=False).returncode == 0:
            skip(test, "weir is installed on this machine")
        if not (self.root / "usr/bin/systemd-sysusers").exists():
            skip(test, "systemd-sysusers is not installed (Debian: systemd)")
        for package in packages(test):
            shutil.copy(package, self.root / "root")
        self.packages = [f"/root/{package.name}" for package in packages(test)]

    def end(self):
        run("umount", "--recursive", "--lazy", self.root.parent)

    def path(self, path):
        return self.root / path.lstrip("/")

    def owner(self, path):
        """Owner, group and mode."""
        found = self.path(path).stat()
        names = {0: "root", int(account(self.root, "passwd")[2]): "weir"}
        groups = {0: "root", int(account(self.root, "group")[2]): "weir"}
        return names.get(found.st_uid), groups.get(found.st_gid), oct(stat.S_IMODE(found.st_mode))

    def configure(self, change):
        path = self.path("/etc/weir/weir.yaml")
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


class Chroot(unittest.TestCase):
    """Without a service manager, as in the build of an image."""

    def setUp(self):
        self.machine = Machine("the package in a chroot", "chroot")
        self.addCleanup(self.machine.end)
        root = self.machine.root
        run("mount", "-t", "proc", "proc", root / "proc")
        run("mount", "--rbind", "/dev", root / "dev")
        run("mount", "-t", "tmpfs", "tmpfs", root / "run")

    def dpkg(self, *arguments):
        return run("chroot", self.machine.root, "dpkg", *arguments).stdout

    @contextlib.contextmanager
    def running(self):
        """weir as its user, started as a script without systemd does."""
        command = "exec setpriv --reuid weir --regid weir --init-groups weir serve /etc/weir/weir.yaml"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(["chroot", self.machine.root, "sh", "-c", command], **quiet)
        try:
            wait_for(serves, "weir serves")
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
            user = account(self.machine.root, "passwd")[2]
            self.assertRegex(status, rf"(?m)^Uid:\t{user}\t{user}\t{user}\t{user}$")
            yield
        finally:
            process.terminate()
            self.assertEqual(process.wait(PATIENCE), 0)

    def test_install_upgrade_remove_purge(self):
        machine = self.machine
        old, new = machine.packages
        self.dpkg("--install", old)
        self.assertEqual(account(machine.root, "passwd")[5:], ["/var/lib/weir", "/usr/sbin/nologin"])
        self.assertEqual(machine.owner("/etc/weir"), ("root", "weir", "0o750"))
        self.assertEqual(machine.owner("/var/lib/weir"), ("weir", "weir", "0o700"))
        self.assertEqual(machine.owner("/var/log/weir"), ("weir", "weir", "0o750"))
        with self.running():
            self.assertEqual(get(), (200, '{"message":"Welcome to weir"}'))
            self.assertEqual(get("/readyz", 9080)[0], 200)
        token = machine.path("/var/lib/weir/admin.token").read_text(encoding="utf-8")
        machine.configure(lambda text: text.replace("Welcome to weir", "Changed"))
        machine.path("/etc/weir").chmod(0o755)

        self.dpkg("--install", new)
        self.assertIn("Version: 0.1.1", self.dpkg("--status", "weir"))
        self.assertEqual(machine.owner("/etc/weir")[2], "0o755", "the administrator's mode stays")
        with self.running():
            self.assertEqual(get(), (200, '{"message":"Changed"}'))
        self.assertEqual(machine.path("/var/lib/weir/admin.token").read_text(encoding="utf-8"), token)

        self.dpkg("--remove", "weir")
        self.assertFalse(machine.path("/usr/bin/weir").exists())
        self.assertIn("Changed", machine.path("/etc/weir/weir.yaml").read_text(encoding="utf-8"))
        self.assertTrue(machine.path("/var/lib/weir/admin.token").exists())

        self.dpkg("--install", new)
        with self.running():
            self.assertEqual(get(), (200, '{"message":"Changed"}'), "of the removed package")
        machine.path("/etc/weir/tls").mkdir()
        self.dpkg("--purge", "weir")
        for path in ("/etc/weir", "/var/lib/weir", "/var/log/weir", "/usr/share/weir", "/usr/share/doc/weir"):
            self.assertFalse(machine.path(path).exists(), path)
        links = list(machine.path("/etc/systemd/system").rglob("weir*"))
        self.assertEqual(links, [], "links of the enabled service")
        self.assertIsNotNone(account(machine.root, "passwd"), "the user stays")


class Load:
    """Requests without a pause, each with a connection of its own; what failed."""

    def __init__(self, clients=3):
        self.failures, self.served, self.ended = [], 0, threading.Event()
        self.threads = [threading.Thread(target=self.send) for _ in range(clients)]

    def send(self):
        while not self.ended.is_set():
            try:
                status, _ = get()
                if status != 200:
                    self.failures.append(status)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
            self.served += 1
            # The machine also has to install a package.
            time.sleep(0.002)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        wait_for(lambda: self.served > 20, "the load")
        return self

    def __exit__(self, *_):
        before = self.served
        wait_for(lambda: self.served > before + 20, "the load")
        self.ended.set()
        for thread in self.threads:
            thread.join()


# As a program with a JIT compiler does, it asks for memory that it may write and execute.
SCRIPT = """#!/usr/bin/python3
import mmap
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    found = "with"
except PermissionError:
    found = "without"
print(f"Content-Type: text/plain\\n\\nfrom a script, {found} code in writable memory")
"""


def control_groups():
    """The control groups that systemd-nspawn creates within that of its process, and leaves behind."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    own = {line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()}
    places = {Path(where + path) for _, where, kind, *_ in mounts if kind.startswith("cgroup") for path in own}
    return {place / name for place in places for name in ("payload", "supervisor") if (place / name).is_dir()}


class Systemd(unittest.TestCase):
    """With systemd as process 1."""

    def setUp(self):
        test = "the package with systemd"
        need(test, ("systemd-nspawn", "systemd-container"), ("nsenter", "util-linux"))
        self.machine = Machine(test, "systemd")
        self.addCleanup(self.machine.end)
        machine = self.machine
        # A machine of its own: other id, and the policy of an image build does not forbid services.
        for path in ("/etc/machine-id", "/usr/sbin/policy-rc.d"):
            machine.path(path).unlink(missing_ok=True)
        machine.path("/etc/machine-id").touch()
        # nspawn has its locks there.
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        self.addCleanup(run, "umount", "--lazy", "/run")
        self.output = open(Path(FOLDER, "nspawn"), "w+", encoding="utf-8")
        self.addCleanup(self.output.close)
        self.control_groups = control_groups()
        # No service of this machine is started, only what each machine has.
        self.container = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe"]
            + ["--machine=weir-deb-test", "--directory", machine.root, "systemd.unit=basic.target"],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )
        self.addCleanup(self.stop_container)
        try:
            self.init = wait_for(self.find_init, "systemd")
            wait_for(lambda: self.state("basic.target") == "active", "basic.target")
        except AssertionError:
            self.output.seek(0)
            if self.container.poll() is None:
                raise
            skip(test, f"systemd-nspawn cannot boot here: {self.output.read().strip()}")

    def stop_container(self):
        self.container.terminate()
        try:
            self.container.wait(30)
        except subprocess.TimeoutExpired:
            self.container.kill()
            self.container.wait()
        for group in control_groups() - self.control_groups:
            for path, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)

    def find_init(self):
        if self.container.poll() is not None:
            raise AssertionError("systemd-nspawn has ended")
        children = run("ps", "-o", "pid=", "--ppid", self.container.pid, check=False).stdout.split()
        for child in children:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip() == "systemd":
                    return int(child)
        return None

    def inside(self, *command, check=True):
        enter = ["nsenter", "--target", self.init, "--mount", "--uts", "--ipc", "--pid", "--root", "--wd"]
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        environment = {"PATH": path, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        return run(*enter, *command, check=check, env=environment)

    def state(self, unit="weir.service"):
        return self.inside("systemctl", "is-active", unit, check=False).stdout.strip()

    def show(self, name):
        return self.inside("systemctl", "show", "--value", "--property", name, "weir.service").stdout.strip()

    def log(self, since=""):
        """What weir and systemd have logged about the service, after the last line with a text."""
        text = self.inside("journalctl", "--no-pager", "--unit", "weir", check=False).stdout
        return text.rpartition(since)[2] if since else text

    def served(self, wanted, path="/", port=8080):
        def same():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return wanted in get(path, port)[1]
            return False

        wait_for(same, f"{wanted} served at {path}")

    def install(self, package):
        return self.inside("dpkg", "--install", package).stdout

    def test_the_life_of_a_service(self):
        try:
            self.life()
        except Exception:
            print(self.log()[-10000:])
            raise

    def life(self):
        machine = self.machine
        old, new = machine.packages

        # Installed: enabled and started, as user weir, with nothing but the capability for ports below 1024.
        self.install(old)
        self.assertEqual(self.state(), "active")
        self.assertEqual(self.inside("systemctl", "is-enabled", "weir.service").stdout.strip(), "enabled")
        self.assertEqual(get(), (200, '{"message":"Welcome to weir"}'))
        status = self.inside("cat", f"/proc/{self.show('MainPID')}/status").stdout
        user = account(machine.root, "passwd")[2]
        self.assertRegex(status, rf"(?m)^Uid:\t{user}\t{user}\t{user}\t{user}$")
        for line in ("CapEff:\t0000000000000400", "CapBnd:\t0000000000000400", "NoNewPrivs:\t1", "Seccomp:\t2"):
            self.assertIn(f"\n{line}\n", status)
        self.assertEqual(machine.owner("/var/lib/weir"), ("weir", "weir", "0o700"))

        # Reloaded: an invalid configuration is rejected with the reason, a valid one is in force.
        valid = machine.path("/etc/weir/weir.yaml").read_text(encoding="utf-8")
        machine.configure(lambda text: text + "unknown: 1\n")
        self.assertNotEqual(self.inside("systemctl", "reload", "weir", check=False).returncode, 0)
        self.assertIn("unknown-key", self.log())
        self.assertEqual(get()[0], 200)
        with server.peer() as peer:
            # An upstream with slow responses, and programs: a CGI script and a Python agent, in the sandbox.
            scripts = machine.path("/srv/weir")
            scripts.mkdir(parents=True)
            shutil.copy(ROOT / "examples/python/agent.py", scripts)
            (scripts / "hello").write_text(SCRIPT, encoding="utf-8")
            (scripts / "hello").chmod(0o755)
            routes = f"""
  slow:
    base: /slow
    routes: [{{path: "/*", op: any, proxy: slow}}]
  cgi:
    base: /cgi
    routes: [{{path: "/*", op: cgi, pool: cgi}}]
  agent:
    base: /agent
    routes: [{{path: "/*", op: agent, pool: agent}}]
upstreams:
  slow: {{targets: ["{peer}"]}}
pools:
  cgi: {{protocol: cgi, command: [/srv/weir/hello], agents: {{max: 2}}}}
  agent: {{protocol: http, command: [python3, agent.py], folder: /srv/weir, agents: {{min: 1, max: 2}}}}
"""
            machine.configure(lambda _: valid.replace("Welcome to weir", "Changed") + routes)
            self.inside("systemctl", "reload", "weir")
            self.served("Changed")
            self.served("from a script, without code in writable memory", "/cgi/x")
            self.served('"agent":', "/agent/x")
            wait_for(lambda: get("/slow/x")[0] == 200, "the upstream")

            # Upgraded without a failed request; one of them lasts longer than the upgrade.
            main = self.show("MainPID")
            token = machine.path("/var/lib/weir/admin.token").read_text(encoding="utf-8")
            slow = self.request_slowly(20000)
            with Load() as load:
                output = self.install(new)
            self.assertEqual(load.failures[:3], [], f"of {load.served}")
            self.assertIn("completes its requests", output)
            self.assertNotEqual(self.show("MainPID"), main)
            self.assertEqual(self.state(), "active")
            self.assertEqual(self.show("NRestarts"), "0")
            self.assertEqual(slow(), 200)
            self.served("Changed")
            self.assertEqual(machine.path("/var/lib/weir/admin.token").read_text(encoding="utf-8"), token)
            wait_for(lambda: "the old process has ended" in self.log(), "the end of the old process")

            # The new version rejects the configuration: the old one serves.
            machine.configure(lambda text: text + "unknown: 1\n")
            main = self.show("MainPID")
            self.assertIn("the old one still runs", self.install(old))
            self.assertEqual((self.show("MainPID"), self.state()), (main, "active"))
            self.assertEqual(get(), (200, '{"message":"Changed"}'))

            # Stopped: a request in flight is completed.
            machine.configure(lambda text: text.replace("unknown: 1\n", ""))
            slow = self.request_slowly(2000)
            self.inside("systemctl", "stop", "weir")
            self.assertEqual(slow(), 200)
            self.assertEqual((self.state(), self.show("Result")), ("inactive", "success"))

        # An upgrade does not start what the administrator has stopped and disabled.
        self.inside("systemctl", "disable", "weir")
        self.install(new)
        self.assertEqual(self.state(), "inactive")
        self.assertEqual(self.inside("systemctl", "is-enabled", "weir", check=False).stdout.strip(), "disabled")
        self.inside("systemctl", "enable", "--now", "weir")
        self.served("Changed")

        # Killed: started again, with its data.
        self.inside("systemctl", "kill", "--signal", "KILL", "weir")
        wait_for(lambda: self.show("NRestarts") == "1" and self.state() == "active", "the restart")
        self.served("Changed")

        # A port below 1024, by an upgrade of the process.
        machine.configure(lambda text: text.replace("0.0.0.0:8080", "0.0.0.0:80"))
        self.inside("weir", "upgrade", "--data", "/var/lib/weir")
        self.served("Changed", port=80)
        machine.configure(lambda text: text.replace("0.0.0.0:80", "0.0.0.0:8080"))
        self.inside("systemctl", "restart", "weir")
        self.served("Changed")

        # Stopped while both processes serve, the old one with a request in flight: it is completed.
        with server.peer() as peer:
            machine.configure(lambda text: re.sub(r"http://127.0.0.1:\d+\"", f'{peer}"', text))
            self.inside("systemctl", "reload", "weir")
            wait_for(lambda: get("/slow/x")[0] == 200, "the new upstream")
            slow = self.request_slowly(20000)
            self.inside("weir", "upgrade", "--data", "/var/lib/weir")
            self.inside("systemctl", "restart", "weir")
            self.assertEqual(slow(), 200)
        self.served("Changed")
        self.assertNotIn("Killing process", self.log(since="weir.service: Scheduled restart job"))

        # The drop-in for agents that compile.
        drop_ins = machine.path("/etc/systemd/system/weir.service.d")
        drop_ins.mkdir(parents=True)
        shutil.copy(machine.path("/usr/share/weir/systemd/jit.conf"), drop_ins)
        self.inside("systemctl", "daemon-reload")
        self.inside("systemctl", "restart", "weir")
        self.served("from a script, with code in writable memory", "/cgi/x")

        # With the socket of systemd a restart refuses no connection.
        self.inside("systemctl", "stop", "weir")
        self.inside("systemctl", "start", "weir.socket")
        self.assertEqual(get()[0], 200, "started by the first connection")
        with Load() as load:
            self.inside("systemctl", "restart", "weir")
        self.assertEqual(load.failures[:3], [], f"of {load.served}")

        # Removed: stopped. Purged: gone.
        self.inside("dpkg", "--remove", "weir")
        self.assertFalse(serves())
        self.assertIn("not-found", self.inside("systemctl", "show", "-p", "LoadState", "weir.service").stdout)
        self.assertTrue(machine.path("/var/lib/weir/admin.token").exists())
        self.inside("dpkg", "--purge", "weir")
        for path in ("/etc/weir", "/var/lib/weir", "/var/log/weir"):
            self.assertFalse(machine.path(path).exists(), path)

    def request_slowly(self, milliseconds):
        """Starts a request that takes this long, in flight now; a function that returns its status."""
        results = []

        def send():
            try:
                results.append(get(f"/slow/x?ms={milliseconds}")[0])
            except (OSError, http.client.HTTPException) as error:
                results.append(repr(error))

        thread = threading.Thread(target=send)
        thread.start()
        active = re.compile(r"^http_server_active_requests\S* [1-9]", re.MULTILINE)
        wait_for(lambda: active.search(get("/metrics", 9080)[1]) or results, "a request in flight")
        return lambda: thread.join() or results[0]


def main():
    """Builds the packages, and runs the tests where what they mount ends with them."""
    if FOLDER.is_dir():
        # The network namespace is new.
        if PRIVATE:
            run("ip", "link", "set", "lo", "up")
        unittest.main()
    with tempfile.TemporaryDirectory(prefix="weir-deb-") as folder:
        if all(shutil.which(tool) for tool, _ in TOOLS):
            for version in VERSIONS:
                environment = {**os.environ, "DEB_VERSION": version, "DEB_COMPRESSION": "gz"}
                run(ROOT / "packaging/deb/build", server.binary(), folder, env=environment)
        private = ["unshare", "--mount", "--net", "--propagation", "private"]
        tools = shutil.which("unshare") and shutil.which("ip")
        permitted = tools and run(*private, "true", check=False).returncode == 0
        environment = {**os.environ, "WEIR_DEB_FOLDER": folder, "WEIR_DEB_PRIVATE": "1" if permitted else "0"}
        command = [*(private if permitted else ()), sys.executable, *sys.argv]
        sys.exit(subprocess.run(command, env=environment).returncode)


if __name__ == "__main__":
    main()
