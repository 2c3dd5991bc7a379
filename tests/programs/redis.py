"""Commands that fill a redis-server with about as many MiB as the argument says, in its protocol."""
import random
import sys

numbers = random.Random(1)
left = int(sys.argv[1]) << 20
n = 0
while left > 0:
    n += 1
    value = numbers.randbytes(numbers.randint(100, 8192))
    command = [b"SET", b"string%d" % n, value]
    if n % 8 == 0:
        command = [b"RPUSH", b"list%d" % (n % 50), value[:2000]]
    elif n % 8 == 1:
        command = [b"HSET", b"hash%d" % (n % 50), b"field%d" % n, value[:1000]]
    elif n % 8 == 2:
        command = [b"ZADD", b"sorted%d" % (n % 5), b"%d" % numbers.randrange(1000), b"%x" % n]
    elif n % 80 == 3:
        command = [b"DEL", b"string%d" % (n // 2)]
    elif n % 80 == 4:
        command = [b"APPEND", b"string%d" % (n // 2), value]
    left -= sum(map(len, command))
    sys.stdout.buffer.write(b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in command))
