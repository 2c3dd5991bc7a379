"""What NumPy's methods make of all elements of an array, block by block."""
import math

import numpy as np

from . import _blocks


class Reductions:
    """Methods of an array with a shape, a dtype and blocks."""

    __slots__ = ()

    def _reduce(self, ufunc, axis, dtype, out, keepdims, options):
        options = {name: value for name, value in options.items() if value is not np._NoValue}
        return ufunc.reduce(self, axis=axis, dtype=dtype, out=out, keepdims=keepdims, **options)

    def sum(self, axis=None, dtype=None, out=None, keepdims=False, **options):
        """`np.sum`, by blocks."""
        return self._reduce(np.add, axis, dtype, out, keepdims, options)

    def prod(self, axis=None, dtype=None, out=None, keepdims=False, **options):
        """`np.prod`, by blocks."""
        return self._reduce(np.multiply, axis, dtype, out, keepdims, options)

    def max(self, axis=None, out=None, keepdims=False, **options):
        """`np.max`, by blocks."""
        return self._reduce(np.maximum, axis, None, out, keepdims, options)

    def min(self, axis=None, out=None, keepdims=False, **options):
        """`np.min`, by blocks."""
        return self._reduce(np.minimum, axis, None, out, keepdims, options)

    def any(self, axis=None, out=None, keepdims=False, **options):
        """`np.any`, by blocks."""
        return self._reduce(np.logical_or, axis, None, out, keepdims, options)

    def all(self, axis=None, out=None, keepdims=False, **options):
        """`np.all`, by blocks."""
        return self._reduce(np.logical_and, axis, None, out, keepdims, options)

    def mean(self, axis=None, dtype=None, out=None, keepdims=False):
        """`np.mean`, by blocks."""
        dtype = _blocks.mean_dtype(self.dtype, dtype)
        total = self.sum(axis, _blocks.sum_dtype(dtype), None, keepdims)
        return _blocks.deliver(np.true_divide(total, self._count(axis)), dtype, out)

    def var(self, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
        """`np.var`, by blocks, in two passes."""
        dtype = _blocks.mean_dtype(self.dtype, dtype)
        wide = _blocks.sum_dtype(dtype)
        mean = self.mean(axis, wide, None, True)
        count = max(self._count(axis) - ddof, 0)
        axes = _blocks.axes_of(axis, self.ndim)
        total = None
        for first, block in self._pass():
            part = np.abs(block - (mean if 0 in axes else mean[first : first + len(block)])) ** 2
            part = np.add.reduce(part, axis=axes, dtype=np.abs(np.zeros(0, wide)).dtype, keepdims=keepdims)
            total = part if total is None else np.add(total, part) if 0 in axes else np.concatenate([total, part])
        if total is None:
            return np.var(np.asarray(self), axis, dtype, out, ddof, keepdims)
        with np.errstate(all="ignore"):
            return _blocks.deliver(np.true_divide(total, count), np.abs(np.zeros(0, dtype)).dtype, out)

    def std(self, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
        """`np.std`, by blocks, in two passes."""
        dtype = _blocks.mean_dtype(self.dtype, dtype)
        root = np.sqrt(self.var(axis, _blocks.sum_dtype(dtype), None, ddof, keepdims))
        return _blocks.deliver(root, np.abs(np.zeros(0, dtype)).dtype, out)

    def _count(self, axis):
        return math.prod(self.shape[n] for n in _blocks.axes_of(axis, self.ndim))

    def argmax(self, axis=None, out=None, keepdims=False):
        """`np.argmax`, by blocks."""
        return self._arg(np.argmax, np.greater, axis, out, keepdims)

    def argmin(self, axis=None, out=None, keepdims=False):
        """`np.argmin`, by blocks."""
        return self._arg(np.argmin, np.less, axis, out, keepdims)

    def _arg(self, find, is_better, axis, out, keepdims):
        if axis is not None and axis % self.ndim:
            parts = [find(block, axis=axis, keepdims=keepdims) for _, block in self._pass()]
            found = np.concatenate(parts) if parts else find(np.asarray(self), axis=axis, keepdims=keepdims)
            return _blocks.deliver(found, None, out)
        best = place = None
        for first, block in self._pass():
            if axis is None:
                block = block.reshape(-1)
                first *= self.size // self.shape[0]
            at = find(block, axis=0, keepdims=True)
            here = np.take_along_axis(block, at, 0)
            if best is None:
                best, place = here, at + first
                continue
            wins = is_better(here, best)
            if here.dtype.kind in "fc":
                # The first NaN is found, as NumPy does.
                wins = (wins | np.isnan(here)) & ~np.isnan(best)
            best, place = np.where(wins, here, best), np.where(wins, at + first, place)
        if place is None:
            return find(np.asarray(self), axis=axis, keepdims=keepdims)
        if axis is None:
            place = place.reshape((1,) * self.ndim) if keepdims else place[0]
        elif not keepdims:
            place = place[0]
        return _blocks.deliver(place, None, out)

    def dot(self, other):
        """The matrix product, by blocks."""
        return np.matmul(self, other)
