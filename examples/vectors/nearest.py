"""The nearest of some rows to queries, and k-means, in NumPy."""
import numpy as np

# Bytes of distances that are computed at a time.
DISTANCE_BYTES = 4 << 20


def squared(queries, rows):
    """Squared Euclidean distances: an array of shape (queries, rows)."""
    distances = queries @ rows.T
    distances *= -2
    distances += np.einsum("ij,ij->i", queries, queries)[:, None]
    distances += np.einsum("ij,ij->i", rows, rows)
    return np.maximum(distances, 0, out=distances)


def in_order(distances, k):
    """Places of the `k` smallest of each row of `distances`, the smallest first."""
    k = min(k, distances.shape[1])
    places = np.argpartition(distances, k - 1, axis=1)[:, :k]
    order = np.argsort(np.take_along_axis(distances, places, 1), axis=1, kind="stable")
    return np.take_along_axis(places, order, 1)


class Nearest:
    """The `k` nearest rows to each of some queries, of rows that come one part after another."""

    def __init__(self, queries, k):
        self.queries, self.k = np.ascontiguousarray(np.atleast_2d(queries), np.float32), k
        self.distances = np.full((len(self.queries), k), np.inf, np.float32)
        self.numbers = np.full((len(self.queries), k), -1, np.int64)

    def add(self, rows, numbers, queries=None):
        """Takes rows in that have these `numbers`, for the queries whose places are in `queries`, each once, or for all."""
        queries = np.arange(len(self.queries)) if queries is None else queries
        step = max(1, DISTANCE_BYTES // (4 * len(rows)))
        for first in range(0, len(queries), step):
            some = queries[first : first + step]
            self._keep(some, squared(self.queries[some], rows), numbers)

    def _keep(self, queries, distances, numbers):
        closer = distances.min(axis=1) < self.distances[queries].max(axis=1)
        queries, distances = queries[closer], distances[closer]
        if not len(queries):
            return
        best = np.argpartition(distances, min(self.k, len(numbers)) - 1, axis=1)[:, : self.k]
        both = np.concatenate([self.distances[queries], np.take_along_axis(distances, best, 1)], axis=1)
        names = np.concatenate([self.numbers[queries], numbers[best]], axis=1)
        best = np.argpartition(both, self.k - 1, axis=1)[:, : self.k]
        self.distances[queries] = np.take_along_axis(both, best, 1)
        self.numbers[queries] = np.take_along_axis(names, best, 1)

    def sorted(self):
        """Numbers and distances, the nearest first."""
        order = np.lexsort((self.numbers, self.distances), axis=1)
        return np.take_along_axis(self.numbers, order, 1), np.take_along_axis(self.distances, order, 1)


def assign(rows, centroids):
    """The centroid nearest to each row."""
    lengths = np.einsum("ij,ij->i", centroids, centroids) / 2
    chosen = np.empty(len(rows), np.int32)
    step = max(1, DISTANCE_BYTES // (4 * len(centroids)))
    for first in range(0, len(rows), step):
        # Half the squared distance, less what is the same for all centroids.
        chosen[first : first + step] = np.argmin(lengths - rows[first : first + step] @ centroids.T, axis=1)
    return chosen


def k_means(sample, count, rounds, random, show=lambda done: None):
    """`count` centroids of a sample, by `rounds` of Lloyd's algorithm. A centroid that no row is near to begins again at a row."""
    centroids = sample[random.choice(len(sample), count, replace=len(sample) < count)]
    for done in range(rounds):
        chosen = assign(sample, centroids)
        sizes = np.bincount(chosen, minlength=count)
        sums = np.stack([np.bincount(chosen, column, count) for column in sample.T], axis=1)
        centroids = (sums / np.maximum(sizes, 1)[:, None]).astype(np.float32)
        empty = np.flatnonzero(sizes == 0)
        centroids[empty] = sample[random.integers(0, len(sample), len(empty))]
        show(done + 1)
    return centroids


def near_order(rows, seed):
    """An order of rows in which those of a cluster follow each other, and so do clusters along the line in which they differ most."""
    random = np.random.default_rng(seed)
    lists = max(1, round(2 * len(rows) ** 0.5))
    sample = rows[np.sort(random.choice(len(rows), min(len(rows), 32 * lists), replace=False))]
    centroids = k_means(sample, lists, 5, random)
    line = np.linalg.svd(centroids - centroids.mean(axis=0), full_matrices=False)[2][0]
    centroids = centroids[np.argsort(centroids @ line)]
    return np.argsort(assign(rows, centroids), kind="stable")


def recall(found, truth):
    """The part of the true neighbours that was found."""
    return float(np.mean([len(np.intersect1d(some, true)) / len(true) for some, true in zip(found, truth)]))
