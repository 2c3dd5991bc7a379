"""Stores that stay: a mapping from bytes to bytes in a file."""
import heapq
import os
import threading
import weakref
from collections.abc import ItemsView, MutableMapping, ValuesView

from . import _heaps
from ._blocks import size_text
from ._core import KEY_BYTES_MAX, VALUE_BYTES_MAX, DurableTree
from ._store import _bytes

_MODES = ("r", "r+", "a")
_SIZE, _SIZE_MIN, _SIZE_MAX = 4 << 30, 16 << 20, 4 << 40
# Keys of one transaction of `clear`.
_CLEARED = 4096


class _Missing:
    def __repr__(self):
        return "<no value>"


_MISSING = _Missing()


class _Gate:
    """Lets calls through that write, or one transaction alone."""

    def __init__(self, core):
        self._core, self._changed, self._writers, self._owner = core, threading.Condition(), 0, None

    def __enter__(self):
        # In a child of the process that opened it, threads that are in the gate are not there.
        self._core.ensure_open()
        with self._changed:
            if self._owner == threading.get_ident():
                raise RuntimeError("this thread is in a transaction of the store: write by what its `with` gave, or after it")
            self._changed.wait_for(lambda: self._owner is None)
            self._writers += 1

    def __exit__(self, *_details):
        with self._changed:
            self._writers -= 1
            self._changed.notify_all()

    def shut(self):
        with self:
            pass
        with self._changed:
            self._changed.wait_for(lambda: self._owner is None)
            self._owner = threading.get_ident()
            try:
                self._changed.wait_for(lambda: self._writers == 0)
            except BaseException:
                self.open()
                raise

    def open(self):
        with self._changed:
            self._owner = None
            self._changed.notify_all()


