"""A dictionary of as many entries as the argument says, read in the order of insertion, at random, and by a forked child."""
import os
import sys

count = int(sys.argv[1])
numbers = {}
for n in range(count):
    numbers[n * 3 + 1] = n ^ 0x5555
print(len(numbers), sum(numbers[n * 3 + 1] for n in range(count)))
x = 12345
found = 0
for _ in range(5000):
    x = (x * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    n = (x >> 20) % count
    found += numbers[n * 3 + 1] == n ^ 0x5555
print(found, 2 in numbers, flush=True)
child = os.fork()
if child == 0:
    print("child:", sum(numbers[n * 3 + 1] for n in range(0, count, 500)), flush=True)
    os._exit(0)
for n in range(0, count, 1000):
    del numbers[n * 3 + 1]
_, status = os.waitpid(child, 0)
print(status, len(numbers))
