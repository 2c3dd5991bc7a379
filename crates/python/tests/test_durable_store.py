"""Stores that stay."""
import json
import os
import pickle
import random
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading

import aquifer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

VALUE_MAX, KEY_MAX = 15 << 20, (64 << 10) - 1


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "test.aq")


def value_of(n, size):
    """Bytes that tell the number."""
    return (n.to_bytes(8, "little") * (size // 8 + 1))[:size]


def run(program, **options):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, **options)


def test_what_was_put_is_there_again(path):
    sizes = [0, 1, 10, 11, 12, 13, 100, 4095, 4096, 65_537, 1 << 20, VALUE_MAX]
    model = {b"value" + value_of(n, 3 + n): value_of(n, size) for n, size in enumerate(sizes)}
    model |= {value_of(n, size): b"key" for n, size in enumerate([0, 1, 9, 10, 11, 12, 300, KEY_MAX], 100)}
    with aquifer.open_store(path, size="64M") as store:
        for key, value in model.items():
            store[key] = value
        assert dict(store) == model and len(store) == len(model)
        assert path in repr(store) and "20 keys" in repr(store) and not store.closed
    assert "closed" in repr(store) and store.closed
    store.close()
    for act in (lambda: store[b""], lambda: len(store), lambda: store.put_many({}), store.flush, store.stats, lambda: next(iter(store))):
        with pytest.raises(ValueError, match="closed"):
            act()
    with aquifer.open_store(path, "r") as store:
        assert list(store) == sorted(model) and list(store.items()) == sorted(model.items())
        assert list(store.values()) == [model[key] for key in sorted(model)]
        assert store.get_many(model) == list(model.values())


def test_it_is_a_mapping(path):
    with aquifer.open_store(path, size="16M") as store:
        store[b"a"], store[b"b"] = b"1", bytearray(b"22")
        store[b"c"] = memoryview(b"x333")[1:]
        assert b"a" in store and b"z" not in store and "a" not in store and len(store) == 3
        assert store.get(b"z") is None and store.get(b"z", 5) == 5 and store[b"c"] == b"333"
        assert store.get_many([b"c", b"z", b"a", b"c"]) == [b"333", None, b"1", b"333"]
        with pytest.raises(KeyError, match="z"):
            store[b"z"]
        with pytest.raises(KeyError, match="z"):
            del store[b"z"]
        with pytest.raises(KeyError):
            store.pop(b"z")
        assert store.pop(b"z", None) is None and store.pop(b"a") == b"1" and b"a" not in store
        assert store.setdefault(b"b", b"other") == b"22" and store.setdefault(b"d", b"4") == b"4"
        store.update({b"e": b"5", b"d": b"44"})
        store.update([(b"f", b"6"), (b"f", b"66")])
        assert dict(store) == {b"b": b"22", b"c": b"333", b"d": b"44", b"e": b"5", b"f": b"66"}
        assert store == {b"b": b"22", b"c": b"333", b"d": b"44", b"e": b"5", b"f": b"66"}
        assert list(store.range(b"c", b"e")) == [(b"c", b"333"), (b"d", b"44")]
        assert list(store.range(b"cc")) == [(b"d", b"44"), (b"e", b"5"), (b"f", b"66")]
        assert list(store.range(stop=b"c")) == [(b"b", b"22")] and list(store.range(b"x", b"b")) == []
        assert (b"e", b"5") in store.items() and (b"e", b"6") not in store.items() and b"44" in store.values()
        assert store.popitem() == (b"b", b"22")
        stats = store.stats()
        assert stats["keys"] == 4 and stats["size"] == 16 << 20 and 0 < stats["used_bytes"] <= stats["file_bytes"] <= 16 << 20
        store.clear()
        assert not store and list(store) == []
        with pytest.raises(KeyError):
            store.popitem()


def test_what_cannot_be(path):
    with aquifer.open_store(path, size="64M") as store:
        store[b"here"] = b"1"
        with pytest.raises(ValueError, match=str(VALUE_MAX)):
            store[b"here"] = bytes(VALUE_MAX + 1)
        with pytest.raises(ValueError, match=str(KEY_MAX)):
            store[bytes(KEY_MAX + 1)] = b""
        with pytest.raises(ValueError, match=str(KEY_MAX)):
            store.put_many({b"other": b"1", bytes(KEY_MAX + 1): b""})
        for key in ("text", 5, None, (b"a",)):
            with pytest.raises(TypeError, match="a key is bytes"):
                store[key] = b""
            with pytest.raises(TypeError, match="a key is bytes"):
                store.get_many([key])
            with pytest.raises(TypeError, match="a key is bytes"):
                store.range(key)
        for value in ("text", 5, None, [1]):
            with pytest.raises(TypeError, match="a value is bytes"):
                store[b"here"] = value
        assert dict(store) == {b"here": b"1"} and bytes(KEY_MAX + 1) not in store
    for options in ({"mode": "w"}, {"durable": "never"}, {"size": "1M"}, {"size": "much"}, {"size": "5000T"}):
        with pytest.raises(ValueError):
            aquifer.open_store(path + ".new", **options)
        assert not os.path.exists(path + ".new")


STEPS = ["put", "many", "delete", "pop", "default", "commit", "abort", "clear", "flush", "reopen"]


@given(st.booleans(), st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 10_000)), max_size=40))
@settings(max_examples=25, deadline=None)
def test_random_programs_agree_with_a_dict(is_each, steps):
    with tempfile.TemporaryDirectory() as folder:
        agree(os.path.join(folder, "a.aq"), "each" if is_each else "later", steps)


