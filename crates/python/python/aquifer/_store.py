"""A cache of bytes beyond RAM."""
import functools
import pickle
import threading
import time
from collections import OrderedDict, deque
from collections.abc import MutableMapping

import numpy as np

from . import _heaps
from ._blocks import size_text
from ._core import Blobs

# Of the capacity, what new keys have before they are used again (S3-FIFO, SOSP 2023).
_SMALL_PART = 10
# Of the RAM, what new keys have where flash is spared: they are in pages with others, and not all of it is for values.
_SPARE_PART = 4
# How often a key is counted as used.
_USES_MAX = 3
# Values of one batch.
_BATCH = 1024


class _Entry:
    __slots__ = ("address", "size", "expires", "uses", "is_main")

    def __init__(self, address, size, expires):
        self.address, self.size, self.expires, self.uses, self.is_main = address, size, expires, 0, False


class Store(MutableMapping):
    """A mapping from bytes to bytes whose values lie in RAM or on flash; its keys are in ordinary memory.

    capacity   bytes of values that it holds; by default as much as fits the flash of the heap
    full       what happens beyond that: "evict" forgets keys by S3-FIFO, which keeps those that are used again; "raise" is a
               `MemoryError`, and all that was put stays
    admission  "all": each new key has a tenth of the capacity's time to be used again. "spare": it has that of a quarter of the RAM,
               so that most keys that are used once are forgotten before they are written to flash
    ttl        seconds after which a value is forgotten; None is never
    heap       an `aquifer.Heap`; by default the one of `aquifer.configure`

    Values have 0 bytes to 1 GiB. All methods may be called from any thread.

    >>> import aquifer
    >>> store = aquifer.Store(capacity="100M")
    >>> store[b"key"] = b"value"
    >>> store.put_many({b"a": b"1", b"b": b"2"})
    >>> store.get_many([b"a", b"key", b"none"])
    [b'1', b'value', None]
    """

    def __init__(self, capacity=None, *, full="evict", admission="all", ttl=None, heap=None):
        if full not in ("evict", "raise"):
            raise ValueError(f"full is {full!r}; it may be evict or raise")
        if admission not in ("all", "spare"):
            raise ValueError(f"admission is {admission!r}; it may be all or spare")
        if admission == "spare" and full == "raise":
            raise ValueError("a store that forgets nothing cannot spare flash: admission='spare' needs full='evict'")
        self._heap = heap or _heaps.default()
        # The log is cleaned while it is fuller than that.
        fits = self._heap.stats()["flash_bytes"] * 7 // 10
        self.capacity = fits if capacity is None else _heaps.size(capacity, "capacity")
        if self.capacity > fits:
            raise ValueError(f"a capacity of {size_text(self.capacity)} does not fit the heap, which has room for {size_text(fits)}")
        self.ttl, self._full, self._admission = ttl, full, admission
        self._small_max = self.capacity // _SMALL_PART
        if admission == "spare":
            self._small_max = min(self._small_max, self._heap.ram_bytes // _SPARE_PART)
        self._blobs, self._lock = Blobs(self._heap), threading.RLock()
        self._entries, self._small, self._main, self._ghosts = {}, deque(), deque(), OrderedDict()
        self._bytes = self._small_bytes = 0
        # Given back, but looked at: how many were given back before, and the address. Readers know how many were when they began.
        self._late, self._given_back, self._readers = deque(), 0, {}
        self._counts = dict.fromkeys(("hits", "misses", "puts", "evictions", "expired"), 0)

    # One

    def __getitem__(self, key):
        value = self.get_many([key])[0]
        if value is None:
            raise KeyError(key)
        return value

    def get(self, key, default=None):
        """The value of `key`, or `default`."""
        value = self.get_many([key])[0]
        return default if value is None else value

    def __setitem__(self, key, value):
        self.put_many({key: value})

    def set(self, key, value, ttl=None):
        """As `store[key] = value`, with seconds of its own after which it is forgotten."""
        self.put_many({key: value}, ttl)

    def __delitem__(self, key):
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                raise KeyError(key)
            self._forget(key, entry)

    def __contains__(self, key):
        with self._lock:
            return self._alive(key) is not None

    def __len__(self):
        return len(self._entries)

    def __iter__(self):
        with self._lock:
            return iter([key for key in list(self._entries) if self._alive(key) is not None])

    def clear(self):
        """Forgets everything."""
        with self._lock:
            for key, entry in list(self._entries.items()):
                self._forget(key, entry)

    # Many

    def get_many(self, keys):
        """The values of keys in one batch, None for those that there are none of."""
        keys = list(keys)
        values = [None] * len(keys)
        with self._lock:
            found = [(n, entry) for n, key in enumerate(keys) if (entry := self._used(key)) is not None]
            places = [(entry.address, entry.size) for _, entry in found]
            # Other threads go on meanwhile; what they give back stays until it was read.
            reader = object()
            self._readers[reader] = self._given_back
        try:
            got = self._blobs.get(places)
        finally:
            with self._lock:
                del self._readers[reader]
                self._free_late()
        for (n, _), value in zip(found, got):
            values[n] = value
        return values

    def put_many(self, values, ttl=None):
        """Puts a mapping, or pairs, of keys and values in batches."""
        pairs = [(_key(key), _bytes(value)) for key, value in (values.items() if hasattr(values, "items") else values)]
        # Of a key that is named twice, the last value counts.
        pairs = list(dict(pairs).items())[::-1]
        seconds = self.ttl if ttl is None else ttl
        expires = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            while pairs:
                batch, wanted = [], 0
                while pairs and len(batch) < _BATCH and (not batch or wanted + len(pairs[-1][1]) <= self.capacity // 4):
                    batch.append(pairs.pop())
                    wanted += len(batch[-1][1])
                self._put(batch, wanted, expires)

    def _put(self, batch, wanted, expires):
        self._free_late()
        if wanted > self.capacity:
            raise MemoryError(f"a value of {size_text(wanted)} is larger than the capacity of {size_text(self.capacity)}")
        before = sum(entry.size for key, _ in batch if (entry := self._entries.get(key)) is not None)
        if self._full == "raise" and self._bytes - before + wanted > self.capacity:
            self._drop_expired()
            before = sum(entry.size for key, _ in batch if (entry := self._entries.get(key)) is not None)
            if self._bytes - before + wanted > self.capacity:
                raise MemoryError(f"the store is full: it holds {size_text(self._bytes)} of {size_text(self.capacity)}")
        while self._full == "evict" and self._bytes + wanted > self.capacity and self._entries:
            self._evict()
        while self._admission == "spare" and self._small and self._small_bytes + wanted > self._small_max:
            self._end_probation()
        addresses = self._blobs.put([value for _, value in batch])
        for (key, value), address in zip(batch, addresses):
            old = self._entries.get(key)
            if old is not None:
                # It keeps its place in the queues.
                self._give_back(old.address)
                self._bytes += len(value) - old.size
                self._small_bytes += 0 if old.is_main else len(value) - old.size
                old.address, old.size, old.expires = address, len(value), expires
                continue
            entry = self._entries[key] = _Entry(address, len(value), expires)
            self._bytes += entry.size
            if self._ghosts.pop(key, None) is not None:
                entry.is_main = True
                self._main.append((key, entry))
            else:
                self._small_bytes += entry.size
                self._small.append((key, entry))
        self._counts["puts"] += len(batch)

    def prefetch(self, keys):
        """Brings values into RAM that will be wanted soon. A hint."""
        with self._lock:
            entries = [entry for key in keys if (entry := self._alive(key)) is not None]
            self._blobs.prefetch([entry.address for entry in entries])

    def view(self, key):
        """The value where it is in RAM, for a `with` block: a read-only memoryview, without a copy. Arrays that are made of it in the block keep
        it there. For values that are small beside the RAM of the heap: `RuntimeError` for others.

        >>> import aquifer
        >>> store = aquifer.Store(capacity="10M")
        >>> store[b"key"] = b"value"
        >>> with store.view(b"key") as view:
        ...     view[0], len(view)
        (118, 5)
        """
        with self._lock:
            entry = self._used(key)
            if entry is None:
                raise KeyError(key)
            return _View(self._blobs.pin(entry.address, entry.size))

    # What is forgotten

    def _alive(self, key):
        entry = self._entries.get(key)
        if entry is not None and entry.expires is not None and entry.expires <= time.monotonic():
            self._counts["expired"] += 1
            self._forget(key, entry)
            return None
        return entry

    def _used(self, key):
        entry = self._alive(key)
        if entry is None:
            self._counts["misses"] += 1
            return None
        self._counts["hits"] += 1
        entry.uses = min(entry.uses + 1, _USES_MAX)
        return entry

    def _forget(self, key, entry):
        """Its places in the queues are passed over later."""
        self._give_back(entry.address)
        del self._entries[key]
        self._bytes -= entry.size
        self._small_bytes -= 0 if entry.is_main else entry.size
        if len(self._small) + len(self._main) > 2 * len(self._entries) + _BATCH:
            self._small = deque(pair for pair in self._small if self._entries.get(pair[0]) is pair[1])
            self._main = deque(pair for pair in self._main if self._entries.get(pair[0]) is pair[1])

    def _give_back(self, address):
        """Of what is looked at through a view, or being read, later."""
        self._late.append((self._given_back, address))
        self._given_back += 1
        self._free_late()

    def _free_late(self):
        seen = min(self._readers.values(), default=self._given_back)
        for _ in range(len(self._late)):
            given, address = self._late.popleft()
            try:
                if given >= seen:
                    raise RuntimeError("a reader may have its address")
                self._blobs.free([address])
            except RuntimeError:
                self._late.append((given, address))

    def _drop_expired(self):
        for key in list(self._entries):
            self._alive(key)

    def _evict(self):
        """Forgets one key: of new ones that were not used again first, then the one that was used least lately."""
        while self._small or self._main:
            if self._small and (self._small_bytes > self._small_max or not self._main):
                if self._end_probation():
                    return
                continue
            key, entry = self._main.popleft()
            if self._entries.get(key) is not entry:
                continue
            if entry.uses:
                entry.uses -= 1
                self._main.append((key, entry))
                continue
            self._counts["evictions"] += 1
            self._forget(key, entry)
            return

    def _end_probation(self):
        """Forgets the oldest new key, or keeps it for longer if it was used again. Returns whether it was forgotten."""
        key, entry = self._small.popleft()
        if self._entries.get(key) is not entry:
            return False
        if entry.uses:
            entry.uses, entry.is_main = 0, True
            self._small_bytes -= entry.size
            self._main.append((key, entry))
            return False
        self._ghosts[key] = None
        while len(self._ghosts) > len(self._entries):
            self._ghosts.popitem(last=False)
        self._counts["evictions"] += 1
        self._forget(key, entry)
        return True

    # What is told

    def stats(self):
        """Hits, misses, puts, evictions and what is held; with what the heap has written, which other users of it share."""
        with self._lock:
            heap = self._heap.stats()
            return dict(
                self._counts,
                keys=len(self._entries),
                bytes=self._bytes,
                capacity=self.capacity,
                ram_used_bytes=heap["ram_used_bytes"],
                device_written_bytes=heap["device_written_bytes"],
                device_read_bytes=heap["device_read_bytes"],
            )

    def __repr__(self):
        return f"aquifer.Store({len(self)} keys, {size_text(self._bytes)} of {size_text(self.capacity)}, full={self._full!r})"

    def close(self):
        """Forgets everything and gives the room back to the heap."""
        self.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_details):
        self.close()

    def __del__(self):
        try:
            self._blobs.free([address for _, address in self._late] + [entry.address for entry in self._entries.values()])
        except Exception:
            # The heap is closed, or was never opened, or is a parent's.
            pass


class _View:
    """A value in place."""

    def __init__(self, pin):
        self._memory = memoryview(np.asarray(pin))

    def __enter__(self):
        return self._memory

    def __exit__(self, *_details):
        try:
            self._memory.release()
        except BufferError:
            # Something else looks at it, which keeps it in place.
            pass


def _key(key):
    if not isinstance(key, (bytes, str, int, tuple)):
        raise TypeError(f"a key is bytes (or text, a number, a tuple), not {type(key).__name__}")
    return key


def _bytes(value):
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)) or hasattr(value, "__buffer__"):
        return bytes(value)
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(f"a value is bytes or has the buffer protocol; {type(value).__name__} has not") from None


def cached(store=None, *, ttl=None):
    """A decorator as `functools.lru_cache`: results are pickled into a store, which may be larger than RAM, or stay (`aquifer.open_store`).

    >>> import aquifer
    >>> @aquifer.cached(aquifer.Store(capacity="10M"))
    ... def square(n):
    ...     return n * n
    >>> square(12), square(12)
    (144, 144)
    >>> square.cache_info()["hits"]
    1
    """

    if ttl is not None and store is not None and not hasattr(store, "set"):
        raise ValueError(f"ttl is {ttl!r}, and a store that stays forgets nothing")

    def decorate(call):
        kept = store if store is not None else Store()

        @functools.wraps(call)
        def wrapper(*arguments, **options):
            key = pickle.dumps((call.__module__, call.__qualname__, arguments, sorted(options.items())))
            found = kept.get(key)
            if found is not None:
                return pickle.loads(found)
            result = call(*arguments, **options)
            if ttl is None:
                kept[key] = pickle.dumps(result)
            else:
                kept.set(key, pickle.dumps(result), ttl)
            return result

        wrapper.cache_info = kept.stats
        wrapper.cache_clear = kept.clear
        return wrapper

    return decorate
