"""Arrays larger than the RAM of their heap, and what goes wrong."""
import asyncio

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import aquifer


@pytest.fixture(scope="module")
def large(heap):
    """An array of 64 MiB and a copy in ordinary memory."""
    native = np.random.default_rng(1).integers(0, 1 << 31, (131072, 128), np.int32)
    return aquifer.asarray(native, heap=heap), native


def test_rows_in_any_order(large, random):
    array, native = large
    assert array.layout == "rows" and array.nbytes == 64 << 20
    rows = random.integers(0, len(native), 20_000)
    np.testing.assert_array_equal(array[rows], native[rows])
    np.testing.assert_array_equal(array.take(rows[:10]), native[rows[:10]])
    assert array.heap.stats()["ram_used_bytes"] <= 16 << 20


def test_results_go_into_what_is_given(large):
    array, native = large
    out = np.empty((3, 128), np.int32)
    assert array.take([5, 5, 9], out=out) is out
    np.testing.assert_array_equal(out, native[[5, 5, 9]])
    out.flags.writeable = False
    with pytest.raises((BufferError, ValueError)):
        array.take([5, 5, 9], out=out)
    with pytest.raises(ValueError, match="contiguous"):
        array.take([5, 5, 9], out=np.empty((3, 128)))


def test_reductions_and_products(large, random):
    array, native = large
    assert array.sum() == native.sum()
    np.testing.assert_array_equal(array.max(axis=0), native.max(axis=0))
    np.testing.assert_array_equal(array.min(axis=1), native.min(axis=1))
    assert array.argmax() == native.argmax()
    np.testing.assert_array_equal(array.argmin(axis=0), native.argmin(axis=0))
    np.testing.assert_allclose(array.mean(axis=0), native.mean(axis=0))
    np.testing.assert_allclose(np.std(array), native.std())
    vector = random.random(128)
    np.testing.assert_allclose(array @ vector, native @ vector)
    np.testing.assert_allclose(np.ones(len(native)) @ array, np.ones(len(native)) @ native)


def test_ufuncs_make_arrays(heap, random):
    native = random.random((5000, 64))
    array = aquifer.asarray(native, heap=heap)
    twice = np.sqrt(array) * 2 + native
    assert isinstance(twice, aquifer.Array)
    np.testing.assert_array_equal(twice, np.sqrt(native) * 2 + native)
    array *= 2
    np.testing.assert_array_equal(array, native * 2)
    whole, rest = np.divmod(array, 0.25)
    np.testing.assert_array_equal(whole, np.divmod(native * 2, 0.25)[0])
    assert isinstance(array < 1, aquifer.Array) and (array < 1).dtype == bool
    with pytest.raises(TypeError, match="by blocks"):
        np.add.accumulate(array)


def test_at_counts_rows_that_are_named_twice(heap, random):
    native = np.zeros((1000, 16))
    array = aquifer.asarray(native, heap=heap)
    rows, values = random.integers(0, 1000, 5000), random.random((5000, 16))
    np.add.at(native, rows, values)
    np.add.at(array, rows, values)
    np.testing.assert_array_equal(array, native)


def test_rows_become_more_and_fewer(heap):
    array = aquifer.Array((0, 24), "i8", heap=heap)
    native = np.zeros((0, 24), "i8")
    for n in range(40):
        rows = np.full((n, 24), n)
        array.append(rows)
        native = np.concatenate([native, rows])
    array.append(np.arange(24))
    native = np.concatenate([native, np.arange(24)[None]])
    np.testing.assert_array_equal(array, native)
    array.resize(100)
    array.resize(300)
    assert not array[100:].any()
    np.testing.assert_array_equal(array[:100], native[:100])
    with pytest.raises(ValueError):
        array.append(np.zeros((2, 23)))
    assert array.shape == (300, 24)


def test_views_share_rows(heap):
    array = aquifer.Array((100, 8), heap=heap)
    view = array.view(10, 20)
    view[...] = 3
    assert array.sum() == 10 * 8 * 3 and view.shape == (10, 8)
    with pytest.raises(ValueError, match="view"):
        view.resize(5)
    array.resize(15)
    with pytest.raises(IndexError):
        view[9]


