"""Pages of SGLang's KV cache beyond RAM: a storage of its hierarchical cache (HiCache)."""
import numpy as np

from ._blocks import size_text
from ._store import Store

try:
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorage
except ImportError:
    # It can be tested by itself.
    class HiCacheStorage:
        """What SGLang asks of a storage."""

        def batch_exists(self, keys, extra_info=None):
            """How many keys there are before the first that there is none of."""
            return next((n for n, key in enumerate(keys) if not self.exists(key)), len(keys))


class Storage(HiCacheStorage):
    """A `HiCacheStorage` of one process, in an `aquifer.Store`: pages that the GPU and its host pool have no room for.

    storage_config   what SGLang gives it; of its `extra_config`, "capacity" is read
    capacity         bytes of pages; by default as much as fits the flash of the heap. Beyond that S3-FIFO chooses what is forgotten
    heap             an `aquifer.Heap`; by default the one of `aquifer.configure`

    SGLang makes one in each process of a model with `--hicache-storage-backend dynamic` and, as the extra configuration,
    `{"backend_name": "aquifer", "module_path": "aquifer.sglang", "class_name": "Storage", "capacity": "20G"}`. Models with several
    pools (the batches called v2) are not supported, nor MLA with several ranks, which share what one of them writes.
    """

    def __init__(self, storage_config=None, _options=None, *, capacity=None, heap=None):
        if getattr(storage_config, "is_mla_model", False) and storage_config.tp_size > 1:
            raise ValueError("ranks of an MLA model share their pages, and aquifer.sglang.Storage is of one process: use tensor parallelism of 1")
        extra = getattr(storage_config, "extra_config", None) or {}
        self._store = Store(extra.get("capacity") if capacity is None else capacity, heap=heap)

    def get(self, key, target_location=None, target_sizes=None):
        """The page of `key`, in `target_location` where that is given; None if there is none."""
        return self.batch_get([key], [target_location])[0]

    def batch_get(self, keys, target_locations=None, target_sizes=None):
        """Pages in one batch, None for those that there are none of, or that are not as long as their place."""
        found = self._store.get_many(keys)
        return [None if page is None else _into(page, target) for page, target in zip(found, target_locations or [None] * len(keys))]

    def set(self, key, value=None, target_location=None, target_sizes=None):
        """Puts a page. Returns whether there was room for it."""
        return self.batch_set([key], [value])

    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        """Puts pages in one batch; a key is made of what is in its page, so one that there is stays as it is. Returns whether there was room."""
        try:
            self._store.put_many((key, _bytes_of(value).data) for key, value in zip(keys, values) if key not in self._store)
        except MemoryError:
            return False
        return True

    def exists(self, key):
        """Whether there is a page of `key`."""
        return key in self._store

    def clear(self):
        """Forgets all pages."""
        self._store.clear()

    def close(self):
        """Forgets all pages and gives the room back to the heap."""
        self._store.close()

    def stats(self):
        """What the store counts."""
        return self._store.stats()

    def __repr__(self):
        counts = self._store.stats()
        return f"aquifer.sglang.Storage({counts['keys']} pages, {size_text(counts['bytes'])} of {size_text(counts['capacity'])})"


def _bytes_of(tensor):
    """A tensor's memory as an `ndarray` of bytes; of numbers, also those that NumPy does not know."""
    import torch

    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def _into(page, target):
    if target is None:
        import torch

        return torch.frombuffer(bytearray(page), dtype=torch.uint8)
    place = target.view(-1)
    if len(page) != place.numel() * place.element_size():
        return None
    _bytes_of(place)[:] = np.frombuffer(page, np.uint8)
    return target
