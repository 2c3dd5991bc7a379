"""States of llama-cpp-python beyond RAM: `model.set_cache(aquifer.llama.Cache("20G"))`."""
import pickle
import threading
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np

from ._blocks import size_text
from ._store import Store

try:
    from llama_cpp import LlamaState
    from llama_cpp.llama_cache import BaseLlamaCache
except ImportError:
    # States of another kind may be put as well, and come back as this.
    LlamaState = SimpleNamespace

    class BaseLlamaCache:
        """What llama-cpp-python asks of a cache."""

        def __init__(self, capacity_bytes):
            self.capacity_bytes = capacity_bytes


# A value of the store has at most 1 GiB, and a state may have more.
_PART_BYTES = 256 << 20
_TOKEN_BYTES = np.dtype(np.intc).itemsize


class Cache(BaseLlamaCache):
    """A `BaseLlamaCache` as `LlamaRAMCache` is, whose states lie in RAM or on flash.

    capacity_bytes   bytes of all states, those of scores included: a number, or text as "20G"; by default as much as fits the flash of
                     the heap. Beyond that, states go first whose tokens are the beginning of another's that was put later, and then
                     those that were used least lately
    heap             an `aquifer.Heap`; by default the one of `aquifer.configure`

    `cache[tokens]` is the state whose tokens have the longest prefix in common with `tokens`. Its arrays are read-only. All methods may
    be called from any thread.
    """

    # No `__len__`: llama-cpp-python asks whether a cache is true, and an empty one has to be.

    def __init__(self, capacity_bytes=None, *, heap=None):
        self._store = Store(capacity_bytes, full="raise", heap=heap)
        super().__init__(self._store.capacity)
        # Tokens as bytes, and what their states have: parts and bytes. Those that go first come first.
        self._states, self._bytes, self._lock = OrderedDict(), 0, threading.RLock()
        self._counts = dict.fromkeys(("hits", "misses", "puts", "evictions", "left_out"), 0)

    @property
    def cache_size(self):
        """Bytes of all states."""
        return self._bytes

    def __getitem__(self, key):
        with self._lock:
            tokens = self._find(_bytes_of(key))
            if tokens is None:
                self._counts["misses"] += 1
                raise KeyError("Key not found")
            self._counts["hits"] += 1
            self._states.move_to_end(tokens)
            count, _ = self._states[tokens]
            parts = self._store.get_many([(tokens, n) for n in range(count)])
        return _state_of(parts)

    def __contains__(self, key):
        with self._lock:
            return self._find(_bytes_of(key)) is not None

    def __setitem__(self, key, value):
        """Puts a state. What is larger than the cache is left out, and counted so by `stats`."""
        tokens, parts = _bytes_of(key), _parts_of(value)
        wanted = sum(map(len, parts))
        with self._lock:
            self._counts["puts"] += 1
            if tokens in self._states:
                self._drop(tokens)
            if wanted > self.capacity_bytes:
                self._counts["left_out"] += 1
                return
            # A longer state serves all that one of its beginning does, which goes first.
            for other in [other for other in self._states if tokens.startswith(other)]:
                self._states.move_to_end(other, last=False)
            while self._bytes + wanted > self.capacity_bytes:
                self._evict()
            while True:
                try:
                    self._store.put_many(((tokens, n), part) for n, part in enumerate(parts))
                    self._states[tokens] = (len(parts), wanted)
                    self._bytes += wanted
                    return
                except MemoryError:
                    # Others fill the flash of the heap.
                    self._drop_parts(tokens, len(parts))
                    if not self._states:
                        self._counts["left_out"] += 1
                        return
                    self._evict()

    def prefetch(self, key):
        """Brings the state into RAM that `cache[key]` will be. A hint."""
        with self._lock:
            tokens = self._find(_bytes_of(key))
            if tokens is not None:
                self._store.prefetch([(tokens, n) for n in range(self._states[tokens][0])])

    def clear(self):
        """Forgets all states."""
        with self._lock:
            self._store.clear()
            self._states.clear()
            self._bytes = 0

    def close(self):
        """Forgets all states and gives the room back to the heap."""
        self.clear()

    def stats(self):
        """Hits, misses, puts, evictions, states that found no room, and what is held."""
        with self._lock:
            return dict(self._counts, states=len(self._states), bytes=self._bytes, capacity=self.capacity_bytes)

    def __repr__(self):
        return f"aquifer.llama.Cache({len(self._states)} states, {size_text(self._bytes)} of {size_text(self.capacity_bytes)})"

    def _find_longest_prefix_key(self, key):
        with self._lock:
            tokens = self._find(_bytes_of(key))
        return None if tokens is None else tuple(np.frombuffer(tokens, np.intc).tolist())

    # With the lock held

    def _find(self, wanted):
        """Of the tokens that have the longest prefix in common with `wanted`, the first."""
        found, common = None, 0
        for tokens in self._states:
            better = common + _TOKEN_BYTES
            if len(wanted) >= better and len(tokens) >= better and tokens.startswith(wanted[:better]):
                found, common = tokens, _common_bytes(tokens, wanted)
        return found

    def _evict(self):
        self._drop(next(iter(self._states)))
        self._counts["evictions"] += 1

    def _drop(self, tokens):
        count, held = self._states.pop(tokens)
        self._bytes -= held
        self._drop_parts(tokens, count)

    def _drop_parts(self, tokens, count):
        for n in range(count):
            if (tokens, n) in self._store:
                del self._store[tokens, n]


