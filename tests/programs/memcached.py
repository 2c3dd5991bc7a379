"""A client of memcached: fills it with values of mixed sizes, changes some, and says what it reads back.

memcached.py PORT MIB
"""
import hashlib
import random
import socket
import sys


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb", 1 << 16)

    def lines(self, requests):
        """Sends requests together and returns one line of an answer to each."""
        self.socket.sendall(b"".join(requests))
        return [self.file.readline().rstrip() for _ in requests]

    def get(self, keys, verb=b"get"):
        """The values that are there, by their keys; with `gets` value and version."""
        self.socket.sendall(verb + b" " + b" ".join(keys) + b"\r\n")
        found = {}
        while (line := self.file.readline().split()) != [b"END"]:
            if line[0] != b"VALUE":
                sys.exit(f"unexpected answer: {line}")
            value = self.file.read(int(line[3]) + 2)[:-2]
            found[line[1]] = (value, line[4]) if verb == b"gets" else value
        return found


def store(verb, key, value, more=b""):
    return b"%s %s 0 0 %d%s\r\n%s\r\n" % (verb, key, len(value), more, value)


def batches(items, count=40):
    return [items[at : at + count] for at in range(0, len(items), count)]


def main():
    numbers = random.Random(1)
    client = Client(int(sys.argv[1]))
    left = int(sys.argv[2]) << 20
    expected = {}
    while left > 0:
        key = b"key%d" % len(expected)
        expected[key] = numbers.randbytes(numbers.randint(100, 8192))
        left -= len(expected[key])
    keys = list(expected)

    def change(verb, chosen, value_of, after):
        answers = set()
        for batch in batches(chosen):
            values = [value_of(key) for key in batch]
            answers.update(client.lines([store(verb, key, value) for key, value in zip(batch, values)]))
            expected.update((key, after(expected[key], value)) for key, value in zip(batch, values))
        print(verb.decode(), len(chosen), sorted(answers))

    def check(what):
        wrong = sum(client.get(batch) != {k: expected[k] for k in batch if k in expected} for batch in batches(keys))
        digest = hashlib.sha256(b"".join(expected.values())).hexdigest()
        print(what, len(expected), "values", wrong, "batches differ", digest)

    check_new = lambda old, new: new
    change(b"set", keys, lambda key: expected[key], check_new)
    check("filled")
    change(b"set", keys[::5], lambda key: numbers.randbytes(numbers.randint(100, 8192)), check_new)
    change(b"append", keys[1::7], lambda key: b"-" * 300, lambda old, new: old + new)
    change(b"prepend", keys[2::7], lambda key: b"+" * 20, lambda old, new: new + old)
    answers = set()
    for batch in batches(keys[3::11]):
        versions = client.get(batch, b"gets")
        requests = [store(b"cas", key, key * 30, b" " + version) for key, (_, version) in versions.items()]
        answers.update(client.lines(requests))
        answers.update(client.lines(requests[:1]))
        expected.update((key, key * 30) for key in batch)
    print("cas", sorted(answers))
    answers = set()
    for batch in batches(keys[4::6]):
        answers.update(client.lines([b"delete %s\r\n" % key for key in batch]))
        for key in batch:
            del expected[key]
    print("delete", sorted(answers))
    check("changed")
    client.lines([store(b"set", b"n", b"10")])
    print(client.lines([b"incr n 32\r\n", b"decr n 2\r\n", b"touch n 100\r\n", b"add n 0 0 1\r\n1\r\n"]))
    client.socket.sendall(b"stats\r\n")
    stats = dict(line.split()[1:3] for line in iter(client.file.readline, b"END\r\n"))
    print({name: int(stats[name.encode()]) for name in ("curr_items", "evictions", "cmd_set", "get_hits")})


main()
