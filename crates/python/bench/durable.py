#!/usr/bin/env python3
"""Mappings of bytes that stay: aquifer.open_store beside SQLite (WAL, synchronous=FULL) and LMDB, each durable when a call returns.

Each peer is a process of its own in a memory cgroup of --ram and --slack for the interpreter (root; without, nothing limits what the page
cache takes). Keys have 16 bytes, values --value random bytes. What is measured on --data of values, of keys chosen evenly: puts of one value,
each durable; puts of --batch values in a transaction; gets; gets of --batch keys. Every value that is got is compared with its key. Written is
what the kernel counts for the process, for each value put. Peers have their turns in each run, and medians of all runs count. Peers whose
package is missing are left out and said.

Example: durable.py --data 256M --ram 1G --runs 5
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

import numpy as np
from peers import MIB, Process, resident_mib, size, turn

PEERS = ["aquifer", "aquifer-later", "sqlite3", "lmdb"]
KINDS = ["put", "put many", "get", "get many"]
STAMP_BYTES = 8


class Aquifer:
    durable = "each"

    def __init__(self, folder, data):
        import aquifer

        self.base = aquifer.open_store(os.path.join(folder, "base"), size=4 * data + 64 * MIB, durable=self.durable)
        self.get, self.get_many, self.put_many = self.base.get, self.base.get_many, self.base.put_many

    def put(self, key, value):
        self.base[key] = value


class AquiferLater(Aquifer):
    durable = "later"


class Sqlite:
    def __init__(self, folder, _data):
        import sqlite3

        self.base = sqlite3.connect(os.path.join(folder, "base"), isolation_level=None)
        for line in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE store (key BLOB PRIMARY KEY, value BLOB)"):
            self.base.execute(line)

    def get(self, key):
        row = self.base.execute("SELECT value FROM store WHERE key = ?", (key,)).fetchone()
        return row and row[0]

    def get_many(self, keys):
        self.base.execute("BEGIN")
        found = [self.get(key) for key in keys]
        self.base.execute("COMMIT")
        return found

    PUT = "INSERT INTO store VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"

    def put(self, key, value):
        self.base.execute(self.PUT, (key, value))

    def put_many(self, pairs):
        self.base.execute("BEGIN")
        self.base.executemany(self.PUT, pairs)
        self.base.execute("COMMIT")


class Lmdb:
    def __init__(self, folder, data):
        import lmdb

        self.base = lmdb.open(os.path.join(folder, "base"), map_size=4 * data + 64 * MIB, readahead=False)

    def get(self, key):
        with self.base.begin() as look:
            return look.get(key)

    def get_many(self, keys):
        with self.base.begin() as look:
            return [look.get(key) for key in keys]

    def put(self, key, value):
        with self.base.begin(write=True) as change:
            change.put(key, value)

    def put_many(self, pairs):
        with self.base.begin(write=True) as change:
            change.cursor().putmulti(pairs)


CLASSES = {"aquifer": Aquifer, "aquifer-later": AquiferLater, "sqlite3": Sqlite, "lmdb": Lmdb}


class Work:
    """Operations of a peer."""

    def __init__(self, options):
        data, self.value_bytes, self.batch = size(options.data), options.value, options.batch
        self.random, self.keys = np.random.default_rng(), data // options.value
        self.pool, self.chosen = self.random.bytes(4 * MIB), []
        self.peer = CLASSES[options.child](options.dir, data)
        for first in range(0, self.keys, 1000):
            self.peer.put_many([self.pair(n) for n in range(first, min(first + 1000, self.keys))])

    def key(self, n):
        # Their order is not the one in which they are put.
        return b"%016x" % (n * 0x9E3779B97F4A7C15 % (1 << 64))

    def pair(self, n):
        first = int(self.random.integers(0, len(self.pool) - self.value_bytes))
        return self.key(n), n.to_bytes(STAMP_BYTES, "big") + self.pool[first : first + self.value_bytes - STAMP_BYTES]

    def choose(self, count):
        if len(self.chosen) < count:
            self.chosen = self.random.integers(0, self.keys, 65536).tolist()
        taken, self.chosen = self.chosen[:count], self.chosen[count:]
        return taken

    def check(self, n, value):
        if value is None or len(value) != self.value_bytes or value[:STAMP_BYTES] != n.to_bytes(STAMP_BYTES, "big"):
            raise SystemExit("a value is not the one that was put")

    def run(self, kind):
        """One operation; returns the number of its values."""
        chosen = self.choose(self.batch if kind.endswith("many") else 1)
        if kind == "put":
            self.peer.put(*self.pair(chosen[0]))
        elif kind == "put many":
            self.peer.put_many([self.pair(n) for n in chosen])
        elif kind == "get":
            self.check(chosen[0], self.peer.get(self.key(chosen[0])))
        else:
            for n, value in zip(chosen, self.peer.get_many([self.key(n) for n in chosen])):
                self.check(n, value)
        return len(chosen)


def child(options):
    """One peer, which waits for its turns."""
    work = Work(options)
    print("ready", flush=True)
    for line in sys.stdin:
        counts, figures = turn(options.seconds, lambda: work.run(line.strip()))
        count = sum(counts)
        sample = {
            "values_per_s": count / figures["s"],
            "p50_us": figures["p50_us"],
            "p99_us": figures["p99_us"],
            "cpu_us": figures["cpu_s"] / count * 1e6,
            "written_bytes": figures["written_bytes"] / count,
            "resident_mib": resident_mib(),
        }
        print(json.dumps(sample), flush=True)


def measure(options):
    samples, limit, peers = {}, size(options.ram) + size(options.slack), []
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        words = [f"--{what}={value}" for what, value in vars(options).items() if what in ("data", "value", "batch", "seconds")]
        for name in options.peers.split(","):
            os.mkdir(os.path.join(folder, name))
            peer = Process(name, __file__, [*words, f"--dir={folder}/{name}"], limit)
            if peer.is_ready:
                peers.append(peer)
            else:
                print(f"left out: {name}, {peer.why}", file=sys.stderr)
        for run in range(options.runs):
            for kind in KINDS:
                # Another one begins each time.
                for peer in peers[run % len(peers) :] + peers[: run % len(peers)]:
                    if (sample := peer.run(kind)) is None:
                        raise SystemExit(f"{peer.name} ended in {kind}")
                    samples.setdefault((kind, peer.name), []).append(sample)
        for peer in peers:
            peer.end()
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="256M", help="bytes of all values [256M]")
    parser.add_argument("--value", type=int, default=1000, help="bytes of each value [1000]")
    parser.add_argument("--batch", type=int, default=100, help="values of one batch [100]")
    parser.add_argument("--ram", default="1G", help="RAM of each peer, its file pages included [1G]")
    parser.add_argument("--slack", default="80M", help="added for the interpreter [80M]")
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement [2]")
    parser.add_argument("--runs", type=int, default=5, help="runs, each of all peers in turns [5]")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="a folder on the device to measure")
    parser.add_argument("--records", help="append a JSON line for each sample to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    samples = measure(options)
    if options.records:
        with open(options.records, "a") as file:
            for (kind, name), some in samples.items():
                for sample in some:
                    print(json.dumps(dict(vars(options), kind=kind, peer=name, **sample)), file=file)
    heads = ["what", "peer", "values/s", "least, most", "p50 us", "p99 us", "CPU us each", "bytes written each", "resident MiB"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for kind in KINDS:
        for name in options.peers.split(","):
            if some := samples.get((kind, name)):
                rates = sorted(sample["values_per_s"] for sample in some)
                cells = [kind, name, f"{statistics.median(rates):.0f}", f"{rates[0]:.0f}, {rates[-1]:.0f}"]
                for what in ("p50_us", "p99_us", "cpu_us", "written_bytes", "resident_mib"):
                    cells.append(f"{statistics.median(sample[what] for sample in some):.{1 if what == 'cpu_us' else 0}f}")
                print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
