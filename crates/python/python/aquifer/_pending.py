"""Batches in the background."""
import asyncio
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor

# One moves bytes while another's batch is looked up.
_THREADS = 2
_lock = threading.Lock()
_pool = None
_pool_of = 0


class Pending(Future):
    """A result that is under way: `result()` waits for it, and so does `await`."""

    def __await__(self):
        return asyncio.wrap_future(self).__await__()


def _run(pending, call, arguments):
    if not pending.set_running_or_notify_cancel():
        return
    try:
        result = call(*arguments)
    except BaseException as error:
        pending.set_exception(error)
    else:
        pending.set_result(result)


def start(call, *arguments):
    """Calls in the background; what it returns or raises is in the future."""
    global _pool, _pool_of
    with _lock:
        # A forked child has none of its parent's threads.
        if _pool is None or _pool_of != os.getpid():
            _pool, _pool_of = ThreadPoolExecutor(_THREADS, "aquifer-batch"), os.getpid()
        pool = _pool
    pending = Pending()
    pool.submit(_run, pending, call, arguments)
    return pending
