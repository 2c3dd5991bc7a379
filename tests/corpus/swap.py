"""A limit of RAM by a memory cgroup of version 1 or 2, with a swap file."""
import os
import shutil
import subprocess
import time
from pathlib import Path

MIB = 1 << 20
GROUP = "aquifer-corpus."


def hierarchy():
    """The directory where memory cgroups are made and its version, or nothing."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    for _, folder, kind, options, *_ in mounts:
        if kind == "cgroup" and "memory" in options.split(","):
            return Path(folder), 1
    for _, folder, kind, *_ in mounts:
        if kind == "cgroup2" and "memory" in Path(folder, "cgroup.controllers").read_text().split():
            return Path(folder), 2
    return None


def why_no_swap():
    """Why programs cannot be compared with swap, or nothing."""
    if os.geteuid() != 0:
        return "it needs root"
    for tool in ("mkswap", "swapon", "swapoff", "fallocate"):
        if not shutil.which(tool):
            return f"{tool} is missing (package util-linux or mount)"
    return "" if hierarchy() else "no memory cgroup controller is mounted"


def page_cluster():
    """How many neighbours swap reads along, as the kernel counts: 3 by default, for up to seven."""
    return Path("/proc/sys/vm/page-cluster").read_text().strip()


def remove_group(number):
    """Removes the group of the process of that number, which is gone."""
    root, _ = hierarchy() or (Path("/"), 0)
    group = root / f"{GROUP}{number}"
    try:
        group.rmdir()
    except OSError:
        # There is none, or somebody is in it still.
        pass


class Swap:
    """A cgroup with `ram_mib` of RAM and a swap file of `swap_mib`, or none, as long as the context lasts."""

    def __init__(self, folder, ram_mib, swap_mib):
        self.file, self.ram_mib, self.swap_mib = folder / "swap", ram_mib, swap_mib
        root, self.version = hierarchy()
        self.root, self.group, self.on = root, root / f"{GROUP}{os.getpid()}", False

    def __enter__(self):
        try:
            if self.version == 2:
                (self.root / "cgroup.subtree_control").write_text("+memory")
            self.group.mkdir()
            limit = "memory.limit_in_bytes" if self.version == 1 else "memory.max"
            (self.group / limit).write_text(str(self.ram_mib * MIB))
            if not self.swap_mib:
                return self
            subprocess.run(["fallocate", "-l", f"{self.swap_mib}M", self.file], check=True)
            self.file.chmod(0o600)
            subprocess.run(["mkswap", self.file], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["swapon", "-p", "32767", self.file], check=True)
            self.on = True
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.on:
            subprocess.run(["swapoff", self.file], check=True)
            self.on = False
        self.file.unlink(missing_ok=True)
        for _ in range(100):
            try:
                self.group.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)

    def prefix(self):
        """What a shell does first to be in the group."""
        return f"echo $$ >{self.group / 'cgroup.procs'} || exit 99\n"

    def refresh(self):
        """Has the kernel bring the group's statistics up to date, on which reclaim of small groups depends."""
        (self.group / "memory.stat").read_text()
