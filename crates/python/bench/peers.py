"""What the benchmarks of this folder share: each peer is a process in a memory cgroup of its own, and waits for its turns."""
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

MIB = 1 << 20


def size(text):
    number = text.rstrip("KMG")
    return int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[text[len(number) :]]


class Group:
    """A memory cgroup with a limit, of version 1 or 2; nothing where there is none."""

    numbers = itertools.count()

    def __init__(self, limit):
        self.path, self.limit = None, limit
        name = f"aquifer-bench.{os.getpid()}.{next(Group.numbers)}"
        if os.geteuid() != 0:
            return
        for root, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            path = Path(root, name)
            try:
                path.mkdir()
                (path / file).write_text(str(limit))
                self.path = path
                return
            except OSError:
                shutil.rmtree(path, ignore_errors=True)

    def enter(self):
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak_mib(self):
        """The most that the group has had in RAM, its file pages included; None where nothing counts it."""
        for file in ("memory.max_usage_in_bytes", "memory.peak"):
            if self.path and (self.path / file).exists():
                return int((self.path / file).read_text()) >> 20
        return None

    def remove(self):
        if self.path:
            self.path.rmdir()


class Process:
    """A peer in its group: `script` with `words`, whose first line is "ready", and then a line of JSON for each line that it reads."""

    def __init__(self, name, script, words, limit):
        self.name, self.group = name, Group(limit)
        words = [sys.executable, script, "--child", name, *words]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=self.group.enter, stderr=subprocess.PIPE
        )
        self.is_ready = self.process.stdout.readline() == "ready\n"
        if not self.is_ready:
            self.why = (self.process.communicate()[1].strip().splitlines() or ["it was killed"])[-1]

    def run(self, kind):
        try:
            self.process.stdin.write(kind + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            # It was killed in what came before.
            return None
        return json.loads(self.process.stdout.readline() or "null")

    def end(self):
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
            self.process.wait()
        self.group.remove()


def written_bytes():
    """What this process has caused to be written."""
    return int(Path("/proc/self/io").read_text().split("write_bytes: ")[1].split()[0])


def resident_mib():
    """Anonymous memory of the process, and its file pages."""
    status = Path("/proc/self/status").read_text()
    return sum(int(status.split(name + ":")[1].split()[0]) for name in ("RssAnon", "RssFile", "RssShmem")) >> 10


def turn(seconds, act):
    """Calls `act` for `seconds`: what each call returned, and the figures of all of them together."""
    results, times = [], []
    # Only pages that are clean count as written when they are changed.
    os.sync()
    began, processor, wrote = time.monotonic(), time.process_time(), written_bytes()
    while time.monotonic() - began < seconds:
        before = time.perf_counter_ns()
        results.append(act())
        times.append(time.perf_counter_ns() - before)
    took, processor, wrote = time.monotonic() - began, time.process_time() - processor, written_bytes() - wrote
    p50, p99 = np.percentile(times, [50, 99]) / 1000
    return results, {"s": took, "cpu_s": processor, "written_bytes": wrote, "p50_us": p50, "p99_us": p99}


def zipf(random, rows, count):
    """Ranks by Zipf with exponent 0.99, spread over all rows."""
    ranks = np.exp(random.random(count) * np.log(rows)).astype(np.int64) % rows
    return ranks * 2654435761 % rows
