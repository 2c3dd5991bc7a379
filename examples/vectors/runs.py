"""Measured runs of graph indexes: each a process of its own, with its memory limited and watched as those of the corpus are."""
import datetime
import hashlib
import json
import os
import platform
import shutil
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

import nearest
import sets

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests" / "corpus"))
import processes  # noqa: E402
import swap  # noqa: E402

MIB = 1 << 20
# No limit is lower: an interpreter with NumPy takes most of that.
LIMIT_MIB_MIN = 48
# What a budget leaves of a limit for page tables, and what flash and swap have for each byte of the index.
SLACK_MIB_MIN, SPARE = 16, 3
# Where lines about progress do not replace each other.
SAY_SECONDS = 15
PAGE_CLUSTER = Path("/proc/sys/vm/page-cluster")


def say(text):
    print(text, file=sys.stderr, flush=True)


def why_no_groups():
    """Why runs have no memory cgroup, or nothing."""
    if os.geteuid() != 0:
        return "it needs root"
    return "" if swap.hierarchy() else "no memory cgroup controller is mounted"


def peak_mib(group):
    """The most RAM that a group had, page cache and page tables included; nothing where the kernel does not tell."""
    name = "memory.max_usage_in_bytes" if group.version == 1 else "memory.peak"
    try:
        return int((group.group / name).read_text()) / MIB
    except OSError:
        return None


def read_ahead_kib(folder):
    """What the kernel reads ahead of a file on the disk of a folder; nothing where it is on none."""
    number = os.stat(folder).st_dev
    disk = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    for place in (disk / "queue", disk / ".." / "queue"):
        if (place / "read_ahead_kb").exists():
            return int((place / "read_ahead_kb").read_text())
    return None


@contextmanager
def reading_around(cluster):
    """Sets how many neighbours swap reads along, as a power of two, and puts back what was there."""
    if cluster is None:
        yield
        return
    before = PAGE_CLUSTER.read_text()
    PAGE_CLUSTER.write_text(str(cluster))
    try:
        yield
    finally:
        PAGE_CLUSTER.write_text(before)


class Ticker:
    """Says on standard error how far a run is, from its third second on; keeps the statistics of its group fresh."""

    def __init__(self, what, path, group):
        self.what, self.path, self.group = what, path, group
        self.begun = time.monotonic()
        self.is_terminal, self.said, self.shown = sys.stderr.isatty(), self.begun, False

    def __call__(self):
        if self.group:
            self.group.refresh()
        now = time.monotonic()
        if now - self.said < (sets.PATIENCE if self.is_terminal else SAY_SECONDS) or not self.path.exists():
            return
        self.said, self.shown = now, True
        text = f"{self.what}: {self.path.read_text()} after {now - self.begun:.0f} s"
        if self.is_terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        else:
            say(text)

    def end(self):
        if self.is_terminal and self.shown:
            sys.stderr.write("\r\x1b[K")