def test_views_may_overlap(heap, monkeypatch):
    monkeypatch.setattr("aquifer._blocks.BLOCK_BYTES", 640)
    native = np.arange(100 * 8.0).reshape(100, 8)
    array = aquifer.asarray(native, heap=heap)
    for to, first, count in ((3, 0, 97), (0, 5, 95), (10, 10, 90)):
        array[to : to + count] = array.view(first, first + count)
        native[to : to + count] = native[first : first + count].copy()
        np.testing.assert_array_equal(array, native)
    array[98::-2] = array.view(0, 50)
    native[98::-2] = native[:50].copy()
    np.testing.assert_array_equal(array, native)
    np.add(array.view(0, 99), 1, out=array.view(1, 100))
    native[1:] = native[:99] + 1
    np.testing.assert_array_equal(array, native)
    array.append(array)
    assert array.shape == (200, 8) and (array[100:] == native).all()


def test_futures(large):
    array, native = large
    pending = [array.take_async(np.arange(n, n + 500)) for n in range(0, 5000, 500)]
    for n, rows in enumerate(pending):
        np.testing.assert_array_equal(rows.result(), native[n * 500 : n * 500 + 500])

    async def both():
        return await asyncio.gather(*(array.take_async([n]) for n in range(3)))

    assert [rows.shape for rows in asyncio.run(both())] == [(1, 128)] * 3
    with pytest.raises(IndexError):
        array.take_async([len(native)]).result()


def test_files(heap, large, tmp_path):
    array, native = large
    array.save(tmp_path / "a.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), native)
    np.testing.assert_array_equal(aquifer.load(tmp_path / "a.npy", heap=heap)[777], native[777])
    np.save(tmp_path / "f.npy", np.asfortranarray(native[:100]))
    np.testing.assert_array_equal(aquifer.load(tmp_path / "f.npy", heap=heap), native[:100])
    with open(tmp_path / "a.npy", "r+b") as file:
        file.truncate(1000)
    with pytest.raises(ValueError, match="cut off"):
        aquifer.load(tmp_path / "a.npy", heap=heap)
    (tmp_path / "bad.npy").write_bytes(b"not of NumPy")
    with pytest.raises(ValueError):
        aquifer.load(tmp_path / "bad.npy", heap=heap)
    with pytest.raises(FileNotFoundError):
        aquifer.load(tmp_path / "none.npy", heap=heap)
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "bad.npy", "f.npy"]


def test_sources(heap, tmp_path):
    np.testing.assert_array_equal(aquifer.asarray((np.full(4, n) for n in range(9)), heap=heap)[8], np.full(4, 8))
    mapped = np.memmap(tmp_path / "m", np.int16, "w+", shape=(50, 50))
    mapped[:] = 5
    assert aquifer.asarray(mapped, heap=heap).sum() == 12500
    assert aquifer.asarray([[1, 2], [3, 4]], heap=heap).tolist() == [[1, 2], [3, 4]]
    assert aquifer.asarray(iter([]), heap=heap).shape == (0,)


def test_conversions(heap):
    array = aquifer.asarray(np.arange(12.0).reshape(3, 4), heap=heap)
    np.testing.assert_array_equal(np.from_dlpack(array), np.arange(12.0).reshape(3, 4))
    with pytest.raises(ValueError):
        array.__array__(copy=False)
    assert 5.0 in array and 12.5 not in array
    assert [row.sum() for row in array] == [6, 22, 38]
    assert "shape=(3, 4)" in repr(array) and "float64" in repr(array)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(array)
    if sys.version_info >= (3, 12):
        assert memoryview(array).shape == (3, 4)


@pytest.mark.parametrize(
    ("shape", "dtype", "options", "error"),
    [
        ((), float, {}, ValueError),
        ((-1, 3), float, {}, ValueError),
        ((3.5,), float, {}, TypeError),
        ((1 << 62, 1 << 40), float, {}, ValueError),
        ((1 << 40,), float, {}, MemoryError),
        ((1 << 34, 64), "u1", {}, MemoryError),
        ((3,), object, {}, TypeError),
        ((3,), "nonsense", {}, TypeError),
        ((3,), float, {"layout": "columns"}, ValueError),
        ((3, 5000), float, {"layout": "rows"}, ValueError),
    ],
)
def test_what_cannot_be(heap, shape, dtype, options, error):
    with pytest.raises(error):
        aquifer.Array(shape, dtype, heap=heap, **options)


