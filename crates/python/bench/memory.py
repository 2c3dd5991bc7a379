#!/usr/bin/env python3
"""NumPy's own arrays beyond RAM: `aquifer.numpy_memory` beside kernel swap and zswap at the same limit, and beside all RAM.

Three jobs of other people's code: `np.sort`, `KMeans` of scikit-learn, a join of pandas. Each run is a process of its own; limited ones
are in a memory cgroup of --ram and --slack (root), of which the heap has --ram. What a job has found must be what it finds with all RAM, byte by
byte; otherwise the status is 1. Medians count, and runs take turns.

Example: memory.py --data 512M --ram 128M --runs 5
         memory.py --jobs sort --memories native,aquifer,swap
"""
import argparse
import hashlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path

import numpy as np
from peers import MIB, size

sys.path.append(str(Path(__file__).resolve().parents[3] / "tests" / "corpus"))
import swap  # noqa: E402

# How often a group's statistics are brought up to date.
TICK_SECONDS = 0.1
MEMORIES = ["native", "aquifer", "swap", "zswap"]


def sort(count):
    values = np.random.default_rng(1).random(count // 8)
    return np.sort(values)


def kmeans(count):
    from sklearn.cluster import KMeans

    rows = np.random.default_rng(2).random((count // 256, 64), np.float32)
    return KMeans(8, n_init=1, max_iter=5, random_state=0, algorithm="lloyd").fit(rows).labels_


def join(count):
    import pandas

    random, rows = np.random.default_rng(3), count // 64
    left = pandas.DataFrame({"key": random.permutation(rows), "a": random.random(rows)})
    right = pandas.DataFrame({"key": random.permutation(rows), "b": random.random(rows)})
    found = left.merge(right, on="key")
    return np.ascontiguousarray(found[["a", "b"]].to_numpy())


JOBS = {"sort": sort, "kmeans": kmeans, "join": join}


def child(options):
    import aquifer

    job, memory = options.child.split("/")
    ram, heap = nullcontext(), None
    if memory == "aquifer":
        aquifer.configure(ram=options.ram, flash=options.dir, flash_size=max(16 * size(options.data), 4 << 30))
        ram = aquifer.numpy_memory()
    began, processor = time.monotonic(), time.process_time()
    with ram as heap:
        found = JOBS[job](size(options.data))
        took, processor = time.monotonic() - began, time.process_time() - processor
        digest = hashlib.sha256()
        for first in range(0, len(found), 1 << 16):
            digest.update(np.array(found[first : first + (1 << 16)]).tobytes())
        sample = {"seconds": took, "cpu_s": processor, "digest": digest.hexdigest()}
        if heap:
            sample["ram_used_mib"] = heap.stats()["ram_used_bytes"] / MIB
        del found
    print(json.dumps(sample))


def run(options, job, memory, work):
    """One run, as a sample; None if it failed."""
    limit = None if memory == "native" else (size(options.ram) + size(options.slack)) // MIB
    swap_mib = 8 * size(options.data) // MIB if memory in ("swap", "zswap") else 0
    words = [sys.executable, __file__, "--child", f"{job}/{memory}", "--data", options.data, "--ram", options.ram, "--dir", options.dir]
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="2", OMP_NUM_THREADS="2", PYTHONHASHSEED="0")
    with ExitStack() as ended:
        group = ended.enter_context(swap.Swap(work, limit, swap_mib, memory == "zswap")) if limit else None
        command = (group.prefix() if group else "") + "exec " + " ".join(f"'{word}'" for word in words)
        process = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        begun = time.monotonic()
        ended.callback(process.wait)
        ended.callback(process.kill)
        while True:
            try:
                out, err = process.communicate(timeout=TICK_SECONDS)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() - begun > options.patience:
                    process.kill()
                    process.communicate()
                    return None, f"not at its end after {options.patience} s"
                if group:
                    group.refresh()
        if group and group.killed():
            return None, "killed for want of RAM"
    if process.returncode:
        return None, (err.strip().splitlines() or [f"status {process.returncode}"])[-1]
    return json.loads(out), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="512M", help="bytes of a job's data [512M]")
    parser.add_argument("--ram", default="128M", help="RAM of the heap, and of the others with --slack [128M]")
    parser.add_argument("--slack", default="128M", help="what the interpreter and its packages may take beside [128M]")
    parser.add_argument("--dir", default="/var/tmp", help="a folder on the disk of flash and swap [/var/tmp]")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--memories", default=",".join(MEMORIES))
    parser.add_argument("--runs", type=int, default=5, help="medians of so many [5]")
    parser.add_argument("--patience", type=float, default=900, help="seconds after which a run is ended [900]")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    # Swap is switched off, and the group goes, however this ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    why = {"swap": swap.why_no_swap(), "zswap": swap.why_no_zswap()}
    memories = options.memories.split(",")
    for memory in memories:
        if why.get(memory):
            print(f"{memory} is left out: {why[memory]}", file=sys.stderr)
    if os.geteuid() != 0:
        print("memory is not limited: that needs root", file=sys.stderr)
    samples, failed = {}, False
    with tempfile.TemporaryDirectory(dir=options.dir) as work:
        for number in range(options.runs):
            for job in options.jobs.split(","):
                for memory in memories:
                    if why.get(memory):
                        continue
                    sample, failure = run(options, job, memory, Path(work))
                    print(f"{job}, {memory}, run {number + 1}: {failure or sample['seconds']}", file=sys.stderr)
                    failed |= bool(failure)
                    if sample:
                        samples.setdefault((job, memory), []).append(sample)
    print("| job | memory | runs | seconds | least, most | CPU s | of swap | result |\n|" + " --- |" * 8)
    for (job, memory), some in samples.items():
        seconds = sorted(sample["seconds"] for sample in some)
        median = statistics.median(seconds)
        of_swap = [sample["seconds"] for sample in samples.get((job, "swap"), [])]
        native = samples.get((job, "native"), some)[0]["digest"]
        is_same = all(sample["digest"] == native for sample in some)
        failed |= not is_same
        ratio = f"{statistics.median(of_swap) / median:.2f}" if of_swap else "-"
        cells = [job, memory, str(len(some)), f"{median:.1f}", f"{seconds[0]:.1f}, {seconds[-1]:.1f}"]
        cells += [f"{statistics.median(sample['cpu_s'] for sample in some):.1f}", ratio, "the same" if is_same else "**differs**"]
        print("| " + " | ".join(cells) + " |")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
