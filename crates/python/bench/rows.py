#!/usr/bin/env python3
"""Rows of an array larger than RAM: aquifer.Array beside what Python people use otherwise, each in the same memory cgroup.

Each peer is a process of its own in a memory cgroup of --ram and --slack for the interpreter (root; without, nothing limits what the
page cache takes, and that is said). The data are random bytes, so that nothing shrinks them. What is measured: gathers of 1,024 rows chosen
uniformly and by Zipf, updates of as many, and one pass over all rows (a sum). Peers come one after the other, since their files together
would take several times the disk, and the device by itself before each; medians count. Peers whose package is missing are skipped and said.

Example: rows.py --data 2G --ram 256M --runs 5
         rows.py --kinds sum        a pass over what was written in order; after updates it is over what lies about
         rows.py --data 8G --ram 1G --peers aquifer,memmap-random,fio
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from peers import MIB, Process, resident_mib, size, written_bytes, zipf

ROW_BYTES, GATHER = 512, 1024
KINDS_OF_RUNS = ["gather uniform", "gather zipf", "update uniform", "update zipf", "sum"]
# A pass that takes longer is made once.
PASS_SECONDS = 30
PEERS = ["aquifer", "aquifer-pages", "aquifer-stored", "memmap-random", "memmap", "h5py", "zarr", "lmdb", "torch"]


def fill(write, rows, seed=1):
    """Calls `write` with a row's number and blocks of random rows."""
    random = np.random.default_rng(seed)
    for first in range(0, rows, 16384):
        count = min(16384, rows - first)
        write(first, random.integers(0, 1 << 31, (count, ROW_BYTES // 4), np.int32))


class Aquifer:
    layout = "rows"

    def __init__(self, options, rows):
        import aquifer

        self.aquifer = aquifer
        aquifer.configure(ram=options.ram, flash=options.dir, flash_size=3 * size(options.data))
        self.array = aquifer.Array((rows, ROW_BYTES // 4), np.int32, layout=self.layout)

    def write(self, first, block):
        self.array[first : first + len(block)] = block

    def ready(self):
        pass

    def gather(self, rows):
        return self.array[rows]

    def update(self, rows, values):
        self.array[rows] = values

    def total(self):
        return int(self.array.sum())


class AquiferPages(Aquifer):
    layout = "pages"


class AquiferStored(Aquifer):
    """In a volume, and never flushed: as durable as what the others do."""

    def __init__(self, options, rows):
        import aquifer

        self.path = Path(options.dir, f"rows.{os.getpid()}")
        self.array = aquifer.open_array(self.path, (rows, ROW_BYTES // 4), np.int32, size=2 * size(options.data), ram=options.ram)

    def close(self):
        self.array.close()
        self.path.unlink()


class Memmap:
    advice = None

    def __init__(self, options, rows):
        self.path = Path(options.dir, f"rows.{os.getpid()}")
        self.array = np.memmap(self.path, np.int32, "w+", shape=(rows, ROW_BYTES // 4))

    def write(self, first, block):
        self.array[first : first + len(block)] = block

    def ready(self):
        import mmap

        self.array.flush()
        file = os.open(self.path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
        if self.advice:
            self.array._mmap.madvise(mmap.MADV_RANDOM)

    def gather(self, rows):
        return self.array[rows]

    def update(self, rows, values):
        self.array[rows] = values

    def total(self):
        return sum(int(self.array[n : n + 16384].sum(dtype=np.int64)) for n in range(0, len(self.array), 16384))

    def close(self):
        self.path.unlink()


class MemmapRandom(Memmap):
    advice = "random"


class Torch(Memmap):
    def __init__(self, options, rows):
        import torch

        self.torch, self.path = torch, Path(options.dir, f"rows.{os.getpid()}")
        self.tensor = torch.from_file(str(self.path), True, rows * (ROW_BYTES // 4), dtype=torch.int32).reshape(rows, -1)
        self.array = self.tensor.numpy()

    def ready(self):
        os.sync()

    def gather(self, rows):
        return self.tensor[self.torch.from_numpy(rows)]


class H5py(Memmap):
    def __init__(self, options, rows):
        import h5py

        self.path = Path(options.dir, f"rows.{os.getpid()}")
        self.file = h5py.File(self.path, "w")
        self.array = self.file.create_dataset("rows", (rows, ROW_BYTES // 4), np.int32, chunks=(8, ROW_BYTES // 4))

    def ready(self):
        self.file.flush()

    def gather(self, rows):
        # It takes rows in order, each once.
        chosen, places = np.unique(rows, return_inverse=True)
        return self.array[chosen][places]

    def update(self, rows, values):
        chosen, first = np.unique(rows, return_index=True)
        self.array[chosen] = values[first]


class Zarr(Memmap):
    def __init__(self, options, rows):
        import zarr

        self.path = Path(options.dir, f"rows.{os.getpid()}")
        self.array = zarr.create_array(
            str(self.path), shape=(rows, ROW_BYTES // 4), dtype="int32", chunks=(256, ROW_BYTES // 4), compressors=None
        )

    def ready(self):
        pass

    def gather(self, rows):
        return self.array.oindex[rows, :]

    def update(self, rows, values):
        self.array.oindex[rows, :] = values

    def total(self):
        return sum(int(self.array[n : n + 16384].sum(dtype=np.int64)) for n in range(0, self.array.shape[0], 16384))

    def close(self):
        shutil.rmtree(self.path)


class Lmdb:
    def __init__(self, options, rows):
        import lmdb

        self.path, self.rows = Path(options.dir, f"rows.{os.getpid()}"), rows
        self.base = lmdb.open(str(self.path), map_size=4 * size(options.data), sync=False, readahead=False)

    def write(self, first, block):
        with self.base.begin(write=True) as change:
            for n, row in enumerate(block):
                change.put((first + n).to_bytes(8, "big"), row.tobytes(), append=True)

    def ready(self):
        self.base.sync()

    def gather(self, rows):
        out = np.empty((len(rows), ROW_BYTES // 4), np.int32)
        with self.base.begin(buffers=True) as look:
            for n, row in enumerate(rows.tolist()):
                out[n] = np.frombuffer(look.get(row.to_bytes(8, "big")), np.int32)
        return out

    def update(self, rows, values):
        with self.base.begin(write=True) as change:
            for row, value in zip(rows.tolist(), values):
                change.put(row.to_bytes(8, "big"), value.tobytes())

    def total(self):
        with self.base.begin(buffers=True) as look:
            return sum(int(np.frombuffer(value, np.int32).sum(dtype=np.int64)) for _, value in look.cursor())

    def close(self):
        shutil.rmtree(self.path)


KINDS = {
    "aquifer": Aquifer, "aquifer-pages": AquiferPages, "aquifer-stored": AquiferStored, "memmap": Memmap,
    "memmap-random": MemmapRandom, "h5py": H5py, "zarr": Zarr, "lmdb": Lmdb, "torch": Torch,
}  # fmt: skip


def child(options):
    """One peer, which waits for its turns."""
    rows = size(options.data) // ROW_BYTES
    peer = KINDS[options.child](options, rows)
    fill(peer.write, rows)
    peer.ready()
    random = np.random.default_rng(os.getpid())
    print("ready", flush=True)
    choose = {"uniform": lambda: random.integers(0, rows, GATHER), "zipf": lambda: zipf(random, rows, GATHER)}
    for line in sys.stdin:
        kind = line.strip()
        began, processor, wrote, count = time.monotonic(), time.process_time(), written_bytes(), 0
        if kind == "sum":
            peer.total()
            count = rows
        else:
            what, distribution = kind.split()
            while time.monotonic() - began < options.seconds:
                chosen = choose[distribution]()
                if what == "gather":
                    peer.gather(chosen)
                else:
                    peer.update(chosen, np.full((GATHER, ROW_BYTES // 4), count, np.int32))
                count += GATHER
        took = time.monotonic() - began
        sample = {
            "rows_per_s": count / took,
            "mib_per_s": count * ROW_BYTES / took / MIB,
            "cpu_us_per_row": (time.process_time() - processor) / count * 1e6,
            "written_per_changed": (written_bytes() - wrote) / (count * ROW_BYTES),
            "resident_mib": resident_mib(),
        }
        print(json.dumps(sample), flush=True)
    if hasattr(peer, "close"):
        peer.close()


def fio(options, file_bytes, block, mode, depth):
    """The device by itself, in bytes and operations each second."""
    path = Path(options.dir, f"rows-fio.{os.getpid()}")
    words = ["fio", "--name=rows", f"--filename={path}", f"--size={file_bytes}", f"--bs={block}", f"--rw={mode}", "--direct=1"]
    words += ["--ioengine=io_uring", f"--iodepth={depth}", f"--runtime={options.seconds}", "--time_based", "--output-format=json"]
    try:
        found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["jobs"][0]["read"]
        return {"rows_per_s": found["iops"], "mib_per_s": found["bw_bytes"] / MIB}
    except (OSError, subprocess.CalledProcessError, KeyError, ValueError):
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="2G", help="bytes of all rows [2G]")
    parser.add_argument("--ram", default="256M", help="RAM of the heap, and of the others with --slack [256M]")
    parser.add_argument("--slack", default="80M", help="what the interpreter and NumPy may take beside [80M]")
    parser.add_argument("--dir", default="/var/tmp", help="a folder on the disk that is measured [/var/tmp]")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement [3]")
    parser.add_argument("--runs", type=int, default=5, help="medians of so many [5]")
    parser.add_argument("--peers", default=",".join(PEERS) + ",fio")
    parser.add_argument("--kinds", default=",".join(KINDS_OF_RUNS), help=f"what is measured, in this order [{','.join(KINDS_OF_RUNS)}]")
    parser.add_argument("--records", help="append a JSON line for each sample to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    kinds = options.kinds.split(",")
    samples, rows = {}, size(options.data) // ROW_BYTES

    def keep(kind, name, sample):
        samples.setdefault((kind, name), []).append(sample)
        if options.records:
            with open(options.records, "a") as file:
                print(json.dumps(dict(vars(options), kind=kind, peer=name, **sample)), file=file)

    for name in options.peers.split(","):
        if name == "fio":
            continue
        if "fio" in options.peers.split(","):
            # Before each of the others, as the device is not the same at all times.
            for kind, how in (("gather uniform", (512, "randread", 32)), ("sum", ("1M", "read", 8))):
                if sample := fio(options, size(options.data), *how):
                    keep(kind, "fio", sample)
        # One after the other: together their files would need several times the disk, and they would share the device.
        words = ["--data", options.data, "--ram", options.ram, "--dir", options.dir, "--seconds", str(options.seconds)]
        process = Process(name, __file__, words, size(options.ram) + size(options.slack))
        if not process.is_ready:
            print(f"{name} is left out: {process.why}", file=sys.stderr)
            process.end()
            continue
        for run in range(options.runs):
            for kind in kinds:
                before = samples.get((kind, name))
                if kind == "sum" and before and rows / before[-1]["rows_per_s"] > PASS_SECONDS:
                    continue
                sample = process.run(kind)
                if sample is None:
                    print(f"{name} ended in {kind}", file=sys.stderr)
                    break
                sample["group_mib"] = process.group.peak_mib()
                keep(kind, name, sample)
                print(f"{name}, run {run + 1}, {kind}: {sample['rows_per_s']:.0f} rows/s", file=sys.stderr)
        process.end()
        # What one that was killed has left.
        left = Path(options.dir, f"rows.{process.process.pid}")
        shutil.rmtree(left, ignore_errors=True)
        left.unlink(missing_ok=True)
    Path(options.dir, f"rows-fio.{os.getpid()}").unlink(missing_ok=True)
    print("| what | peer | runs | rows/s | least, most | MiB/s | CPU us a row | written/changed | resident MiB | group's peak MiB |\n|" + " --- |" * 10)
    for kind in kinds:
        for name in [*options.peers.split(",")]:
            some = samples.get((kind, name))
            if not some:
                continue

            def median(what):
                values = [sample[what] for sample in some if sample.get(what) is not None]
                return statistics.median(values) if values else None

            rates = sorted(sample["rows_per_s"] for sample in some)
            cells = [kind, name, str(len(some)), f"{median('rows_per_s'):.0f}", f"{rates[0]:.0f}, {rates[-1]:.0f}", f"{median('mib_per_s'):.0f}"]
            for what, form in (("cpu_us_per_row", ".1f"), ("written_per_changed", ".2f"), ("resident_mib", ".0f"), ("group_mib", ".0f")):
                value = median(what)
                cells.append("-" if value is None or (what == "written_per_changed" and "update" not in kind) else f"{value:{form}}")
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