class DurableStore(MutableMapping):
    """A mapping from bytes to bytes that stays, made by `aquifer.open_store`. Iteration goes through the keys in the order of their bytes, beside
    changes of others: keys that are there all the time are found once. All methods may be called from any thread.
    """

    __slots__ = ("_core", "_path", "_mode", "_durable", "_gate", "_closing", "__weakref__")

    def __init__(self):
        raise TypeError("aquifer.open_store makes stores")

    # One

    def __getitem__(self, key):
        value = self._core.get(_key(key))
        if value is None:
            raise KeyError(key)
        return value

    def get(self, key, default=None):
        """The value of `key`, or `default`."""
        value = self._core.get(_key(key))
        return default if value is None else value

    def __contains__(self, key):
        return isinstance(key, bytes) and self._core.has(key)

    def __len__(self):
        return len(self._core)

    def __setitem__(self, key, value):
        pair = _key_to_put(key), _value(value)
        with self._gate:
            self._core.apply([pair])

    def __delitem__(self, key):
        with self._gate:
            if not self._core.remove(_key(key)):
                raise KeyError(key)

    def pop(self, key, default=_MISSING):
        """Removes `key` and returns its value, in one transaction; `default`, or `KeyError`, if it is not there."""
        with self._gate:
            value = self._core.pop(_key(key))
        if value is None and default is _MISSING:
            raise KeyError(key)
        return default if value is None else value

    def setdefault(self, key, default=b""):
        """The value of `key`, which is `default` from now on if it had none, in one transaction."""
        key, default = _key_to_put(key), _value(default)
        found = self._core.get(key)
        if found is None:
            with self._gate:
                found = self._core.put_new(key, default)
        return default if found is None else found

    # Many

    def get_many(self, keys):
        """The values of keys as a list, None for those that there are none of."""
        return self._core.get_many([_key(key) for key in keys])

    def put_many(self, values):
        """Puts a mapping, or pairs, of keys and values in one transaction: all of it or, after an exception or a crash, nothing.

        What is put is in RAM up to three times until it is in the file. In batches of a few MiB a transaction costs little beside its bytes.
        """
        pairs = [(_key_to_put(key), _value(value)) for key, value in (values.items() if hasattr(values, "items") else values)]
        with self._gate:
            self._core.apply(pairs)

    def update(self, values):
        """As `put_many`."""
        self.put_many(values)

    def transaction(self):
        """A block that changes several keys in one transaction: all of it or, after an exception or a crash, nothing. The `with` gives a mapping
        that reads the store and keeps what is written, in RAM, until the block ends. Other threads see the store as it was before, and wait
        with what they write; so a value that is read in the block is the one that it replaces.

        >>> import aquifer
        >>> with aquifer.open_store("accounts.aq", size="64M") as store:
        ...     store.put_many({b"ann": b"70", b"bob": b"30"})
        ...     with store.transaction() as both:
        ...         both[b"ann"] = b"%d" % (int(both[b"ann"]) - 20)
        ...         both[b"bob"] = b"%d" % (int(both[b"bob"]) + 20)
        ...     store.get_many([b"ann", b"bob"])
        [b'50', b'50']
        """
        return _Transaction(self)

    def clear(self):
        """Removes all keys, some thousands in each transaction."""
        self._ensure_writable()
        self._gate.shut()
        try:
            while keys := [key for _, key in zip(range(_CLEARED), self)]:
                self._core.apply([(key, None) for key in keys])
        finally:
            self._gate.open()

    # In order

    def _entries(self, start, stop, has_values):
        key, is_behind = start, False
        while found := self._core.entries(key, is_behind, stop, has_values):
            yield from found
            key, is_behind = found[-1][0], True

    def __iter__(self):
        return (key for key, _ in self._entries(b"", None, False))

    def range(self, start=b"", stop=None):
        """Keys from `start` on and before `stop`, with their values, in order.

        >>> import aquifer
        >>> with aquifer.open_store("users.aq", size="64M") as store:
        ...     store.put_many({b"user:7": b"ann", b"user:8": b"bob", b"visits": b"2"})
        ...     list(store.range(b"user:", b"user;"))
        [(b'user:7', b'ann'), (b'user:8', b'bob')]
        """
        return self._entries(_key(start), None if stop is None else _key(stop), True)

    def items(self):
        """Keys with their values, in order."""
        return _Items(self)

    def values(self):
        """Values in the order of their keys."""
        return _Values(self)

    # What is durable

    def flush(self):
        """Makes all durable that was put before this call. At once with `durable="each"`, where all is."""
        self._core.sync()

    @property
    def path(self):
        """Where the file is."""
        return self._path

    @property
    def mode(self):
        """How it was opened."""
        return self._mode

    @property
    def closed(self):
        """Whether it is closed."""
        return self._core.closed

    def stats(self):
        """`keys`; bytes of keys, values and the tree (`used_bytes`), of the file, and its `size`; RAM of the table of places; and what was
        written to the file since it was opened, with how many waits for the disk."""
        return self._core.stats()

    def _ensure_writable(self):
        if self._mode == "r":
            raise ValueError(f"{self._path} is open for reading alone: open it with mode='r+'")

    def close(self):
        """Makes all durable and closes the file. Closing twice is allowed; a store that is not closed is closed at exit."""
        self._closing()

    def __enter__(self):
        return self

    def __exit__(self, *_details):
        self.close()

    def __repr__(self):
        try:
            stats = self._core.stats()
            state = f"{stats['keys']} keys, {size_text(stats['used_bytes'])} of {size_text(stats['size'])}"
        except ValueError:
            state = "closed"
        except RuntimeError:
            state = "of the process that this one was forked from"
        return f"aquifer.DurableStore({self._path!r}, {state}, mode={self._mode!r}, durable={self._durable!r})"


class _Items(ItemsView):
    def __iter__(self):
        return self._mapping._entries(b"", None, True)


class _Values(ValuesView):
    def __iter__(self):
        return (value for _, value in self._mapping._entries(b"", None, True))

    def __contains__(self, value):
        return any(value == one for one in self)


class _Transaction(MutableMapping):
    """A store with changes that are not in it yet."""

    def __init__(self, store):
        self._store, self._changes = store, None

    def __enter__(self):
        self._store._ensure_writable()
        self._store._gate.shut()
        self._changes = {}
        return self

    def __exit__(self, kind, _error, _trace):
        changes, self._changes = self._changes, None
        try:
            if kind is None and changes:
                self._store._core.apply(list(changes.items()))
        finally:
            self._store._gate.open()

    def _under_way(self):
        if self._changes is None:
            raise ValueError("this transaction has ended, or has not begun: it is under way in its `with` block")
        return self._changes

    def __getitem__(self, key):
        changes = self._under_way()
        value = changes[key] if key in changes else self._store.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key):
        changes = self._under_way()
        return changes[key] is not None if key in changes else key in self._store

    def __setitem__(self, key, value):
        self._under_way()[_key_to_put(key)] = _value(value)

    def __delitem__(self, key):
        if key not in self:
            raise KeyError(key)
        self._changes[key] = None

    def clear(self):
        """Removes all keys."""
        changes = self._under_way()
        changes.update(dict.fromkeys([*self._store, *changes]))

    def __len__(self):
        changes = self._under_way()
        return len(self._store) + sum((value is not None) - (key in self._store) for key, value in changes.items())

    def __iter__(self):
        changes = dict(self._under_way())
        own = sorted(key for key, value in changes.items() if value is not None)
        return heapq.merge(own, (key for key in self._store if key not in changes))


