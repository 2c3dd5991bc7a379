#!/usr/bin/env python3
"""Sends the same requests to two servers and compares their replies byte by byte.

    same.py PORT PORT [--requests 20000]

Most of the text protocol, values of 0 bytes to more than a mebibyte, and few keys, so that requests meet.
"""

import argparse
import random
import sys
import time

from client import Client, value

KEYS = 400
# The reply to a no-op of the meta commands.
META_END = b"MN"


def size(rng):
    kind = rng.random()
    if kind < 0.6:
        return rng.randrange(0, 600)
    if kind < 0.9:
        return rng.randrange(0, 10000)
    if kind < 0.995:
        return rng.randrange(0, 300000)
    return rng.choice((512 << 10, (1 << 20) - 1000, (1 << 20) + 1, 3 << 20))


class Both:
    """Two connections that must say the same."""

    def __init__(self, ports):
        self.clients = [Client(port) for port in ports]

    def same(self, what, replies):
        if replies[0] != replies[1]:
            raise AssertionError(f"{what!r}: {replies[0]!r:.300} and {replies[1]!r:.300}")
        return replies[0]

    def line(self, request, data=None):
        return self.same(request, [client.ask(request, data) for client in self.clients])

    def values(self, request):
        for client in self.clients:
            client.send(request)
            client.flush()
        return self.same(request, [client.values() for client in self.clients])

    def meta(self, request, data=None):
        """A meta command and a no-op behind it, whose reply ends it."""

        def reply(client):
            lines = []
            client.send(request, data)
            client.send(b"mn")
            client.flush()
            while (line := client.line()) != META_END:
                lines.append(line)
                if line.startswith(b"VA "):
                    lines.append(client.stream.read(int(line.split(b" ")[1]) + 2))
            return lines

        return self.same(request, [reply(client) for client in self.clients])


def request(both, rng, step):
    key = b"k%d" % rng.randrange(KEYS)
    other = b"k%d" % rng.randrange(KEYS)
    flags = rng.choice((0, 0, 1, 65535))
    exptime = rng.choice((0, 0, 0, 0, 300, -1))
    kind = rng.choice(("store", "store", "store", "grow", "cas", "get", "get", "get", "delete", "count", "touch", "meta"))
    if kind == "store":
        command = rng.choice((b"set", b"set", b"set", b"add", b"replace"))
        data = value(key, step, size(rng))
        both.line(b"%s %s %d %d %d" % (command, key, flags, exptime, len(data)), data)
    elif kind == "grow":
        data = value(key, step, rng.randrange(0, 3000))
        both.line(b"%s %s 0 0 %d" % (rng.choice((b"append", b"prepend")), key, len(data)), data)
    elif kind == "cas":
        found = both.values(b"gets " + key)
        cas = found[key][2] if key in found and rng.random() < 0.8 else 1
        data = value(key, step, size(rng))
        both.line(b"cas %s %d 0 %d %d" % (key, flags, len(data), cas), data)
    elif kind == "get":
        keys = [b"k%d" % rng.randrange(KEYS) for _ in range(rng.choice((1, 1, 1, 30)))]
        both.values(rng.choice((b"get ", b"gets ")) + b" ".join(dict.fromkeys(keys)))
    elif kind == "delete":
        both.line(b"delete " + key)
    elif kind == "count":
        number = b"n%d" % rng.randrange(20)
        if rng.random() < 0.2:
            both.line(b"set %s 0 0 3" % number, b"%03d" % rng.randrange(1000))
        both.line(b"%s %s %d" % (rng.choice((b"incr", b"decr")), number, rng.randrange(1 << 20)))
    elif kind == "touch":
        both.line(b"touch %s %d" % (key, exptime))
        both.values(b"gat 0 %s" % other)
    else:
        data = value(key, step, size(rng) % 20000)
        choice = rng.randrange(5)
        if choice == 0:
            both.meta(b"ms %s %d T0 F%d c" % (key, len(data), flags), data)
        elif choice == 1:
            both.meta(b"mg %s s v f c k" % key)
        elif choice == 2:
            both.meta(b"md %s q" % key)
        elif choice == 3:
            both.meta(b"ma n%d N0 J5 v" % rng.randrange(20))
        else:
            both.meta(b"ms %s %d MA" % (key, len(data)), data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ports", type=int, nargs=2)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    both = Both(options.ports)
    for step in range(options.requests):
        request(both, rng, step)
    # Time passes for both alike.
    for number in range(200):
        both.line(b"set short%d 0 2 5" % number, b"short")
    time.sleep(3.2)
    short = both.values(b"get " + b" ".join(b"short%d" % number for number in range(200)))
    if short:
        raise AssertionError("values outlived their time")
    everything = b"get " + b" ".join(b"k%d" % number for number in range(KEYS))
    print(f"{options.requests} requests, {len(both.values(everything))} values at the end")
    stats = [client.stats() for client in both.clients]
    for name in ("curr_items", "total_items", "bytes", "get_hits", "cas_hits", "delete_hits", "evictions"):
        both.same(name, [s[name] for s in stats])
    both.line(b"flush_all")
    if both.values(everything):
        raise AssertionError("values outlived flush_all")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (AssertionError, EOFError, OSError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")
        sys.exit(1)
