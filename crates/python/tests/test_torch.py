"""Tensors of arrays beyond RAM."""
import numpy as np
import pytest

import aquifer

try:
    import torch
except ImportError:
    torch = None
pytestmark = pytest.mark.skipif(torch is None, reason="torch is not installed")


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.int32, np.uint8, np.float16, bool])
def test_a_tensor_of_an_array_is_a_copy_of_it(heap, kind):
    values = (np.arange(3000 * 40) % 100).reshape(3000, 40).astype(kind)
    array = aquifer.asarray(values, heap=heap)
    for tensor in (torch.from_dlpack(array), torch.as_tensor(np.asarray(array)), torch.from_numpy(array[:]), torch.from_dlpack(array[:])):
        assert tensor.shape == (3000, 40) and tensor.numpy().dtype == kind
        assert np.array_equal(tensor.numpy(), values)
    tensor = torch.from_dlpack(array)
    tensor[5] = 1
    assert np.array_equal(array[5], values[5])
    array[7] = tensor[5]
    assert (array[7] == kind(1)).all()


def test_as_tensor_of_an_array(heap):
    array = aquifer.asarray(np.arange(800.0).reshape(100, 8), heap=heap)
    for tensor in (torch.as_tensor(array), torch.asarray(array)):
        assert tensor.dtype == torch.float64 and np.array_equal(tensor.numpy(), array[:])


def test_rows_by_tensors(heap):
    values = np.random.default_rng(0).random((10_000, 128), np.float32)
    array = aquifer.asarray(values, heap=heap)
    rows = torch.randint(-10_000, 10_000, (2000,))
    for found in (array[rows.numpy()], array.take(rows), array.take_async(rows.numpy()).result()):
        tensor = torch.as_tensor(found)
        assert tensor.data_ptr() == found.ctypes.data and np.array_equal(tensor.numpy(), values[rows.numpy()])
    chosen = (rows % 10_000).numpy()
    array[chosen] = torch.ones(2000, 128)
    assert (array[chosen] == 1).all()
    np.add.at(array, chosen, 1)
    assert float(array[chosen[0], 0]) == 1 + (chosen == chosen[0]).sum()
    out = torch.empty(100, 128)
    array.take(rows[:100], out=out.numpy())
    assert torch.equal(out, torch.from_numpy(array[chosen[:100]]))


def test_tensors_of_arrays_in_managed_memory(heap):
    with aquifer.numpy_memory(heap=heap):
        values = np.random.default_rng(1).random((2_000_000, 4))
    tensor = torch.as_tensor(values)
    assert tensor.data_ptr() == values.ctypes.data and torch.from_dlpack(values).data_ptr() == values.ctypes.data
    # 61 MiB through 16 MiB of RAM.
    assert abs(float(tensor.mean()) - 0.5) < 0.01
    tensor.mul_(2)
    assert abs(values.mean() - 1) < 0.02 and heap.stats()["ram_used_bytes"] <= 16 << 20