def agree(path, durable, steps):
    store, model = aquifer.open_store(path, size="32M", durable=durable), {}
    for step, n in steps:
        chosen = random.Random(n)

        def key():
            return value_of(chosen.randrange(60), chosen.choice([1, 2, 9, 10, 11, 12, 40, 3000]))

        def value():
            return chosen.randbytes(chosen.choice([0, 1, 11, 12, 13, 100, 5000, 100_000]))

        if step == "put":
            one = key()
            store[one] = model[one] = value()
        elif step == "many":
            some = {key(): value() for _ in range(n % 40)}
            store.put_many(some)
            model |= some
        elif step == "delete":
            one = chosen.choice(sorted(model)) if model and n % 3 else key()
            assert store.pop(one, None) == model.pop(one, None)
        elif step == "pop" and model:
            one = chosen.choice(sorted(model))
            del store[one], model[one]
        elif step == "default":
            one, other = key(), value()
            assert store.setdefault(one, other) == model.setdefault(one, other)
        elif step in ("commit", "abort"):
            copy = dict(model)
            try:
                with store.transaction() as transaction:
                    for _ in range(n % 7):
                        one = key()
                        assert transaction.pop(one, None) == copy.pop(one, None)
                        one = key()
                        transaction[one] = copy[one] = value()
                        assert transaction[one] == copy[one] and one in transaction
                    assert len(transaction) == len(copy) and list(transaction) == sorted(copy)
                    assert dict(store) == model
                    if step == "abort":
                        raise InterruptedError
                model = copy
            except InterruptedError:
                pass
        elif step == "clear" and n % 3 == 0:
            store.clear()
            model.clear()
        elif step == "flush":
            store.flush()
        elif step == "reopen":
            store.close()
            store = aquifer.open_store(path, chosen.choice(["a", "r+"]), size="32M", durable=durable)
        assert len(store) == len(model) and list(store) == sorted(model)
        some = [key() for _ in range(5)] + chosen.sample(sorted(model), min(5, len(model)))
        assert store.get_many(some) == [model.get(one) for one in some]
    assert dict(store.items()) == model
    store.close()


def test_iteration_beside_changes(path):
    """Keys that are there all the time are found once, in order."""
    keys = [b"%05d" % n for n in range(3000)]
    with aquifer.open_store(path, size="32M", durable="later") as store:
        store.put_many((key, key * 3) for key in keys)
        found = []
        for n, (key, value) in enumerate(store.items()):
            assert value == key * 3
            found.append(key)
            if n % 100 == 0:
                store.pop(b"%05d" % (2 * n + 1), None)
                store[key + b"new"] = (key + b"new") * 3
        assert found == sorted(set(found))
        assert {key for key in keys if key in store} <= set(found)
        for key in store:
            del store[key]
        assert not store


def test_a_transaction_is_all_or_nothing(path):
    with aquifer.open_store(path, size="16M") as store:
        store[b"kept"] = b"1"
        with store.transaction() as transaction:
            transaction[b"a"], transaction[b"b"] = b"1", b"2"
            del transaction[b"kept"]
            with pytest.raises(KeyError):
                del transaction[b"kept"]
            with pytest.raises(RuntimeError, match="transaction"):
                store[b"past"] = b"it"
            with pytest.raises(RuntimeError, match="transaction"):
                store.transaction().__enter__()
            with pytest.raises(TypeError):
                transaction["text"] = b""
            with pytest.raises(ValueError, match=str(VALUE_MAX)):
                transaction[b"a"] = bytes(VALUE_MAX + 1)
            assert dict(store) == {b"kept": b"1"} and dict(transaction) == {b"a": b"1", b"b": b"2"}
        assert dict(store) == {b"a": b"1", b"b": b"2"}
        with pytest.raises(ZeroDivisionError):
            with store.transaction() as other:
                other.clear()
                other[b"c"] = b"3"
                assert dict(other) == {b"c": b"3"}
                1 / 0
        assert dict(store) == {b"a": b"1", b"b": b"2"}
        for ended in (transaction, other):
            with pytest.raises(ValueError, match="ended"):
                ended[b"a"] = b"late"
        store[b"after"] = b"it"
        assert len(store) == 3


