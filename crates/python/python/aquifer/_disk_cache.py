"""The calls of `diskcache.Cache` over a store beyond RAM."""
import functools
import heapq
import io
import itertools
import math
import pickle
import pickletools
import threading
import time

from ._store import Store

# Expired items that one `set` forgets, as in diskcache.
_CULLED = 10
# Expiry times of items that are gone, beside those of items that there are.
_STALE_MAX = 1024
_INT64 = range(-(1 << 63), 1 << 63)
_ABSENT = object()

_QUEUE = "for a queue use collections.deque, or diskcache where it has to outlive the process"
_PLACE = "nothing of it outlives the process; aquifer.configure(flash=...) says where its flash is"
# What diskcache has and this has not, with what to do instead.
_LEFT_OUT = {
    "push": _QUEUE,
    "pull": _QUEUE,
    "peek": _QUEUE,
    "peekitem": "the first key is next(iter(cache)), the last one next(reversed(cache))",
    "transact": "each call is atomic; hold a lock of your own around several",
    "check": "there is no database that could be damaged",
    "create_tag_index": "evict works without an index",
    "drop_tag_index": "evict works without an index",
    "reset": "settings are given once, to aquifer.DiskCache(...)",
    "directory": _PLACE,
    "disk": "values are bytes, or pickled",
    "timeout": "no call waits for a database",
}


class _Item:
    """What is known of a key besides its value."""

    __slots__ = ("key", "order", "expires", "tag", "is_pickled")

    def __init__(self, key, order):
        self.key, self.order = key, order


class _Values(Store):
    """A store that forgets an item with its value."""

    def __init__(self, capacity, heap):
        self.items_of = {}
        super().__init__(capacity, heap=heap)

    def _forget(self, key, entry):
        super()._forget(key, entry)
        self.items_of.pop(key, None)


