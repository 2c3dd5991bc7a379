#!/usr/bin/env python3
"""A cache of values larger than RAM: aquifer.Store beside what Python people use otherwise, each in the same memory cgroup.

Each peer is a process of its own in a memory cgroup of --ram and --slack for the interpreter (root; without, nothing limits what the
page cache takes). Values have 4 to 64 KiB; one half of them are random bytes, the other half is text of words, which compresses. Keys
are chosen by Zipf with exponent 0.99. What is measured: gets, puts, and gets with a tenth of puts between. Every value that is got is
compared with its key. Medians of all runs count. Peers whose package is missing are left out and said.

With --llama the caches of llama-cpp-python are compared: --sessions are chosen by Zipf, and each turn gets the state of a session by
its tokens and puts the next one. The states are simulated: objects as llama-cpp-python makes them, with --state of random bytes. They do
not come from a model, which would take longer than the caches do.

Example: store.py --data 2G --ram 256M --runs 5
         store.py --llama --state 16M --ram 256M --peers aquifer,LlamaDiskCache
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from peers import MIB, Process, resident_mib, size, turn, zipf

VALUE_BYTES, POOL_BYTES, STAMP_BYTES = (4 << 10, 64 << 10), 4 * MIB, 8
TOKENS, TOKENS_OF_A_TURN, SHARED_TOKENS = 400, 20, 100
PEERS = ["aquifer", "aquifer-many", "diskcache", "lmdb", "sqlite3", "rocksdict"]
LLAMA_PEERS = ["aquifer", "LlamaDiskCache"]
COLUMNS = {
    "ops_per_s": ".0f", "p50_us": ".0f", "p99_us": ".0f", "cpu_us_per_op": ".0f", "written_mib": ".1f", "hits_percent": ".1f", "resident_mib": ".0f",
}  # fmt: skip


class Values:
    """The value of each key. Each time that it is put it is another one, since SQLite does not write what is there already."""

    def __init__(self, data):
        random = np.random.default_rng(1)
        self.keys = max(1, data // (sum(VALUE_BYTES) // 2))
        words = [bytes(random.integers(97, 123, int(length), np.uint8)) for length in random.integers(2, 12, 5000)]
        text = b" ".join(words[n] for n in zipf(random, len(words), POOL_BYTES // 5))[: POOL_BYTES // 2]
        self.pools = [random.bytes(POOL_BYTES), text.ljust(POOL_BYTES // 2)]
        self.sizes, self.made = random.integers(*VALUE_BYTES, self.keys), 0

    def __getitem__(self, key):
        pool, bytes_of_it = self.pools[key % 2], int(self.sizes[key]) - STAMP_BYTES
        self.made += 1
        first = self.made * 2654435761 % (len(pool) - bytes_of_it)
        return key.to_bytes(STAMP_BYTES, "big") + pool[first : first + bytes_of_it]


class Aquifer:
    many = 1

    def __init__(self, options, data):
        import aquifer

        aquifer.configure(ram=options.ram, flash=options.dir, flash_size=max(3 * data, 256 * MIB))
        self.store = aquifer.Store(capacity=data * 5 // 4)

    def get(self, keys):
        return self.store.get_many(keys)

    def put(self, pairs):
        self.store.put_many(pairs)


class AquiferMany(Aquifer):
    """The same in batches, whose time is that of an operation."""

    many = 32


class OnDisk:
    many = 1

    def __init__(self, options, data):
        self.path = Path(options.dir, "base")
        self.path.mkdir()
        self.open(data)

    def get(self, keys):
        return [self.get_one(key) for key in keys]

    def put(self, pairs):
        for key, value in pairs:
            self.put_one(key, value)


class Diskcache(OnDisk):
    def open(self, data):
        import diskcache

        cache = diskcache.Cache(str(self.path), size_limit=data * 5 // 4)
        self.get_one, self.put_one = cache.get, cache.set


class Lmdb(OnDisk):
    def open(self, data):
        import lmdb

        self.base = lmdb.open(str(self.path), map_size=4 * data, sync=False, readahead=False)

    def get_one(self, key):
        with self.base.begin() as look:
            return look.get(key.to_bytes(8, "big"))

    def put_one(self, key, value):
        with self.base.begin(write=True) as change:
            change.put(key.to_bytes(8, "big"), value)


class Sqlite(OnDisk):
    def open(self, _data):
        import sqlite3

        self.base = sqlite3.connect(self.path / "base", isolation_level=None)
        for line in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=OFF", "CREATE TABLE store (key INTEGER PRIMARY KEY, value BLOB)"):
            self.base.execute(line)

    def get_one(self, key):
        row = self.base.execute("SELECT value FROM store WHERE key = ?", (key,)).fetchone()
        return row and row[0]

    def put_one(self, key, value):
        self.base.execute("INSERT INTO store VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))


class Rocksdict(OnDisk):
    def open(self, _data):
        import rocksdict

        settings = rocksdict.Options(raw_mode=True)
        # Its own are twice 64 MiB of new values, whatever the limit of memory is.
        settings.set_write_buffer_size(8 * MIB)
        self.base = rocksdict.Rdict(str(self.path), settings)

    def get_one(self, key):
        return self.base.get(key.to_bytes(8, "big"))

    def put_one(self, key, value):
        self.base[key.to_bytes(8, "big")] = value


KINDS = {"aquifer": Aquifer, "aquifer-many": AquiferMany, "diskcache": Diskcache, "lmdb": Lmdb, "sqlite3": Sqlite, "rocksdict": Rocksdict}


class Operations:
    """Gets and puts of a peer."""

    kinds = ["get", "put", "mixed"]

    def __init__(self, options):
        self.values, self.random = Values(size(options.data)), np.random.default_rng()
        self.peer = KINDS[options.child](options, size(options.data))
        for first in range(0, self.values.keys, 64):
            self.peer.put([(key, self.values[key]) for key in range(first, min(first + 64, self.values.keys))])
        self.chosen = []

    def run(self, kind):
        """One operation: how many there were in it, and how many found something of how many gets."""
        if len(self.chosen) < self.peer.many:
            self.chosen = zipf(self.random, self.values.keys, 4096).tolist()
        keys, self.chosen = self.chosen[: self.peer.many], self.chosen[self.peer.many :]
        if kind == "put" or (kind == "mixed" and self.random.random() < 0.1):
            self.peer.put([(key, self.values[key]) for key in keys])
            return len(keys), 0, 0
        found = [(key, value) for key, value in zip(keys, self.peer.get(keys)) if value is not None]
        if any(int.from_bytes(value[:STAMP_BYTES], "big") != key or len(value) != self.values.sizes[key] for key, value in found):
            raise SystemExit("a value is not the one that was put")
        return len(keys), len(found), len(keys)


class Turns:
    """Turns of sessions, with a cache of states."""

    kinds = ["turn"]

    def __init__(self, options):
        self.state_bytes, self.count = size(options.state), options.sessions
        data = self.state_bytes * self.count
        try:
            from llama_cpp import LlamaState
        except ImportError:
            LlamaState = SimpleNamespace
        self.make, self.random = LlamaState, np.random.default_rng()
        if options.child == "aquifer":
            import aquifer

            aquifer.configure(ram=options.ram, flash=options.dir, flash_size=max(3 * data, 256 * MIB))
            self.cache = aquifer.llama.Cache(data * 5 // 4)
        else:
            from llama_cpp.llama_cache import LlamaDiskCache

            self.cache = LlamaDiskCache(options.dir, data * 5 // 4)
        # LlamaDiskCache says all that it does.
        sys.stderr = open("/dev/null", "w")
        shared = list(range(SHARED_TOKENS))
        self.sessions = [shared + self.random.integers(0, 32000, TOKENS - SHARED_TOKENS).tolist() for _ in range(self.count)]
        self.pool = self.random.bytes(self.state_bytes + MIB)
        for tokens in self.sessions:
            self.put(tokens)

    def put(self, tokens):
        first = int(self.random.integers(0, MIB))
        data, ids = self.pool[first : first + self.state_bytes], np.array(tokens, np.intc)
        self.cache[tokens] = self.make(
            input_ids=ids, scores=np.zeros((1, 1), np.single), n_tokens=len(tokens), llama_state=data, llama_state_size=len(data), seed=1
        )

    def run(self, _kind):
        session = int(zipf(self.random, self.count, 1)[0])
        tokens = self.sessions[session]
        try:
            state = self.cache[tokens]
            found = len(state.llama_state) == self.state_bytes and state.n_tokens == len(tokens) and state.input_ids.tolist() == tokens
        except KeyError:
            found = False
        # A conversation that became long begins anew.
        tokens = tokens if len(tokens) < 5 * TOKENS else tokens[:TOKENS]
        self.sessions[session] = tokens + self.random.integers(0, 32000, TOKENS_OF_A_TURN).tolist()
        self.put(self.sessions[session])
        return 1, int(found), 1


def child(options):
    """One peer, which waits for its turns."""
    work = (Turns if options.llama else Operations)(options)
    print("ready", flush=True)
    for line in sys.stdin:
        results, figures = turn(options.seconds, lambda: work.run(line.strip()))
        count, found, asked = (sum(numbers) for numbers in zip(*results))
        sample = {
            "ops_per_s": count / figures["s"],
            "p50_us": figures["p50_us"],
            "p99_us": figures["p99_us"],
            "cpu_us_per_op": figures["cpu_s"] / count * 1e6,
            "written_mib": figures["written_bytes"] / MIB,
            "hits_percent": 100 * found / asked if asked else None,
            "resident_mib": resident_mib(),
        }
        print(json.dumps(sample), flush=True)


def measure(options, kinds):
    """Samples by what was measured and by peer."""
    samples = {}
    for name in options.peers.split(","):
        # One after the other: together their files would need several times the disk, and they would share the device.
        with tempfile.TemporaryDirectory(prefix="aquifer-store.", dir=options.dir) as folder:
            measure_peer(options, kinds, name, folder, samples)
    return samples


def measure_peer(options, kinds, name, folder, samples):
    names = ("data", "ram", "seconds", "state", "sessions")
    words = [word for one in names for word in (f"--{one}", str(getattr(options, one)))] + ["--dir", folder] + ["--llama"] * options.llama
    process = Process(name, __file__, words, size(options.ram) + size(options.slack))
    if not process.is_ready:
        print(f"{name} is left out: {process.why}", file=sys.stderr)
        return process.end()
    for run in range(options.runs):
        for kind in kinds:
            sample = process.run(kind)
            if sample is None:
                print(f"{name} ended in {kind}", file=sys.stderr)
                return process.end()
            sample["peak_mib"] = process.group.peak_mib()
            samples.setdefault((kind, name), []).append(sample)
            print(f"{name}, run {run + 1}, {kind}: {sample['ops_per_s']:.0f} operations/s", file=sys.stderr)
    process.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="512M", help="bytes of all values, eight times the RAM [512M]")
    parser.add_argument("--ram", default="64M", help="RAM of the heap, and of the others with --slack [64M]")
    parser.add_argument("--slack", default="80M", help="what the interpreter and NumPy may take beside [80M]")
    parser.add_argument("--dir", default="/var/tmp", help="a folder on the disk that is measured [/var/tmp]")
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement [2]")
    parser.add_argument("--runs", type=int, default=3, help="medians of so many [3]")
    parser.add_argument("--peers", help=f"[{','.join(PEERS)}; with --llama {','.join(LLAMA_PEERS)}]")
    parser.add_argument("--llama", action="store_true", help="caches of llama-cpp-python, with simulated states")
    parser.add_argument("--sessions", type=int, default=200, help="with --llama: how many there are [200]")
    parser.add_argument("--state", default="2M", help="with --llama: bytes of each state [2M]")
    parser.add_argument("--records", help="append a JSON line for each sample to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    options.peers = options.peers or ",".join(LLAMA_PEERS if options.llama else PEERS)
    kinds = (Turns if options.llama else Operations).kinds
    samples = measure(options, kinds)
    if options.records:
        with open(options.records, "a") as file:
            for (kind, name), some in samples.items():
                for sample in some:
                    print(json.dumps(dict(vars(options), kind=kind, peer=name, **sample)), file=file)
    heads = ["what", "peer", "operations/s", "least, most", "p50 us", "p99 us", "CPU us each", "MiB written", "% found", "resident MiB", "peak MiB"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for kind in kinds:
        for name in options.peers.split(","):
            some = samples.get((kind, name))
            if not some:
                continue
            rates = sorted(sample["ops_per_s"] for sample in some)
            cells = [kind, name]
            for what, form in {**COLUMNS, "peak_mib": ".0f"}.items():
                values = [sample[what] for sample in some if sample[what] is not None]
                cells.append(f"{statistics.median(values):{form}}" if values else "-")
            cells.insert(3, f"{rates[0]:.0f}, {rates[-1]:.0f}")
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
