"""The example of vectors (examples/vectors): its searches against NumPy's own, and runs of its graph indexes."""
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import aquifer

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "vectors"
pytestmark = pytest.mark.skipif(not EXAMPLE.is_dir(), reason="examples/vectors is not here: the tests are outside of a clone")
COUNT, DIMS, K = 20_000, 32, 10


@pytest.fixture(scope="module")
def example():
    """The modules of the example, by name."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        yield {name: importlib.import_module(name) for name in ("ivf", "nearest", "sets")}
    finally:
        sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def mixture(example):
    """Vectors and queries, as arrays of NumPy."""
    base, queries = example["sets"].sets(None, COUNT, DIMS, queries=50)
    return example["sets"].whole(base), example["sets"].whole(queries)


@pytest.fixture(scope="module")
def vectors(mixture, heap):
    return aquifer.asarray(mixture[0], heap=heap)


@pytest.fixture(scope="module")
def index(example, vectors):
    return example["ivf"].Ivf.build(vectors, lists=128)


def true_distances(rows, queries, numbers=None):
    """Distances of the `K` nearest rows in double precision, or of those with some numbers."""
    rows, queries = rows.astype(float), queries.astype(float)
    if numbers is not None:
        return ((rows[numbers] - queries[:, None]) ** 2).sum(axis=2)
    return np.array([np.sort(((rows - query) ** 2).sum(axis=1))[:K] for query in queries])


def assert_nearest(found, rows, queries):
    """Says that what was found are the nearest rows, each once; of rows at nearly the same distance any will do."""
    numbers, distances = found
    truth = true_distances(rows, queries)
    assert all(len(set(some)) == K for some in numbers.tolist())
    np.testing.assert_allclose(true_distances(rows, queries, numbers), truth, rtol=1e-4)
    np.testing.assert_allclose(distances, truth, rtol=1e-3)


def test_exact_search_is_brute_force(example, mixture, vectors):
    assert_nearest(example["ivf"].exact(vectors, mixture[1], K), *mixture)


def test_all_lists_are_exact_search(example, mixture, vectors, index):
    found = index.search(mixture[1], K, nprobe=index.lists)
    assert_nearest(found, *mixture)
    assert example["nearest"].recall(found[0], example["ivf"].exact(vectors, mixture[1], K)[0]) == 1


def test_more_lists_find_more(example, mixture, index):
    truth = example["nearest"].recall
    exact = index.search(mixture[1], K, index.lists)[0]
    recalls = [truth(index.search(mixture[1], K, nprobe)[0], exact) for nprobe in (1, 4, 8, 32)]
    assert recalls == sorted(recalls) and recalls[0] > 0.4 and recalls[2] > 0.85, recalls


def test_queries_alone_find_what_they_find_together(mixture, index):
    together = index.search(mixture[1][:20], K, 4)
    for n, query in enumerate(mixture[1][:20]):
        alone = index.search(query, K, 4)
        np.testing.assert_allclose(alone[1][0], together[1][n], rtol=1e-3)


def test_lists_hold_each_vector_once(mixture, index):
    order = index.ids[:]
    assert np.array_equal(np.sort(order), np.arange(COUNT))
    np.testing.assert_array_equal(index.rows[:], mixture[0][order])


def test_fewer_vectors_than_neighbours(example, heap):
    few = aquifer.asarray(np.eye(3, 8, dtype=np.float32), heap=heap)
    index = example["ivf"].Ivf.build(few, lists=2)
    numbers, distances = index.search(np.eye(1, 8), 5, nprobe=2)
    assert numbers[0].tolist() == [0, 1, 2, -1, -1] and distances[0].tolist() == [0, 2, 2, np.inf, np.inf]


def test_more_than_ram(example, tmp_path):
    base, queries = example["sets"].sets(None, 80_000, 64, queries=20)
    with aquifer.Heap(ram="16M", flash=tmp_path, flash_size="1G") as heap:
        vectors = example["ivf"].loaded(base, heap)
        assert vectors.nbytes > 19 << 20
        queries = example["sets"].whole(queries)
        truth = example["ivf"].exact(vectors, queries, K)
        assert_nearest(truth, example["sets"].whole(base), queries)
        index = example["ivf"].Ivf.build(vectors, lists=256, rounds=4)
        assert example["nearest"].recall(index.search(queries, K, 256)[0], truth[0]) == 1
        assert example["nearest"].recall(index.search(queries, K, 8)[0], truth[0]) > 0.8
        assert heap.stats()["ram_used_bytes"] <= 16 << 20
        del vectors, index


def test_files(example, tmp_path, random):
    rows = random.standard_normal((300, 7)).astype(np.float32)
    np.save(tmp_path / "some.npy", rows)
    lengths = np.full((300, 1), 7, np.int32).view(np.float32)
    np.concatenate([lengths, rows], axis=1).tofile(tmp_path / "some.fvecs")
    for name in ("some.npy", "some.fvecs"):
        base, queries = example["sets"].sets(tmp_path / name, None, 0, queries=100)
        np.testing.assert_array_equal(example["sets"].whole(base), rows[:200])
        np.testing.assert_array_equal(example["sets"].whole(queries), rows[200:])
    (tmp_path / "cut.fvecs").write_bytes((tmp_path / "some.fvecs").read_bytes()[:-4])
    with pytest.raises(ValueError, match="is no .fvecs file"):
        example["sets"].File(tmp_path / "cut.fvecs")


def run(tmp_path, *words):
    """A run of a script of the example."""
    environment = dict(os.environ, TMPDIR=str(tmp_path))
    return subprocess.run([sys.executable, str(EXAMPLE / words[0]), *words[1:]], capture_output=True, text=True, timeout=60, env=environment)


def test_the_script(tmp_path):
    ended = run(tmp_path, "search.py", "--count", "6000", "--dims", "32", "--queries", "64", "--seconds", "0.01", "--ram", "8M")
    assert ended.returncode == 0, ended.stderr
    assert "| nprobe | recall |" in ended.stdout


@pytest.mark.parametrize("memory", ["native", "aquifer"])
@pytest.mark.parametrize("index", ["hnswlib", "usearch"])
def test_a_graph_index(index, memory, tmp_path):
    if not importlib.util.find_spec(index):
        pytest.skip(f"{index} is not installed")
    records, only = tmp_path / "records", f"{index}/{memory}"
    ended = run(tmp_path, "graphs.py", "--count", "4000", "--dims", "16", "--queries", "50", "--only", only, "--records", str(records))
    if left_out := [line for line in ended.stderr.splitlines() if "is left out" in line]:
        pytest.skip(left_out[0])
    assert ended.returncode == 0, ended.stderr
    samples = [json.loads(line) for line in records.read_text().splitlines()]
    assert {sample["memory"] for sample in samples} == {"native", memory}
    assert all(sample["is_same"] and sample["recall"] > 0.9 for sample in samples)
    assert [path.name for path in tmp_path.iterdir()] == ["records"]
