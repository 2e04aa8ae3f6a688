"""The container image: `WEIR_BIN=path python3 packaging/test/image.py`.

It is built by buildah from the binary, inspected, and run by podman: read-only, without capabilities and network.
Whatever podman can do on this machine, it also runs as its user in a chroot of the unpacked, read-only files. All
storage is in a temporary folder. A build for tests is accepted, too: its image is larger.
"""

import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tarball"))
sys.dont_write_bytecode = True

import server  # noqa: E402 (the path must be set first)
from commands import PATIENCE, run, skip, wait_for  # noqa: E402
from binary import Binary, Unfit  # noqa: E402

ROOT = server.ROOT
IMAGE = ROOT / "packaging/image"
TIME = 1_700_000_000
USER = 65532
ENVIRONMENT = {"POSTGRES_PASSWORD": "sesame", "FLEET_KEY": "open" * 8, "HOSTNAME": "weir-1"}
MEGABYTES = 60
# Requests of a client in the network of the container: paths to statuses and bodies.
CLIENT = """
import http.client, json, ssl, sys
context = ssl._create_unverified_context()
found = {}
for scheme, port, path, host in json.load(sys.stdin):
    if scheme == "https":
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"host": host})
    response = connection.getresponse()
    found[f"{host}:{port}{path}"] = [response.status, response.read().decode("utf-8", "replace")]
print(json.dumps(found))
"""
REQUESTS = [
    ("http", 8080, "/", "shop.example"),
    ("https", 9080, "/readyz", "localhost"),
    ("https", 9080, "/metrics", "weir"),
    ("https", 9080, "/metrics", "other.example"),
    ("https", 9080, "/v1/transactions", "localhost"),
    ("https", 9080, "/console/", "localhost"),
]


class Built:
    """The image, built once for all tests."""

    folder = None

    @classmethod
    def get(cls):
        if cls.folder:
            return cls
        if not shutil.which("buildah"):
            skip("the image", "buildah is not installed (Debian: buildah)")
        with tempfile.TemporaryDirectory() as folder, nothing_left():
            storage = ["--root", f"{folder}/storage", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]
            done = run("buildah", *storage, "from", "scratch", check=False)
            run("buildah", *storage, "rm", "--all", check=False)
            if done.returncode:
                skip("the image", f"buildah cannot build here: {done.stdout.strip()[-300:]}")
        temporary = tempfile.TemporaryDirectory()
        unittest.addModuleCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        # The container's user has to reach its files.
        folder.chmod(0o755)
        cls.binary = folder / "weir"
        shutil.copyfile(server.binary(), cls.binary)
        cls.binary.chmod(0o755)
        if not Binary(cls.binary).is_stripped:
            run("strip", "--strip-all", cls.binary)
        try:
            Binary(cls.binary).check()
            cls.is_shipped = True
        except Unfit:
            cls.is_shipped = False
        cls.version = run(cls.binary, "--version").stdout.split()[1]
        cls.out = folder / "out"
        cls.build(cls.out)
        (cls.docker,) = cls.out.glob("*.docker.tar")
        (cls.oci,) = cls.out.glob("*.oci.tar")
        for name, archive in (("docker", cls.docker), ("oci", cls.oci)):
            with tarfile.open(archive) as tar:
                tar.extractall(folder / name, filter="data")
        cls.folder = folder
        (cls.manifest,) = json.loads((folder / "docker/manifest.json").read_bytes())
        cls.config = json.loads((folder / "docker" / cls.manifest["Config"]).read_bytes())
        (layer,) = cls.manifest["Layers"]
        cls.layer = folder / "docker" / layer
        return cls

    @classmethod
    def build(cls, out, *options, check=True):
        # A binary of a test build is larger than the shipped one.
        test = () if cls.is_shipped else ("--allow-dynamic", "--max-size", "1000")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(TIME)}
        with nothing_left():
            return run(IMAGE / "build", *test, *options, cls.binary, out, env=environment, check=check)


