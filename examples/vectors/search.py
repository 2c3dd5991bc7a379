"""Searches in more vectors than RAM holds, by arrays of `aquifer`: all vectors, and lists of them (IVF). Run it whole, or cell by cell.

examples:
  search.py                                    100,000 vectors of 128 numbers in 16 MiB of RAM; a minute
  search.py --count 1000000 --ram 128M --plot search.png
  search.py --file sift_base.fvecs --ram 64M   its last rows are the queries
"""
# %% Settings
import argparse
import os
import sys
import time

import aquifer
import numpy as np

import ivf
import nearest
import sets

IN_NOTEBOOK = "ipykernel" in sys.modules
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--count", type=int, help="vectors [100000, or all of --file]")
parser.add_argument("--dims", type=int, default=128, help="numbers of a vector [128]")
parser.add_argument("--file", help="vectors of a .npy or .fvecs file in place of a mixture of Gaussians")
parser.add_argument("--queries", type=int, default=512, help="how many [512]")
parser.add_argument("--batch", type=int, default=64, help="queries that are asked together [64]")
parser.add_argument("--k", type=int, default=10, help="neighbours of a query [10]")
parser.add_argument("--lists", type=int, help="lists of the index [twice the root of --count]")
parser.add_argument("--ram", default="16M", help="RAM of the heap [16M]")
parser.add_argument("--flash", default=os.environ.get("TMPDIR", "/var/tmp"), help="where the rest lies [$TMPDIR, or /var/tmp]")
parser.add_argument("--seconds", type=float, default=1, help="of each measurement [1]")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--plot", help="draw the result to this PNG or SVG file (needs matplotlib)")
options = parser.parse_args([] if IN_NOTEBOOK else None)
options.count = options.count or (None if options.file else 100_000)
base, asked = sets.sets(options.file, options.count, options.dims, options.queries, options.seed)
queries = sets.whole(asked)
data_bytes = 4 * base.shape[0] * base.shape[1]
RAM_BYTES_MIN = 8 << 20


def new_heap(ram):
    """A heap with flash for the vectors, their index, and some more."""
    return aquifer.Heap(ram=ram, flash=options.flash, flash_size=(1 << 30) + 4 * data_bytes)


def rate(call, parts):
    """Calls with one of `parts` after the other, again and again for some seconds; parts a second."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < options.seconds or count < len(parts):
        call(parts[count % len(parts)])
        count += 1
    return count / (time.perf_counter() - began)


batches = np.array_split(queries, max(1, len(queries) // options.batch))

# %% The vectors, in an array of which each row is on flash or in RAM by itself
heap = new_heap(options.ram)
began = time.perf_counter()
vectors = ivf.loaded(base, heap)
print(f"{vectors}, {options.ram} of RAM; loaded in {time.perf_counter() - began:.1f} s")

# %% Exact search: one pass over all vectors, whatever the number of queries
began = time.perf_counter()
truth, _ = ivf.exact(vectors, queries, options.k)
took = time.perf_counter() - began
print(f"exact: {len(queries)} queries in {took:.2f} s, {len(queries) / took:.0f} queries/s, {len(vectors) / took:.0f} rows/s")

# %% An index: vectors near each other lie together, in lists
began = time.perf_counter()
index = ivf.Ivf.build(vectors, options.lists, seed=options.seed)
print(f"index: {index.lists} lists of {len(vectors) / index.lists:.0f} vectors, built in {time.perf_counter() - began:.1f} s")

# %% Recall against speed: more lists a query find more neighbours, and cost more rows
probes = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n < index.lists]
curve = []
print("\n| nprobe | recall | queries/s | rows/s |\n|" + " --- |" * 4)
for nprobe in probes:
    found, _ = index.search(queries, options.k, nprobe)
    recall = nearest.recall(found, truth)
    speed = rate(lambda batch: index.search(batch, options.k, nprobe), batches) * len(queries) / len(batches)
    rows = sum(index.rows_read(batch, nprobe) for batch in batches) / len(queries)
    curve.append((recall, speed))
    print(f"| {nprobe} | {recall:.3f} | {speed:.0f} | {speed * rows:.0f} |")

# %% The same with less RAM and more: what a heap's budget gives
NPROBE, GATHER = 8, 1024
limits, random = [], np.random.default_rng(options.seed)
gathers = [random.integers(0, len(vectors), GATHER) for _ in range(64)]
print(f"\n| RAM MiB | of the vectors | RAM used at most MiB | queries/s, nprobe {NPROBE} | random rows/s |\n|" + " --- |" * 5)
for part in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2):
    ram = int(part * data_bytes)
    if ram < RAM_BYTES_MIN:
        continue
    with new_heap(ram) as other:
        copy = index.copy_to(other)
        speed = rate(lambda batch: copy.search(batch, options.k, NPROBE), batches) * len(queries) / len(batches)
        used = other.stats()["ram_used_bytes"]
    with new_heap(ram) as other:
        copy = ivf.copied(vectors, other)
        rows = rate(lambda some: copy[some], gathers) * GATHER
        used = max(used, other.stats()["ram_used_bytes"])
    limits.append((ram / (1 << 20), speed, rows))
    print(f"| {ram / (1 << 20):.0f} | {part:g} | {used / (1 << 20):.0f} | {speed:.0f} | {rows:.0f} |")

# %% Pictures
if IN_NOTEBOOK or options.plot:
    if not IN_NOTEBOOK:
        import matplotlib

        matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), constrained_layout=True)
    left.plot(*zip(*curve), "o-", color="#009E73")
    for (recall, speed), nprobe in zip(curve, probes):
        left.annotate(str(nprobe), (recall, speed), xytext=(4, 4), textcoords="offset points", fontsize=8)
    left.set_yscale("log")
    left.set(xlabel=f"recall@{options.k}", ylabel="queries/s", title="lists of a query (nprobe)")
    for axes, place, title in ((middle, 1, f"queries/s, nprobe {NPROBE}"), (right, 2, f"rows/s, {GATHER} random rows a batch")):
        axes.plot([limit[0] for limit in limits], [limit[place] for limit in limits], "o-", color="#009E73")
        axes.axvline(data_bytes / (1 << 20), color="#828282", linestyle="--")
        axes.set_xscale("log", base=2)
        axes.set_xticks([limit[0] for limit in limits], [f"{limit[0]:.0f}" for limit in limits])
        axes.set_ylim(bottom=0)
        axes.set(xlabel="MiB of RAM (dashed: all vectors)", title=title)
    figure.suptitle(f"{len(vectors):,} vectors of {vectors.shape[1]} float32, {len(batches[0])} queries at a time")
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    if options.plot:
        figure.savefig(options.plot)
