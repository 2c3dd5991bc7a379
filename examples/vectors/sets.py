"""Sets of vectors: a seeded mixture of Gaussians, and files of NumPy (.npy) or of TEXMEX (.fvecs)."""
import sys
import time
from pathlib import Path

import numpy as np

# Rows of a block. The numbers of a mixture depend on it.
BLOCK_ROWS = 8192
VECTORS_PER_CLUSTER = 1000
# Seconds after which progress is shown.
PATIENCE = 2.0


def size(text):
    """Bytes in a size as people write it: 64M, 4G."""
    number = text.rstrip("KMGkmg")
    return int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[text[len(number) :].upper()]


class Mixture:
    """Vectors of `clusters` Gaussians of equal weight, the same for each `seed`.

    A cluster is wide in `LATENT` directions and narrow in the others, as embeddings are. Each `stream` has other vectors of the same clusters.
    """

    LATENT = 16
    WIDE, NARROW = 0.7, 0.1

    def __init__(self, count, dims, seed, clusters, stream=0):
        self.shape, self.seed, self.stream = (count, dims), seed, stream
        random = np.random.default_rng([seed, 0])
        self.centres = random.standard_normal((clusters, dims), np.float32)
        self.basis = random.standard_normal((min(self.LATENT, dims), dims), np.float32)
        self.basis *= np.float32(self.WIDE / np.sqrt(len(self.basis)))

    def block(self, first):
        """Rows from `first` on, which is a multiple of `BLOCK_ROWS`."""
        random = np.random.default_rng([self.seed, 1 + self.stream, first // BLOCK_ROWS])
        rows = min(BLOCK_ROWS, self.shape[0] - first)
        block = self.centres[random.integers(0, len(self.centres), BLOCK_ROWS)]
        block += random.standard_normal((BLOCK_ROWS, len(self.basis)), np.float32) @ self.basis
        block += np.float32(self.NARROW) * random.standard_normal(block.shape, np.float32)
        return block[:rows]

    def blocks(self):
        """Yields pairs of a row's number and the rows from there on."""
        for first in range(0, self.shape[0], BLOCK_ROWS):
            yield first, self.block(first)


class File:
    """Rows `start` to `stop` of a .npy or .fvecs file, read as they are used."""

    def __init__(self, path, start=None, stop=None):
        path = Path(path)
        if path.suffix == ".fvecs":
            flat = np.memmap(path, np.float32, "r")
            dims = int(flat[:1].view(np.int32)[0]) if flat.size else 0
            if dims < 1 or flat.size % (dims + 1):
                raise ValueError(f"{path} is no .fvecs file: its first vector has {dims} numbers, and its length does not fit that")
            rows = flat.reshape(-1, dims + 1)[:, 1:]
        else:
            rows = np.load(path, mmap_mode="r", allow_pickle=False)
            if rows.ndim != 2 or rows.dtype.kind not in "fiu":
                raise ValueError(f"{path} has shape {rows.shape} and dtype {rows.dtype}; vectors are an array of two dimensions of numbers")
        self.rows = rows[start:stop]
        self.shape = self.rows.shape

    def blocks(self):
        """Yields pairs of a row's number and the rows from there on."""
        for first in range(0, self.shape[0], BLOCK_ROWS):
            yield first, np.ascontiguousarray(self.rows[first : first + BLOCK_ROWS], np.float32)


def sets(file, count, dims, queries, seed=1):
    """The vectors and the queries: the last `queries` rows of `file`, or a mixture where that is None."""
    if file is None:
        clusters = max(1, count // VECTORS_PER_CLUSTER)
        return Mixture(count, dims, seed, clusters), Mixture(queries, dims, seed, clusters, stream=1)
    rows = len(File(file).rows)
    if rows < 2 * queries:
        raise ValueError(f"{file} has {rows} vectors, and {queries} of them are queries: take fewer queries")
    return File(file, 0, min(count or rows, rows - queries)), File(file, rows - queries)


def whole(source):
    """All vectors of a set, in RAM."""
    return np.concatenate([block for _, block in source.blocks()])


class Progress:
    """A line on a terminal about what takes longer than two seconds."""

    def __init__(self, what, total):
        self.what, self.total, self.begun, self.shown = what, total, time.monotonic(), False

    def __enter__(self):
        return self

    def show(self, done):
        """Says that `done` of the total are done."""
        if sys.stderr.isatty() and time.monotonic() - self.begun > PATIENCE:
            sys.stderr.write(f"\r\x1b[K{self.what}: {done / max(self.total, 1):4.0%}")
            sys.stderr.flush()
            self.shown = True

    def __exit__(self, *_):
        if self.shown:
            sys.stderr.write("\r\x1b[K")
