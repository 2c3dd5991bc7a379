"""Memory that reaches below RAM, for Python.

>>> import aquifer, numpy as np
>>> aquifer.configure(ram="64M", flash_size="1G")    # or nothing: 256M of RAM, 8G of flash in $TMPDIR
>>> a = aquifer.Array((100_000, 64), np.float32)     # may be much larger than RAM
>>> a[[5, 99_999]] = 1.5                             # one batch
>>> float(a[99_999, 0]), float(a.sum())
(1.5, 192.0)
"""
from ._array import Array, asarray
from ._core import VERSION as __version__
from ._core import Heap
from ._heaps import configure, stats
from ._npy import load, save
from ._numpy_memory import empty, full, give_back, numpy_memory, zeros
from ._pending import Pending
from ._store import Store, cached

__all__ = [
    "Array", "Heap", "Pending", "Store", "asarray", "cached", "configure", "empty", "full", "give_back", "load", "numpy_memory", "save", "stats",
    "zeros",
]  # fmt: skip
