"""What can be told of a weir binary before it is shipped: `python3 packaging/tarball/binary.py BINARY` checks it.

A shipped binary runs on every Linux with glibc 2.31 or later. It lists the crates that it is made of (cargo-auditable),
so that scanners such as `cargo audit bin` and Trivy find known vulnerabilities in it.
"""

import json
import re
import subprocess
import sys
import zlib
from pathlib import Path

# Of Debian 11 and Ubuntu 20.04, the oldest that are still in common use.
NEWEST_GLIBC = (2, 31)
ARCHITECTURES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64", "RISC-V": "riscv64"}


class Unfit(Exception):
    """The binary must not be shipped; the text is the reason."""


class Binary:
    """A weir binary, as `readelf` (binutils) and the binary itself describe it."""

    def __init__(self, path):
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise Unfit(f"{path}: no such file")
        header = self._readelf("--file-header", "--program-headers")
        machine = re.search(r"Machine: +(.+)", header)
        self.architecture = ARCHITECTURES.get(machine.group(1).strip() if machine else "")
        if not self.architecture:
            raise Unfit(f"{path}: not a program for {', '.join(ARCHITECTURES.values())}")
        dynamic = self._readelf("--dynamic")
        self.libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.interpreter = (re.findall(r"Requesting program interpreter: (.*)\]", header) or [None])[0]
        self.crates = self._crates()

    @property
    def is_static(self):
        """Whether nothing else is needed, not even a loader. Position-independent programs can be static, too."""
        return not self.libraries and not self.interpreter

    @property
    def is_stripped(self):
        return ".symtab" not in self._readelf("--section-headers")

    def glibc(self):
        """The newest version of glibc that a symbol of a dynamic binary has; the system's must be at least that."""
        names = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", self._readelf("--version-info"))
        return max(((int(major), int(minor)) for major, minor in names), default=None)

    def version(self):
        """Version that the binary prints."""
        try:
            printed = subprocess.check_output([self.path, "--version"], text=True).split()
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unfit(f"{self.path}: does not run here, and its manual pages come from it ({error})") from None
        if len(printed) != 2 or printed[0] != "weir":
            raise Unfit(f"{self.path}: not weir: --version printed {' '.join(printed)[:80]!r}")
        return printed[1]

    def check(self):
        """Raises `Unfit` unless the binary may be shipped."""
        if self.crates is None:
            raise Unfit(
                f"{self.path}: no list of its crates (section .dep-v0): build it by `make release`, "
                "with cargo-auditable"
            )
        others = [name for name in self.libraries if not re.match(r"(lib(c|m|dl|rt|pthread)|ld-linux.*)\.so", name)]
        if others:
            raise Unfit(f"{self.path}: needs {', '.join(others)}, which a system may not have")
        if (glibc := self.glibc()) and glibc > NEWEST_GLIBC:
            raise Unfit(
                f"{self.path}: needs glibc {'.'.join(map(str, glibc))}, which is newer than "
                f"{'.'.join(map(str, NEWEST_GLIBC))}: build it by `make release`"
            )

    def linkage(self):
        """For messages."""
        if self.is_static:
            return "statically linked"
        return f"needs glibc {'.'.join(map(str, self.glibc() or ('?',)))}"

    def _crates(self):
        """The crates by cargo-auditable, or None: name, version, and kind `runtime` or `build`."""
        sections = self._readelf("--section-headers")
        place = re.search(r"\] \.dep-v0 +\S+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+) ", sections)
        if not place:
            return None
        offset, size = (int(number, 16) for number in place.groups())
        with open(self.path, "rb") as file:
            file.seek(offset)
            packed = file.read(size)
        try:
            return [
                (crate["name"], crate["version"], crate.get("kind", "runtime"))
                for crate in json.loads(zlib.decompress(packed))["packages"]
            ]
        except (zlib.error, ValueError, KeyError) as error:
            raise Unfit(f"{self.path}: its list of crates (.dep-v0) is damaged: {error}") from None

    def _readelf(self, *arguments):
        command = ["readelf", "--wide", *arguments, self.path]
        done = subprocess.run(command, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
        if done.returncode:
            raise Unfit(f"{self.path}: {done.stderr.strip()}")
        return done.stdout


if __name__ == "__main__":
    try:
        weir = Binary(sys.argv[1])
        weir.check()
        print(f"{weir.path}: weir {weir.version()}, {weir.architecture}, {weir.linkage()}, {len(weir.crates)} crates")
    except Unfit as unfit:
        sys.exit(f"binary: {unfit}")
