"""The calls of diskcache: the same sequence on both, and the same results."""
import io
import itertools
import pickle
import random
import sys
import threading
import time

import numpy as np
import pytest

import aquifer

try:
    import diskcache
except ImportError:
    diskcache = None
needs_diskcache = pytest.mark.skipif(diskcache is None, reason="diskcache is not installed")

KEYS = [
    *range(6), 2.0, 3.5, -(1 << 70), 1 << 62, True, None, "", "a", "ä", "b" * 300, b"", b"a", b"\x00\xff", (), (1, "a"), ("float", 3.5),
    frozenset([1]),
]  # fmt: skip
VALUES = [
    0, 1, -7, 1 << 40, 0.5, True, None, "", "text", "ä" * 5000, b"", b"bytes", bytes(40_000), bytearray(b"changes"), (1, [2, {"three": 3}]), [],
]  # fmt: skip
TAGS = [None, None, "red", "blue", 1, 1.0, "1", b"red"]


class Clock:
    """Time that passes when a test says so."""

    def __init__(self):
        self.now = 1_700_000_000.25

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


@pytest.fixture
def both(heap, tmp_path):
    if diskcache is None:
        pytest.skip("diskcache is not installed")
    with diskcache.Cache(str(tmp_path / "real"), cull_limit=10) as real, aquifer.DiskCache(heap=heap) as ours:
        yield real, ours


def shown(value):
    """A result with the kinds of everything in it."""
    if hasattr(value, "read"):
        return ("file", value.read())
    if isinstance(value, tuple):
        return tuple(map(shown, value))
    return (type(value).__name__, value)


def outcome(call):
    try:
        return shown(call())
    except (KeyError, TypeError) as error:
        return type(error).__name__


def a_step(chosen):
    """A call with arguments, by name, so that it can be made on both."""
    key, value = chosen.choice(KEYS), chosen.choice(VALUES)
    expire = chosen.choice([None, None, 0, 1, 2, 3.5, 10, -1])
    wanted = {"expire_time": chosen.random() < 0.3, "tag": chosen.random() < 0.3}
    delta = chosen.choice([1, 5, -2, 0.5])
    steps = [
        ("set", (key, value, expire), {"tag": chosen.choice(TAGS)}),
        ("set", (key, value), {}),
        ("__setitem__", (key, value), {}),
        ("add", (key, value, expire), {"tag": chosen.choice(TAGS)}),
        ("get", (key,), wanted),
        ("get", (key, "default"), wanted),
        ("__getitem__", (key,), {}),
        ("__contains__", (key,), {}),
        ("pop", (key, "none"), wanted),
        ("delete", (key,), {}),
        ("__delitem__", (key,), {}),
        ("touch", (key, expire), {}),
        ("incr", (key, delta), {"default": chosen.choice([0, 10, None])}),
        ("decr", (key, delta), {}),
        ("__len__", (), {}),
        ("evict", (chosen.choice(TAGS),), {}),
        ("expire", (), {}),
        ("cull", (), {}),
        ("stats", (), {"enable": chosen.random() < 0.7, "reset": chosen.random() < 0.2}),
        ("clear", (), {}),
    ]
    weights = [9, 3, 3, 6, 5, 5, 4, 4, 3, 3, 2, 5, 6, 3, 3, 1, 1, 1, 1, 0.1]
    return chosen.choices(steps, weights)[0]


@pytest.mark.parametrize("seed", range(8))
def test_the_same_calls_have_the_same_results(both, clock, seed):
    real, ours = both
    chosen = random.Random(seed)
    for n in range(500):
        name, arguments, options = a_step(chosen)
        # Ages that are not whole numbers, so that no two items expire at the same time.
        clock.now += chosen.choice([0, 0.001, 0.13, 0.7, 1])
        expected, found = (outcome(lambda: getattr(cache, name)(*arguments, **options)) for cache in both)
        if name == "__delitem__" and expected == ("bool", True):
            expected = ("NoneType", None)
        assert found == expected, (n, name, arguments, options)
        if n % 20 == 0:
            assert list(map(shown, ours)) == list(map(shown, real))
            assert list(map(shown, reversed(ours))) == list(map(shown, reversed(real)))
            assert list(map(shown, ours.iterkeys())) == list(map(shown, real.iterkeys()))
            assert list(map(shown, ours.iterkeys(reverse=True))) == list(map(shown, real.iterkeys(reverse=True)))
            assert ours.volume() >= 0
    assert [shown(ours.get(key)) for key in KEYS] == [shown(real.get(key)) for key in KEYS]


