"""The archive: `WEIR_BIN=path python3 packaging/test/tarball.py`.

It is built twice from the binary, unpacked, and installed into a temporary folder by the commands of its README. The
binary is also run in a folder that contains its C library and nothing else.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tarball"))
sys.dont_write_bytecode = True

import server  # noqa: E402 (the path must be set first)
from commands import run, skip  # noqa: E402
from binary import Binary  # noqa: E402

ROOT = server.ROOT
TARBALL = ROOT / "packaging/tarball"
TIME = 1_700_000_000


def build(binary, out, *options):
    run(TARBALL / "build", *options, binary, out, env={**os.environ, "SOURCE_DATE_EPOCH": str(TIME)})


def stripped(folder):
    """The binary to test without its debug lines, which would make the archive ten times larger."""
    program = folder / "weir"
    shutil.copyfile(server.binary(), program)
    program.chmod(0o755)
    if not Binary(program).is_stripped:
        run("strip", "--strip-all", program)
    return program


def code(title):
    """The commands of a section of the README."""
    text = (TARBALL / "README.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return "\n".join(re.findall(r"```sh\n(.*?)```", section.group(1), re.DOTALL))


class Archive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.binary = stripped(cls.folder)
        cls.out = cls.folder / "out"
        # What else is in the folder is in SHA256SUMS, too.
        cls.out.mkdir()
        (cls.out / "other file").write_text("other", encoding="utf-8")
        build(cls.binary, cls.out, "--allow-dynamic")
        (cls.archive,) = cls.out.glob("weir-*.tar.gz")
        cls.name = cls.archive.name.removesuffix(".tar.gz")
        with tarfile.open(cls.archive) as tar:
            tar.extractall(cls.folder / "unpacked", filter="data")
        (cls.root,) = (cls.folder / "unpacked").iterdir()
        cls.bill = json.loads((cls.out / f"{cls.name}.cdx.json").read_text(encoding="utf-8"))

    def test_the_names_have_version_and_architecture(self):
        version = run(self.binary, "--version").stdout.split()[1]
        self.assertEqual(self.name, f"weir-{version}-linux-{os.uname().machine}")
        self.assertEqual(self.root.name, self.name)

    def test_checksums(self):
        done = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.out)
        names = {line.rpartition(": ")[0] for line in done.stdout.splitlines()}
        self.assertEqual(names, {path.name for path in self.out.iterdir()} - {"SHA256SUMS"})
        self.assertIn("other file", names)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(self.out, folder, dirs_exist_ok=True)
            with open(Path(folder, self.archive.name), "ab") as file:
                file.write(b"x")
            self.assertNotEqual(run("sha256sum", "--check", "SHA256SUMS", cwd=folder, check=False).returncode, 0)

    def test_two_builds_are_equal(self):
        with tempfile.TemporaryDirectory() as folder:
            # Neither the place and time of the build, nor the builder's modes.
            other = shutil.copy2(self.binary, Path(folder, "other-name"))
            os.utime(other)
            out = Path(folder, "out")
            previous = os.umask(0o077)
            try:
                build(other, out, "--allow-dynamic")
            finally:
                os.umask(previous)
            for path in out.glob("weir-*"):
                self.assertEqual(
                    hashlib.sha256(path.read_bytes()).digest(),
                    hashlib.sha256((self.out / path.name).read_bytes()).digest(),
                    path.name,
                )

    def test_entries_belong_to_root_and_have_one_time(self):
        with tarfile.open(self.archive) as tar:
            entries = tar.getmembers()
        names = [entry.name for entry in entries]
        self.assertEqual(names, sorted(names, key=lambda name: name.split("/")))
        for entry in entries:
            self.assertEqual(
                (entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime), (0, 0, "root", "root", TIME)
            )
            executable = entry.isdir() or entry.name.endswith("/bin/weir")
            self.assertEqual(entry.mode, 0o755 if executable else 0o644, entry.name)
            self.assertTrue(entry.isdir() or entry.isfile(), entry.name)

    def test_the_binary_is_the_given_one(self):
        self.assertEqual((self.root / "bin/weir").read_bytes(), self.binary.read_bytes())

    def test_every_command_has_a_manual_page(self):
        pages = {path.name for path in (self.root / "share/man/man1").iterdir()}
        listed = run(self.binary, "--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0]
        commands = re.findall(r"^  ([a-z]+) +\S", listed, re.MULTILINE)
        self.assertIn("serve", commands)
        self.assertEqual({f"weir-{name}.1" for name in commands if name != "help"} - pages, set())
        self.assertIn("weir.1", pages)

    def test_manual_pages_are_readable(self):
        readers = [command for command in (["man", "-l"], ["mandoc"]) if shutil.which(command[0])]
        if not readers:
            skip("manual pages", "neither man nor mandoc is installed")
        environment = {**os.environ, "MANPAGER": "cat", "PAGER": "cat", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
        for reader in readers:
            for page in ("weir.1", "weir-serve.1"):
                with self.subTest(reader=reader[0], page=page):
                    text = run(*reader, self.root / "share/man/man1" / page, env=environment).stdout
                    # Emphasis by overstriking.
                    text = re.sub(r".\x08", "", text)
                    self.assertRegex(text, r"(?m)^NAME$")
                    self.assertRegex(text, r"(?m)^SYNOPSIS$")
                    self.assertIn(page.removesuffix(".1"), text)

    def test_completions_are_valid(self):
        for shell, name in (
            ("bash", "bash-completion/completions/weir"),
            ("zsh", "zsh/site-functions/_weir"),
            ("fish", "fish/vendor_completions.d/weir.fish"),
        ):
            path = self.root / "share" / name
            self.assertIn("weir", path.read_text(encoding="utf-8"))
            if shutil.which(shell):
                run(shell, "-n", path)

    def test_licenses(self):
        self.assertIn("Apache License", (self.root / "LICENSE").read_text(encoding="utf-8"))
        text = (self.root / "THIRD-PARTY").read_text(encoding="utf-8")
        for component in self.bill["components"]:
            if not component["name"].startswith("weir"):
                self.assertIn(f"\n{component['name']} {component['version']}: ", text)

    def test_the_example_configuration_is_valid(self):
        done = run(self.root / "bin/weir", "check", self.root / "share/weir/weir.yaml", cwd=self.folder, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_commands_of_the_readme_install_everything(self):
        with tempfile.TemporaryDirectory() as target:
            text = code("Install") + code("Install as a service (systemd)")
            commands = [line for line in text.splitlines() if line and not re.match(r"system|weir ", line)]
            self.assertGreater(len(commands), 5)
            script = "\n".join(re.sub(r"(?<=[ ])/(etc|usr)/", rf"{target}/\1/", line) for line in commands)
            Path(target, "usr/local").mkdir(parents=True)
            run("sh", "-euc", script, cwd=self.root)
            self.assertEqual(
                run(f"{target}/usr/local/bin/weir", "--version").stdout, run(self.binary, "--version").stdout
            )
            unit = Path(target, "etc/systemd/system/weir.service").read_text(encoding="utf-8")
            self.assertIn("ExecStart=/usr/local/bin/weir serve /etc/weir/weir.yaml", unit)
            self.assertNotIn("/usr/bin/weir", unit)
            for path in (
                "etc/weir/weir.yaml",
                "etc/sysusers.d/weir.conf",
                "usr/local/share/weir/prometheus/weir-alerts.yaml",
            ):
                self.assertTrue(Path(target, path).is_file(), path)
            (remove,) = (line for line in code("Uninstall").splitlines() if line.startswith("find"))
            run("sh", "-euc", remove.replace("/usr/local", f"{target}/usr/local"), cwd=self.root)
            left = [path for path in Path(target, "usr").rglob("*") if path.is_file()]
            self.assertEqual(left, [])


class BillOfMaterials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.file = cls.folder / "weir.cdx.json"
        run(TARBALL / "sbom", server.binary(), cls.file, env={**os.environ, "SOURCE_DATE_EPOCH": str(TIME)})
        cls.text = cls.file.read_text(encoding="utf-8")
        cls.bill = json.loads(cls.text)
        cls.components = {(one["name"], one["version"]): one for one in cls.bill["components"]}

    def test_it_is_cyclonedx(self):
        """What the schema of CycloneDX 1.5 demands, of the members that are used."""
        bill = self.bill
        self.assertEqual((bill["bomFormat"], bill["specVersion"], bill["version"]), ("CycloneDX", "1.5", 1))
        self.assertRegex(bill["serialNumber"], r"^urn:uuid:[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$")
        self.assertRegex(bill["metadata"]["timestamp"], r"^2023-11-14T22:13:20(\.0+)?Z$")
        kinds = {"application", "framework", "library", "container", "operating-system", "device", "firmware", "file"}
        references = [bill["metadata"]["component"]["bom-ref"]]
        for one in bill["components"]:
            references.append(one["bom-ref"])
            self.assertIn(one["type"], kinds)
            self.assertIn(one["scope"], {"required", "optional", "excluded"})
            self.assertRegex(one["purl"], r"^pkg:(cargo|npm)/[^\s]+@[^\s]+$")
            for digest in one.get("hashes", ()):
                length = {"SHA-256": 64, "SHA-512": 128}[digest["alg"]]
                self.assertRegex(digest["content"], rf"^[0-9a-f]{{{length}}}$")
        self.assertEqual(len(references), len(set(references)))
        named = [dependency["ref"] for dependency in bill["dependencies"]]
        self.assertEqual(len(named), len(set(named)))
        for dependency in bill["dependencies"]:
            self.assertLessEqual({dependency["ref"], *dependency.get("dependsOn", ())}, set(references))

    def test_the_validator_of_cyclonedx_accepts_it(self):
        try:
            from cyclonedx.schema import SchemaVersion
            from cyclonedx.validation.json import JsonStrictValidator
        except ImportError:
            skip("the validator of CycloneDX", "not installed (pip install 'cyclonedx-python-lib[json-validation]')")
        problem = JsonStrictValidator(SchemaVersion.V1_5).validate_str(self.text)
        self.assertIsNone(problem, str(problem)[:2000])

    def test_every_component_has_a_license(self):
        self.assertEqual([name for name, one in self.components.items() if not one.get("licenses")], [])
        licenses = {name: one["licenses"][0].get("expression") for (name, _), one in self.components.items()}
        self.assertEqual(licenses["tokio"], "MIT")
        self.assertEqual(licenses["rustls"], "Apache-2.0 OR ISC OR MIT")

    def test_components_are_those_of_the_lock_file(self):
        locked = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
        versions = {(one["name"], one["version"]): one.get("checksum") for one in locked}
        crates = {key: one for key, one in self.components.items() if one["purl"].startswith("pkg:cargo/")}
        for key, one in crates.items():
            self.assertIn(key, versions)
            digests = [digest["content"] for digest in one.get("hashes", ())]
            self.assertEqual(digests, [versions[key]] if versions[key] else [], key)
        names = {name for name, _ in crates}
        self.assertGreaterEqual(
            names, {"tokio", "rustls", "aws-lc-sys", "rusqlite", "mimalloc", "rquickjs", "weir-wire"}
        )
        # Those of tests and of the build are not in the binary.
        self.assertFalse(names & {"vt100", "cc", "cmake"})

    def test_the_console_is_listed(self):
        names = {name for (name, _), one in self.components.items() if one["purl"].startswith("pkg:npm/")}
        self.assertGreaterEqual(names, {"react", "@tanstack/react-query", "uplot"})
        self.assertFalse(names & {"vite", "vitest", "typescript"})

    def test_no_path_of_this_machine_is_in_it(self):
        for path in (tempfile.gettempdir() + "/", str(ROOT) + "/", str(Path.home()) + "/"):
            self.assertNotIn(path, self.text)


class Shipping(unittest.TestCase):
    """Small programs stand for binaries that must not be shipped."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("cc"):
            skip("checks of the binary", "no C compiler")
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def program(self, name, *flags, crates=(("weir", "0.1.0"),), prints="weir 0.1.0"):
        source, program = self.folder / f"{name}.c", self.folder / name
        source.write_text(f'#include <stdio.h>\nint main(void) {{ puts("{prints}"); return 0; }}\n', encoding="utf-8")
        done = run("cc", "-o", program, source, *flags, check=False)
        if done.returncode:
            skip(f"a binary with {' '.join(flags)}", "the C compiler cannot link it")
        if crates is not None:
            packages = [{"name": name, "version": version, "source": "crates.io"} for name, version in crates]
            section = self.folder / "section"
            section.write_bytes(zlib.compress(json.dumps({"packages": packages}).encode()))
            run("objcopy", "--add-section", f".dep-v0={section}", program)
        return program

    def refused(self, program, reason, command="build"):
        out = self.folder / "out"
        arguments = (out,) if command == "build" else (out.with_suffix(".json"),)
        done = run(TARBALL / command, program, *arguments, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, reason)
        self.assertNotIn("Traceback", done.stdout)
        self.assertFalse(out.exists() and list(out.iterdir()))

    def test_a_binary_without_its_crates_is_refused(self):
        self.refused(self.program("plain", crates=None), r"\.dep-v0.*make release")

    def test_a_damaged_list_of_crates_is_refused(self):
        program = self.program("damaged", crates=None)
        (self.folder / "junk").write_bytes(b"junk")
        run("objcopy", "--add-section", f".dep-v0={self.folder / 'junk'}", program)
        self.refused(program, "damaged")

    def test_a_newer_glibc_is_refused(self):
        program = self.program("dynamic")
        needed = Binary(program).glibc()
        if not needed or needed <= (2, 31):
            skip("a newer glibc", f"programs of this machine need {needed}")
        self.refused(program, rf"needs glibc {needed[0]}\.{needed[1]}, which is newer than 2\.31")

    def test_another_library_is_refused(self):
        libraries = self.folder / "libother.so"
        (self.folder / "other.c").write_text("int other(void) { return 0; }\n", encoding="utf-8")
        run("cc", "-shared", "-o", libraries, self.folder / "other.c")
        self.refused(
            self.program("linked", "-Wl,--no-as-needed", libraries), r"libother\.so, which a system may not have"
        )

    def test_something_else_is_refused(self):
        (self.folder / "text").write_text("#!/bin/sh\nexec weir\n" + 99 * "#", encoding="utf-8")
        self.refused(self.folder / "text", "Not an ELF file")
        self.refused(self.folder / "none", "no such file")
        self.refused(self.program("other", "-static", prints="nginx 1.2"), "not weir")

    def test_a_static_binary_is_accepted(self):
        for flags in (["-static"], ["-static-pie"]):
            binary = Binary(self.program("static", *flags))
            binary.check()
            self.assertEqual((binary.version(), binary.linkage()), ("0.1.0", "statically linked"))

    def test_crates_of_other_sources_are_refused(self):
        program = self.program("older", "-static", crates=(("weir", "0.1.0"), ("tokio", "0.0.1")))
        self.refused(program, r"built from other sources than these: tokio 0\.0\.1", "sbom")


