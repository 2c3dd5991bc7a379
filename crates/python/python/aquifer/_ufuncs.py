"""ufuncs on arrays beyond RAM, block by block."""
import numpy as np

from . import _blocks
from ._indexing import select

# Of these, parts may be reduced first and their results after.
_ASSOCIATIVE = {
    np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or, np.logical_xor,
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.logaddexp, np.logaddexp2, np.gcd, np.lcm, np.hypot,
}  # fmt: skip


def _is_array(value):
    from ._array import Array

    return isinstance(value, Array)


def _known(value):
    """Whether a ufunc takes this beside an array of ours."""
    return _is_array(value) or not hasattr(value, "__array_ufunc__") or type(value).__array_ufunc__ in (
        np.ndarray.__array_ufunc__,
        np.generic.__array_ufunc__ if hasattr(np.generic, "__array_ufunc__") else None,
    )  # fmt: skip


def apply_ufunc(ufunc, method, inputs, options):
    """What `Array.__array_ufunc__` returns."""
    outs = options.pop("out", None) or ()
    if not all(map(_known, (*inputs, *outs))):
        return NotImplemented
    if method == "at":
        return _at(ufunc, *inputs)
    if method == "reduce":
        return _reduce(ufunc, *inputs, out=outs[0] if outs else None, **options)
    if method == "__call__" and ufunc is np.matmul and not options:
        return _matmul(*inputs, out=outs[0] if outs else None)
    if method == "__call__" and ufunc.signature is None:
        return _elementwise(ufunc, inputs, outs, options)
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    raise TypeError(f"{name} does not work by blocks; for an array that fits in RAM write np.{name}(np.asarray(a), ...)")


class _Operand:
    """An input or output of a ufunc, of which blocks are taken."""

    def __init__(self, value, shape):
        self.value, self.by_rows = value, False
        size = np.shape(value)
        if len(size) == len(shape) and size[0] == shape[0] and shape[0] != 1:
            self.by_rows = True
        elif _is_array(value):
            # It is the same for all rows.
            self.value = np.asarray(value)

    def block(self, first, count):
        return self.value[first : first + count] if self.by_rows else self.value


def _elementwise(ufunc, inputs, outs, options):
    where = options.pop("where", True)
    shapes = [np.shape(value) for value in inputs]
    shape = np.broadcast_shapes(*shapes, *([np.shape(where)] if where is not True else []))
    for out in outs:
        if out is not None:
            if np.broadcast_shapes(shape, out.shape) != out.shape:
                raise ValueError(f"an output of shape {out.shape} does not match the shape {shape} of the operands")
            shape = out.shape
    operands = [_Operand(_apart(value, outs), shape) for value in inputs]
    mask = _Operand(where, shape)
    targets = list(outs) or [None] * ufunc.nout
    heap = next(value.heap for value in (*inputs, *outs) if _is_array(value))
    widest = max((value.itemsize for value in (*inputs, *outs) if hasattr(value, "itemsize")), default=8)
    row_bytes = widest * int(np.prod(shape[1:], dtype=np.int64)) * (len(operands) + ufunc.nout)
    step = _blocks.rows_in_block(row_bytes)
    for first in range(0, max(shape[0], 1), step):
        count = min(step, shape[0] - first)
        call = dict(options)
        if where is not True:
            call["where"] = mask.block(first, count)
        given = [_block_of(target, first, count, where is not True) for target in targets]
        if any(block is not None for block in given):
            call["out"] = tuple(given)
        results = ufunc(*(operand.block(first, count) for operand in operands), **call)
        results = results if isinstance(results, tuple) else (results,)
        for n, result in enumerate(results):
            if targets[n] is None:
                targets[n] = _new_array(shape, result.dtype, heap)
            if count and (_is_array(targets[n]) or given[n] is None):
                targets[n][first : first + count] = result
    return targets[0] if ufunc.nout == 1 else tuple(targets)


def _apart(value, outs):
    """An input that is not changed while it is read: a copy where an output has the same rows at other places."""
    if _is_array(value) and any(_is_array(out) and out._shares(value) and out._first != value._first for out in outs):
        return value.copy()
    return value


def _block_of(target, first, count, keeps):
    """What a ufunc writes a block of `target` to."""
    if target is None:
        return None
    if _is_array(target) and not keeps:
        return np.empty((count, *target.shape[1:]), target.dtype)
    return target[first : first + count]