@contextlib.contextmanager
def nothing_left():
    """Removes the cache of where layers were, which the libraries of buildah and podman keep for root."""
    cache = Path("/var/lib/containers")
    was_there = cache.exists()
    try:
        yield
    finally:
        if not was_there and os.geteuid() == 0:
            shutil.rmtree(cache, ignore_errors=True)


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.built = Built.get()

    def test_configuration(self):
        config = self.built.config["config"]
        self.assertEqual(config["User"], f"{USER}:{USER}")
        self.assertEqual(config["Entrypoint"], ["/usr/bin/weir"])
        self.assertEqual(config["Cmd"], ["serve", "/etc/weir"])
        self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "/usr/bin/weir", "health", "--quiet"])
        self.assertEqual(list(config["Volumes"]), ["/var/lib/weir"])
        self.assertEqual(config["WorkingDir"], "/etc/weir")
        self.assertEqual(config["StopSignal"], "SIGTERM")
        self.assertEqual(set(config["ExposedPorts"]), {"8080/tcp", "9080/tcp"})
        self.assertIn("SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", config["Env"])
        labels = config["Labels"]
        self.assertEqual(labels["org.opencontainers.image.version"], self.built.version)
        self.assertEqual(labels["org.opencontainers.image.licenses"], "Apache-2.0")
        self.assertEqual(labels["org.opencontainers.image.created"], "2023-11-14T22:13:20Z")
        self.assertEqual(self.built.manifest["RepoTags"], [f"weir:{self.built.version}"])

    def test_the_oci_archive_is_valid_and_the_same_image(self):
        folder = self.built.folder / "oci"
        self.assertEqual(json.loads((folder / "oci-layout").read_bytes()), {"imageLayoutVersion": "1.0.0"})
        for path in (folder / "blobs/sha256").iterdir():
            self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), path.name)

        def blob(descriptor):
            path = folder / "blobs" / descriptor["digest"].replace(":", "/")
            self.assertEqual(path.stat().st_size, descriptor["size"])
            return path

        (listed,) = json.loads((folder / "index.json").read_bytes())["manifests"]
        self.assertEqual(listed["annotations"]["org.opencontainers.image.ref.name"], self.built.version)
        manifest = json.loads(blob(listed).read_bytes())
        config = json.loads(blob(manifest["config"]).read_bytes())
        self.assertEqual(config["architecture"], {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine])
        self.assertEqual(config["rootfs"], self.built.config["rootfs"])
        for key in (
            "User",
            "Entrypoint",
            "Cmd",
            "Volumes",
            "WorkingDir",
            "StopSignal",
            "Env",
            "Labels",
            "ExposedPorts",
        ):
            self.assertEqual(config["config"][key], self.built.config["config"][key], key)
        (layer,) = manifest["layers"]
        self.assertEqual(layer["mediaType"], "application/vnd.oci.image.layer.v1.tar+gzip")
        self.assertEqual(blob(layer).read_bytes(), self.built.layer.read_bytes())

    def test_two_builds_are_equal(self):
        with tempfile.TemporaryDirectory() as folder:
            self.built.build(Path(folder, "out"))
            for path in sorted(Path(folder, "out").iterdir()):
                self.assertTrue(path.read_bytes() == (self.built.out / path.name).read_bytes(), path.name)

    def test_checksums(self):
        done = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.built.out)
        self.assertEqual(done.stdout.count(": OK"), 2)

    def test_files(self):
        with tarfile.open(self.built.layer) as tar:
            entries = {entry.name.rstrip("/"): entry for entry in tar.getmembers()}
        files = {name for name, entry in entries.items() if not entry.isdir()}
        loaded = re.compile(
            r"(usr/)?lib(64)?/(\S+-linux-gnu/)?(lib(c|m|dl|pthread|gcc_s|resolv|nss_\w+)\.so\.\d|ld-linux\S+)"
        )
        libraries = {name for name in files if loaded.fullmatch(name)}
        packages = {name for name in files if name.startswith("var/lib/dpkg/status.d/")}
        documents = {f"usr/share/doc/{Path(name).name}/copyright" for name in packages}
        documents |= {"usr/share/doc/weir/LICENSE", "usr/share/doc/weir/third-party.gz", "etc/os-release"}
        etc = {
            "etc/passwd",
            "etc/group",
            "etc/nsswitch.conf",
            "etc/weir/weir.yaml",
            "etc/ssl/certs/ca-certificates.crt",
        }
        self.assertEqual(files, {"usr/bin/weir", *etc, *documents, *libraries, *packages})
        if shutil.which("dpkg-query"):
            # Scanners find the packages whose files these are.
            self.assertLessEqual({"ca-certificates", "libc6"}, {Path(name).name for name in packages})
        for name, entry in entries.items():
            self.assertTrue(entry.isdir() or entry.isfile(), name)
            owner = USER if name == "var/lib/weir" else 0
            self.assertEqual((entry.uid, entry.gid), (owner, owner), name)
            self.assertFalse(entry.mode & (stat.S_ISUID | stat.S_ISGID), name)
            if name == "tmp":
                self.assertEqual(entry.mode & 0o7777, 0o1777)
            else:
                self.assertFalse(entry.mode & 0o022, name)
        self.assertEqual(entries["var/lib/weir"].mode & 0o777, 0o700)

    def test_certificates_are_those_of_the_distribution(self):
        """Not those that an administrator has added to the machine of the build."""
        with tarfile.open(self.built.layer) as tar:
            text = tar.extractfile("etc/ssl/certs/ca-certificates.crt").read().decode("ascii")
        pattern = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
        found = {ssl.PEM_cert_to_DER_cert(one) for one in pattern.findall(text)}
        self.assertGreater(len(found), 100)
        folder = Path("/usr/share/ca-certificates/mozilla")
        shipped = {ssl.PEM_cert_to_DER_cert(path.read_text("ascii").strip()) for path in folder.glob("*.crt")}
        self.assertEqual(found, shipped)
        ssl.create_default_context(cadata=text)

    def test_the_size_is_limited(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.built.build(Path(folder, "out"), "--max-size", "1", check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stdout, r"the image has \d+\.\d MB, more than 1 MB")
            self.assertFalse(Path(folder, "out").exists())
        if self.built.is_shipped:
            size = sum(entry.size for entry in tarfile.open(self.built.layer).getmembers())
            self.assertLess(size, MEGABYTES * 1e6)

    def test_a_build_for_tests_is_refused(self):
        if self.built.is_shipped:
            skip("an image of a build for tests", "the binary is one that may be shipped")
        with tempfile.TemporaryDirectory() as folder:
            done = run(IMAGE / "build", self.built.binary, Path(folder, "out"), check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stdout, r"image: .*make release")
            self.assertFalse(Path(folder, "out").exists())

    def test_the_context_is_for_other_builders(self):
        with tempfile.TemporaryDirectory() as folder:
            self.built.build(Path(folder, "out"), "--context-only")
            copied = re.findall(r"^COPY (?:--\S+ )*(\S+)/ ", (IMAGE / "Containerfile").read_text("utf-8"), re.MULTILINE)
            self.assertEqual({path.name for path in Path(folder, "out").iterdir()}, set(copied))


class Configuration(unittest.TestCase):
    def test_the_configuration_has_no_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copyfile(IMAGE / "weir.yaml", Path(folder, "weir.yaml"))
            done = run(server.binary(), "check", folder)
            self.assertNotIn("warning", done.stdout)

    def test_the_drain_ends_before_docker_kills(self):
        deadline = re.search(r"^drain:\n  deadline: (\d+)s$", (IMAGE / "weir.yaml").read_text("utf-8"), re.MULTILINE)
        self.assertLess(int(deadline.group(1)), 10)

    def test_compose_runs_the_image_with_least_privilege(self):
        try:
            import yaml
        except ImportError:
            skip("compose.yaml", "the Python module yaml is not installed (Debian: python3-yaml)")
        service = yaml.safe_load((IMAGE / "compose.yaml").read_text("utf-8"))["services"]["weir"]
        version = run(server.binary(), "--version").stdout.split()[1]
        self.assertEqual(service["image"], "weir:${WEIR_VERSION:-" + version + "}")
        self.assertTrue(service["read_only"])
        self.assertEqual((service["cap_drop"], service["security_opt"]), (["ALL"], ["no-new-privileges:true"]))
        self.assertIn("data:/var/lib/weir", service["volumes"])
        # Whatever may reach the admin listener is on this machine.
        self.assertEqual([port for port in service["ports"] if port.endswith(":9080")], ["127.0.0.1:9080:9080"])
        text = (IMAGE / "Containerfile").read_text("utf-8")
        ((options, command),) = re.findall(r"^HEALTHCHECK (.*) CMD (.*)$", text, re.MULTILINE)
        check = service["healthcheck"]
        self.assertEqual(check["test"], ["CMD", *json.loads(command)])
        for key, value in re.findall(r"--(\S+)=(\S+)", options):
            self.assertEqual(str(check[key.replace("-", "_")]), value, key)
        # The client's own limit ends first, and its message is in the log of the health check.
        self.assertGreater(int(check["timeout"].removesuffix("s")), 5)

    def test_the_nodes_of_the_fleet_are_as_restricted(self):
        try:
            import yaml
        except ImportError:
            skip("fleet/compose.yaml", "the Python module yaml is not installed (Debian: python3-yaml)")
        single = yaml.safe_load((IMAGE / "compose.yaml").read_text("utf-8"))["services"]["weir"]
        composed = yaml.safe_load((IMAGE / "fleet/compose.yaml").read_text("utf-8"))
        nodes = {name: one for name, one in composed["services"].items() if name.startswith("weir-")}
        self.assertEqual(len(nodes), 3)
        different = {"volumes", "ports", "hostname", "environment"}
        for name, node in nodes.items():
            same = [{k: v for k, v in one.items() if k not in different} for one in (node, single)]
            self.assertEqual(*same, name)
            self.assertEqual(node["hostname"], name)
            self.assertTrue(all(port.startswith("127.0.0.1:") for port in node["ports"]), name)
        # An identity belongs to one node.
        volumes = [volume.split(":") for node in nodes.values() for volume in node["volumes"]]
        data = [source for source, target, *_ in volumes if target == "/var/lib/weir"]
        self.assertEqual(sorted(data), ["data-1", "data-2", "data-3"])
        (subnet,) = composed["networks"]["default"]["ipam"]["config"]
        configuration = yaml.safe_load((IMAGE / "fleet/weir/weir.yaml").read_text("utf-8"))
        self.assertEqual(configuration["listen"][0]["proxy_protocol"], [subnet["subnet"]])

    def test_the_configuration_of_the_fleet_is_valid(self):
        environment = {**os.environ, **ENVIRONMENT}
        command = [server.binary(), "check", IMAGE / "fleet/weir/weir.yaml"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        if not shutil.which("haproxy"):
            skip("fleet/haproxy.cfg", "HAProxy is not installed (Debian: haproxy)")
        run("haproxy", "-c", "-f", IMAGE / "fleet/haproxy.cfg")

    def test_docker_accepts_compose(self):
        if not shutil.which("docker") or run("docker", "compose", "version", check=False).returncode:
            skip("docker compose config", "Docker Compose is not installed")
        run("docker", "compose", "--file", IMAGE / "compose.yaml", "config", "--quiet")
        environment = {**os.environ, **ENVIRONMENT}
        fleet = ["docker", "compose", "--file", IMAGE / "fleet/compose.yaml", "config", "--quiet"]
        subprocess.run(fleet, env=environment, check=True)


class Podman:
    """podman with its storage in a folder."""

    def __init__(self, folder, runtime):
        self.folder, self.runtime = folder, runtime

    def __call__(self, *arguments, check=True):
        options = ["--root", self.folder / "storage", "--runroot", self.folder / "run", "--storage-driver", "vfs"]
        options += ["--tmpdir", self.folder / "tmp", "--cgroup-manager", "cgroupfs", "--events-backend", "file"]
        options += ["--runtime", self.runtime]
        return run("podman", *options, *arguments, check=check)

    def start(self, name, image, *options, check=True):
        """Starts a container as restricted as the documentation says; without network, so that no port is taken."""
        return self(
            *("run", "--detach", "--name", name, *self.restrictions(), *options),
            *("--volume", "weir-data:/var/lib/weir", image),
            check=check,
        )

    @staticmethod
    def restrictions():
        # podman would raise the limits above what a machine may permit.
        files, processes = (
            min(4096, hard) if hard > 0 else 4096
            for _, hard in map(resource.getrlimit, (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
        )
        return (
            *("--network", "none", "--read-only", "--read-only-tmpfs=false", "--cap-drop", "all"),
            *("--tmpfs", "/tmp:size=16m,mode=1777,noexec,nosuid,nodev", "--security-opt", "no-new-privileges"),
            *("--ulimit", f"nofile={files}:{files}", "--ulimit", f"nproc={processes}:{processes}"),
            # Regular health checks need systemd; the test runs them itself.
            *("--health-interval", "disable"),
        )


class Containers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("podman"):
            skip("containers", "podman is not installed (Debian: podman)")
        cls.built = Built.get()
        cls.enterClassContext(nothing_left())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.image = f"localhost/weir:{cls.built.version}"
        reasons = []
        for runtime in filter(shutil.which, ("crun", "runc")):
            cls.podman = Podman(cls.folder, runtime)
            cls.podman("load", "--input", cls.built.docker)
            # crun refuses a machine with both versions of cgroups; containers may be forbidden altogether.
            done = cls.podman.start("probe", cls.image, check=False)
            cls.podman("rm", "--force", "--volumes", "probe", check=False)
            cls.podman("volume", "rm", "--force", "weir-data", check=False)
            if done.returncode == 0:
                return
            reasons.append(f"{runtime}: {done.stdout.strip().splitlines()[-1]}")
        skip("containers", "; ".join(reasons) or "neither crun nor runc is installed")

    @classmethod
    def tearDownClass(cls):
        # Layers are mounted or have other owners.
        cls.podman("rm", "--all", "--force", check=False)
        cls.podman("volume", "rm", "--all", "--force", check=False)
        cls.podman("rmi", "--all", "--force", check=False)

    def tearDown(self):
        self.podman("rm", "--all", "--force", check=False)
        self.podman("volume", "rm", "--all", "--force", check=False)

    def weir(self, *arguments, check=True):
        """A command in the container."""
        return self.podman("exec", "weir", "weir", *arguments, check=check)

    def start(self, *options):
        self.podman.start("weir", self.image, *options)
        wait_for(lambda: self.podman("healthcheck", "run", "weir", check=False).returncode == 0, "a healthy container")

    def state(self):
        return json.loads(self.podman("inspect", "weir").stdout)[0]["State"]

    def get(self, requests):
        """Responses to a client in the network namespace of the container."""
        if os.geteuid() != 0:
            skip("requests to a container", "its network is reached by root only")
        command = ["nsenter", "--net", "--target", self.state()["Pid"], sys.executable, "-c", CLIENT]
        return json.loads(run(*command, input=json.dumps(requests)).stdout)

    def test_it_serves_and_stops(self):
        self.start()
        found = self.get(REQUESTS)
        self.assertEqual(found["shop.example:8080/"], [200, '{"message":"Welcome to weir"}'])
        self.assertEqual(found["localhost:9080/readyz"][0], 200)
        self.assertEqual(found["weir:9080/metrics"][0], 200)
        self.assertEqual(found["other.example:9080/metrics"][0], 421)
        self.assertEqual(found["localhost:9080/v1/transactions"][0], 401)
        self.assertEqual(found["localhost:9080/console/"][0], 200)
        # Commands find listener, certificate and token by themselves.
        wait_for(
            lambda: '"path":"/"' in self.weir("search", "--json").stdout.replace(" ", "") or None, "the transaction"
        )
        self.assertRegex(self.weir("token", "new", "console", "--role", "payload-viewer").stdout, r"wadm_")
        self.podman("stop", "--time", PATIENCE, "weir")
        state = self.state()
        self.assertEqual((state["ExitCode"], state["OOMKilled"]), (0, False))
        log = self.podman("logs", "weir").stdout
        self.assertIn('"path":"/"', log.replace(" ", ""))
        self.assertNotRegex(log, r"wadm_")

    def test_only_the_volume_can_be_written(self):
        self.start()
        for folder in ("/etc/weir/new", "/usr/new", "/var/lib/new"):
            done = self.weir("init", folder, check=False)
            self.assertNotEqual(done.returncode, 0, folder)
            self.assertRegex(done.stdout, r"[Rr]ead-only file system|[Pp]ermission denied")
        self.weir("init", "/var/lib/weir/new")
        self.weir("init", "/tmp/new")
        status = Path(f"/proc/{self.state()['Pid']}/status").read_text("utf-8")
        self.assertRegex(status, r"CapEff:\s+0+\n")
        self.assertRegex(status, r"NoNewPrivs:\s+1\n")

    def test_records_survive_an_upgrade_of_the_image(self):
        self.start()
        self.get(REQUESTS[:1])
        wait_for(lambda: self.weir("search", "--json").stdout.strip(), "the transaction")
        before = self.weir("search", "--json").stdout
        self.podman("stop", "--time", PATIENCE, "weir")
        self.podman("rm", "weir")
        self.start()
        self.assertEqual(self.weir("search", "--json").stdout, before)

    def test_names_are_resolved(self):
        """By the C library in the image, which needs its modules for that."""
        with tempfile.TemporaryDirectory() as folder:
            text = (IMAGE / "weir.yaml").read_text("utf-8")
            text += "  named:\n    base: /named\n    routes: [{path: /, proxy: {upstream: named, path: strip-base}}]\n"
            text += "upstreams:\n  named: {targets: ['http://backend.example:8080']}\n"
            Path(folder, "weir.yaml").write_text(text, encoding="utf-8")
            Path(folder).chmod(0o755)
            Path(folder, "weir.yaml").chmod(0o644)
            self.start("--volume", f"{folder}:/etc/weir:ro", "--add-host", "backend.example:127.0.0.1")
            found = self.get([("http", 8080, "/named", "shop.example")])
            self.assertEqual(found["shop.example:8080/named"], [200, '{"message":"Welcome to weir"}'])

    def test_an_own_configuration(self):
        with tempfile.TemporaryDirectory() as folder:
            text = (IMAGE / "weir.yaml").read_text("utf-8")
            Path(folder, "weir.yaml").write_text(text.replace("Welcome to weir", "first"), encoding="utf-8")
            Path(folder).chmod(0o755)
            Path(folder, "weir.yaml").chmod(0o644)
            mount = ["--volume", f"{folder}:/etc/weir:ro"]
            # Checked before it is used, by a container that ends.
            check = ["run", "--rm", *self.podman.restrictions(), *mount, self.image, "check", "/etc/weir"]
            self.assertIn("valid", self.podman(*check).stdout)
            self.start(*mount)
            self.assertIn("first", self.get(REQUESTS[:1])["shop.example:8080/"][1])
            Path(folder, "weir.yaml").write_text(text.replace("Welcome to weir", "second"), encoding="utf-8")
            self.weir("reload")
            self.assertIn("second", self.get(REQUESTS[:1])["shop.example:8080/"][1])


class Unpacked(unittest.TestCase):
    """The files of the image, as its user, in a read-only chroot without network: what every root can do."""

    def test_it_serves_and_stops(self):
        if os.geteuid() != 0:
            skip("the unpacked image", "chroot needs root")
        if not shutil.which("unshare") or run("unshare", "--mount", "--net", "true", check=False).returncode:
            skip("the unpacked image", "no namespaces")
        built = Built.get()
        config = built.config["config"]
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            root, data = Path(folder, "root"), Path(folder, "data")
            for path in (root, data):
                path.mkdir()
            Path(folder).chmod(0o755)
            with tarfile.open(built.layer) as tar:
                tar.extractall(root, filter=lambda entry, path: tarfile.tar_filter(entry, path))
            # Every container engine mounts it.
            (root / "proc").mkdir()
            os.chown(data, USER, USER)
            data.chmod(0o700)
            script = """
              ip link set lo up 2>/dev/null || ifconfig lo up
              mount --bind "$1/root" "$1/root"
              mount -o remount,bind,ro "$1/root"
              mount --bind "$1/data" "$1/root/var/lib/weir"
              mount -t tmpfs -o size=16m,mode=1777 tmpfs "$1/root/tmp"
              mount -t proc proc "$1/root/proc"
              root=$1/root; shift
              exec chroot --userspec=65532:65532 --groups= "$root" "$@"
            """
            environment = dict(one.split("=", 1) for one in config["Env"])
            command = [*config["Entrypoint"], "serve", "--json", "/etc/weir"]
            process = stack.enter_context(
                subprocess.Popen(
                    ["unshare", "--mount", "--net", "/bin/sh", "-euc", script, "sh", folder, *command],
                    stdout=subprocess.PIPE,
                    stderr=stack.enter_context(open(Path(folder, "stderr"), "w", encoding="utf-8")),
                    text=True,
                    env={**environment, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"},
                )
            )
            stack.callback(process.kill)
            self.assertEqual(json.loads(process.stdout.readline())["event"], "ready")

            def inside(*command, check=True, **options):
                enter = ["nsenter", "--mount", "--net", "--target", process.pid]
                return run(*enter, *command, check=check, **options)

            requests = inside(sys.executable, "-c", CLIENT, input=json.dumps(REQUESTS))
            self.assertEqual(json.loads(requests.stdout)["shop.example:8080/"][0], 200)
            chroot = ["chroot", "--userspec=65532:65532", "--groups=", root]
            # The health check of the image, in its working folder.
            here = ["--config", config["WorkingDir"]]
            health = config["Healthcheck"]["Test"][1:]
            inside(*chroot, *health, *here)
            self.assertNotEqual(inside(*chroot, "/usr/bin/weir", "init", "/usr/new", check=False).returncode, 0)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(PATIENCE), 0)
            self.assertTrue((data / "data/admin.token").exists())


if __name__ == "__main__":
    unittest.main()
