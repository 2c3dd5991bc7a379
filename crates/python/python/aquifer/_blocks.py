"""What goes through an array in blocks of a few MiB."""
import operator

import numpy as np

# Rows that are in RAM beside the heap at a time.
BLOCK_BYTES = 8 << 20


def rows_in_block(row_bytes):
    """How many rows of `row_bytes` a block has."""
    return max(1, BLOCK_BYTES // max(row_bytes, 1))


def size_text(count):
    """A number of bytes as people write it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def axes_of(axis, ndim):
    """The axes that an `axis` argument names, each counted from the first."""
    if axis is None:
        return tuple(range(ndim))
    named = axis if isinstance(axis, tuple) else (axis,)
    axes = []
    for one in map(operator.index, named):
        if not -ndim <= one < ndim:
            raise np.exceptions.AxisError(one, ndim)
        axes.append(one % ndim)
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return tuple(axes)


def broadcast(value, shape):
    """`value` with the shape of what it is assigned to."""
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        shapes = f"{value.shape} into shape {tuple(shape)}"
        raise ValueError(f"could not broadcast input array from shape {shapes}") from None


def mean_dtype(dtype, wanted):
    """The dtype of a mean of elements of `dtype`."""
    if wanted is not None:
        return np.dtype(wanted)
    return np.dtype(float) if dtype.kind in "iub" else dtype


def sum_dtype(dtype):
    """The dtype that sums for a mean are made in: half precision is too narrow for them."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def deliver(result, dtype, out):
    """A result in the dtype that NumPy would give it, and in `out` where that is given."""
    if out is not None:
        out[...] = result
        return out
    result = np.asarray(result)
    result = result if dtype is None else result.astype(dtype, copy=False)
    return result[()]
