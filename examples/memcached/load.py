#!/usr/bin/env python3
"""Writes much more than fits into RAM, changes a part of it and compares every byte.

    load.py PORT --megabytes 128 [--clients 4] [--may-evict] [--may-refuse]

Each client is a process with keys of its own. With --may-evict values may be missing, with --may-refuse the
server may be out of memory; but values that are there must be right.
"""

import argparse
import os
import random
import sys
import time

from client import Client, value

BATCH = 64
LARGE = 512 << 10


class Load:
    def __init__(self, options, number, size_bytes):
        self.client = Client(options.port)
        self.may_evict, self.may_refuse = options.may_evict, options.may_refuse
        self.random = random.Random(number)
        self.missing = self.refused = 0
        # What should be there: key: pieces of (version, size).
        self.model = {}
        total = 0
        while total < size_bytes:
            size = int(128 * 64 ** self.random.random())
            self.model[b"key-%d-%d" % (number, len(self.model))] = [(0, size)]
            total += size

    def data(self, key):
        return b"".join(value(key, *piece) for piece in self.model[key])

    def batches(self, keys):
        keys = list(keys)
        for at in range(0, len(keys), BATCH):
            yield keys[at : at + BATCH]

    def some(self, share):
        return self.random.sample(list(self.model), int(len(self.model) * share))

    def expect(self, keys, *replies):
        self.client.flush()
        for key in keys:
            got = self.client.line()
            if self.may_refuse and got.startswith(b"SERVER_ERROR"):
                # The old value may be there still, or gone.
                self.refused += 1
                self.model.pop(key, None)
            elif got not in replies:
                raise AssertionError(f"{key!r}: {got!r}, not {replies}")

    def or_gone(self, reply):
        """A change of a value that was evicted is refused."""
        return (reply, b"NOT_FOUND", b"NOT_STORED") if self.may_evict else (reply,)

    def store(self, keys):
        for batch in self.batches(keys):
            for key in batch:
                data = self.data(key)
                self.client.send(b"set %s 7 0 %d" % (key, len(data)), data)
            self.expect(batch, b"STORED")

    def overwrite(self):
        keys = self.some(0.25)
        for key in keys:
            # Mostly of the same size, sometimes of another.
            size = self.model[key][0][1] if self.random.random() < 0.7 else self.random.randrange(1, 8192)
            self.model[key] = [(1, size)]
        self.store(keys)

    def append(self):
        for batch in self.batches(self.some(0.1)):
            for key in batch:
                piece = (2, self.random.randrange(1, 1500))
                self.model[key].append(piece)
                self.client.send(b"append %s 0 0 %d" % (key, piece[1]), value(key, *piece))
            self.expect(batch, *self.or_gone(b"STORED"))
        if self.may_evict:
            # What was evicted before is there in part or not at all from here on.
            self.model = {key: pieces for key, pieces in self.model.items() if len(pieces) == 1}

    def compare_and_swap(self):
        for key in self.some(0.02):
            found = self.client.get(key, command=b"gets")
            if key not in found:
                if not self.may_evict:
                    raise AssertionError(f"{key!r} is missing")
                continue
            cas = found[key][2]
            piece = (3, self.random.randrange(1, 8192))
            data = value(key, *piece)
            self.client.send(b"cas %s 7 0 %d %d" % (key, len(data), cas + 1000000), data)
            self.expect([key], *self.or_gone(b"EXISTS"))
            if key in self.model:
                self.model[key] = [piece]
                self.client.send(b"cas %s 7 0 %d %d" % (key, len(data), cas), data)
                self.expect([key], *self.or_gone(b"STORED"))

    def delete(self):
        gone = self.some(0.12)
        for batch in self.batches(gone):
            for key in batch:
                self.client.send(b"delete " + key)
                del self.model[key]
            self.expect(batch, *self.or_gone(b"DELETED"))
        for batch in self.batches(gone):
            if self.client.get(*batch):
                raise AssertionError("a deleted value came back")

    def large(self, number):
        """Values that are chains of chunks, and asked for all at once: more than the page buffer holds."""
        keys = [b"large-%d-%d" % (number, i) for i in range(6)]
        for key in keys:
            self.model[key] = [(4, LARGE)]
        self.store(keys)
        if stored := [key for key in keys if key in self.model]:
            self.compare_batch(stored)

    def compare_batch(self, keys):
        found = self.client.get(*keys)
        for key in keys:
            if key in found:
                if found[key] != (7, self.data(key)):
                    raise AssertionError(f"{key!r}: {len(found[key][1])} bytes, and not those that were stored")
            elif self.may_evict:
                self.missing += 1
            else:
                raise AssertionError(f"{key!r} is missing")

    def compare(self):
        keys = list(self.model)
        self.random.shuffle(keys)
        for batch in self.batches(keys):
            self.compare_batch(batch)

    def expire(self, number):
        keys = [b"short-%d-%d" % (number, i) for i in range(100)]
        for key in keys:
            self.client.send(b"set %s 0 2 6" % key, b"expire")
        self.expect(keys, b"STORED")
        time.sleep(3.2)
        if self.client.get(*keys):
            raise AssertionError("a value outlived its time")


def run(options, number, size_bytes):
    load = Load(options, number, size_bytes)
    load.store(load.model)
    load.compare()
    load.overwrite()
    load.append()
    load.compare_and_swap()
    load.delete()
    load.large(number)
    load.expire(number)
    load.compare()
    load.compare()
    return load


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--megabytes", type=int, default=128)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--may-evict", action="store_true")
    parser.add_argument("--may-refuse", action="store_true")
    options = parser.parse_args()
    share = (options.megabytes << 20) // options.clients
    children = []
    for number in range(options.clients):
        child = os.fork()
        if child == 0:
            try:
                load = run(options, number, share)
                print(
                    f"client {number}: {len(load.model)} values compared, {load.missing} evicted, "
                    f"{load.refused} refused",
                    flush=True,
                )
                os._exit(0)
            except BaseException as error:  # the parent must see every failure as a status
                print(f"client {number}: {type(error).__name__}: {error}", flush=True)
                os._exit(1)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    stats = Client(options.port).stats()
    print({name: stats[name] for name in ("curr_items", "bytes", "evictions", "cmd_get", "cmd_set")})
    if options.may_evict and stats["evictions"] == "0":
        print("nothing was evicted")
        return 1
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
