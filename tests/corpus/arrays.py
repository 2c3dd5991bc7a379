"""Works on arrays and objects: arrays.py WHAT SIZE. Prints digests."""
import hashlib
import sys


def show(what, values):
    import numpy as np

    values = np.ascontiguousarray(values)
    print(what, values.shape, hashlib.sha256(values.tobytes()).hexdigest()[:32])


def use_python(count):
    """Dictionaries, strings and lists of Python's own."""
    table = {i * 2654435761 % (1 << 32): f"value {i}" for i in range(count)}
    groups = {}
    for key, value in table.items():
        groups.setdefault(key % 997, []).append(value)
    for group in groups.values():
        group.sort()
    digest = hashlib.sha256()
    for number in sorted(groups):
        digest.update("".join(groups[number]).encode())
    print(len(table), digest.hexdigest()[:32])


def use_numpy(count):
    import numpy as np

    values = np.random.default_rng(20).standard_normal(count)
    show("sort", np.sort(values))
    show("order", np.argsort(values, kind="stable"))
    show("sums", np.cumsum(values))
    show("unique", np.unique((values * 1000).astype(np.int64), return_counts=True)[1])


def use_fft(count):
    import numpy as np

    values = np.random.default_rng(20).standard_normal(count)
    show("transform", np.round(np.abs(np.fft.rfft(values)), 6))


def use_scipy(count):
    import numpy as np
    import scipy.sparse as sparse

    rng = np.random.default_rng(20)
    places = rng.integers(0, count, (2, 8 * count))
    matrix = sparse.csr_matrix((rng.integers(1, 9, 8 * count), tuple(places)), shape=(count, count))
    product = matrix @ matrix.T
    product.sort_indices()
    show("product", product.data)
    show("indices", product.indices)
    show("groups", sparse.csgraph.connected_components(matrix)[1])


def use_igraph(count):
    """Reads of neighbours in no order."""
    import igraph
    import numpy as np

    rng = np.random.default_rng(20)
    # Few vertices have most of the edges.
    ends = (count * rng.random((8 * count, 2)) ** 2).astype(np.int32)
    graph = igraph.Graph(count, ends, directed=False)
    del ends
    show("ranks", np.round(np.array(graph.pagerank()), 9))
    show("cores", np.array(graph.coreness(), dtype=np.int32))
    show("groups", np.array(graph.connected_components().membership, dtype=np.int32))


def use_forest(count):
    import numpy as np
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(20)
    features = rng.random((count, 8))
    model = RandomForestRegressor(20, max_features=3, n_jobs=2, random_state=20)
    model.fit(features, features[:, 0] * 3 + np.sin(features[:, 1] * 9))
    show("predictions", np.round(model.predict(features[: count // 4]), 9))


def use_neighbours(count):
    import numpy as np
    from sklearn.neighbors import KDTree

    points = np.random.default_rng(20).random((count, 3))
    distances, found = KDTree(points, leaf_size=20).query(points[: count // 20], k=5)
    show("neighbours", found)
    show("distances", np.round(distances, 9))


def use_arrow(count, pool):
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    pa.set_cpu_count(2)
    pa.set_memory_pool({"system": pa.system_memory_pool, "jemalloc": pa.jemalloc_memory_pool,
                        "mimalloc": pa.mimalloc_memory_pool}[pool]())
    rng = np.random.default_rng(20)
    table = pa.table({"key": rng.integers(0, count // 10, count), "value": rng.integers(0, 1 << 30, count)})
    ordered = table.sort_by([("value", "ascending"), ("key", "ascending")])
    show("sort", ordered["key"].to_numpy())
    groups = table.group_by("key").aggregate([("value", "sum")]).sort_by("key")
    show("group", groups["value_sum"].to_numpy())
    names = pc.cast(table["value"], pa.string())
    show("names", pc.utf8_length(pc.binary_join_element_wise(names, names, "-")).to_numpy())
    print(pa.default_memory_pool().backend_name)


def use_hnswlib(count):
    import hnswlib
    import numpy as np

    points = np.random.default_rng(20).random((count, 64), dtype=np.float32)
    index = hnswlib.Index("l2", 64)
    index.init_index(count, ef_construction=40, M=12, random_seed=20)
    index.set_num_threads(1)
    index.add_items(points)
    show("found", index.knn_query(points[:2_000], k=5)[0])


def use_usearch(count):
    import numpy as np
    from usearch.index import Index

    points = np.random.default_rng(20).random((count, 64), dtype=np.float32)
    index = Index(ndim=64, metric="l2sq", dtype="f32", connectivity=12, expansion_add=40)
    index.add(np.arange(count), points, threads=1)
    show("found", index.search(points[:2_000], 5, threads=1).keys)


USES = {name.removeprefix("use_"): use for name, use in globals().items() if name.startswith("use_")}

if __name__ == "__main__":
    USES[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])