def _key(key):
    if not isinstance(key, bytes):
        raise TypeError(f"a key is bytes, not {type(key).__name__}: encode it")
    return key


def _key_to_put(key):
    if len(_key(key)) > KEY_BYTES_MAX:
        raise ValueError(f"a key has at most {KEY_BYTES_MAX} bytes, and this one has {len(key)}")
    return key


def _value(value):
    value = _bytes(value)
    if len(value) > VALUE_BYTES_MAX:
        raise ValueError(f"a value has at most {VALUE_BYTES_MAX} bytes, and this one has {len(value)}: put it in parts, by `put_many`")
    return value


def open_store(path, mode="a", *, size=None, durable="each", socket=None):
    """A mapping from bytes to bytes that stays when the process ends, in the file at `path`.

    mode     "r" to read; "r+" to read and write what is there; "a" the same, or a new one if there is none
    size     how large the file may become, bytes or text as "10G", from 16M to 4T; it takes what it needs. Each opening says it anew: 4G
             unless said, and never less than the file has
    durable  "each": a call that changes something returns when that is durable on the disk. "later": it returns when all threads see it,
             and it is durable about a tenth of a second later, or after `flush` or `close`
    socket   a path at which `aquifer top` and `aquifer export` find the store while it is open

    Keys have 0 to 65535 bytes, values 0 to 15 MiB. After a crash of the process or of the machine the store is as it was after one of its
    calls: with "each" the last that returned, or the one that was under way; with "later" one since the last that was durable. A store
    forgets nothing: when it is full, `OSError` (ENOSPC) says so, and nothing of that call was put.

    The file is open in one process that changes it, or in several that read. Damage is told when the file is opened or a value is read first, by
    `OSError`; `aquifer durable check PATH` looks at all of it.

    Values are not kept in RAM by the process: they are read from the file, by way of the page cache of the system. The process has a table
    of where they are, `stats()["ram_used_bytes"]`, of up to 25 bytes for each key of 16 bytes.

    >>> import aquifer
    >>> with aquifer.open_store("cache.aq", size="64M") as store:
    ...     store[b"key"] = b"value"
    ...     store.put_many({b"a": b"1", b"b": b"2"})
    >>> with aquifer.open_store("cache.aq", "r") as store:
    ...     store[b"key"], store.get_many([b"a", b"none"]), list(store)
    (b'value', [b'1', None], [b'a', b'b', b'key'])
    """
    if mode not in _MODES:
        raise ValueError(f"mode is {mode!r}; it may be {', '.join(_MODES)}")
    if durable not in ("each", "later"):
        raise ValueError(f"durable is {durable!r}; it may be each or later")
    room = _SIZE if size is None else _heaps.size(size, "size")
    if not _SIZE_MIN <= room <= _SIZE_MAX:
        raise ValueError(f"size is {size!r}; a store has {size_text(_SIZE_MIN)} to {size_text(_SIZE_MAX)}")
    path = os.path.realpath(path)
    if mode != "a" and not os.path.exists(path):
        raise FileNotFoundError(2, f"there is no store {path}; mode='a' makes one")
    if mode != "a" and os.path.isfile(path) and os.path.getsize(path) == 0:
        raise ValueError(f"{path} is empty, and no store; mode='a' makes one")
    store = object.__new__(DurableStore)
    store._core = DurableTree(path, room, durable == "later", mode == "r", mode == "a", socket)
    store._path, store._mode, store._durable, store._gate = path, mode, durable, _Gate(store._core)
    store._closing = weakref.finalize(store, store._core.close)
    return store
