"""Sorts as many MiB of random numbers as the argument says."""
import sys
import zlib

import numpy as np

count = int(sys.argv[1]) << 17
for kind in ("quicksort", "stable"):
    numbers = np.random.Generator(np.random.PCG64(1)).integers(0, 1 << 62, count)
    print(kind, zlib.crc32(numbers))
    numbers.sort(kind=kind)
    print(zlib.crc32(numbers), numbers.sum())