def _new_array(shape, dtype, heap):
    from ._array import Array

    return Array(shape, dtype, heap=heap)


def _at(ufunc, array, indices, *values):
    """`ufunc.at`: rows that are named twice are changed twice."""
    values = [np.asarray(value) for value in values]
    if not _is_array(array):
        return ufunc.at(array, np.asarray(indices), *values)
    indices = tuple(map(_plain, indices)) if isinstance(indices, tuple) else _plain(indices)
    selection = select(indices, array.shape, once=True)
    rows = array._fetch(selection.rows)
    ufunc.at(rows, selection.key, *values)
    return array._store(selection.rows, rows)


def _plain(index):
    return np.asarray(index) if _is_array(index) else index


def _reduce(ufunc, array, axis=0, dtype=None, out=None, keepdims=False, initial=np._NoValue, where=True):
    if not _is_array(array):
        array = np.asarray(array)
        return ufunc.reduce(array, axis, dtype, out, keepdims, initial, where)
    axes = _blocks.axes_of(axis, array.ndim)
    options = {"axis": axes, "dtype": dtype}
    if where is not True:
        where = _Operand(np.broadcast_to(where, array.shape), array.shape)
    if array.shape[0] == 0:
        if where is not True:
            options["where"] = where.value
        if initial is not np._NoValue:
            options["initial"] = initial
        return _blocks.deliver(ufunc.reduce(np.asarray(array), keepdims=keepdims, **options), None, out)
    if ufunc not in _ASSOCIATIVE and axes != (0,):
        raise TypeError(f"{ufunc.__name__}.reduce works by blocks along the first axis alone")
    parts, total = [], None
    for first, block in array._pass():
        if where is not True:
            options["where"] = where.block(first, len(block))
        if 0 not in axes:
            if initial is not np._NoValue:
                options["initial"] = initial
            parts.append(ufunc.reduce(block, keepdims=keepdims, **options))
            continue
        if ufunc not in _ASSOCIATIVE and total is not None:
            total = ufunc.reduce(np.concatenate([total, block]), keepdims=True, **options)
            continue
        if initial is not np._NoValue and (total is None or where is not True):
            options["initial"] = initial
        part = ufunc.reduce(block, keepdims=True, **options)
        options.pop("initial", None)
        total = part if total is None else ufunc(total, part)
    if parts:
        return _blocks.deliver(np.concatenate(parts), None, out)
    total = total if keepdims else total.reshape([size for n, size in enumerate(total.shape) if n not in axes])
    return _blocks.deliver(total, None, out)


def _matmul(left, right, out=None):
    """A matrix by a vector or a matrix, or the other way round."""
    if _is_array(left) and left.ndim == 2:
        right = np.asarray(right)
        if right.ndim not in (1, 2) or right.shape[0] != left.shape[1]:
            raise ValueError(f"shapes {left.shape} and {right.shape} do not match for a matrix product")
        shape = (left.shape[0], *right.shape[1:])
        dtype = np.result_type(left.dtype, right.dtype)
        if out is None:
            out = np.empty(shape, dtype) if right.ndim == 1 else _new_array(shape, dtype, left.heap)
        for first, block in left._pass():
            out[first : first + len(block)] = block @ right
        return out
    if not _is_array(left) and _is_array(right) and right.ndim in (1, 2):
        left = np.asarray(left)
        if left.ndim not in (1, 2) or left.shape[-1] != right.shape[0]:
            raise ValueError(f"shapes {left.shape} and {right.shape} do not match for a matrix product")
        total = np.zeros((*left.shape[:-1], *right.shape[1:]), np.result_type(left.dtype, right.dtype))
        for first, block in right._pass():
            total += left[..., first : first + len(block)] @ block
        return _blocks.deliver(total, None, out)
    if _is_array(left) and left.ndim == 1:
        if _is_array(right):
            right = np.asarray(right)
        return _matmul_vector(left, np.asarray(right), out)
    raise TypeError("matrix products by blocks take arrays of one or two dimensions")


def _matmul_vector(left, right, out):
    if right.ndim not in (1, 2) or right.shape[0] != left.shape[0]:
        raise ValueError(f"shapes {left.shape} and {right.shape} do not match for a matrix product")
    total = np.zeros(right.shape[1:], np.result_type(left.dtype, right.dtype))
    for first, block in left._pass():
        total += block @ right[first : first + len(block)]
    return _blocks.deliver(total, None, out)