class DiskCache:
    """A cache with the calls of `diskcache.Cache`, whose values lie in RAM or on flash, and which ends with the process.

    size_limit   bytes of values; by default as much as fits the flash of the heap. Beyond that S3-FIFO chooses what is forgotten
    statistics   whether hits and misses are counted from the beginning (`stats`)
    heap         an `aquifer.Heap`; by default the one of `aquifer.configure`

    Keys and values are what can be pickled; bytes are kept as they are. Keys, expiry times and tags are in ordinary memory. All methods
    may be called from any thread, and each is atomic; `retry` has no meaning here.

    >>> import aquifer
    >>> cache = aquifer.DiskCache(size_limit="100M")
    >>> cache.set("page", {"title": "Home"}, expire=60, tag="pages")
    True
    >>> cache["page"], cache.incr("views"), len(cache)
    ({'title': 'Home'}, 1, 2)
    >>> cache.evict("pages")
    1
    """

    def __init__(self, directory=None, *, size_limit=None, statistics=False, heap=None, **settings):
        if directory is not None:
            raise TypeError(f"aquifer.DiskCache takes no directory: {_PLACE}")
        if settings:
            raise TypeError(f"aquifer.DiskCache has no setting {min(settings)}; it has size_limit, statistics and heap")
        self._values = _Values(size_limit, heap)
        self._items = self._values.items_of
        self._lock, self._orders, self._expiring = threading.RLock(), itertools.count(), []
        self.statistics, self._hits, self._misses = bool(statistics), 0, 0

    @property
    def size_limit(self):
        """Bytes of values that it holds at most."""
        return self._values.capacity

    # Values

    def set(self, key, value, expire=None, read=False, tag=None, retry=False):
        """Sets the value of `key`, which is forgotten after `expire` seconds. With `read` the value is what a file still holds."""
        data, is_pickled = _dump(value, read)
        with self._lock:
            self._put(key, data, is_pickled, expire, tag)
        return True

    def __setitem__(self, key, value):
        self.set(key, value)

    def add(self, key, value, expire=None, read=False, tag=None, retry=False):
        """Sets the value of a key that there is none of. Returns whether it did."""
        data, is_pickled = _dump(value, read)
        with self._lock:
            if self._alive(_place(key)) is not None:
                return False
            self._put(key, data, is_pickled, expire, tag)
        return True

    def get(self, key, default=None, read=False, expire_time=False, tag=False, retry=False):
        """The value of `key`, or `default`; with its expiry time and its tag where these are asked for. With `read`, bytes as a file."""
        with self._lock:
            found = self._look(_place(key))
            if self.statistics:
                self._hits += found is not None
                self._misses += found is None
        return _told(found, default, read, expire_time, tag)

    def read(self, key, retry=False):
        """The value of `key` as a file."""
        value = self.get(key, _ABSENT, read=True)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def __getitem__(self, key):
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def pop(self, key, default=None, expire_time=False, tag=False, retry=False):
        """The value of `key`, which is forgotten, or `default`."""
        place = _place(key)
        with self._lock:
            found = self._look(place)
            if found is not None:
                del self._values[place]
        return _told(found, default, False, expire_time, tag)

    def __delitem__(self, key):
        place = _place(key)
        with self._lock:
            if self._alive(place) is None:
                raise KeyError(key)
            del self._values[place]

    def delete(self, key, retry=False):
        """Forgets `key`. Returns whether there was one."""
        try:
            del self[key]
        except KeyError:
            return False
        return True

    def touch(self, key, expire=None, retry=False):
        """Gives `key` another `expire` seconds, or all time. Returns whether there is one."""
        place = _place(key)
        with self._lock:
            now = time.time()
            item = self._alive(place, now)
            if item is None:
                return False
            self._expire_at(place, item, expire, now)
        return True

    def incr(self, key, delta=1, default=0, retry=False):
        """Adds `delta` to a number, and returns it. A key that there is none of begins with `default`; `KeyError` if that is None."""
        place = _place(key)
        with self._lock:
            now = time.time()
            item = self._items.get(place)
            if item is None or (item.expires is not None and item.expires < now):
                if default is None:
                    raise KeyError(key)
                value = default + delta
                self._put(key, *_dump(value, False), None, None)
                return value
            value = _load(self._values[place], item.is_pickled, False)
            if type(value) not in (int, float):
                raise TypeError(f"the value of {key!r} is {type(value).__name__}, which cannot be added to")
            expires, tag = item.expires, item.tag
            value += delta
            item = self._replace(place, key, *_dump(value, False))
            item.expires, item.tag = expires, tag
            return value

    def decr(self, key, delta=1, default=0, retry=False):
        """Takes `delta` from a number, as `incr` adds it."""
        return self.incr(key, -delta, default)

    # Keys

    def __contains__(self, key):
        with self._lock:
            return self._alive(_place(key)) is not None

    def __len__(self):
        """Items, with those that have expired and were not forgotten yet."""
        return len(self._items)

    def __iter__(self):
        """Keys in the order in which they were set first, with those that have expired and were not forgotten yet."""
        with self._lock:
            return iter([item.key for item in self._items.values()])

    def __reversed__(self):
        return reversed(list(self))

    def iterkeys(self, reverse=False):
        """Keys in the order of diskcache: numbers, text, bytes, others."""
        with self._lock:
            places = [(_rank(place, item.key), item.key) for place, item in self._items.items()]
        return iter([key for _, key in sorted(places, key=lambda one: one[0], reverse=reverse)])

    # What is forgotten

    def expire(self, now=None, retry=False):
        """Forgets what has expired. Returns how many items that were."""
        with self._lock:
            return self._drop_expired(now or time.time(), math.inf)

    def cull(self, retry=False):
        """As `expire`: what is beyond `size_limit` is forgotten whenever something is set."""
        return self.expire()

    def evict(self, tag, retry=False):
        """Forgets all items with that tag. Returns how many these were."""
        with self._lock:
            places = [place for place, item in self._items.items() if item.tag is not None and item.tag == tag]
            for place in places:
                del self._values[place]
        return len(places)

    def clear(self, retry=False):
        """Forgets everything. Returns how many items that were."""
        with self._lock:
            count = len(self._items)
            self._values.clear()
            self._expiring.clear()
        return count

    def close(self):
        """Forgets everything and gives the room back to the heap."""
        self.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_details):
        self.close()

    # What is told

    def stats(self, enable=True, reset=False):
        """Hits and misses of `get`. They are counted from now on, or not if `enable` is false."""
        with self._lock:
            counted = (self._hits, self._misses)
            if reset:
                self._hits = self._misses = 0
            self.statistics = bool(enable)
        return counted

    def volume(self):
        """Bytes of all values."""
        return self._values.stats()["bytes"]

    def __repr__(self):
        return f"aquifer.DiskCache({len(self)} items, {self._values!r})"

    def __reduce__(self):
        raise TypeError("an aquifer.DiskCache cannot be pickled: another process makes one of its own")

    def __getattr__(self, name):
        text = _LEFT_OUT.get(name)
        raise AttributeError(f"aquifer.DiskCache has no {name}" + (f": {text}" if text else ""))

    # Functions

    def memoize(self, name=None, typed=False, expire=None, tag=None, ignore=()):
        """A decorator that keeps results of a function, by its name and its arguments without those that `ignore` names.

        >>> import aquifer
        >>> cache = aquifer.DiskCache(size_limit="10M")
        >>> @cache.memoize(tag="squares")
        ... def square(n):
        ...     return n * n
        >>> square(12), square.__cache_key__(12) in cache
        (144, True)
        """
        if callable(name):
            raise TypeError("name cannot be callable: write @cache.memoize() with parentheses")

        def decorate(call):
            base = (f"{call.__module__}.{call.__qualname__}" if name is None else name,)

            def key_of(*arguments, **options):
                return _key_of_call(base, arguments, options, typed, ignore)

            @functools.wraps(call)
            def wrapper(*arguments, **options):
                key = key_of(*arguments, **options)
                result = self.get(key, _ABSENT)
                if result is _ABSENT:
                    result = call(*arguments, **options)
                    if expire is None or expire > 0:
                        self.set(key, result, expire, tag=tag)
                return result

            wrapper.__cache_key__ = key_of
            return wrapper

        return decorate

    # With the lock held

    def _alive(self, place, now=None):
        item = self._items.get(place)
        is_alive = item is not None and (item.expires is None or item.expires > (time.time() if now is None else now))
        return item if is_alive else None

    def _look(self, place):
        """The bytes of a value, whether they are a pickle, its expiry time and its tag; None where there is none."""
        item = self._alive(place)
        return None if item is None else (self._values[place], item.is_pickled, item.expires, item.tag)

    def _replace(self, place, key, data, is_pickled):
        """To make room, the store may forget the item that is replaced."""
        self._values[place] = data
        item = self._items.get(place)
        if item is None:
            item = self._items[place] = _Item(key, next(self._orders))
        item.is_pickled = is_pickled
        return item

    def _put(self, key, data, is_pickled, expire, tag):
        now, place = time.time(), _place(key)
        item = self._replace(place, key, data, is_pickled)
        item.tag = tag
        self._expire_at(place, item, expire, now)
        self._drop_expired(now, _CULLED)

    def _expire_at(self, place, item, expire, now):
        item.expires = None if expire is None else now + expire
        if expire is None:
            return
        heapq.heappush(self._expiring, (item.expires, item.order, place))
        if len(self._expiring) > 2 * len(self._items) + _STALE_MAX:
            known = self._items.items()
            self._expiring[:] = [(one.expires, one.order, where) for where, one in known if one.expires is not None]
            heapq.heapify(self._expiring)

    def _drop_expired(self, now, most):
        """Forgets up to `most` expired items, those first that expired first."""
        count = 0
        while count < most and self._expiring and self._expiring[0][0] < now:
            expires, order, place = heapq.heappop(self._expiring)
            item = self._items.get(place)
            if item is not None and (item.order, item.expires) == (order, expires):
                del self._values[place]
                count += 1
        return count