def test_indices_that_are_refused(large):
    array, native = large
    for key in ([len(native)], "a", 1.5, (0, 0, 0), np.zeros(3, bool)):
        with pytest.raises(IndexError):
            array[key]
    with pytest.raises(ValueError, match="broadcast"):
        array[:2] = np.zeros((3, 128))


def test_a_full_heap_says_so_and_loses_nothing(tmp_path):
    with aquifer.Heap(ram="16M", flash=tmp_path, flash_size="256M") as heap:
        array = aquifer.Array((0, 1024), "u1", heap=heap)
        with pytest.raises(MemoryError):
            for n in range(1000):
                array.append(np.full((1024, 1024), n % 251, "u1"))
        assert len(array) % 1024 == 0 and len(array) > 64 << 10
        for first, block in array.blocks(1024):
            assert (block == first // 1024 % 251).all()


def test_a_closed_heap(tmp_path):
    heap = aquifer.Heap(ram="16M", flash=tmp_path, flash_size="256M")
    array = aquifer.Array((10, 64), heap=heap)
    heap.close()
    heap.close()
    for use in (lambda: array[0], lambda: array.sum(), lambda: array.append(np.zeros(64)), heap.stats):
        with pytest.raises(ValueError, match="closed"):
            use()
    assert "closed" in repr(heap)


def test_settings_are_checked(tmp_path):
    for options, error in [
        ({"ram": "1K"}, ValueError),
        ({"ram": "much"}, ValueError),
        ({"ram": 1.5}, TypeError),
        ({"flash": tmp_path / "none" / "file"}, FileNotFoundError),
        ({"compress": "yes"}, ValueError),
    ]:
        with pytest.raises(error):
            aquifer.Heap(**options)
    assert not list(tmp_path.iterdir())


def test_threads(large):
    array, native = large
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(50):
            rows = random.integers(0, len(native), 200)
            if not (array[rows] == native[rows]).all():
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def run(code, **options):
    """Another interpreter."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, **options)


SMALL = "import aquifer, numpy as np, numpy.random, os, sys; aquifer.configure(ram='16M', flash_size='512M');"


def test_a_forked_child_is_told(tmp_path):
    ended = run(
        SMALL + "a = aquifer.Array((1000, 64)); a[...] = 1\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n        a[5]\n"
        "    except RuntimeError as error:\n        print('child:', error); sys.exit(3)\n"
        "    sys.exit(4)\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "print(status, a.sum())"
    )
    assert "fork" in ended.stdout and ended.stdout.endswith("3 64000.0\n"), ended
    assert ended.returncode == 0


def test_an_interpreter_that_ends_with_arrays(tmp_path):
    ended = run(SMALL + "a = aquifer.Array((100000, 64)); a[...] = 1; b = a.take_async(np.arange(10000)); b.result()")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_ctrl_c_ends_a_long_call(tmp_path):
    code = (
        SMALL + "a = aquifer.Array((400000, 64))\n"
        "try:\n"
        "    print('go', flush=True)\n"
        "    while True: a[np.random.permutation(400000)]\n"
        "except KeyboardInterrupt: print('interrupted', a[3].sum())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out == "interrupted 0.0\n" and process.returncode == 0


def test_configure_comes_before_arrays():
    ended = run(
        SMALL + "a = aquifer.Array(100)\n"
        "try: aquifer.configure(ram='32M')\n"
        "except RuntimeError as error: print(error)\n"
        "del a; aquifer.configure(ram='32M', flash_size='512M'); a = aquifer.Array(100)\n"
        "print(aquifer.stats()['ram_budget_bytes'] >> 20)"
    )
    assert "before the first" in ended.stdout and ended.stdout.endswith("32\n"), ended
