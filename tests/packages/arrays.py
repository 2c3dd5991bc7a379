"""The Python package as it is installed: an array larger than its RAM."""

import os

os.environ.update(AQUIFER_RAM="16M", AQUIFER_FLASH="/var/tmp", AQUIFER_FLASH_SIZE="256M")

import aquifer
import numpy as np

table = aquifer.Array((100_000, 100), np.float32)
for start in range(0, 100_000, 10_000):
    table[start : start + 10_000] = np.arange(start, start + 10_000, dtype=np.float32)[:, None]
assert (table[77_000] == 77_000).all()
print(aquifer.__file__, table.sum())
