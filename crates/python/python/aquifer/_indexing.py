"""Which rows an index touches, and what remains of it within those rows.

An index of NumPy is split at the first axis: the rows that it touches are found, each once, and the index is rewritten so
that NumPy applies it to an array of just those rows. So the rest of the rules of indexing are NumPy's own.
"""
import operator
from typing import NamedTuple

import numpy as np


class Selection(NamedTuple):
    """What an index selects."""

    rows: object  # an int, a range, or an array of int64
    key: tuple  # the index within those rows
    axis: int  # the axis of the result on which the rows of a slice are
    is_plain: bool  # whether all of each row is taken, and nothing else said: `key` is not needed
    is_basic: bool  # whether no part but the first axis' is an array
    is_mask: bool  # whether it is one mask of all elements


def _integers(item):
    """An index array of int64, or of bool for a mask."""
    array = np.asarray(item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype == bool:
        return array
    if array.dtype.kind not in "iu":
        raise IndexError(
            "an index is made of integers, slices, ..., None and arrays of integers or booleans, "
            f"not of {array.dtype if isinstance(item, np.ndarray) else type(item).__name__}"
        )
    return array.astype(np.int64, copy=False)


def _items(key):
    """The parts of an index, each an int, a slice, None, Ellipsis, a boolean, or an array."""
    for item in key if isinstance(key, tuple) else (key,):
        if item is None or item is Ellipsis or isinstance(item, slice):
            yield item
        elif isinstance(item, (bool, np.bool_)):
            yield np.bool_(item)
        elif hasattr(item, "__index__") and not hasattr(item, "__array__"):
            yield operator.index(item)
        else:
            array = _integers(item)
            if array.ndim == 0:
                yield np.bool_(array) if array.dtype == bool else int(array)
            else:
                yield array


def _axes(item):
    """How many axes a part takes."""
    if item is None or item is Ellipsis or isinstance(item, np.bool_):
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == bool else 1


def _unmasked(items, shape):
    """The parts with masks replaced by the arrays of integers that they stand for."""
    found, axis = [], 0
    for item in items:
        if isinstance(item, np.ndarray) and item.dtype == bool:
            for n, (size, there) in enumerate(zip(item.shape, shape[axis:])):
                if size != there:
                    raise IndexError(
                        f"boolean index did not match indexed array along axis {axis + n}; size of axis is {there} "
                        f"but size of corresponding boolean axis is {size}"
                    )
            found += item.nonzero()
        else:
            found.append(item)
        axis += _axes(item)
    return found


def _in_bounds(rows, count):
    """`rows` counted from the start, each one of `count`."""
    outside = (rows < -count) | (rows >= count)
    if outside.any():
        raise IndexError(f"index {rows[outside][0]} is out of bounds for axis 0 with size {count}")
    return np.where(rows < 0, rows + count, rows)


def _spelled_out(items, ndim):
    """The parts with one for each axis. An ellipsis stays as a mark that takes none: with it, NumPy returns no scalars."""
    taken = sum(map(_axes, items))
    if taken > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {taken} were indexed")
    dots = [n for n, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    place = dots[0] if dots else len(items)
    return items[:place] + [slice(None)] * (ndim - taken) + items[place:]


def select(key, shape, once=False):
    """Splits an index of an array of `shape` at its first axis. `once`: no row is to be named twice, even where nothing but rows is named."""
    items = list(_items(key))
    is_mask = len(items) == 1 and isinstance(items[0], np.ndarray) and items[0].dtype == bool and items[0].ndim == len(shape)
    items = _unmasked(_spelled_out(items, len(shape)), shape)
    position = next(n for n, item in enumerate(items) if _axes(item))
    others = items[:position] + items[position + 1 :]
    is_plain = all(item is Ellipsis or (isinstance(item, slice) and item == slice(None)) for item in others)
    is_basic = not any(isinstance(item, (np.ndarray, np.bool_)) for item in others)
    first, count = items[position], shape[0]
    if isinstance(first, slice):
        rows, items[position] = range(*first.indices(count)), slice(None)
    elif isinstance(first, np.ndarray):
        rows = _in_bounds(first, count)
        if once or not is_plain:
            rows, positions = np.unique(rows, return_inverse=True)
            items[position] = positions.reshape(first.shape)
    else:
        if not -count <= first < count:
            raise IndexError(f"index {first} is out of bounds for axis 0 with size {count}")
        rows, items[position] = first % count, 0
    return Selection(rows, tuple(items), items[:position].count(None), is_plain, is_basic, is_mask)
