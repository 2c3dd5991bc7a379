"""Stores of values beyond RAM."""
import gc
import random
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aquifer


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A heap of 16 MiB."""
    with aquifer.Heap(ram="16M", flash=tmp_path_factory.mktemp("flash"), flash_size="1G") as heap:
        yield heap


def value_of(key, size):
    """Bytes that tell the key."""
    return (key.to_bytes(8, "little") * (size // 8 + 1))[:size]


def test_values_of_all_sizes(small):
    store = aquifer.Store(heap=small)
    sizes = [0, 1, 7, 64, 100, 2047, 2048, 2049, 4096, 10_000, 1 << 20, 20 << 20]
    values = {n: value_of(n, size) for n, size in enumerate(sizes)}
    store.put_many(values)
    assert store.get_many(values) == list(values.values())
    assert list(store.items()) == list(values.items()) and len(store) == len(sizes)
    for n, value in values.items():
        if len(value) <= 1 << 20:
            with store.view(n) as view:
                assert view == value and view.readonly
    with pytest.raises(RuntimeError, match="pinned"):
        store.view(len(sizes) - 1)


def test_many_more_values_than_ram(small):
    store = aquifer.Store(heap=small)
    count = 40_000
    for first in range(0, count, 1000):
        store.put_many((n, value_of(n, 500 + n % 3000)) for n in range(first, first + 1000))
    keys = random.Random(1).sample(range(count), 5000)
    assert store.get_many(keys) == [value_of(n, 500 + n % 3000) for n in keys]
    assert store.stats()["ram_used_bytes"] <= 16 << 20 and store.stats()["evictions"] == 0
    store.prefetch(keys[:100])
    del store[keys[0]]
    assert keys[0] not in store and store.get(keys[0], b"none") == b"none"
    with pytest.raises(KeyError):
        store[keys[0]]


def test_keys_that_are_used_again_stay(small):
    store = aquifer.Store("4M", heap=small)
    hot = list(range(100))
    for n in range(20_000):
        store[n] = value_of(n, 1000)
        if n % 50 == 0:
            assert len([value for value in store.get_many(hot) if value is not None]) >= 90 or n < 100
    assert store.stats()["bytes"] <= 4 << 20 and store.stats()["evictions"] > 10_000
    assert all(value == value_of(key, 1000) for key, value in store.items())


def test_a_full_store_may_say_so(small):
    store = aquifer.Store("1M", full="raise", heap=small)
    for n in range(1024):
        store[n] = value_of(n, 1024)
    with pytest.raises(MemoryError, match="full"):
        store["one more"] = b"1"
    store[5] = value_of(6, 1024)
    assert len(store) == 1024 and store[5] == value_of(6, 1024)
    with pytest.raises(MemoryError, match="larger"):
        store[0] = bytes(2 << 20)
    assert store[0] == value_of(0, 1024)


def test_what_expires(small):
    store = aquifer.Store(ttl=0.05, heap=small)
    store["a"] = b"1"
    store.set("b", b"2", ttl=1000)
    deadline = time.monotonic() + 60
    while "a" in store and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store.get_many(["a", "b"]) == [None, b"2"] and list(store) == ["b"]
    assert store.stats()["expired"] == 1


def test_views_keep_what_is_forgotten(small):
    store = aquifer.Store("1M", heap=small)
    store["seen"] = b"x" * 5000
    with store.view("seen") as view:
        del store["seen"]
        for n in range(2000):
            store[n] = value_of(n, 1000)
        assert bytes(view) == b"x" * 5000
    with pytest.raises(ValueError):
        view[0]
    store["seen"] = b"y" * 100
    with store.view("seen") as view:
        kept = np.frombuffer(view, np.uint8)
    del store["seen"]
    for n in range(2000):
        store[n] = value_of(n, 1000)
    assert (kept == ord("y")).all()
    with pytest.raises(ValueError):
        kept[0] = 1
    del kept
    store["more"] = b"1"
    assert not store._late


def test_all_kinds_of_buffers(small):
    store = aquifer.Store(heap=small)
    for kind in (bytearray(b"abc"), memoryview(b"abc"), np.frombuffer(b"abc", np.uint8)):
        store["kind"] = kind
        assert store["kind"] == b"abc"
    for bad in ("text", 5, None, ["a"]):
        with pytest.raises(TypeError):
            store["kind"] = bad
    with pytest.raises(TypeError):
        store[1.5] = b""
    assert store["kind"] == b"abc"


def test_what_cannot_be(small):
    for options in ({"capacity": "900G"}, {"capacity": "much"}, {"full": "forget"}, {"capacity": -1}):
        with pytest.raises(ValueError):
            aquifer.Store(heap=small, **options)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(st.tuples(st.sampled_from("pgdcn"), st.integers(0, 30), st.integers(0, 9000)), max_size=200))
def test_a_store_is_a_dictionary(small, steps):
    store, model = aquifer.Store(full="raise", heap=small), {}
    for step, key, size in steps:
        if step == "p":
            store[key] = model[key] = value_of(key * 31 + size, size)
        elif step == "g":
            assert store.get(key) == model.get(key)
        elif step == "d":
            assert (store.pop(key, None) is None) == (model.pop(key, None) is None)
        elif step == "c" and size < 500:
            store.clear()
            model.clear()
        else:
            assert len(store) == len(model)
    assert dict(store) == model
    assert store.stats()["bytes"] == sum(map(len, model.values()))


def test_threads(small):
    store, wrong = aquifer.Store("3M", heap=small), []

    def work(seed):
        chosen = random.Random(seed)
        for _ in range(1500):
            key = chosen.randrange(4000)
            if chosen.random() < 0.5:
                store[key] = value_of(key, 200 + key)
            elif store.get(key) not in (None, value_of(key, 200 + key)):
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and store.stats()["bytes"] <= 3 << 20


def test_results_are_cached(small):
    calls = []

    @aquifer.cached(aquifer.Store(heap=small))
    def area(width, height=1):
        calls.append(width)
        return np.full((width, height), 7)

    assert area(3, height=2).sum() == area(3, height=2).sum() == 42
    assert area(4).sum() == 28 and calls == [3, 4]
    area.cache_clear()
    area(4)
    assert calls == [3, 4, 4] and area.__name__ == "area"


def test_room_comes_back(small):
    for _ in range(6):
        store = aquifer.Store(heap=small)
        for n in range(100):
            store[n] = bytes(3 << 20)
        del store
        gc.collect()


def test_who_reads_does_not_hold_up_others():
    """Values that are replaced or forgotten while they are read are those of before, and their room comes back."""
    heap = aquifer.Heap(ram="16M", flash_size="512M")
    store = aquifer.Store(capacity="60M", heap=heap)
    keys = list(range(2000))
    store.put_many((key, key.to_bytes(4, "little") * 5000) for key in keys)
    wrong, over = [], threading.Event()

    def read(seed):
        random = np.random.default_rng(seed)
        while not over.is_set():
            some = random.integers(0, 2000, 100).tolist()
            for key, value in zip(some, store.get_many(some)):
                if value is not None and value != key.to_bytes(4, "little") * (len(value) // 4):
                    wrong.append(key)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    [thread.start() for thread in threads]
    for n in range(4000):
        key = n * 7 % 2000
        store[key] = key.to_bytes(4, "little") * (4000 + n % 3000)
    over.set()
    [thread.join() for thread in threads]
    assert not wrong and not store._late and not store._readers


def test_flash_is_spared_for_keys_that_are_used_again():
    """Keys that come once go before they are written; those that come again stay, as without."""
    written, kept = {}, {}
    for admission in ("all", "spare"):
        with aquifer.Heap(ram="16M", flash_size="512M") as heap:
            store = aquifer.Store(capacity="100M", admission=admission, heap=heap)
            store.put_many((("often", n), bytes([n]) * 10_000) for n in range(100))
            for n in range(12_000):
                store["once", n] = np.random.default_rng(n).bytes(10_000)
                store.get(("often", n % 100))
            written[admission] = heap.stats()["device_written_bytes"]
            kept[admission] = sum(("often", n) in store for n in range(100))
            store.close()
            del store
            gc.collect()
    assert kept == {"all": 100, "spare": 100}
    assert written["spare"] < written["all"] / 4, written
    with pytest.raises(ValueError, match="spare"):
        aquifer.Store(capacity="1M", full="raise", admission="spare")
