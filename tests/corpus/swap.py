"""A limit of RAM by a memory cgroup of version 1 or 2, with a swap file, and with zswap in front of that or without."""
import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

MIB = 1 << 20
GROUP = "aquifer-corpus."
# The group in it that the programs are in. It has no limit of its own: a program that looks for one (node, by libuv) would keep its heap
# smaller than that of the managed run, which finds none.
INNER = "programs"
ZSWAP = Path("/sys/module/zswap/parameters")
# Where the setting of zswap is kept that was there before.
BEFORE = "zswap.before"
# How often the pool of zswap is taken off the limit of a group of version 1.
POOL_SECONDS = 0.003
POOL_PRIORITY = -20
# Of what the pool may have, as the kernel's accept_threshold_percent.
ACCEPT_PART = 0.9
# What more RAM than this was taken for is no comparison.
OVER_PART = 1.1


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
    if not hierarchy():
        return "no memory cgroup controller is mounted"
    if zswap_is_on() and not os.access(ZSWAP / "enabled", os.W_OK):
        return "zswap is on and cannot be switched off"
    return ""


def zswap_is_on():
    return ZSWAP.exists() and (ZSWAP / "enabled").read_text().strip() == "Y"


def why_no_zswap():
    """Why programs cannot be compared with zswap, or nothing."""
    if why := why_no_swap():
        return why
    if not os.access(ZSWAP / "enabled", os.W_OK):
        return "the kernel has no zswap, or does not let it be switched on"
    if hierarchy()[1] == 1 and pool_bytes() is None:
        return "the kernel does not count zswap's pool to a group of version 1, nor tells how large it is"
    return ""


