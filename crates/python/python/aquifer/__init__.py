"""Memory that reaches below RAM, for Python.

>>> import aquifer, numpy as np
>>> aquifer.configure(ram="64M", flash_size="1G")    # or nothing: 256M of RAM, 8G of flash in $TMPDIR
>>> a = aquifer.Array((100_000, 64), np.float32)     # may be much larger than RAM
>>> a[[5, 99_999]] = 1.5                             # one batch
>>> float(a[99_999, 0]), float(a.sum())
(1.5, 192.0)
"""
import importlib

from ._array import Array, asarray
from ._core import VERSION as __version__
from ._core import Heap
from ._disk_cache import DiskCache
from ._durable_store import DurableStore, open_store
from ._features import FeatureStore
from ._heaps import configure, stats
from ._npy import load, save
from ._numpy_memory import empty, full, give_back, numpy_memory, zeros
from ._pending import Pending
from ._store import Store, cached
from ._stored import StoredArray, open_array

__all__ = [
    "Array", "DiskCache", "DurableStore", "FeatureStore", "Heap", "Pending", "Store", "StoredArray", "asarray", "cached", "configure", "empty",
    "full", "give_back", "load", "numpy_memory", "open_array", "open_store", "save", "stats", "zeros",
]  # fmt: skip


def __getattr__(name):
    """What imports other packages is imported when it is asked for."""
    if name in ("llama", "sglang"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
