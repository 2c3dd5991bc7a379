"""Searches in vectors beyond RAM: all of them (`exact`), or lists of vectors near each other (`Ivf`).

Both read many rows at a time, and compute on a part while the next one is on its way. Distances are squared Euclidean ones.
"""
import math

import aquifer
import numpy as np

from nearest import Nearest, assign, in_order, k_means, squared
from sets import Progress

# Bytes of rows that are read at a time; two such parts are in RAM beside the heap.
READ_BYTES = 8 << 20
# Vectors of the sample for k-means, for each list.
SAMPLE_PER_LIST = 64


def rows_at_a_time(array):
    """How many rows of `array` are read at a time."""
    return max(1, READ_BYTES // max(array.shape[1] * array.dtype.itemsize, 1))


def ahead(array, parts):
    """Yields pairs of each of `parts`, the numbers of some rows, and those rows, while the next part is read."""
    last = None
    for part in parts:
        pending = array.take_async(part)
        if last is not None:
            yield last[0], last[1].result()
        last = part, pending
    if last is not None:
        yield last[0], last[1].result()


def loaded(source, heap=None, layout="auto"):
    """An array of a set of vectors."""
    array = aquifer.Array(source.shape, np.float32, layout=layout, heap=heap)
    with Progress("loading", source.shape[0]) as progress:
        for first, block in source.blocks():
            array[first : first + len(block)] = block
            progress.show(first)
    return array


def exact(array, queries, k):
    """Numbers and distances of the `k` rows nearest to each query, of all rows of an array: one pass over it."""
    found = Nearest(queries, k)
    step = rows_at_a_time(array)
    parts = (np.arange(first, min(first + step, len(array))) for first in range(0, len(array), step))
    with Progress("searching all", len(array)) as progress:
        for numbers, rows in ahead(array, parts):
            found.add(rows, numbers)
            progress.show(int(numbers[0]))
    return found.sorted()


class Ivf:
    """Vectors in lists, each of the vectors nearest to one centroid (an inverted file with flat vectors).

    rows       an `aquifer.Array` of the vectors. Those of a list lie together, so that a list is read at once
    ids        an `aquifer.Array` with the number that each row had
    starts     where each list begins in `rows`, and the end of the last: `lists + 1` numbers in RAM
    centroids  the middle of each list, in RAM
    """

    def __init__(self, rows, ids, starts, centroids):
        self.rows, self.ids, self.starts, self.centroids = rows, ids, starts, centroids

    @classmethod
    def build(cls, vectors, lists=None, rounds=10, seed=1, layout="pages", heap=None):
        """An index of the rows of an array. RAM beside the heap: 12 bytes a vector, while it is built.

        lists   how many; twice the root of the number of vectors unless said
        layout  how the index's rows lie: "pages" suits lists that are read as a whole
        """
        count, dims = vectors.shape
        lists = min(lists or max(1, round(2 * math.sqrt(count))), count)
        centroids = cls._centroids(vectors, lists, rounds, seed)
        chosen = np.empty(count, np.int32)
        with Progress("assigning vectors to lists", count) as progress:
            for first, block in vectors.blocks(rows_at_a_time(vectors)):
                chosen[first : first + len(block)] = assign(block, centroids)
                progress.show(first)
        starts = np.concatenate([[0], np.cumsum(np.bincount(chosen, minlength=lists))])
        order = np.argsort(chosen, kind="stable")
        heap = heap or vectors.heap
        rows = aquifer.Array((count, dims), np.float32, layout=layout, heap=heap)
        cls._sort(vectors, order, rows)
        ids = aquifer.Array(count, np.int64, heap=heap)
        ids[:] = order
        return cls(rows, ids, starts, centroids)

    @staticmethod
    def _centroids(vectors, lists, rounds, seed):
        random = np.random.default_rng(seed)
        sample = random.choice(len(vectors), min(len(vectors), lists * SAMPLE_PER_LIST), replace=False)
        with Progress("k-means", rounds) as progress:
            return k_means(vectors[np.sort(sample)], lists, rounds, random, progress.show)

    @staticmethod
    def _sort(vectors, order, rows):
        """Copies vectors in another order: each part is a batch of scattered reads and one write in order."""
        step = rows_at_a_time(vectors)
        first = 0
        with Progress("sorting vectors by list", len(order)) as progress:
            for _, block in ahead(vectors, (order[n : n + step] for n in range(0, len(order), step))):
                rows[first : first + len(block)] = block
                first += len(block)
                progress.show(first)

    @property
    def lists(self):
        """How many lists there are."""
        return len(self.centroids)

    def search(self, queries, k, nprobe):
        """Numbers and distances of the `k` vectors nearest to each query, of those in the `nprobe` lists nearest to it.

        All lists that the queries name are read once for all of them, so ask many queries at a time. Where the lists hold fewer than
        `k`, the numbers are -1 and the distances infinite.
        """
        found = Nearest(queries, k)
        lists, askers = self._asked(found.queries, min(nprobe, self.lists))
        parts = self._parts(lists)
        rows_of = (np.concatenate([self._rows_of(lists[n]) for n in part]) for part in parts)
        for part, (numbers, block) in zip(parts, ahead(self.rows, rows_of)):
            end = 0
            for n in part:
                begin, end = end, end + self._length(lists[n])
                found.add(block[begin:end], numbers[begin:end], askers[n])
        places, distances = found.sorted()
        numbers = np.full(places.shape, -1, np.int64)
        there = places >= 0
        numbers[there] = self.ids[places[there]]
        return numbers, distances

    def rows_read(self, queries, nprobe):
        """How many rows `search` reads for these queries."""
        lists, _ = self._asked(np.atleast_2d(queries), min(nprobe, self.lists))
        return sum(map(self._length, lists))

    def _asked(self, queries, nprobe):
        """The lists that queries name, each once and without the empty ones, and the queries that name each."""
        probed = in_order(squared(queries, self.centroids), nprobe)
        askers = np.repeat(np.arange(len(queries)), nprobe)
        order = np.argsort(probed, axis=None, kind="stable")
        lists, firsts = np.unique(probed.ravel()[order], return_index=True)
        askers = np.split(askers[order], firsts[1:])
        filled = [n for n, one in enumerate(lists) if self._length(one)]
        return lists[filled], [askers[n] for n in filled]

    def _parts(self, lists):
        """Places in `lists`, in parts whose rows are read at a time."""
        parts, rows, most = [], 0, rows_at_a_time(self.rows)
        for n, one in enumerate(lists):
            if not parts or rows + self._length(one) > most:
                parts.append([])
                rows = 0
            parts[-1].append(n)
            rows += self._length(one)
        return parts

    def _length(self, one):
        return int(self.starts[one + 1] - self.starts[one])

    def _rows_of(self, one):
        return np.arange(self.starts[one], self.starts[one + 1])

    def copy_to(self, heap):
        """The same index in another heap."""
        return Ivf(copied(self.rows, heap), copied(self.ids, heap), self.starts, self.centroids)


def copied(array, heap):
    """A copy of an array in another heap."""
    copy = aquifer.Array(array.shape, array.dtype, layout=array.layout, heap=heap)
    for first, block in array.blocks():
        copy[first : first + len(block)] = block
    return copy