def test_functions_are_memoized_alike(both, clock):
    def made(cache):
        calls = []

        @cache.memoize(typed=True, expire=5, tag="squares", ignore={"log"})
        def square(n, log=None):
            calls.append(n)
            return n * n

        results = [square(3), square(3.0), square(3, log="x"), square(n=3), square(3)]
        clock.now += 6
        results += [square(3), cache.evict("squares"), square(3), square.__name__, square.__wrapped__(5)]
        return calls, results, square.__cache_key__(3, log=1), square.__cache_key__(n=2)

    def double(n):
        return 2 * n

    assert made(both[1]) == made(both[0])
    never = both[1].memoize(name="double", expire=0)(double)
    assert (never(4), len(both[1])) == (8, len(both[0]))
    with pytest.raises(TypeError, match="parentheses"):
        both[1].memoize(double)


def test_files_are_read(both):
    for cache in both:
        assert cache.set("file", io.BytesIO(bytes(50_000)), read=True, tag="f") and cache.add("other", io.BytesIO(b"1" * 40_000), read=True)
    real, ours = both
    for key in ("file", "other"):
        assert ours[key] == real[key]
        with ours.read(key) as found, real.read(key) as expected:
            assert found.read() == expected.read()
        assert shown(ours.get(key, read=True, tag=True)) == shown(real.get(key, read=True, tag=True))
    for cache in both:
        with pytest.raises(KeyError):
            cache.read("none")


def test_what_expired_is_forgotten_some_at_a_time(both, clock):
    for cache in both:
        for n in range(45):
            cache.set(n, n, expire=1 + n)
    clock.now += 40.5
    counts = [[(cache.set("x", 1), len(cache)) for _ in range(4)] + [cache.cull(), len(cache)] for cache in both]
    assert counts[0] == counts[1]


def test_what_it_does_not_have_says_what_to_do(heap):
    cache = aquifer.DiskCache(heap=heap)
    for name, text in (("push", "deque"), ("transact", "lock"), ("peekitem", "next"), ("check", "database"), ("directory", "flash")):
        with pytest.raises(AttributeError, match=text):
            getattr(cache, name)
        assert not hasattr(cache, name)
    with pytest.raises(AttributeError, match="has no frobnicate$"):
        cache.frobnicate()
    with pytest.raises(TypeError, match="flash="):
        aquifer.DiskCache("/var/cache/pages")
    with pytest.raises(TypeError, match="eviction_policy"):
        aquifer.DiskCache(eviction_policy="none", heap=heap)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(cache)


@needs_diskcache
def test_all_that_diskcache_has_is_here_or_is_said_to_be_left_out(heap):
    cache = aquifer.DiskCache(heap=heap)
    public = {name for name in dir(diskcache.Cache) if not name.startswith("_")}
    missing = public - set(dir(aquifer.DiskCache))
    assert missing == {name for name in missing if ": " in str(pytest.raises(AttributeError, getattr, cache, name).value)}


def test_the_limit_holds_and_items_go_with_values(heap):
    cache = aquifer.DiskCache(size_limit="2M", heap=heap)
    for n in range(3000):
        cache.set(n, bytes([n % 256]) * 3000, expire=1000, tag=n % 3)
        if n % 10 == 0:
            cache.get(5)
    assert cache.volume() <= cache.size_limit == 2 << 20
    keys = list(cache)
    assert 5 in cache and len(keys) == len(cache) == len(cache._values) <= 700
    assert all(cache[key] == bytes([key % 256]) * 3000 for key in keys)
    assert len(cache._expiring) <= 2 * len(cache) + 1024 + 1
    assert cache.evict(1) == sum(key % 3 == 1 for key in keys)
    with pytest.raises(MemoryError):
        cache.set("large", bytes(3 << 20))
    assert cache.clear() == sum(key % 3 != 1 for key in keys) and cache.volume() == 0
    cache["again"] = np.arange(5)
    assert cache["again"].tolist() == [0, 1, 2, 3, 4]


def test_calls_are_atomic(heap):
    cache = aquifer.DiskCache(size_limit="4M", statistics=True, heap=heap)
    added, wrong = [], []

    def work(seed):
        chosen = random.Random(seed)
        for n in range(400):
            cache.incr("count")
            if cache.add(("once", n), seed):
                added.append(n)
            key = chosen.randrange(200)
            cache.set(key, (key, bytes(10_000 + key)), expire=chosen.choice([None, 0.001, 100]))
            found = cache.get(key, (key, bytes(10_000 + key)))
            if found != (key, bytes(10_000 + key)):
                wrong.append(key)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong and cache["count"] == 1600 and sum(cache.stats()) >= 1600
    # What is forgotten to make room may be added again.
    assert set(added) == set(range(400)) and cache.volume() <= 4 << 20


def test_keys_that_come_and_go(heap):
    """A key that was forgotten and set again comes last."""
    cache = aquifer.DiskCache(heap=heap)
    for key in itertools.chain("abc", "a"):
        cache[key] = key
    del cache["b"]
    cache["b"] = "again"
    assert list(cache) == ["a", "c", "b"]
