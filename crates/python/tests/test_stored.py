"""Arrays that stay."""
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading

import aquifer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "test.vol")


def test_what_was_written_is_there_again(path):
    model = np.random.default_rng(1).random((5000, 33))
    with aquifer.open_array(path, model.shape, model.dtype) as a:
        a[...] = model
        rows = np.random.default_rng(2).integers(0, 5000, 3000)
        a[rows] = model[rows] = -np.arange(3000.0)[:, None]
        assert (np.asarray(a) == model).all()
        assert "5000, 33" in repr(a) and path in repr(a)
    assert "closed" in repr(a)
    with aquifer.open_array(path, mode="r") as a:
        assert a.shape == model.shape and a.dtype == model.dtype
        assert (a[rows] == model[rows]).all() and (a[17:4000:7] == model[17:4000:7]).all() and a.sum() == pytest.approx(model.sum())
        with pytest.raises(ValueError, match="read-only"):
            a[3] = 1
        with pytest.raises(ValueError, match="reading alone"):
            a.resize(3)
    with pytest.raises(ValueError, match="closed"):
        a[3]


@given(st.lists(st.tuples(st.sampled_from(["rows", "run", "append", "shrink", "add", "reopen"]), st.integers(0, 10_000)), max_size=25))
@settings(max_examples=25, deadline=None)
def test_random_programs_agree_with_numpy(steps):
    # A volume has its whole size on disk: each goes before the next comes.
    with tempfile.TemporaryDirectory() as folder:
        agree(os.path.join(folder, "a.vol"), steps)