def pool_bytes():
    """What zswap's pool takes of the machine's RAM; nothing if the kernel does not tell."""
    found = re.search(r"^Zswap: *(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    return int(found.group(1)) << 10 if found else None


def swapped_elsewhere_mib(own):
    """What is in all swap areas but `own`."""
    lines = [line.split() for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    return sum(int(used) for file, _, _, used, _ in lines if file != str(own)) >> 10


def put_zswap_back(folder):
    """Sets zswap to what it was before a run in `folder` set it, if that is not done."""
    before = folder / BEFORE
    if before.exists():
        (ZSWAP / "enabled").write_text(before.read_text())
        before.unlink()


def page_cluster():
    """How many neighbours swap reads along, as the kernel counts: 3 by default, for up to seven."""
    return Path("/proc/sys/vm/page-cluster").read_text().strip()


def remove_group(number):
    """Removes the group of the process of that number, which is gone."""
    root, _ = hierarchy() or (Path("/"), 0)
    group = root / f"{GROUP}{number}"
    try:
        remove_groups(group)
    except OSError:
        # There is none, or somebody is in it still.
        pass


def remove_groups(group):
    """Removes a group and the one in it; OSError if somebody is in one of them, or there is none."""
    if (group / INNER).exists():
        (group / INNER).rmdir()
    group.rmdir()


class Zswap:
    """The setting of zswap, on or off, as long as the context lasts; only one process sets it at a time."""

    def __init__(self, folder, on):
        self.folder, self.on, self.lock = folder, on, None

    def __enter__(self):
        if not ZSWAP.exists():
            return self
        self.lock = open(ZSWAP / "enabled")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        (self.folder / BEFORE).write_text((ZSWAP / "enabled").read_text())
        if zswap_is_on() != self.on:
            self.switch(self.on)
        return self

    def __exit__(self, *_):
        put_zswap_back(self.folder)
        if self.lock:
            self.lock.close()
            self.lock = None

    def switch(self, on):
        """Lets the pool take what is swapped from now on, or not; what it has stays there until it is read."""
        (ZSWAP / "enabled").write_text("Y" if on else "N")


class Pool:
    """Keeps a group of version 1 and zswap's pool together within `ram_bytes`: the kernel counts the pool to groups of version 2 only.

    The limit of the group is what the pool leaves. A pool of `pool_max` takes nothing more, as a full one does; the kernel does not write its oldest
    pages to the swap file, which it would in a group of version 2.
    """

    def __init__(self, zswap, group, ram_bytes, pool_max):
        self.zswap, self.group, self.ram_bytes, self.pool_max = zswap, group, ram_bytes, pool_max
        self.others, self.ended = pool_bytes(), threading.Event()
        self.accepts, self.limit = True, ram_bytes
        self.most = self.most_together = 0
        # A limit that shrinks takes until pages are out, which go to the pool: that must be switched off meanwhile.
        self.threads = [threading.Thread(target=self.repeat, args=[step], daemon=True) for step in (self.switch, self.shrink)]
        for thread in self.threads:
            thread.start()

    def repeat(self, step):
        # What swaps keeps the processors busy, and the pool grows by megabytes in a turn of theirs.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), POOL_PRIORITY)
        sys.setswitchinterval(POOL_SECONDS / 3)
        while not self.ended.wait(POOL_SECONDS):
            step(max(0, pool_bytes() - self.others))

    def switch(self, pool):
        used = int((self.group / "memory.usage_in_bytes").read_text())
        self.most, self.most_together = max(self.most, pool), max(self.most_together, pool + used)
        accepts = pool < self.pool_max * (1 if self.accepts else ACCEPT_PART)
        if accepts != self.accepts:
            self.zswap.switch(accepts)
            self.accepts = accepts

    def shrink(self, pool):
        left = max(self.ram_bytes - pool, self.ram_bytes // 2)
        if left != self.limit:
            self.limit = left
            try:
                (self.group / "memory.limit_in_bytes").write_text(str(left))
            except OSError:
                # Not all of it can be written out at once; the next look tries it again.
                self.limit = None

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


class Swap:
    """A cgroup with `ram_mib` of RAM, or no limit, and a swap file of `swap_mib`, or none, as long as the context lasts.

    With `zswap` its pool is part of the RAM, at most as much of it as max_pool_percent is of a machine's.
    """

    def __init__(self, folder, ram_mib, swap_mib, zswap=False):
        self.folder, self.file, self.ram_mib, self.swap_mib = folder, folder / "swap", ram_mib, swap_mib
        root, self.version = hierarchy()
        self.root, self.group, self.on = root, root / f"{GROUP}{os.getpid()}", False
        self.zswap, self.pool, self.pool_most = Zswap(folder, zswap), None, 0
        # Bytes of memory that is no file's, what processes share once.
        self.anonymous_most = 0
        self.elsewhere_mib, self.is_shared = swapped_elsewhere_mib(self.file), False

    def __enter__(self):
        try:
            if self.version == 2:
                (self.root / "cgroup.subtree_control").write_text("+memory")
            (self.group / INNER).mkdir(parents=True)
            limit = self.group / ("memory.limit_in_bytes" if self.version == 1 else "memory.max")
            if self.ram_mib:
                limit.write_text(str(self.ram_mib * MIB))
            if not self.swap_mib:
                return self
            self.zswap.__enter__()
            subprocess.run(["fallocate", "-l", f"{self.swap_mib}M", self.file], check=True)
            self.file.chmod(0o600)
            subprocess.run(["mkswap", self.file], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["swapon", "-p", "32767", self.file], check=True)
            self.on = True
            if self.zswap.on:
                self.bound_pool()
        except BaseException:
            self.__exit__()
            raise
        return self

    def bound_pool(self):
        """Bounds zswap's pool for this group, as the kernel does by max_pool_percent for a machine."""
        pool_max = self.ram_mib * MIB * int((ZSWAP / "max_pool_percent").read_text()) // 100
        if self.version == 2:
            (self.group / "memory.zswap.max").write_text(str(pool_max))
        else:
            self.pool = Pool(self.zswap, self.group, self.ram_mib * MIB, pool_max)

    def pool_mib(self):
        """The most that zswap's pool had."""
        return (self.pool.most if self.pool else self.pool_most) // MIB

    def together_mib(self):
        """The most that the group and the pool had at a time."""
        together = self.pool.most_together if self.pool else int((self.group / "memory.peak").read_text())
        return together // MIB

    def __exit__(self, *_):
        if self.pool:
            self.pool.end()
            self.pool = None
        if self.on:
            subprocess.run(["swapoff", self.file], check=True)
            self.on = False
        self.zswap.__exit__()
        self.file.unlink(missing_ok=True)
        for _ in range(100):
            try:
                remove_groups(self.group)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)

    def prefix(self):
        """What a shell does first to be in the group."""
        return f"echo $$ >{self.group / INNER / 'cgroup.procs'} || exit 99\n"

    def refresh(self):
        """Has the kernel bring the statistics of both groups up to date, on which reclaim of small groups depends: without, programs are killed."""
        if self.version == 1:
            # With version 2 the group within has no memory controller, and the other one is charged.
            (self.group / INNER / "memory.stat").read_text()
        statistics = (self.group / "memory.stat").read_text()
        now = sum(int(size) for size in re.findall(r"^(?:total_rss|total_shmem|anon|shmem) (\d+)", statistics, re.M))
        self.anonymous_most = max(self.anonymous_most, now)
        found = re.search(r"^zswap (\d+)", statistics, re.M)
        if self.version == 2 and found:
            self.pool_most = max(self.pool_most, int(found.group(1)))
        self.is_shared |= swapped_elsewhere_mib(self.file) > self.elsewhere_mib

    def why_void(self):
        """Why a run with zswap is no comparison, or nothing."""
        if not self.pool:
            return ""
        if self.is_shared:
            return "others swapped meanwhile, and the kernel does not tell their part of zswap's pool"
        most = self.together_mib()
        return f"zswap's pool grew faster than it was bounded: {most} MiB" if most > self.ram_mib * OVER_PART else ""

    def killed(self):
        """How many processes of the group the kernel has killed for want of memory."""
        # Version 2 counts those of groups within a group, version 1 does not.
        files = ["memory.events"] if self.version == 2 else ["memory.oom_control", f"{INNER}/memory.oom_control"]
        found = [re.search(r"^oom_kill (\d+)", (self.group / file).read_text(), re.M) for file in files]
        return sum(int(count.group(1)) for count in found if count)
