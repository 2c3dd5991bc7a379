"""Writes pages of a block at random, reads all of them again and again, and says what they were: the same wherever they lie.

work.py MEBIBYTES ROUNDS [alone]      alone: without a child
"""

import hashlib
import os
import random
import sys

PAGE = 4096
size = int(sys.argv[1]) << 20
rounds = int(sys.argv[2])

rng = random.Random(1)
data = bytearray(size)
for start in range(0, size, PAGE):
    data[start:start + PAGE] = rng.randbytes(PAGE)
for number in range(rounds):
    for _ in range(size // PAGE // 4):
        start = rng.randrange(size // PAGE) * PAGE
        data[start:start + PAGE] = rng.randbytes(PAGE)
    print(number, hashlib.sha256(data).hexdigest(), flush=True)

if sys.argv[3:] == ["alone"]:
    sys.exit()

# A child has all of it as it was, whatever its parent writes meanwhile.
child = os.fork()
if child == 0:
    print("child", hashlib.sha256(data).hexdigest(), flush=True)
    os._exit(0)
for start in range(0, size // 8, PAGE):
    data[start:start + PAGE] = rng.randbytes(PAGE)
_, status = os.waitpid(child, 0)
print("parent", status, hashlib.sha256(data).hexdigest())
