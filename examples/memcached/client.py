"""A small client for memcached's text protocol, for the tests."""

import hashlib
import socket


def value(key, version, size):
    """The bytes that belong under a key: they follow from it, so that nobody needs to keep them."""
    return hashlib.shake_128(b"%s %d" % (key, version)).digest(size)


class Client:
    """One connection. Requests are sent in batches: send them, then read one reply for each."""

    def __init__(self, port, seconds=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self.stream = self.socket.makefile("rwb", 1 << 18)

    def close(self):
        self.stream.close()
        self.socket.close()

    def send(self, line, data=None):
        self.stream.write(line + b"\r\n")
        if data is not None:
            self.stream.write(data + b"\r\n")

    def flush(self):
        self.stream.flush()

    def line(self):
        got = self.stream.readline()
        if not got.endswith(b"\r\n"):
            raise EOFError("the server closed the connection")
        return got[:-2]

    def ask(self, line, data=None):
        """One request with a reply of one line."""
        self.send(line, data)
        self.flush()
        return self.line()

    def values(self):
        """The reply to a get: {key: (flags, data, cas)}."""
        found = {}
        while (line := self.line()) != b"END":
            if not line.startswith(b"VALUE "):
                raise ValueError(f"not a reply to get: {line!r:.200}")
            _, key, flags, size, *cas = line.split(b" ")
            data = self.stream.read(int(size) + 2)
            if len(data) != int(size) + 2 or data[-2:] != b"\r\n":
                raise ValueError(f"the value of {key!r} is cut off")
            found[key] = (int(flags), data[:-2], *map(int, cas))
        return found

    def get(self, *keys, command=b"get"):
        self.send(b" ".join((command, *keys)))
        self.flush()
        return self.values()

    def stats(self, what=b""):
        self.send(b" ".join((b"stats", what)).strip())
        self.flush()
        found = {}
        while (line := self.line()) != b"END":
            _, name, number = line.split(b" ", 2)
            found[name.decode()] = number.decode()
        return found
