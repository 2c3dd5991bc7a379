"""NumPy's own arrays in managed memory, four times the RAM of their heap."""
import io
import os
import pickle
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

import aquifer


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A heap of 16 MiB."""
    heap = aquifer.Heap(ram="16M", flash=tmp_path_factory.mktemp("flash"), flash_size="1G")
    yield heap
    heap.close()


@pytest.fixture(scope="module")
def numbers(small):
    """64 MiB of random numbers in managed memory, and the same in ordinary memory."""
    native = np.random.default_rng(3).random(8 << 20)
    with aquifer.numpy_memory(heap=small):
        managed = native.copy()
    yield managed, native
    # The last reference, so that the heap can be closed.
    del managed


def name_of(array):
    core = np.core if np.__version__ < "2" else np._core
    return core.multiarray.get_handler_name(array)


def test_which_arrays_are_managed(small):
    with aquifer.numpy_memory(heap=small):
        large, little = np.zeros(1 << 20), np.zeros(10)
        assert name_of(large) == "aquifer" and name_of(large + 1) == "aquifer"
    # The handler is asked, whatever the size.
    assert name_of(little) == "aquifer"
    assert name_of(np.zeros(1 << 20)) == "default_allocator"
    assert name_of(aquifer.zeros(5, heap=small)) == "aquifer"
    with pytest.raises(ZeroDivisionError), aquifer.numpy_memory(heap=small):
        1 / 0
    assert name_of(np.zeros(1 << 20)) == "default_allocator"


def test_the_limit_holds(small, numbers):
    managed, native = numbers
    assert managed.sum() == native.sum()
    assert small.stats()["ram_used_bytes"] <= 16 << 20


def test_sorting(small, numbers):
    managed, native = numbers
    with aquifer.numpy_memory(heap=small):
        assert (np.sort(managed) == np.sort(native)).all()
        order = np.argsort(managed[: 1 << 20], kind="stable")
    np.testing.assert_array_equal(order, np.argsort(native[: 1 << 20], kind="stable"))


def test_linear_algebra(small, numbers):
    managed, native = numbers
    left, right = managed.reshape(-1, 256), native.reshape(-1, 256)
    np.testing.assert_array_equal(left[:8192].T @ left[:8192], right[:8192].T @ right[:8192])


def test_arrays_grow_in_place(small):
    with aquifer.numpy_memory(heap=small):
        array = np.arange(100_000)
    array.resize(3_000_000, refcheck=False)
    array.resize(5, refcheck=False)
    array.resize(200_000, refcheck=False)
    np.testing.assert_array_equal(array[:5], np.arange(5))
    assert not array[5:].any()


def test_zeros_are_zeros(small):
    for _ in range(20):
        with aquifer.numpy_memory("1", heap=small):
            arrays = [np.zeros(n, np.uint8) for n in (1, 100, 5000, 70_000)]
        assert not any(array.any() for array in arrays)
        for array in arrays:
            array[...] = 255


def test_files(small, numbers, tmp_path):
    managed, native = numbers
    managed.tofile(tmp_path / "numbers")
    assert (np.fromfile(tmp_path / "numbers") == native).all()
    with aquifer.numpy_memory(heap=small):
        back = np.fromfile(tmp_path / "numbers")
    assert name_of(back) == "aquifer" and (back == native).all()
    with open(tmp_path / "numbers", "rb") as file:
        back[...] = 0
        assert file.readinto(back) == back.nbytes
    assert (back == native).all()
    np.save(tmp_path / "numbers.npy", managed[: 1 << 20])
    np.testing.assert_array_equal(np.load(tmp_path / "numbers.npy"), native[: 1 << 20])
    with open(tmp_path / "raw", "wb", buffering=0) as file:
        assert file.write(managed) == managed.nbytes
    assert (tmp_path / "raw").read_bytes() == native.tobytes()


def test_pickles(numbers):
    managed, native = numbers
    part = managed[::16]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(part)), native[::16])
    buffers = []
    data = pickle.dumps(managed[: 1 << 20], protocol=5, buffer_callback=buffers.append)
    np.testing.assert_array_equal(pickle.loads(data, buffers=buffers), native[: 1 << 20])
    file = io.BytesIO()
    np.savez_compressed(file, part=part)


def test_sockets(small, numbers):
    managed, native = numbers
    part = managed[: 4 << 20]
    here, there = socket.socketpair()
    received = aquifer.empty(len(part), heap=small)

    def receive():
        view, done = memoryview(received).cast("B"), 0
        while done < len(view):
            done += there.recv_into(view[done:])

    thread = threading.Thread(target=receive)
    thread.start()
    here.sendall(part)
    thread.join()
    here.close()
    there.close()
    np.testing.assert_array_equal(received, native[: 4 << 20])


def test_giving_back(small, numbers):
    managed, native = numbers
    managed[: 1 << 20].sum()
    aquifer.give_back(managed, small)
    assert managed[12345] == native[12345]
    with pytest.raises(RuntimeError):
        aquifer.give_back(native, small)


def test_threads_have_settings_of_their_own(small):
    found = []
    with aquifer.numpy_memory(heap=small):
        thread = threading.Thread(target=lambda: found.append(name_of(np.zeros(1 << 20))))
        thread.start()
        thread.join()
    # Threads of newer versions may inherit contexts.
    assert found[0] == "default_allocator" or sys.version_info >= (3, 14)


def test_a_heap_with_arrays_stays_open(tmp_path):
    heap = aquifer.Heap(ram="16M", flash=tmp_path, flash_size="512M")
    array = aquifer.full(1 << 20, 7, heap=heap)
    with pytest.raises(BufferError, match="1 NumPy array"):
        heap.close()
    assert array.sum() == 7 << 20
    del array
    heap.close()
    with pytest.raises(ValueError, match="closed"):
        aquifer.zeros(5, heap=heap)


def test_a_full_heap(tmp_path):
    with aquifer.Heap(ram="16M", flash=tmp_path, flash_size="256M") as heap:
        kept = []
        with pytest.raises(MemoryError):
            for n in range(100):
                kept.append(aquifer.full(8 << 20, n, np.uint8, heap=heap))
        assert len(kept) > 10 and all((array == n).all() for n, array in enumerate(kept))
        kept.clear()


def test_arrays_may_go_into_arrays_of_the_same_heap(small):
    table = aquifer.Array((1000, 64), heap=small)
    table[...] = 3
    rows = aquifer.zeros((1000, 64), heap=small)
    table.take(np.arange(1000), out=rows)
    assert (rows == 3).all()
    table[...] = rows * 2
    assert table.sum() == 64000 * 6


def test_the_interpreter_ends_with_arrays_and_children_without():
    code = (
        "import aquifer, numpy as np, os; aquifer.configure(ram='16M', flash_size='512M')\n"
        "a = aquifer.full(8 << 20, 3)\n"
        "with aquifer.numpy_memory():\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        b = np.ones(1 << 20)\n"
        "        os._exit(int(b.sum()) >> 18)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), a.sum())\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (ended.stdout, ended.returncode) == (f"4 {3 * (8 << 20)}\n", 0), ended


def test_bad_thresholds():
    for bad in ("much", "5X", -1):
        with pytest.raises(ValueError):
            aquifer.numpy_memory(bad)
