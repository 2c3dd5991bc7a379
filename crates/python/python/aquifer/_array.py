"""Arrays beyond RAM."""
import math
import operator

import numpy as np

from . import _blocks, _heaps, _npy
from ._core import Rows
from ._indexing import select
from ._pending import start
from ._reductions import Reductions
from ._ufuncs import apply_ufunc

# Rows of this many bytes are kept one by one, so that what is used often stays in RAM without its neighbours.
_APART_BYTES = (64, 2048)
_LAYOUTS = ("auto", "rows", "pages")


def _shape_of(shape):
    """A shape as a tuple, as NumPy reads them."""
    try:
        sizes = (operator.index(shape),)
    except TypeError:
        sizes = tuple(map(operator.index, shape))
    if not sizes:
        raise ValueError("an aquifer.Array has at least one dimension")
    if any(size < 0 for size in sizes):
        raise ValueError("negative dimensions are not allowed")
    return sizes


def _dtype_of(dtype):
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"an aquifer.Array holds numbers and bytes, not Python objects: dtype {dtype} has some")
    return dtype


def _is_apart(layout, row_bytes):
    if layout not in _LAYOUTS:
        raise ValueError(f"layout is {layout!r}; it may be auto, rows or pages")
    if layout == "rows" and not 0 < row_bytes <= 4096:
        raise ValueError(f"rows of {row_bytes} bytes cannot be kept one by one, only those of 1 to 4096; leave layout out")
    least, most = _APART_BYTES
    return layout == "rows" or (layout == "auto" and least <= row_bytes <= most)