def agree(path, steps):
    a, model = aquifer.open_array(path, (40, 5), np.int64), np.zeros((40, 5), np.int64)
    for step, n in steps:
        random = np.random.default_rng(n)
        if step == "rows" and len(model):
            rows = random.integers(-len(model), len(model), n % 50)
            values = random.integers(0, 1000, (len(rows), 5))
            a[rows] = values
            model[rows] = values
        elif step == "run":
            a[n % 50 : n % 90] = n
            model[n % 50 : n % 90] = n
        elif step == "append":
            values = random.integers(0, 1000, (n % 900, 5))
            a.append(values)
            model = np.concatenate([model, values])
        elif step == "shrink":
            a.resize(len(model) // 2)
            model = model[: len(model) // 2].copy()
        elif step == "add" and len(model):
            rows = random.integers(0, len(model), 30)
            np.add.at(a, rows, 1)
            np.add.at(model, rows, 1)
        elif step == "reopen":
            a.close()
            a = aquifer.open_array(path)
        assert a.shape == model.shape and (np.asarray(a) == model).all()
    a.close()


def test_a_volume_holds_several_arrays(path):
    with aquifer.open_array(path, (100, 4), "f4", name="vectors") as a:
        b = aquifer.open_array(path, (7,), "S5", name="labels")
        a[...], b[...] = 2, b"five5"
        a.flush()
    with aquifer.open_array(path, name="labels", mode="r+") as b:
        assert b[6] == b"five5"
        assert aquifer.open_array(path, name="vectors").sum() == 800
        with pytest.raises(FileNotFoundError, match="others"):
            aquifer.open_array(path, name="others", mode="r+")


def test_it_is_a_npy_file(path, tmp_path):
    with aquifer.open_array(path, (300, 7), np.dtype([("key", "<i4"), ("value", "<f8")])) as a:
        a[...] = np.array((3, 4.5), a.dtype)
        a.append(np.zeros((1, 7), a.dtype))
        file, length = a._volume.core.file(b"array.npy", False)
        (tmp_path / "copy.npy").write_bytes(a._volume.core.read(file, 0, length))
        copy = np.load(tmp_path / "copy.npy")
        assert copy.dtype == a.dtype and (copy == np.asarray(a)).all()


def test_mistakes_are_told(path, tmp_path):
    with pytest.raises(FileNotFoundError, match="mode='a'"):
        aquifer.open_array(path, mode="r+")
    with pytest.raises(ValueError, match="shape"):
        aquifer.open_array(path)
    with pytest.raises(ValueError, match="may be r"):
        aquifer.open_array(path, (3,), mode="w")
    with pytest.raises(TypeError, match="objects"):
        aquifer.open_array(path, (3,), object)
    with pytest.raises(ValueError):
        aquifer.open_array(path, (3,), size="1K")
    assert not os.path.exists(path)
    (tmp_path / "no.vol").write_bytes(b"something else" * 1000)
    with pytest.raises(ValueError, match="not a volume"):
        aquifer.open_array(tmp_path / "no.vol", (3,))
    assert (tmp_path / "no.vol").stat().st_size == 14_000
    with aquifer.open_array(path, (30, 2)) as a:
        with pytest.raises(ValueError, match="shape"):
            aquifer.open_array(path, (30, 3))
        with pytest.raises(ValueError, match="dtype"):
            aquifer.open_array(path, dtype="i4")
        with pytest.raises(IndexError):
            a[30]


def test_another_process_is_refused(path):
    with aquifer.open_array(path, (30, 2)):
        other = subprocess.run([sys.executable, "-c", f"import aquifer; aquifer.open_array({path!r})"], capture_output=True, text=True)
        assert other.returncode != 0 and "OSError" in other.stderr, other.stderr


def test_a_full_volume_is_told_and_stays_whole(path):
    with aquifer.open_array(path, (1 << 20, 16), np.uint8, size="12M", ram="2M") as a:
        with pytest.raises(OSError, match="no space"):
            a[...] = np.random.default_rng(0).integers(0, 256, a.shape, np.uint8)
        a[5] = 9
        a.flush()
    with aquifer.open_array(path) as a:
        assert (a[5] == 9).all() and a.shape == (1 << 20, 16)


def test_damage_is_told(path):
    with aquifer.open_array(path, (4000, 128), np.uint8) as a:
        a[...] = 0xA7
    content = bytearray(open(path, "rb").read())
    at = content.find(b"\xa7" * 4096)
    content[at + 100] ^= 1
    open(path, "wb").write(content)
    with aquifer.open_array(path) as a:
        with pytest.raises(OSError, match="damaged"):
            a.sum()
        with pytest.raises(OSError, match="damaged"):
            a[np.arange(4000)]


def test_a_killed_process_leaves_the_last_flush(path):
    program = f"""
        import aquifer, itertools, numpy as np
        a = aquifer.open_array({path!r}, (20_000, 16), np.int64, ram="4M")
        for n in itertools.count(1):
            a[...] = n
            a.flush()
            print(n, flush=True)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    said = [int(child.stdout.readline()) for _ in range(5)]
    child.send_signal(signal.SIGKILL)
    said += [int(line) for line in child.stdout.read().split()]
    child.wait()
    with aquifer.open_array(path) as a:
        found = np.asarray(a)
    # What was flushed is there; of the pass that was under way rows may be.
    assert found.min() >= said[-1] and found.max() <= said[-1] + 2


def test_rows_beyond_ram_from_threads(path):
    with aquifer.open_array(path, (200_000, 32), np.float32, ram="4M") as a:
        a[...] = np.arange(200_000, dtype=np.float32)[:, None]
        wrong = []

        def gather(seed):
            rows = np.random.default_rng(seed).integers(0, 200_000, 3000)
            if (a[rows][:, 7] != rows).any():
                wrong.append(seed)

        threads = [threading.Thread(target=gather, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not wrong
        assert a.stats()["ram_used_bytes"] <= 4 << 20
        later = [a.take_async(np.arange(n, 200_000, 997)) for n in range(3)]
        assert [float(rows.result()[1, 0]) for rows in later] == [997, 998, 999]


def test_a_child_is_refused(path):
    with aquifer.open_array(path, (300, 2)) as a:
        a[...] = 1
        child = os.fork()
        if child == 0:
            try:
                a[3]
            except RuntimeError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert a.sum() == 600


def test_what_is_not_closed_is_closed_at_exit(path):
    program = f"import aquifer; a = aquifer.open_array({path!r}, (30, 2)); a[...] = 7"
    subprocess.run([sys.executable, "-c", program], check=True)
    with aquifer.open_array(path, mode="r") as a:
        assert a.sum() == 420


def test_rows_of_whole_pages(path):
    """They are written without being read before, and those that are named twice in their order."""
    model = np.zeros((600, 2048), np.float32)
    with aquifer.open_array(path, model.shape, model.dtype, ram="2M") as a:
        for seed in range(5):
            random = np.random.default_rng(seed)
            rows = random.integers(0, 600, 400)
            a[rows] = values = random.random((400, 2048), np.float32)
            model[rows] = values
        assert (np.asarray(a) == model).all() and (a[[599, 3]] == model[[599, 3]]).all()
