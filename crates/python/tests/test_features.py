"""Features of graphs, with NumPy alone and within PyTorch Geometric."""
import random

import numpy as np
import pytest

import aquifer


@pytest.fixture
def table():
    return np.random.default_rng(3).random((5000, 32), np.float32)


def test_rows_are_those_that_were_put(heap, table):
    store = aquifer.FeatureStore(heap=heap)
    assert store.put_tensor(table, group_name="paper", attr_name="x", index=None)
    assert store.put_tensor(np.arange(5000), group_name="paper", attr_name="y", index=None)
    for index in (np.array([7, 0, -1, 7]), np.array([], np.int64), slice(10, 4000, 3), slice(None), 5, table[:, 0] > 0.5, np.array([[1, 2], [3, 4]])):
        found = store.get_tensor("paper", "x", index)
        assert np.array_equal(found, table[index]) and found.dtype == np.float32
        assert store.get_tensor_size(group_name="paper", attr_name="x", index=index) == table[index].shape
        both = store.multi_get_tensor([("paper", "x", index), aquifer._features.TensorAttr("paper", "y", index)])
        assert np.array_equal(both[0], table[index]) and np.array_equal(both[1], np.arange(5000)[index])
        if not isinstance(index, np.ndarray) or index.dtype != bool:
            store.prefetch("paper", "x", index)
    assert np.array_equal(store["paper", "x", None], table)
    assert np.array_equal(store.get_tensor({"group_name": "paper", "attr_name": "y"}), np.arange(5000))
    assert store.get_tensor_size("paper", "y") == (5000,) and store.get_tensor_size("author", "x") is None
    assert [(attr.group_name, attr.attr_name, attr.index) for attr in store.get_all_tensor_attrs()] == [("paper", "x", None), ("paper", "y", None)]
    with pytest.raises(IndexError):
        store.get_tensor("paper", "x", np.array([5000]))
    with pytest.raises(KeyError, match="put_tensor"):
        store.get_tensor("author", "x", None)
    assert "2 tensors" in repr(store)


def test_rows_are_changed(heap, table):
    store, model = aquifer.FeatureStore(heap=heap), table.copy()
    store["g", "x", None] = table
    chosen = random.Random(2)
    for _ in range(30):
        index = np.array(chosen.sample(range(5000), 100))
        values = np.random.default_rng(chosen.randrange(99)).random((100, 32), np.float32)
        put = chosen.choice([store.put_tensor, store.update_tensor])
        assert put(values, "g", "x", index)
        model[index] = values
    assert np.array_equal(store["g", "x", slice(None)], model) and np.array_equal(table, np.asarray(table))
    assert store.update_tensor(table[:7], "g", "x", None) and store.get_tensor_size("g", "x") == (7, 32)
    assert not store.put_tensor(table, "g", "z", np.arange(5000)) and not store.update_tensor(table, "g", "z", None)
    assert store.remove_tensor("g", "x", None) and not store.remove_tensor("g", "x", None)
    assert store.get_all_tensor_attrs() == []
    store["g", "x", None] = table
    del store["g", "x"]
    assert store.get_tensor_size("g", "x") is None


def test_an_array_is_taken_as_it_is(heap, table):
    array = aquifer.asarray(table, heap=heap)
    store = aquifer.FeatureStore(heap=heap)
    store.put_tensor(array, attr_name="x", index=None)
    array[3] = 9
    assert (store.get_tensor(attr_name="x", index=np.array([3])) == 9).all()


def test_tensors_come_as_tensors(heap, table):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    store = aquifer.FeatureStore(heap=heap)
    rows = torch.tensor([5, 1, 5])
    store.put_tensor(torch.from_numpy(table), "g", "tensor", None)
    store.put_tensor(table, "g", "numpy", None)
    store.put_tensor(aquifer.asarray(table, heap=heap), "g", "array", None)
    for name, kinds in {"tensor": [torch.Tensor] * 2, "numpy": [np.ndarray] * 2, "array": [torch.Tensor, np.ndarray]}.items():
        for index, kind in zip((rows, rows.numpy()), kinds):
            found = store.get_tensor("g", name, index)
            assert isinstance(found, kind) and np.array_equal(np.asarray(found), table[[5, 1, 5]])
            assert isinstance(store.get_tensor("g", name, index, convert_type=True), type(index))
    assert torch.equal(store["g", "tensor", torch.from_numpy(table[:, 0] > 0.5)], torch.from_numpy(table[table[:, 0] > 0.5]))
    assert store.put_tensor(torch.ones(3, 32), "g", "tensor", torch.tensor([1, 2, 3])) and store["g", "tensor", 2].sum() == 32


def test_it_stands_for_a_store_of_pytorch_geometric(heap, table):
    """The same calls on a FeatureStore of PyTorch Geometric, and batches of its loader from both."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    from torch_geometric.data import Data, TensorAttr
    from torch_geometric.loader import NodeLoader
    from torch_geometric.sampler import BaseSampler, SamplerOutput
    from torch_geometric.testing import MyFeatureStore, MyGraphStore

    graph, nodes = MyGraphStore(), len(table)
    chosen = np.random.default_rng(9)
    edges = torch.from_numpy(chosen.integers(0, nodes, (2, 20_000)))
    graph.put_edge_index(edges, edge_type=("v", "to", "v"), layout="coo", size=(nodes, nodes))
    labels = torch.from_numpy(chosen.integers(0, 7, nodes))

    class Neighbors(BaseSampler):
        """Neighbours of nodes, without the libraries in C++ that those of PyTorch Geometric need."""

        edge_permutation = None

        def sample_from_nodes(self, index, **_options):
            seeds = index.node
            of_seeds = torch.isin(edges[1], seeds)
            node, place = torch.unique(torch.cat([seeds, edges[0, of_seeds], edges[1, of_seeds]]), return_inverse=True)
            row, col = place[len(seeds) :].view(2, -1)
            return SamplerOutput(node=node, row=row, col=col, edge=None, batch=None, metadata=(index.input_id, index.time))

        def sample_from_edges(self, index, **_options):
            raise NotImplementedError

    class Subclassed(aquifer.FeatureStore):
        """With a class of PyTorch Geometric for what tensors are known by."""

        def get_all_tensor_attrs(self):
            return [TensorAttr(attr.group_name, attr.attr_name) for attr in super().get_all_tensor_attrs()]

    def batches(store):
        for name, tensor in (("x", torch.from_numpy(table)), ("y", labels)):
            assert store.put_tensor(tensor, TensorAttr(group_name=None, attr_name=name, index=None))
            assert tuple(store.get_tensor_size(TensorAttr(None, name))) == tuple(tensor.shape)
        loader = NodeLoader((store, graph), Neighbors(), input_nodes=torch.arange(0, nodes, 5), batch_size=128)
        return list(loader)

    expected, found, subclassed = batches(MyFeatureStore()), batches(aquifer.FeatureStore(heap=heap)), batches(Subclassed(heap=heap))
    assert len(found) == len(expected) == len(subclassed) == 8
    for batch, other, third in zip(found, expected, subclassed):
        assert isinstance(batch, Data) and batch.num_nodes == other.num_nodes > 128
        for name in ("x", "y", "edge_index", "n_id"):
            assert torch.equal(batch[name], other[name]) and torch.equal(third[name], other[name])
        assert torch.equal(batch.x, torch.from_numpy(table)[batch.n_id])
