#!/usr/bin/env python3
"""Counts what one request of each kind costs the heap: faults, reads of flash, bytes written.

    AQUIFER_SOCKET=$PWD/memcached.sock ./start.sh --ram 16M --data 400M -p 11311 &
    ./faults.py 11311 --socket $PWD/memcached.sock [--items 100000] [--bytes 1000] [--command aquifer]

One client that waits for each batch of 50 replies; the items are new when it starts.
"""

import argparse
import json
import random
import subprocess
import time

from client import Client, value

BATCH = 50


class Meter:
    def __init__(self, options):
        self.options = options
        self.client = Client(options.port)

    def stats(self):
        command = [self.options.command, "stats", "--json", "--socket", self.options.socket]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["stats"]

    def measure(self, name, keys, batch):
        before, start = self.stats(), time.monotonic()
        for at in range(0, len(keys), BATCH):
            batch(keys[at : at + BATCH])
        seconds, after = time.monotonic() - start, self.stats()

        def each(*fields):
            return sum(after[field] - before[field] for field in fields) / len(keys)

        print(
            f"| {name} | {each('faults'):.2f} | {each('misses'):.2f} | {each('hits'):.2f} | {each('zero_fills'):.2f} "
            f"| {each('device_written_bytes'):.0f} | {len(keys) / seconds:.0f} |",
            flush=True,
        )

    def data(self, key, version):
        return value(key, version, self.options.bytes)

    def store(self, version):
        def batch(keys):
            for key in keys:
                self.client.send(b"set %s 0 0 %d" % (key, self.options.bytes), self.data(key, version))
            self.client.flush()
            assert all(self.client.line() == b"STORED" for _ in keys)

        return batch

    def fetch(self, keys):
        for key in keys:
            self.client.send(b"get " + key)
        self.client.flush()
        assert all(list(self.client.values()) == [key] for key in keys)

    def delete(self, keys):
        for key in keys:
            self.client.send(b"delete " + key)
        self.client.flush()
        assert all(self.client.line() == b"DELETED" for _ in keys)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--items", type=int, default=100000)
    parser.add_argument("--bytes", type=int, default=1000)
    parser.add_argument("--command", default="aquifer")
    options = parser.parse_args()
    meter = Meter(options)
    keys = [b"item-%d" % number for number in range(options.items)]
    print("| request | faults | read from flash | from the cache | new | bytes written | requests/s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    meter.measure("set, new", keys, meter.store(0))
    random.Random(1).shuffle(keys)
    fifth = options.items // 5
    first, second = keys[:fifth], keys[fifth : 2 * fifth]
    meter.measure("get, cold", first, meter.fetch)
    meter.measure("get, cold, a second time", first, meter.fetch)
    meter.measure("get, 100 hot items", first[:100] * (fifth // 100), meter.fetch)
    meter.measure("set, overwrite", second, meter.store(1))
    meter.measure("delete", second, meter.delete)


if __name__ == "__main__":
    main()
