"""Asks a server of NBD for pages, and prints how often it asked for memory meanwhile: requests.py SOCKET COUNT_FILE."""
import socket
import struct
import sys

READ, WRITE, FLUSH, TRIM, ZEROES, FUA = 0, 1, 3, 4, 6, 1


def begun(path):
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(60)
    stream.connect(path)
    take(stream, 18)
    stream.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 0))
    take(stream, 10)
    return stream


def take(stream, length):
    data = b""
    while len(data) < length:
        more = stream.recv(length - len(data))
        if not more:
            sys.exit("the server has closed the connection")
        data += more
    return data


def ask(stream, command, flags, offset, length, data=b"", answer=0):
    stream.sendall(struct.pack(">IHHQQI", 0x25609513, flags, command, 7, offset, length) + data)
    if struct.unpack(">IIQ", take(stream, 16))[1]:
        sys.exit("a request failed")
    return take(stream, answer)


def turn(streams, rounds):
    page = bytes(range(256)) * 16
    for at in range(rounds):
        stream, offset = streams[at % len(streams)], at % 1000 * 4096
        ask(stream, WRITE, FUA if at % 64 == 0 else 0, offset, 4096, page)
        if ask(stream, READ, 0, offset, 4096, answer=4096) != page:
            sys.exit("a page came back as another")
        if at % 64 == 1:
            ask(stream, FLUSH, 0, 0, 0)
            ask(stream, TRIM, 0, offset, 4096)
            ask(stream, ZEROES, 0, offset, 4096)


def count(name):
    with open(name, "rb") as file:
        return struct.unpack("<Q", file.read(8))[0]


streams = [begun(sys.argv[1]) for _ in range(2)]
# A thread's first request of a length makes its buffer, and a thread may come to its first one late.
for _ in range(5):
    turn(streams, 400)
    before = count(sys.argv[2])
    turn(streams, 4000)
    asked = count(sys.argv[2]) - before
    if asked == 0:
        break
print(asked, "of", count(sys.argv[2]))
