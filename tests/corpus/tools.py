"""Finds the programs of the table, and installs those that are missing below build/corpus."""
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

TIMEOUT_SECONDS = 600
# Nothing waits long for a network that is not there; what needs it is skipped then.
PIP = ["--quiet", "--disable-pip-version-check", "--retries", "0", "--timeout", "8"]
APT = [f"-oAcquire::{name}" for name in ("Retries=0", "http::Timeout=8", "https::Timeout=8")]
UNREACHABLE = "from versions: none|timed out|resolving|[Cc]ould not connect|[Uu]nable to connect|unreachable"


class Missing(Exception):
    """Why an entry cannot run on this machine."""


class Tools:
    """A virtual environment for pinned wheels, and a tree of unpacked Debian packages."""

    def __init__(self, build):
        self.venv, self.debian = build / "venv", build / "debian"
        self.unreachable = set()

    def python(self, row):
        """The interpreter for an entry."""
        return self.venv / "bin" / "python" if row.get("wheels") else sys.executable

    def provide(self, row, environment):
        """Makes an entry's wheels and commands available, the latter by PATH of `environment`."""
        if row.get("wheels"):
            self.install_wheels(row["wheels"])
        missing = [need for need in row.get("needs", []) if not shutil.which(need)]
        if not missing:
            return
        if not row.get("debian"):
            raise Missing(f"{missing[0]} is missing")
        self.add_paths(environment)
        if not all(shutil.which(need, path=environment["PATH"]) for need in missing):
            self.unpack(row["debian"])
        for need in missing:
            if not shutil.which(need, path=environment["PATH"]):
                raise Missing(f"{need} is missing, also in the packages {' '.join(row['debian'])}")

    def install_wheels(self, wheels):
        if not self.venv.exists():
            venv.create(self.venv, with_pip=True)
        marks = [self.venv / f"installed-{wheel}" for wheel in wheels]
        if all(mark.exists() for mark in marks):
            return
        pip = [self.venv / "bin" / "python", "-m", "pip", "install", *PIP, *wheels]
        self.over_network(pip, f"pip cannot install {' '.join(wheels)}")
        for mark in marks:
            mark.touch()

    def over_network(self, command, what, folder=None):
        """Runs a command as `quietly`, unless an earlier one of its kind found no network."""
        kind = Path(command[0]).name
        if kind in self.unreachable:
            raise Missing(f"{what}: no network")
        try:
            quietly(command, what, folder)
        except Missing as missing:
            if re.search(UNREACHABLE, str(missing)):
                self.unreachable.add(kind)
            raise

    def unpack(self, packages):
        """Downloads packages with what they depend on and this machine lacks, and unpacks them."""
        if not shutil.which("apt-get"):
            raise Missing("apt-get is missing")
        simulate = ["apt-get", "-s", "install", "--no-install-recommends", *packages]
        plan = quietly(simulate, f"apt-get does not know {' '.join(packages)}")
        names = re.findall(r"^Inst (\S+)", plan, re.M)
        archives = self.debian / "archives"
        archives.mkdir(parents=True, exist_ok=True)
        self.over_network(
            ["apt-get", *APT, "download", *names], f"apt-get cannot download {' '.join(packages)}", archives
        )
        for archive in archives.glob("*.deb"):
            quietly(["dpkg", "-x", archive, self.debian], f"{archive.name} cannot be unpacked")
            archive.unlink()

    def add_paths(self, environment):
        usr = self.debian / "usr"
        places = [usr / "bin", usr / "sbin", usr / "games", self.debian / "bin"]
        environment["PATH"] = os.pathsep.join([environment["PATH"], *map(str, places)])
        libraries = [usr / "lib" / f"{os.uname().machine}-linux-gnu", self.debian / "lib"]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, libraries))


def quietly(command, what, folder=None):
    """The output of a command that must succeed; raises Missing."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        raise Missing(f"{what} in {TIMEOUT_SECONDS} s") from None
    if ended.returncode != 0:
        raise Missing(f"{what}: {' / '.join(ended.stderr.splitlines()[-2:])}")
    return ended.stdout


def version_of(row, environment, filled):
    """The version that ran: of the first wheel, or what the entry's command says."""
    if row.get("wheels"):
        return row["wheels"][0].partition("==")[2]
    if "version" not in row:
        return ""
    command = filled(row["version"], "")
    ended = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, errors="replace", env=environment, timeout=60
    )
    text = ended.stdout + ended.stderr
    found = re.search(r"\d+(\.\d+)+[\w.+-]*", text) or re.search(r"\d+", text)
    return found.group(0) if found else "unknown"
