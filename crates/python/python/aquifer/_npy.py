"""Files of NumPy's own format, written and read block by block."""
import os
import sys
import tempfile
import time

import numpy as np
from numpy.lib import format as npy

from . import _blocks

# Seconds after which a bar is shown.
_PATIENCE = 2.0
_WIDTH = 30


class Progress:
    """A bar on a terminal, of what takes longer than two seconds."""

    def __init__(self, what, total):
        self.what, self.total, self.begun, self.shown = what, total, time.monotonic(), False

    def __enter__(self):
        return self

    def show(self, done):
        """Says how far it is."""
        if sys.stderr is None or not sys.stderr.isatty() or time.monotonic() - self.begun < _PATIENCE:
            return
        part = done / self.total if self.total else 1.0
        bar = "#" * int(part * _WIDTH)
        sys.stderr.write(f"\r{self.what} [{bar:<{_WIDTH}}] {part:4.0%} of {_blocks.size_text(self.total)}")
        sys.stderr.flush()
        self.shown = True

    def __exit__(self, *_details):
        if self.shown:
            sys.stderr.write("\n")


def save(path, array):
    """Writes an array to a .npy file, block by block. The file is replaced once all of it is written and flushed."""
    path = os.fspath(path)
    header = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": tuple(array.shape)}
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)), prefix=os.path.basename(path) + ".")
    try:
        with os.fdopen(handle, "wb") as file, Progress(f"saving {path}", array.nbytes) as progress:
            npy.write_array_header_1_0(file, header) if _fits(header) else npy.write_array_header_2_0(file, header)
            for first, block in array._pass():
                file.write(block.reshape(-1).view(np.uint8) if block.nbytes else b"")
                progress.show(first * (array.nbytes // max(len(array), 1)))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def _fits(header):
    # Headers of version 1.0 are shorter than 64 KiB.
    return len(repr(header)) < 60_000


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def load(path, *, layout="auto", heap=None):
    """An `aquifer.Array` of a .npy file, which is read block by block and never as a whole."""
    from ._array import Array

    with open(path, "rb") as file:
        version = npy.read_magic(file)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
        if read_header is None:
            # Field names beyond Latin-1.
            return _load_mapped(path, layout, heap)
        shape, fortran_order, dtype = read_header(file)
        if fortran_order and len(shape) > 1:
            return _load_mapped(path, layout, heap)
        array = Array(shape, dtype, layout=layout, heap=heap)
        there = os.fstat(file.fileno()).st_size - file.tell()
        if there < array.nbytes:
            raise ValueError(f"{os.fspath(path)} is cut off: it has {there} bytes of the {array.nbytes} that its header names")
        with Progress(f"loading {os.fspath(path)}", array.nbytes) as progress:
            _fill(array, file, path, progress)
    return array


def _fill(array, file, path, progress):
    step = _blocks.rows_in_block(array._row_bytes)
    for first in range(0, len(array) if array.nbytes else 0, step):
        block = array._new(min(step, len(array) - first))
        view = memoryview(block.reshape(-1).view(np.uint8))
        done = 0
        while done < len(view):
            count = file.readinto(view[done:])
            if not count:
                raise ValueError(f"{os.fspath(path)} became shorter while it was read")
            done += count
        array._write(first, block)
        progress.show(first * array._row_bytes)


def _load_mapped(path, layout, heap):
    from ._array import asarray

    return asarray(np.load(path, mmap_mode="r", allow_pickle=False), layout=layout, heap=heap)