def test_transactions_of_threads_follow_each_other(path):
    with aquifer.open_store(path, size="16M", durable="later") as store:

        def work(n):
            for _ in range(50):
                with store.transaction() as transaction:
                    transaction[b"count"] = b"%d" % (int(transaction.get(b"count", b"0")) + 1)
                store[b"thread%d" % n] = b"past it"

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert store[b"count"] == b"200" and len(store) == 5


def test_threads(path):
    with aquifer.open_store(path, size="64M", durable="later") as store:
        wrong = []

        def work(seed):
            chosen, own = random.Random(seed), {}
            for n in range(300):
                key = b"%d:%d" % (seed, chosen.randrange(100))
                if chosen.random() < 0.2:
                    if store.pop(key, None) != own.pop(key, None):
                        wrong.append(key)
                else:
                    store[key] = own[key] = value_of(n, chosen.randrange(4000))
                some = chosen.sample(sorted(own), min(10, len(own)))
                if store.get_many(some) != [own[one] for one in some]:
                    wrong.append(key)
                if n % 100 == 0 and dict(store.range(b"%d:" % seed, b"%d;" % seed)) != own:
                    wrong.append(key)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not wrong and len(list(store)) == len(store)


def test_others_run_meanwhile(path):
    """The interpreter is free while a call is under way."""
    with aquifer.open_store(path, size="256M") as store:
        begun, ended, values = threading.Event(), threading.Event(), [(b"%d" % n, bytes(10 << 20)) for n in range(8)]

        def put():
            begun.set()
            store.put_many(values)
            ended.set()

        thread = threading.Thread(target=put)
        thread.start()
        begun.wait()
        steps = 0
        while not ended.is_set():
            steps += 1
        thread.join()
        assert steps > 1000


def test_a_thread_that_closes_waits_for_no_one(path):
    """Calls of others end, or say that the store is closed."""
    store, others = aquifer.open_store(path, size="64M"), []

    def work(n):
        try:
            for m in range(100_000):
                store[b"%d" % n] = b"%d" % m
        except ValueError as error:
            others.append("closed" in str(error))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    [thread.start() for thread in threads]
    while len(store) < 3:
        pass
    store.close()
    [thread.join() for thread in threads]
    assert others == [True] * 3
    with aquifer.open_store(path) as store:
        assert len(store) == 3


def test_results_stay(path):
    program = f"""
        import aquifer
        with aquifer.open_store({path!r}, size="16M") as store:
            @aquifer.cached(store)
            def square(n):
                print("computed")
                return n * n
            assert square(12) == 144 and square(12) == 144
    """
    assert [run(program).stdout for _ in range(2)] == ["computed\n", ""]
    with aquifer.open_store(path, "r") as store:
        assert [pickle.loads(value) for value in store.values()] == [144]
        with pytest.raises(ValueError, match="ttl"):
            aquifer.cached(store, ttl=5)


def asked(path):
    """What is answered at a socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"stats\n")
        return json.loads(client.makefile().readline())


def test_numbers_are_told_at_a_socket(path, tmp_path):
    where = tmp_path / "socket"
    with aquifer.open_store(path, size="64M", socket=where) as store:
        store[b"key"] = b"value"
        told = asked(where)
        assert told["subject"] == "durable heap" and told["pid"] == os.getpid() and told["stats"]["commits"] > 0
    assert not where.exists()
    where.write_text("precious")
    with pytest.raises(OSError, match="could not be made"):
        aquifer.open_store(path, socket=where)
    assert where.read_text() == "precious"
    with aquifer.open_store(path) as store:
        assert store[b"key"] == b"value"


def test_an_array_that_stays_tells_of_its_volume(tmp_path):
    where = tmp_path / "socket"
    with aquifer.open_array(tmp_path / "array.vol", (1000, 8), socket=where) as array:
        array[5] = 1
        array.flush()
        told = asked(where)
        assert told["subject"] == "volume" and told["stats"]["commits"] > 0
    assert not where.exists()
