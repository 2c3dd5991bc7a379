"""Arrays that stay: in a file of a volume."""
import io
import os
import threading
import weakref

import numpy as np
from numpy.lib import format as npy

from . import _heaps
from ._array import Array, _dtype_of, _shape_of
from ._blocks import size_text
from ._core import Volume, VolumeRows

# Rows begin at a page, so that one of a page's length is one page.
_HEADER_ALIGN = 4096
_HEADER_MAX = 64 << 10
# A new volume has room for twice the array, and for the log beside that.
_SIZE_MIN = 64 << 20
_MODES = ("r", "r+", "w+", "a")

_lock = threading.Lock()
_open_volumes = weakref.WeakValueDictionary()


class _Shared:
    """A volume that arrays of this process share; it is closed when the last is gone, or at exit."""

    def __init__(self, path, ram, size, read_only, socket):
        # Buffers of reads, and what the allocator takes, come on top of the volume's pages.
        self.core, self.path, self.is_read_only = Volume(path, ram - ram // 16, size, read_only, socket), path, read_only
        self._closing = weakref.finalize(self, self.core.close)

    def close(self):
        self._closing()


def _volume(path, ram, size, read_only, socket):
    """The volume at `path`, opened once for all arrays of the process, and made if there is a `size`."""
    with _lock:
        shared = _open_volumes.get(path)
        if shared is not None and not shared.core.closed:
            if shared.is_read_only and not read_only:
                raise ValueError(f"{path} is open for reading alone in this process: close that array first")
            return shared
        shared = _open_volumes[path] = _Shared(path, ram, size, read_only, socket)
        return shared


class StoredArray(Array):
    """An `aquifer.Array` in a file of a volume, made by `aquifer.open_array`: `flush` makes what was written durable, as one moment."""

    __slots__ = ("_volume", "_file", "_before", "_mode", "_name")

    def _attach(self, shared, file, before, shape, dtype, mode, name):
        self.shape, self.dtype, self._first, self._is_view, self._heap = shape, dtype, 0, False, None
        self._volume, self._file, self._before, self._mode, self._name = shared, file, before, mode, name
        rows = VolumeRows(shared.core, file, before, self._row_bytes, shape[0])
        self._rows = rows if self._row_bytes else None
        return self

    @property
    def path(self):
        """The volume's."""
        return self._volume.path

    @property
    def mode(self):
        """How it was opened."""
        return self._mode

    def flush(self):
        """Makes all that was written durable, in all arrays of the volume: after a crash they are as at one moment, this or a later one."""
        self._volume.core.sync()

    def resize(self, rows):
        """Changes how many rows there are; new ones are zeros."""
        self._ensure_writable()
        before = self.shape
        super().resize(rows)
        try:
            # At any moment the file has the rows that its header names.
            if self.shape[0] > before[0]:
                self._set_length()
                self._put_header()
            else:
                self._put_header()
                self._set_length()
        except BaseException:
            super().resize(before[0])
            raise

    def _ensure_writable(self):
        if self._volume.is_read_only:
            raise ValueError(f"{self.path} is open for reading alone: open it with mode='r+'")

    def _set_length(self):
        self._volume.core.truncate(self._file, self._before + self.nbytes)

    def _put_header(self):
        self._volume.core.write(self._file, 0, _header(self.dtype, self.shape, self._before))

    def stats(self):
        """Room and RAM of the volume."""
        return self._volume.core.stats()

    def close(self):
        """Makes it durable and closes the volume, also for other arrays in it."""
        self._volume.close()

    def __enter__(self):
        return self

    def __exit__(self, *_details):
        self.close()

    def __repr__(self):
        state = ", closed" if self._volume.core.closed else ""
        return (
            f"aquifer.StoredArray({self.path!r}, {self._name!r}, shape={self.shape}, dtype={self.dtype}, "
            f"{size_text(self.nbytes)}, mode={self._mode!r}{state})"
        )


def open_array(path, shape=None, dtype=None, mode="a", *, name="array.npy", size=None, ram="64M", socket=None):
    """An array that stays when the process ends: a .npy file in the volume at `path`, read and written by rows and batches.

    mode    "r" to read; "r+" to read and write what is there; "a" the same, or a new one if there is none; "w+" a new one in any case
    shape   of a new array; also compared with what is there
    name    of the file in the volume, which may hold several arrays
    size    of a new volume, bytes or text as "10G", which the file takes on the disk at once; by default twice the array and 64M more
    ram     for pages of the volume
    socket  a path at which `aquifer top` and `aquifer export` find the volume, said by the first of its arrays

    What was written is durable after `flush` or `close`; a process that is killed leaves all arrays of the volume as they were at one
    moment since. Damage is told when it is read. `aquifer volume cp VOLUME:/array.npy .` copies it out, for `numpy.load`.

    >>> import aquifer, numpy as np
    >>> with aquifer.open_array("vectors.vol", (1000, 16), np.float32) as a:
    ...     a[[3, 999]] = 1.5
    >>> with aquifer.open_array("vectors.vol") as a:
    ...     a.shape, float(a.sum())
    ((1000, 16), 48.0)
    """
    if mode not in _MODES:
        raise ValueError(f"mode is {mode!r}; it may be {', '.join(_MODES)}")
    wanted = None if shape is None else _shape_of(shape)
    wanted_type = None if dtype is None else _dtype_of(dtype)
    path, ram, room = os.path.realpath(path), _heaps.size(ram, "ram"), None
    is_new = not os.path.exists(path)
    if is_new and mode in ("r", "r+"):
        raise FileNotFoundError(2, f"there is no volume {path}; mode='a' makes one")
    if is_new:
        if wanted is None:
            raise ValueError(f"there is no volume {path}: give the shape of a new array")
        bytes_wanted = int(np.prod(wanted, dtype=object)) * (wanted_type or np.dtype(float)).itemsize
        room = _heaps.size(size, "size") if size is not None else _SIZE_MIN + 2 * bytes_wanted
        # Whole pages.
        room = -(-room // 4096) * 4096
    shared = None
    try:
        shared = _volume(path, ram, room, mode == "r", socket)
        return _open_file(shared, name, wanted, wanted_type, mode)
    except BaseException:
        if is_new and os.path.exists(path):
            if shared is not None:
                shared.close()
            os.unlink(path)
        raise


def _open_file(shared, name, wanted, wanted_type, mode):
    core, encoded = shared.core, os.fsencode(name)
    makes = mode in ("a", "w+") and wanted is not None
    file, length = core.file(encoded, makes)
    array = object.__new__(StoredArray)
    if length == 0 or mode == "w+":
        if not makes:
            raise ValueError(f"there is no array {name} in {shared.path}: give the shape of a new one, and mode='a' or 'w+'")
        dtype = wanted_type or np.dtype(float)
        before = len(_header(dtype, wanted, None))
        array._attach(shared, file, before, wanted, dtype, mode, name)
        core.truncate(file, 0)
        array._set_length()
        array._put_header()
        return array
    shape, dtype, before = _read_header(core, file, name, shared.path)
    if wanted is not None and wanted != shape:
        raise ValueError(f"{name} in {shared.path} has shape {shape}, not {wanted}; mode='w+' makes a new one")
    if wanted_type is not None and wanted_type != dtype:
        raise ValueError(f"{name} in {shared.path} has dtype {dtype}, not {wanted_type}; mode='w+' makes a new one")
    array._attach(shared, file, before, shape, dtype, mode, name)
    if length < before + array.nbytes:
        raise ValueError(f"{name} in {shared.path} is cut off: it has {length} bytes of the {before + array.nbytes} that its header names")
    return array


def _header(dtype, shape, length):
    """A header of a .npy file that is `length` bytes long, or a multiple of a page."""
    text = repr({"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(shape)}).encode("latin1")
    # Magic, version, length; and room for shapes that grow.
    if length is None:
        length = -(-(12 + len(text) + 64) // _HEADER_ALIGN) * _HEADER_ALIGN
    padding = length - 12 - len(text) - 1
    if padding < 0 or length > _HEADER_MAX:
        raise ValueError(f"the dtype and shape of this array take {len(text)} bytes of text, more than a header has")
    return npy.magic(2, 0) + (length - 12).to_bytes(4, "little") + text + b" " * padding + b"\n"


def _read_header(core, file, name, path):
    # No more than the header: rows may be damaged.
    start = core.read(file, 0, 12)
    length = int.from_bytes(start[8:10], "little") + 10 if start[6:7] == b"\1" else int.from_bytes(start[8:12], "little") + 12
    start = io.BytesIO(core.read(file, 0, min(length, _HEADER_MAX)))
    try:
        version = npy.read_magic(start)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran_order, dtype = read(start)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{name} in {path} is no .npy file that can be opened: {error}") from None
    if fortran_order and len(shape) > 1:
        raise ValueError(f"{name} in {path} is in Fortran order: load it with numpy, and store its transpose")
    return _shape_of(shape), _dtype_of(dtype), start.tell()