def _bytes_of(tokens):
    """Tokens as bytes, which are compared faster than tuples and are smaller."""
    return np.asarray(tokens if isinstance(tokens, (list, tuple, np.ndarray)) else list(tokens), np.intc).tobytes()


def _common_bytes(left, right):
    count = min(len(left), len(right)) // _TOKEN_BYTES
    differs = np.frombuffer(left, np.intc, count) != np.frombuffer(right, np.intc, count)
    return _TOKEN_BYTES * int(differs.argmax() if differs.any() else count)


def _parts_of(state):
    """A state as values of a store: a header, and its buffers in parts, without a copy where they are bytes.

    Scores are written only by models that were made with `logits_all`; of zeros only the shape is kept."""
    arrays = [np.ascontiguousarray(state.input_ids), np.ascontiguousarray(state.scores)]
    flat = [array.reshape(-1).view(np.uint8) for array in arrays]
    buffers = [one.data if one.any() else b"" for one in flat] + [state.llama_state]
    lengths = [len(buffer) for buffer in buffers]
    shapes = [(array.dtype.str, array.shape) for array in arrays]
    parts = [pickle.dumps((shapes, lengths, state.n_tokens, state.llama_state_size, state.seed))]
    for buffer in buffers:
        if isinstance(buffer, bytes) and 0 < len(buffer) <= _PART_BYTES:
            parts.append(buffer)
            continue
        whole = memoryview(buffer)
        parts += [bytes(whole[first : first + _PART_BYTES]) for first in range(0, len(whole), _PART_BYTES)]
    return parts


def _state_of(parts):
    """The state of `_parts_of`."""
    shapes, lengths, n_tokens, llama_state_size, seed = pickle.loads(parts[0])
    parts, buffers = parts[:0:-1], []
    for length in lengths:
        some = [parts.pop() for _ in range(0, length, _PART_BYTES)]
        buffers.append(some[0] if len(some) == 1 else b"".join(some))
    arrays = [np.frombuffer(buffer, kind).reshape(shape) if buffer else np.zeros(shape, kind) for buffer, (kind, shape) in zip(buffers, shapes)]
    details = {"n_tokens": n_tokens, "llama_state_size": llama_state_size, "seed": seed}
    return LlamaState(input_ids=arrays[0], scores=arrays[1], llama_state=buffers[2], **details)
