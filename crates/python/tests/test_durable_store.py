"""Stores that stay."""
import errno
import os
import pickle
import random
import resource
import signal
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


def in_child(act):
    """Runs `act` in a forked child, and returns its exit status: what `act` returns, or 99 after an exception."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            status = act() or 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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


@pytest.mark.parametrize("durable", ["each", "later"])
def test_a_killed_process_loses_nothing_acknowledged(path, durable):
    """Each call that has returned is there, with `durable="each"`; of `put_many` and of a transaction all, or nothing."""
    program = f"""
        import aquifer, itertools
        with aquifer.open_store({path!r}, size="64M", durable={durable!r}) as store:
            for n in itertools.count(1):
                store[b"one%d" % n] = b"%d" % n * 50
                store.put_many((b"many%d:%d" % (n, part), b"%d" % n * 300) for part in range(20))
                with store.transaction() as transaction:
                    transaction[b"left"] = transaction[b"right"] = b"%d" % n
                    del transaction[b"one%d" % n]
                if {durable!r} == "later" and n % 10 == 0:
                    store.flush()
                if {durable!r} == "each" or n % 10 == 0:
                    print(n, flush=True)
    """
    for seed in range(3):
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
        said = [int(child.stdout.readline()) for _ in range(20 + 7 * seed)]
        child.send_signal(signal.SIGKILL)
        said += [int(line) for line in child.stdout.read().split()]
        child.wait()
        with aquifer.open_store(path, size="64M") as store:
            assert store[b"left"] == store[b"right"]
            count = int(store[b"left"])
            assert count >= said[-1]
            counts = {}
            for key, value in store.range(b"many", b"many~"):
                n = int(key[4:].split(b":")[0])
                counts[n] = counts.get(n, 0) + 1
                assert value == b"%d" % n * 300
            # What is there is what the program did up to one point.
            assert counts == dict.fromkeys(range(1, max(counts) + 1), 20) and count <= max(counts) <= count + 1
            ones = list(store.range(b"one", b"one~"))
            assert len(ones) <= 1 and all(value == key[3:] * 50 and int(key[3:]) == count + 1 for key, value in ones)
            store.clear()


def test_what_is_not_closed_is_closed_at_exit(path):
    done = run(f"import aquifer; store = aquifer.open_store({path!r}, size='16M', durable='later'); store[b'a'] = b'1'")
    assert done.returncode == 0 and done.stderr == ""
    with aquifer.open_store(path, "r") as store:
        assert dict(store) == {b"a": b"1"}


def test_one_process_changes_a_store_and_others_may_read_it(path):
    other = f"import aquifer; print(dict(aquifer.open_store({path!r}, MODE)))"
    with aquifer.open_store(path, size="16M") as store:
        store[b"a"] = b"1"
        for mode in ("'a'", "'r+'", "'r'"):
            refused = run(other.replace("MODE", mode))
            assert refused.returncode != 0 and "OSError" in refused.stderr and "is open already" in refused.stderr, refused.stderr
        for mode in ("a", "r"):
            with pytest.raises(OSError, match="is open already") as told:
                aquifer.open_store(path, mode)
            assert told.value.errno == errno.EBUSY
        store[b"b"] = b"2"
    with aquifer.open_store(path, "r") as store, aquifer.open_store(path, "r") as again:
        assert dict(store) == dict(again) and "b'b': b'2'" in run(other.replace("MODE", "'r'")).stdout
        with pytest.raises(OSError, match="is open already"):
            aquifer.open_store(path)


def test_two_that_make_a_store_at_once_leave_one(path, monkeypatch):
    with aquifer.open_store(path, size="16M") as store:
        store[b"a"] = b"1"
        # The other process looked before.
        monkeypatch.setattr("os.path.exists", lambda _path: False)
        with pytest.raises(OSError, match="is open already"):
            aquifer.open_store(path, size="16M")
        monkeypatch.undo()
        assert os.path.isfile(path)
    with aquifer.open_store(path, "r") as store:
        assert dict(store) == {b"a": b"1"}


def test_a_store_that_is_read_is_not_changed(path):
    for mode in ("r", "r+"):
        with pytest.raises(FileNotFoundError, match="mode='a'"):
            aquifer.open_store(path, mode)
    with aquifer.open_store(path, size="16M") as store:
        store[b"a"] = b"1"
    os.chmod(path, 0o444)
    before = open(path, "rb").read()
    with aquifer.open_store(path, "r") as store:
        changes = [
            lambda: store.put_many({b"a": b"2"}),
            lambda: store.pop(b"a"),
            lambda: store.__delitem__(b"a"),
            lambda: store.setdefault(b"b", b""),
            lambda: store.transaction().__enter__(),
            store.clear,
        ]
        for change in changes:
            with pytest.raises(ValueError, match="reading alone.*r\\+"):
                change()
        assert store.setdefault(b"a", b"2") == b"1" and store.stats()["keys"] == 1
        store.flush()
    assert open(path, "rb").read() == before

    def as_another_user():
        os.setgroups([])
        os.setuid(65534)
        if not os.access(path, os.R_OK):
            return 77
        with aquifer.open_store(path, "r") as store:
            assert dict(store) == {b"a": b"1"}
        try:
            aquifer.open_store(path)
        except PermissionError:
            return 0

    if os.getuid() == 0:
        for folder in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
            os.chmod(folder, 0o755)
        if in_child(as_another_user) not in (0, 77):
            pytest.fail("a file without the right to write was opened, or told in another way")
    else:
        with pytest.raises(PermissionError):
            aquifer.open_store(path)


def test_something_else_is_told_and_left_alone(path, tmp_path):
    for content in (b"something else" * 1000, b"x", bytes(20 << 20)):
        (tmp_path / "other").write_bytes(content)
        for mode in ("a", "r+", "r"):
            with pytest.raises(ValueError, match="no durable heap"):
                aquifer.open_store(tmp_path / "other", mode)
            assert (tmp_path / "other").read_bytes() == content
    (tmp_path / "empty").write_bytes(b"")
    for mode in ("r", "r+"):
        with pytest.raises(ValueError, match="empty"):
            aquifer.open_store(tmp_path / "empty", mode)
    with aquifer.open_store(tmp_path / "empty", size="16M") as store:
        store[b"a"] = b"1"
    with pytest.raises(IsADirectoryError):
        aquifer.open_store(tmp_path)
    with pytest.raises(FileNotFoundError):
        aquifer.open_store(tmp_path / "no" / "folder")


def test_a_full_store_is_told_and_nothing_is_lost(path):
    model = {}
    with aquifer.open_store(path, size="16M") as store:
        with pytest.raises(OSError, match="full.*size") as told:
            for n in range(100_000):
                store[b"%d" % n] = value_of(n, 20_000)
                model[b"%d" % n] = value_of(n, 20_000)
        assert told.value.errno == errno.ENOSPC and len(model) > 100
        with pytest.raises(OSError, match="full"):
            store.put_many((b"more%d" % n, bytes(20_000)) for n in range(500))
        with pytest.raises(OSError, match="full"):
            with store.transaction() as transaction:
                for n in range(500):
                    transaction[b"more%d" % n] = bytes(20_000)
        assert store == model
        # Room comes back.
        for n in range(100):
            del store[b"%d" % n], model[b"%d" % n]
        for n in range(50):
            store[b"again%d" % n] = model[b"again%d" % n] = value_of(n, 20_000)
        assert store == model
    assert os.path.getsize(path) <= 16 << 20
    with aquifer.open_store(path, size="64M") as store:
        assert store == model
        store.put_many((b"more%d" % n, bytes(20_000)) for n in range(500))
        assert len(store) == len(model) + 500 and store.stats()["size"] == 64 << 20
    # Without a size a store may grow to 4 GiB, or stay as it is.
    with aquifer.open_store(path) as store:
        assert store.stats()["size"] == 4 << 30


def test_a_full_disk_is_told_and_nothing_is_lost(path):
    """As a limit of the process on the lengths of files, which tells it in the same way."""

    def fill():
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10 << 20, limit[1]))
        with aquifer.open_store(path, size="64M") as store:
            with pytest.raises(OSError, match="cannot grow.*make room") as told:
                for n in range(100_000):
                    store[b"%d" % n] = value_of(n, 20_000)
            assert told.value.errno == errno.EFBIG and 50 < n < 1000
            assert len(store) == n and all(value == value_of(int(key), 20_000) for key, value in store.items())
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
            for other in range(n, 600):
                store[b"%d" % other] = value_of(other, 20_000)

    assert in_child(fill) == 0
    with aquifer.open_store(path, "r") as store:
        assert len(store) == 600 and all(value == value_of(int(key), 20_000) for key, value in store.items())


def test_damage_is_told(path, tmp_path):
    """Of a file in which a byte is another one, each value is right or refused, and no key is missing in silence."""
    model = {b"%06d" % n: value_of(n, 100 + n % 3000) for n in range(1500)}
    with aquifer.open_store(path, size="32M") as store:
        for first in range(0, 1500, 50):
            store.put_many(list(model.items())[first : first + 50])
    content, told, chosen = open(path, "rb").read(), 0, random.Random(1)
    places = [content.find(model[b"%06d" % n][:64]) + 8 for n in range(7, 1500, 300)]
    places += [chosen.randrange(len(content)) for _ in range(25)]
    assert min(places) >= 8
    copy = str(tmp_path / "copy.aq")
    for n, place in enumerate(places):
        damaged = bytearray(content)
        damaged[place] ^= 1 << n % 8
        open(copy, "wb").write(damaged)
        for mode in ("r+", "r"):
            told += is_told(copy, mode, model, place)
        os.unlink(copy)
    assert told > 10


def is_told(path, mode, model, place):
    try:
        with aquifer.open_store(path, mode, size="32M") as store:
            errors = 0
            for key, value in model.items():
                try:
                    assert store[key] == value
                except OSError as error:
                    assert f"aquifer durable check {path}" in str(error) and error.errno == errno.EIO
                    errors += 1
            if errors == 0:
                assert store == model
            return errors > 0
    except OSError as error:
        assert f"aquifer durable check {path}" in str(error) and "damaged" in str(error) and error.errno == errno.EIO
    except ValueError as error:
        assert place < 4096 and "no durable heap" in str(error)
    return True


def test_a_child_is_refused_and_keeps_nothing_open(path):
    store = aquifer.open_store(path, size="16M")
    store[b"a"] = b"1"
    reading, writing = os.pipe()

    def try_it():
        for act in (lambda: store[b"a"], lambda: store.put_many({b"b": b"2"}), lambda: len(store), store.flush, lambda: list(store)):
            try:
                act()
                return 1
            except RuntimeError as error:
                assert "forked" in str(error)
        assert "closed" in repr(store) or "forked" in repr(store)
        store.close()

    assert in_child(try_it) == 0
    store[b"c"] = b"3"
    # A child that lives on does not keep the file from being opened again.
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    store.close()
    with aquifer.open_store(path) as store:
        assert dict(store) == {b"a": b"1", b"c": b"3"}
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0
    os.close(reading)


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