def _place(key):
    """The key of the store. As in diskcache, 1 and 1.0 are one key, and True is another."""
    kind = type(key)
    if kind in (bytes, str) or (kind is int and key in _INT64):
        return key
    if kind is float:
        return int(key) if key.is_integer() and int(key) in _INT64 else ("float", key)
    return ("pickle", pickletools.optimize(pickle.dumps(key, pickle.HIGHEST_PROTOCOL)))


def _rank(place, key):
    """The order of keys in SQLite: numbers, text, bytes."""
    if type(place) is str:
        return (1, place.encode(), True)
    if type(place) is bytes:
        return (2, place, True)
    return (2, place[1], False) if type(place) is tuple and place[0] == "pickle" else (0, key, True)


def _dump(value, read):
    """A value as bytes, and whether they are a pickle."""
    if read:
        value = value.read()
    return (value, False) if type(value) is bytes else (pickle.dumps(value, pickle.HIGHEST_PROTOCOL), True)


def _load(data, is_pickled, read):
    if is_pickled:
        return pickle.loads(data)
    return io.BytesIO(data) if read else data


def _told(found, default, read, expire_time, tag):
    """What `get` and `pop` return."""
    data, is_pickled, *details = found or (None, False, None, None)
    value = default if found is None else _load(data, is_pickled, read)
    more = [detail for detail, is_wanted in zip(details, (expire_time, tag)) if is_wanted]
    return (value, *more) if more else value


def _key_of_call(base, arguments, options, typed, ignore):
    """The key of a call, as diskcache makes it."""
    arguments = tuple(argument for n, argument in enumerate(arguments) if n not in ignore)
    named = sorted((name, value) for name, value in options.items() if name not in ignore)
    key = (*base, *arguments, None, *itertools.chain.from_iterable(named))
    if typed:
        key += tuple(map(type, arguments)) + tuple(type(value) for _, value in named)
    return key