class Alone(unittest.TestCase):
    def test_the_binary_serves_in_a_folder_with_its_c_library(self):
        """No name service, no time zones, no certificates, no other library: what small systems do not have."""
        binary = Binary(server.binary())
        listed = "" if binary.is_static else run("ldd", binary.path).stdout
        files = [(path, path.lstrip("/")) for path in re.findall(r"(/\S+) \(0x", listed)]
        if os.geteuid() != 0 or run("unshare", "--mount", "--net", "true", check=False).returncode:
            skip("weir alone in a folder", "namespaces and chroot need root")
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            root = Path(folder)
            root.chmod(0o755)
            for source, target in ((binary.path, "weir"), *files):
                (root / target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, root / target)
                (root / target).chmod(0o755)
            for name in ("data", "proc"):
                (root / name).mkdir()
            os.chown(root / "data", 65532, 65532)
            (root / "data").chmod(0o700)
            text = "apis: {hello: {base: /, routes: [{get: /, reply: {text: hello}}]}}\n"
            (root / "weir.yaml").write_text(text, encoding="utf-8")
            # The kernel's own folder is all that weir demands; it ends with the namespace.
            script = 'mount -t proc proc "$1/proc"; exec chroot --userspec=65532:65532 --groups= "$@"'
            command = ["/weir", "serve", "--json", "--data", "/data", "/weir.yaml"]
            process = stack.enter_context(
                subprocess.Popen(
                    [
                        "unshare",
                        "--mount",
                        "--net",
                        "/bin/sh",
                        "-euc",
                        f"ip link set lo up; {script}",
                        "sh",
                        root,
                        *command,
                    ],
                    stdout=subprocess.PIPE,
                    text=True,
                    env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                )
            )
            stack.callback(process.kill)
            self.assertEqual(json.loads(process.stdout.readline())["event"], "ready")
            inside = ["nsenter", "--mount", "--net", "--target", process.pid]
            client = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8080/').read())"
            self.assertEqual(run(*inside, sys.executable, "-c", client).stdout, "b'hello'\n")
            chroot = ["chroot", "--userspec=65532:65532", "--groups=", root]
            run(*inside, *chroot, "/weir", "health", "--config", "/weir.yaml")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(), 0)


if __name__ == "__main__":
    unittest.main()