class Bench:
    """All runs in one folder of their own."""

    def __init__(self, options, work):
        self.options, self.work = options, work
        self.samples, self.needs, self.found = [], {}, {}
        self.prepare()

    def prepare(self):
        """Writes the vectors and queries, and finds the true neighbours."""
        options = self.options
        base, queries = sets.sets(options.file, options.count, options.dims, options.warm + options.queries, options.seed)
        self.count, self.dims = base.shape
        needed, free = 3 * SPARE * self.count * (4 * self.dims + 250), shutil.disk_usage(self.work).free
        if free < needed:
            raise SystemExit(f"graphs.py: {options.dir} needs {needed // MIB} MiB and has {free // MIB}; choose another with --dir")
        asked = sets.whole(queries)
        np.save(self.work / "queries.npy", asked)
        asked = asked[options.warm :]
        found = nearest.Nearest(asked, options.k)
        with open(self.work / "vectors", "wb") as file, sets.Progress("writing the vectors", self.count) as progress:
            for first, block in base.blocks():
                file.write(block)
                found.add(block, np.arange(first, first + len(block)))
                progress.show(first)
        self.truth = found.sorted()[0]
        if options.order == "near":
            self.sort()

    def sort(self):
        """Puts vectors near each other next to each other in the file. Their numbers are then those of the new order."""
        rows = np.memmap(self.work / "vectors", np.float32, "r", shape=(self.count, self.dims))
        say("sorting the vectors by clusters")
        order = nearest.near_order(rows, self.options.seed)
        with open(self.work / "sorted", "wb") as file:
            for first in range(0, self.count, sets.BLOCK_ROWS):
                file.write(np.ascontiguousarray(rows[order[first : first + sets.BLOCK_ROWS]]))
        (self.work / "sorted").replace(self.work / "vectors")
        places = np.empty(self.count, np.int64)
        places[order] = np.arange(self.count)
        self.truth = places[self.truth]

    def limit_mib(self, index):
        """RAM of limited runs of an index."""
        if self.options.ram:
            return max(LIMIT_MIB_MIN, sets.size(self.options.ram) // MIB)
        return max(LIMIT_MIB_MIN, int(self.needs[index] * self.options.fraction))

    def task(self, index, memory):
        """The description of a run for `measured.py`, in a file."""
        options = self.options
        how = memory if memory.startswith("view") else "load" if options.load and memory != "native" else "build"
        task = {
            "index": index, "how": how, "data": str(self.work / "vectors"), "queries": str(self.work / "queries.npy"), "warm": options.warm,
            "count": self.count, "dims": self.dims, "k": options.k, "links": options.links, "build_width": options.build_width,
            "width": options.width, "seed": options.seed, "seconds": options.seconds, "saved": str(self.work / f"{index}.saved"),
            "save": memory == "native",
        }  # fmt: skip
        path = self.work / "task.json"
        path.write_text(json.dumps(task))
        return path

    def command(self, memory, limit, task):
        """The command of a run, without its group."""
        words = [sys.executable, str(HERE / "measured.py"), str(task)]
        if memory == "aquifer":
            budget = limit - max(limit // 8, SLACK_MIB_MIN)
            flash = max(1024, SPARE * 2 * self.need)
            words = [self.options.aquifer, "run", "--ram", f"{budget}M", "--flash", str(self.work), "--flash-size", f"{flash}M", "--"] + words
        return "exec " + " ".join(f"'{word}'" for word in words)

    def run(self, index, memory, number):
        """One run, as a sample."""
        self.need = self.needs.get(index, 0)
        limit = None if memory == "native" else self.limit_mib(index)
        task = self.task(index, memory)
        for old in self.work.glob("task.*"):
            if old != task:
                old.unlink()
        what = f"{index}, {memory}, run {number}"
        say(what + (f", {limit} MiB of RAM" if limit else ""))
        swap_mib = SPARE * self.need if memory == "swap" else 0
        has_group = not self.options.no_groups
        environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
        with reading_around(self.options.page_cluster if memory == "swap" else None):
            with swap.Swap(self.work, limit, swap_mib) if has_group else nullcontext() as group:
                ticker = Ticker(what, self.work / "task.progress", group)
                command = (group.prefix() if group else "") + self.command(memory, limit, task)
                limits = processes.Limits(self.options.patience, tick=ticker)
                ended = processes.run(command, self.work, environment, limits, self.work / "run")
                ticker.end()
                sample = {
                    "index": index, "memory": memory, "run": number, "limit_mib": limit, "own_mib": ended.total_mib,
                    "group_mib": peak_mib(group) if group else None, "failure": self.failure(ended, group),
                }  # fmt: skip
        if not sample["failure"]:
            self.add_results(sample, task.with_suffix(""))
        sample.update(self.context())
        self.samples.append(sample)
        if sample["failure"]:
            say(f"{what}: {sample['failure']}")
        return sample

    def failure(self, ended, group):
        """Why a run is no sample, or nothing."""
        if group and group.killed():
            return "killed by the kernel for want of RAM"
        if ended.timed_out:
            return f"not at its end after {ended.seconds:.0f} s: {(self.work / 'task.progress').read_text()}"
        return f"status {ended.status}: {ended.last_error()}" if ended.status else ""

    def add_results(self, sample, base):
        """Adds what a run has measured and found."""
        result = json.loads(Path(f"{base}.result.json").read_text())
        microseconds, ids = np.load(f"{base}.ns.npy") / 1000, np.load(f"{base}.ids.npy")
        index, asked = sample["index"], len(ids)
        if sample["memory"] == "native":
            self.needs.setdefault(index, sample["own_mib"])
            self.found.setdefault(index, ids)
        sample.update(
            build_s=result["build_s"], build_cpu_s=result["build_cpu_s"], build_written_mib=result["build_written"] / MIB, asked=asked,
            recall=nearest.recall(ids, self.truth), queries_per_s=asked / (microseconds.sum() / 1e6),
            p50_us=float(np.percentile(microseconds, 50)), p99_us=float(np.percentile(microseconds, 99)), max_us=float(microseconds.max()),
            cpu_us=result["query_cpu_s"] / asked * 1e6, read_kib=result["query_read"] / asked / 1024,
            digest=hashlib.sha256(np.ascontiguousarray(ids).tobytes()).hexdigest(),
            # A slow run has asked fewer queries, the first of those that the native run has asked.
            is_same=bool(np.array_equal(ids, self.found[index][:asked])),
        )  # fmt: skip

    def context(self):
        """What a sample was measured with."""
        names = ("queries", "warm", "k", "links", "build_width", "width", "seed", "order", "fraction", "ram", "load", "file")
        cluster = self.options.page_cluster if self.options.page_cluster is not None else int(swap.page_cluster())
        return dict(
            {name: getattr(self.options, name) for name in names}, count=self.count, dims=self.dims, page_cluster=cluster,
            read_ahead_kib=read_ahead_kib(self.work), kernel=platform.release(), cpus=os.cpu_count(),
            date=datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
        )  # fmt: skip
