"""One measured run: builds or loads a graph index, asks it one query at a time, and writes down what that took.

    measured.py TASK.json

`graphs.py` writes the task. The run leaves TASK.result.json, and for each query its nanoseconds (TASK.ns.npy) and the numbers that it found
(TASK.ids.npy). TASK.progress says meanwhile how far the run is.
"""
import ctypes
import json
import os
import re
import sys
import time
from pathlib import Path

import numpy as np

# Vectors that are added at a time.
ADD_ROWS = 4096
# Queries, or parts of the data, between two words about progress.
SHOW_EACH = 50
MADV_RANDOM, PR_SET_PDEATHSIG, SIGKILL = 1, 1, 9


class Hnswlib:
    """An index of hnswlib, with one thread."""

    def __init__(self, task):
        import hnswlib

        self.task, self.index = task, hnswlib.Index("l2", task["dims"])

    def begin(self):
        task = self.task
        self.index.init_index(task["count"], M=task["links"], ef_construction=task["build_width"], random_seed=task["seed"])
        self.index.set_num_threads(1)

    def add(self, first, rows):
        self.index.add_items(rows, np.arange(first, first + len(rows)), num_threads=1)

    def save(self, path):
        self.index.save_index(path)

    def load(self, path):
        self.index.load_index(path, max_elements=self.task["count"])
        self.index.set_num_threads(1)

    def ready(self):
        self.index.set_ef(self.task["width"])

    def ask(self, query, k):
        return self.index.knn_query(query, k, num_threads=1)[0][0]


class Usearch:
    """An index of USearch, with one thread."""

    def __init__(self, task):
        from usearch.index import Index

        self.index = Index(
            ndim=task["dims"], metric="l2sq", dtype="f32", connectivity=task["links"], expansion_add=task["build_width"],
            expansion_search=task["width"],
        )  # fmt: skip

    def begin(self):
        pass

    def add(self, first, rows):
        self.index.add(np.arange(first, first + len(rows)), rows, threads=1)

    def save(self, path):
        self.index.save(path)

    def load(self, path):
        self.index.load(path)

    def view(self, path):
        self.index.view(path)

    def ready(self):
        pass

    def ask(self, query, k):
        return self.index.search(query, k, threads=1).keys


KINDS = {"hnswlib": Hnswlib, "usearch": Usearch}


class Vectors:
    """Rows of a file of float32, which the page cache does not keep: it would take RAM that is measured."""

    def __init__(self, task):
        self.file = open(task["data"], "rb", buffering=0)
        self.count, self.dims = task["count"], task["dims"]

    def blocks(self):
        for first in range(0, self.count, ADD_ROWS):
            rows = np.empty((min(ADD_ROWS, self.count - first), self.dims), np.float32)
            place = memoryview(rows.reshape(-1).view(np.uint8))
            done = 0
            while done < len(place):
                count = self.file.readinto(place[done:])
                if not count:
                    raise ValueError(f"{self.file.name} ends within row {first + done // (4 * self.dims)} of {self.count}")
                done += count
            forget(self.file.fileno())
            yield first, rows


def forget(file):
    """Has the page cache give up a file."""
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def forget_path(path):
    """Writes a file out and has the page cache give it up, so that the next run is charged for what it reads of it."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    forget(file)
    os.close(file)


def advise_random(path):
    """Tells the kernel that this process's mappings of a file are read in no order."""
    libc = ctypes.CDLL(None, use_errno=True)
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(path)):
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            if libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), MADV_RANDOM):
                raise OSError(ctypes.get_errno(), "madvise")


def read_bytes():
    """What this process has caused to be read from disks."""
    return int(re.search(r"^read_bytes: (\d+)", Path("/proc/self/io").read_text(), re.M).group(1))


def written_bytes():
    """What this process has caused to be written to disks."""
    return int(re.search(r"^write_bytes: (\d+)", Path("/proc/self/io").read_text(), re.M).group(1))


def main(path):
    # Who measures may be killed; nobody would end this process then.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    task = json.loads(Path(path).read_text())
    base = path.removesuffix(".json")
    result = {}

    def show(what, part):
        Path(base + ".progress").write_text(f"{what}, {part:.0%}")

    index = KINDS[task["index"]](task)
    began, processor = time.perf_counter(), time.process_time()
    if task["how"] == "build":
        index.begin()
        for first, rows in Vectors(task).blocks():
            index.add(first, rows)
            show("building", first / task["count"])
    else:
        # What the page cache had of it would be charged to an earlier run.
        forget_path(task["saved"])
        show("loading", 0)
        getattr(index, "view" if task["how"].startswith("view") else "load")(task["saved"])
        if task["how"] == "view-random":
            advise_random(task["saved"])
        elif task["how"] == "load":
            forget_path(task["saved"])
    result["build_s"], result["build_cpu_s"] = time.perf_counter() - began, time.process_time() - processor
    result["build_written"] = written_bytes()
    index.ready()

    queries = np.load(task["queries"])
    for kind, some in (("warming up", queries[: task["warm"]]), ("searching", queries[task["warm"] :])):
        nanoseconds, ids = [], []
        processor, read, last = time.process_time(), read_bytes(), time.perf_counter() + task["seconds"]
        for n, query in enumerate(some):
            if n % SHOW_EACH == 0:
                show(kind, n / len(some))
            asked = time.perf_counter_ns()
            ids.append(index.ask(query, task["k"]))
            nanoseconds.append(time.perf_counter_ns() - asked)
            if time.perf_counter() > last:
                break
    result["query_cpu_s"], result["query_read"] = time.process_time() - processor, read_bytes() - read
    if task["save"]:
        index.save(task["saved"])
        forget_path(task["saved"])
    np.save(base + ".ns.npy", np.array(nanoseconds))
    np.save(base + ".ids.npy", np.array(ids, np.int64))
    Path(base + ".result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