class Array(Reductions, np.lib.mixins.NDArrayOperatorsMixin):
    """An n-dimensional array whose rows (`a[i]`) lie in RAM or on flash.

    It begins as zeros. Indexing is NumPy's, and copies: what comes out is an `ndarray`, and what is assigned goes in. All rows that
    an index names are read or written in one batch, with many reads of the device under way at once. ufuncs, reductions and matrix
    products go through the array in blocks of a few MiB.

    shape    sizes; the first may be changed later (`append`, `resize`)
    dtype    of numbers, bytes or records; not of objects
    layout   "rows": each row is an object of its own, so that RAM holds rows that are used often, and changing one writes no
             others; for rows of at most 4096 bytes. "pages": rows lie together in pages, which is best for going through them in
             order. "auto": rows, for rows of 64 to 2048 bytes
    heap     an `aquifer.Heap`; by default the one of `aquifer.configure`

    >>> import aquifer, numpy as np
    >>> a = aquifer.Array((1000, 128), np.float32)
    >>> a[[3, 700]] = 1
    >>> a[[700, 0, 3]].sum(axis=1).tolist()
    [128.0, 0.0, 128.0]
    """

    __slots__ = ("shape", "dtype", "_rows", "_first", "_heap", "_is_view", "__weakref__")
    __hash__ = None

    def __init__(self, shape, dtype=float, *, layout="auto", heap=None):
        self.shape = _shape_of(shape)
        self.dtype = _dtype_of(dtype)
        self._first = 0
        self._is_view = False
        self._heap = heap or _heaps.default()
        if self.nbytes > np.iinfo(np.int64).max:
            raise ValueError(f"an array of shape {self.shape} and dtype {self.dtype} is too big for this machine")
        apart = _is_apart(layout, self._row_bytes)
        # Rows without bytes need no place.
        self._rows = Rows(self._heap, self.shape[0], self._row_bytes, apart) if self._row_bytes else None

    # Shape

    @property
    def ndim(self):
        """How many dimensions there are."""
        return len(self.shape)

    @property
    def size(self):
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def itemsize(self):
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self):
        """Bytes of all elements, wherever they are."""
        return self.size * self.itemsize

    @property
    def layout(self):
        """How rows lie in memory: "rows" or "pages"."""
        return "rows" if self._rows is not None and self._rows.apart else "pages"

    @property
    def heap(self):
        """The heap that the array is in."""
        return self._heap

    @property
    def _row_bytes(self):
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"aquifer.Array(shape={self.shape}, dtype={self.dtype}, {_blocks.size_text(self.nbytes)}, layout={self.layout!r})"

    def __bool__(self):
        if self.size != 1:
            raise ValueError("the truth value of an array with more than one element is ambiguous; use a.any() or a.all()")
        return bool(np.asarray(self).item())

    def __reduce__(self):
        raise TypeError("an aquifer.Array cannot be pickled: save it with aquifer.save, or pickle np.asarray(a)")

    # Rows

    def _new(self, count):
        """An `ndarray` for `count` rows."""
        return np.empty((count, *self.shape[1:]), self.dtype)

    def _read(self, first, count, once=False, out=None):
        out = self._new(count) if out is None else out
        if out.nbytes:
            self._rows.read(self._first + first, out, once)
        return out

    def _write(self, first, values):
        if values.nbytes:
            self._rows.write(self._first + first, values)

    def _gather(self, rows, out=None):
        out = self._new(len(rows)) if out is None else out
        if out.nbytes:
            self._rows.gather(self._placed(rows), out)
        return out

    def _scatter(self, rows, values):
        if values.nbytes:
            self._rows.scatter(self._placed(rows), values)

    def _placed(self, rows):
        rows = np.ascontiguousarray(rows, np.int64)
        return rows + self._first if self._first else rows

    def _fetch(self, rows):
        """The rows that a selection names, as an `ndarray`."""
        if isinstance(rows, range):
            if rows.step == 1:
                return self._read(rows.start, len(rows))
            return self._gather(np.arange(rows.start, rows.stop, rows.step))
        if isinstance(rows, int):
            return self._read(rows, 1)
        return self._gather(rows.ravel()).reshape(*rows.shape, *self.shape[1:])

    def _store(self, rows, values):
        if isinstance(rows, range):
            if rows.step == 1:
                return self._write(rows.start, values)
            rows = np.arange(rows.start, rows.stop, rows.step)
        if isinstance(rows, int):
            return self._write(rows, values)
        self._scatter(rows.ravel(), values)

    # Indexing

    def __getitem__(self, key):
        """What NumPy's indexing selects, as an `ndarray` of its own. For a field of records, index rows first."""
        self._refuse_fields(key)
        selection = select(key, self.shape)
        rows = selection.rows
        if selection.is_plain and not isinstance(rows, int):
            return self._fetch(rows)
        if isinstance(rows, range) and selection.is_basic:
            return self._by_blocks(selection)
        return self._fetch(rows)[selection.key]

    def _by_blocks(self, selection):
        """Part of each of many rows, with room for few whole rows."""
        rows, key, axis = selection.rows, selection.key, selection.axis
        step = _blocks.rows_in_block(self._row_bytes)
        if len(rows) <= step:
            return self._fetch(rows)[key]
        first = self._fetch(rows[:step])[key]
        out = np.empty((*first.shape[:axis], len(rows), *first.shape[axis + 1 :]), self.dtype)
        for start in range(0, len(rows), step):
            block = first if start == 0 else self._fetch(rows[start : start + step])[key]
            out[(slice(None),) * axis + (slice(start, start + step),)] = block
        return out

    def __setitem__(self, key, value):
        """Assigns as NumPy does; of a row that is named twice, the last value is left."""
        self._refuse_fields(key)
        selection = select(key, self.shape)
        rows = selection.rows
        value = self._value(value)
        if selection.is_mask and np.ndim(value) > 1:
            raise TypeError(f"a mask of all elements is assigned a value or a row of values, not an array of {np.ndim(value)} dimensions")
        if not selection.is_plain:
            self._change(selection, value)
        elif isinstance(rows, np.ndarray):
            target = self._new(rows.size).reshape(*rows.shape, *self.shape[1:])
            target[...] = value
            self._scatter(rows.ravel(), target)
        elif isinstance(rows, int):
            target = self._new(1)
            target[0] = value
            self._write(rows, target)
        else:
            self._fill(rows, value)

    def _value(self, value):
        """What is assigned, as NumPy reads it for this dtype."""
        if isinstance(value, (np.ndarray, np.generic)) or np.isscalar(value):
            return value
        if isinstance(value, Array):
            return value
        return np.asarray(value, None if hasattr(value, "__array__") else self.dtype)

    def _fill(self, rows, value):
        shape = (len(rows), *self.shape[1:])
        if np.shape(value) == shape:
            part = value
        elif np.ndim(value):
            value = np.asarray(value)
            while value.ndim > len(shape) and value.shape[0] == 1:
                value = value[0]
            part = _blocks.broadcast(value, shape)
        else:
            part = None
        step = _blocks.rows_in_block(self._row_bytes)
        starts = range(0, len(rows), step)
        if self._shares(part) and len(rows) > step:
            if rows.step != 1:
                part = part.copy()
            elif part._first < self._first + rows.start:
                # From the end, so that no row is read after it was written.
                starts = starts[::-1]
        for start in starts:
            some = rows[start : start + step]
            block = self._new(len(some))
            block[...] = value if part is None else part[start : start + len(some)]
            self._store(some, block)

    def _shares(self, other):
        """Whether both may have rows in common."""
        return isinstance(other, Array) and self._rows is not None and other._rows is self._rows

    def _change(self, selection, value):
        """Changes parts of rows."""
        rows = selection.rows
        step = _blocks.rows_in_block(self._row_bytes)
        if isinstance(rows, range) and selection.is_basic and len(rows) > step and np.ndim(value) == 0:
            for start in range(0, len(rows), step):
                self._change(selection._replace(rows=rows[start : start + step]), value)
            return
        block = self._fetch(rows)
        block[selection.key] = value
        self._store(rows, block)

    @staticmethod
    def _refuse_fields(key):
        names = [key] if isinstance(key, str) else key if isinstance(key, list) and key else ()
        if names and all(isinstance(name, str) for name in names):
            raise IndexError(f"fields are those of rows: write a[:][{key!r}], or go through a.blocks()")

    def take(self, indices, axis=0, out=None):
        """`np.take`: on the first axis, the rows that `indices` names, in one batch; into `out` where that is given."""
        if axis not in (0, -self.ndim):
            return np.take(np.asarray(self), indices, axis, out)
        if out is None:
            return self[np.asarray(indices, np.intp)] if np.ndim(indices) else self[operator.index(indices)]
        wanted = np.asarray(indices, np.int64)
        shape = (*wanted.shape, *self.shape[1:])
        if out.shape != shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(f"out must be a contiguous array of shape {shape} and dtype {self.dtype}")
        self._gather(select(wanted, self.shape).rows.ravel(), out)
        return out

    def take_async(self, indices, out=None):
        """As `take`, in the background: a future, that asyncio code can await as well.

        >>> import aquifer
        >>> a = aquifer.Array((100, 16))
        >>> rows = a.take_async([5, 6])   # ... compute meanwhile ...
        >>> rows.result().shape
        (2, 16)
        """
        return start(self.take, np.asarray(indices).copy(), 0, out)

    def prefetch(self, indices):
        """Brings rows into RAM that will be used soon. A hint: what finds no room is skipped."""
        rows = select(np.asarray(indices, np.int64).ravel(), self.shape).rows
        if self._row_bytes and rows.size:
            self._rows.prefetch(self._placed(rows))

    # Blocks

    def blocks(self, rows=None):
        """Goes through the array: yields pairs of a row's number and an `ndarray` of the rows from there on, of a few MiB or of `rows` rows."""
        step = _blocks.rows_in_block(self._row_bytes) if rows is None else operator.index(rows)
        if step < 1:
            raise ValueError("a block has at least one row")
        for start_row in range(0, self.shape[0], step):
            yield start_row, self._read(start_row, min(step, self.shape[0] - start_row), self._exceeds_ram)

    @property
    def _exceeds_ram(self):
        """Whether a pass over the array would push everything else out of RAM, and itself."""
        return self._heap is not None and self.nbytes > self._heap.ram_bytes // 2

    def _pass(self):
        """As `blocks`, reading the next block while one is worked on: for passes that keep no block and do not write to rows ahead of them."""
        step, rows = _blocks.rows_in_block(self._row_bytes), self.shape[0]
        room = [self._new(min(step, rows)) for _ in range(2 if rows > step else 1)]

        def read(first):
            count = min(step, rows - first)
            return start(self._read, first, count, self._exceeds_ram, room[first // step % 2][:count])

        ahead = read(0) if rows else None
        for first in range(0, rows, step):
            block = ahead.result()
            if first + step < rows:
                ahead = read(first + step)
            yield first, block

    def __iter__(self):
        for _, block in self.blocks():
            yield from block

    def __contains__(self, value):
        return any((block == value).any() for _, block in self._pass())

    # Rows become more and fewer

    def append(self, values):
        """Adds rows, or one row, at the end. Rows that there are stay where they are."""
        values = values if isinstance(values, Array) else np.asarray(values, self.dtype)
        if values.shape == self.shape[1:] and values.ndim == self.ndim - 1:
            values = values[None]
        if values.shape[1:] != self.shape[1:] or values.ndim != self.ndim:
            raise ValueError(f"rows of shape {values.shape[1:]} cannot be appended to an array with rows of shape {self.shape[1:]}")
        before, added = self.shape[0], values.shape[0]
        self.resize(before + added)
        try:
            self[before:] = values if values is not self else self.view(0, added)
        except BaseException:
            self.resize(before)
            raise

    def resize(self, rows):
        """Changes how many rows there are; new ones are zeros."""
        rows = operator.index(rows)
        if rows < 0:
            raise ValueError("negative dimensions are not allowed")
        if self._is_view:
            raise ValueError("a view cannot be resized; resize the array that it is of")
        if self._rows is not None:
            self._rows.resize(rows)
        self.shape = (rows, *self.shape[1:])

    def view(self, start=None, stop=None):
        """Rows `start` to `stop` as an array that shares them: what is written to one is in the other."""
        rows = range(self.shape[0])[start:stop]
        view = object.__new__(Array)
        view.dtype, view._rows, view._heap, view._is_view = self.dtype, self._rows, self._heap, True
        view.shape, view._first = (len(rows), *self.shape[1:]), self._first + rows.start
        return view

    def copy(self):
        """A copy in the same heap."""
        return self.astype(self.dtype)

    def astype(self, dtype):
        """A copy with other elements."""
        copy = Array(self.shape, dtype, layout=self.layout if self._row_bytes else "auto", heap=self._heap)
        for first, block in self._pass():
            copy[first : first + len(block)] = block
        return copy

    def fill(self, value):
        """Assigns one value to all elements."""
        self[...] = value

    def save(self, path):
        """Writes the array to a .npy file, block by block. The file is replaced once all of it is written."""
        _npy.save(path, self)

    # Conversions

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("an aquifer.Array is not in RAM: an ndarray of it is always a copy")
        whole = self._read(0, self.shape[0])
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __dlpack__(self, **options):
        return np.asarray(self).__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)

    def __buffer__(self, flags):
        return memoryview(np.asarray(self))

    def tolist(self):
        """All elements as nested lists."""
        return np.asarray(self).tolist()

    # Computing

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return apply_ufunc(ufunc, method, inputs, options)


def asarray(source, dtype=None, *, layout="auto", heap=None):
    """An `aquifer.Array` of what `source` holds: an `ndarray` or memmap, which is copied block by block, an iterator over rows,
    or anything that NumPy makes an array of. An `aquifer.Array` of that dtype is returned as it is."""
    if isinstance(source, Array) and (dtype is None or source.dtype == np.dtype(dtype)):
        return source
    if hasattr(source, "__next__"):
        return _from_iterator(source, dtype, layout, heap)
    if not isinstance(source, (np.ndarray, Array)):
        source = np.asarray(source, dtype)
    array = Array(source.shape, source.dtype if dtype is None else dtype, layout=layout, heap=heap)
    array[...] = source
    return array


def _from_iterator(source, dtype, layout, heap):
    """Rows are gathered to blocks."""
    array, pending, held = None, [], 0
    for row in source:
        row = np.asarray(row, dtype)
        if array is None:
            array = Array((0, *row.shape), row.dtype if dtype is None else dtype, layout=layout, heap=heap)
        pending.append(row)
        held += row.nbytes
        if held >= _blocks.BLOCK_BYTES:
            array.append(np.stack(pending))
            pending, held = [], 0
    if array is None:
        return Array(0, float if dtype is None else dtype, layout=layout, heap=heap)
    if pending:
        array.append(np.stack(pending))
    return array
