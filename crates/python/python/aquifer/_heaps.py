"""The heap that arrays are in unless they name one."""
import gc
import threading

from ._core import Heap

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_lock = threading.Lock()
_default = None
_settings = {}


def size(value, name):
    """A size as users write it: a number of bytes, or text as "64K"."""
    wrong = ValueError(f"{name} is {value!r}; write a number of bytes, or text as '64K'")
    if isinstance(value, str):
        number = value.rstrip("KMGTkmgt")
        unit = value[len(number) :].upper()
        if not number.isdigit() or unit not in _UNITS:
            raise wrong
        return int(number) << _UNITS[unit]
    if value < 0:
        raise wrong
    return int(value)


def configure(ram=None, flash=None, flash_size=None, **options):
    """Says how much RAM arrays use, and where the rest of them lies.

    ram         everything that the heap keeps in RAM: bytes, or text as "1G"; 256M unless said
    flash       a directory, file or block device; an unnamed file in $TMPDIR or /var/tmp unless said
    flash_size  how much of it: 8G unless said
    compress    "never", "auto" or "always": whether pages are compressed before they leave RAM
    donors      machines that lend RAM, "host:port" each

    What is not said comes from the environment: AQUIFER_RAM, AQUIFER_FLASH, AQUIFER_FLASH_SIZE and the others of the manual.
    The heap is opened when it is needed first, or here again if another one was open that no array is in any more.

    >>> import aquifer
    >>> aquifer.configure(ram="64M", flash_size="1G")
    """
    global _default, _settings
    with _lock:
        if _default is not None and not _default.closed:
            if _default.users:
                # Of objects that only name each other.
                gc.collect()
            if _default.users:
                raise RuntimeError(
                    "arrays are in the heap that is open: call aquifer.configure before the first, "
                    "or give a heap of its own with heap=aquifer.Heap(...)"
                )
            _default.close()
        _default = None
        _settings = dict(options, ram=ram, flash=flash, flash_size=flash_size)


def default():
    """The heap of `configure`, opened if it is not open."""
    global _default
    with _lock:
        if _default is None or _default.closed:
            _default = Heap(**_settings)
        return _default


def stats():
    """What the default heap uses and has done, as `aquifer stats` shows it."""
    return default().stats()
