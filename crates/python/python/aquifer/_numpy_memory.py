"""NumPy's own arrays beyond RAM (NEP 49)."""
import warnings

import numpy as np

from . import _heaps
from ._core import give_back as _give_back
from ._core import handler, set_handler

_warned = False


def _warn_of_calls(heap):
    """System calls fail with EFAULT where the kernel lets nobody resolve their faults."""
    global _warned
    if not heap.serves_calls and not _warned:
        _warned = True
        warnings.warn(
            "here system calls fail (Bad address) that are given arrays in managed memory, as ndarray.tofile does: run as root, "
            "give the container /dev/userfaultfd, or leave numpy_memory out and run the program with `aquifer run`",
            RuntimeWarning,
            stacklevel=3,
        )


class numpy_memory:
    """While the `with` block runs, new NumPy arrays of at least `threshold` bytes lie in a heap: in RAM while they are used, and on
    flash otherwise. Results and temporaries are among them, and what pandas, SciPy and scikit-learn make of NumPy. Arrays stay
    there when the block has ended.

    The setting is that of a context (`contextvars`): threads that are started within the block have one of their own.

    >>> import aquifer, numpy as np
    >>> with aquifer.numpy_memory():
    ...     squares = np.arange(1_000_000.0) ** 2
    >>> float(squares[-1])
    999998000001.0
    """

    def __init__(self, threshold="64K", heap=None):
        self._threshold, self._heap, self._before = _heaps.size(threshold, "threshold"), heap, []

    def __enter__(self):
        heap = self._heap or _heaps.default()
        _warn_of_calls(heap)
        self._before.append(set_handler(handler(heap, self._threshold)))
        return heap

    def __exit__(self, *_details):
        set_handler(self._before.pop())


def empty(shape, dtype=float, order="C", *, heap=None):
    """`np.empty` in managed memory."""
    with numpy_memory(1, heap):
        return np.empty(shape, dtype, order)


def zeros(shape, dtype=float, order="C", *, heap=None):
    """`np.zeros` in managed memory: it costs nothing until it is written."""
    with numpy_memory(1, heap):
        return np.zeros(shape, dtype, order)


def full(shape, fill_value, dtype=None, order="C", *, heap=None):
    """`np.full` in managed memory."""
    with numpy_memory(1, heap):
        return np.full(shape, fill_value, dtype, order)


def give_back(array, heap=None):
    """Has the memory of a NumPy array leave RAM before other memory does: for what is not used for a while."""
    _give_back(heap or _heaps.default(), array)
