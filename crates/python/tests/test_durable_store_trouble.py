"""What goes wrong with stores that stay: kills, other processes, full files and disks, damage, forks."""
import errno
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap

import aquifer
import pytest
from test_durable_store import run, value_of


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "test.aq")


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


FILLED = """
import aquifer, errno, sys
value = lambda n: n.to_bytes(8, "little") * 2500
store = aquifer.open_store(sys.argv[1], size="1G")
for again in range(3):
    try:
        for n in range(10_000):
            store[b"%d" % n] = value(n)
        sys.exit("the disk is larger than it should be")
    except OSError as error:
        assert error.errno == errno.ENOSPC and "cannot grow" in str(error), error
    assert 100 < n < 1000 and all(store[b"%d" % other] == value(other) for other in range(n))
    # A key at a time, which needs room in the log.
    for other in range(n):
        del store[b"%d" % other]
    assert len(store) == 0
    if again == 1:
        store.close()
        store = aquifer.open_store(sys.argv[1], size="1G")
print("fine")
"""


def test_a_full_disk_lets_keys_go(tmp_path):
    mounts = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=14M none "$0" && exec "$@"', str(tmp_path)]
    try:
        can_mount = subprocess.run([*mounts, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        can_mount = False
    if not can_mount:
        pytest.skip("no file system can be mounted in a namespace here")
    command = [*mounts, sys.executable, "-c", FILLED, str(tmp_path / "full.aq")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


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
