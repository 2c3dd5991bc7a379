"""Features of graphs beyond RAM, with the calls of a FeatureStore of PyTorch Geometric."""
import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._array import Array, asarray


@dataclass
class TensorAttr:
    """What a tensor is known by, and which of its rows are meant: None (all), a slice, a number, or an array or tensor of numbers."""

    group_name: Any = None
    attr_name: Any = None
    index: Any = None


class FeatureStore:
    """Tensors by group and name, each an `aquifer.Array`; it may stand for a FeatureStore of PyTorch Geometric, in
    `NeighborLoader((features, graph), ...)` as well.

    heap     an `aquifer.Heap`; by default the one of `aquifer.configure`
    layout   that of the arrays: "auto", "rows" or "pages"

    What is put as a tensor comes as one, what is put as an `ndarray` comes as that, and an `aquifer.Array`, which is taken as it is,
    comes as what its index is. PyTorch is not needed for arrays.

    >>> import aquifer, numpy as np
    >>> features = aquifer.FeatureStore()
    >>> features.put_tensor(np.arange(20.0).reshape(10, 2), group_name="paper", attr_name="x", index=None)
    True
    >>> features.get_tensor("paper", "x", np.array([7, 0]))
    array([[14., 15.],
           [ 0.,  1.]])
    >>> features.get_tensor_size("paper", "x")
    (10, 2)
    """

    def __init__(self, *, heap=None, layout="auto"):
        self._heap, self._layout, self._tables = heap, layout, {}

    def put_tensor(self, tensor, *args, **kwargs):
        """Puts a tensor, or with an index some rows of a tensor that there is. Returns whether there is one."""
        attr = _attr_of(args, kwargs)
        name = (attr.group_name, attr.attr_name)
        values = _array_of(tensor)
        if attr.index is None:
            array = asarray(values, layout=self._layout, heap=self._heap)
            self._tables[name] = (array, None if isinstance(tensor, Array) else _is_tensor(tensor))
            return True
        if name not in self._tables:
            return False
        self._tables[name][0][_array_of(attr.index)] = values
        return True

    def update_tensor(self, tensor, *args, **kwargs):
        """As `put_tensor`: a tensor that there is, or some of its rows, is replaced."""
        attr = _attr_of(args, kwargs)
        return (attr.group_name, attr.attr_name) in self._tables and self.put_tensor(tensor, attr)

    def get_tensor(self, *args, convert_type=False, **kwargs):
        """The rows that an index names, read in one batch; with `convert_type` as a tensor or an `ndarray`, as the index is."""
        return self.multi_get_tensor([_attr_of(args, kwargs)], convert_type)[0]

    def multi_get_tensor(self, attrs, convert_type=False):
        """The rows of several tensors, whose batches are under way at the same time."""
        attrs = [_attr_of((attr,), {}) for attr in attrs]
        begun = [self._begin(attr, is_only=len(attrs) == 1) for attr in attrs]
        return [self._result(attr, one, convert_type) for attr, one in zip(attrs, begun)]

    def remove_tensor(self, *args, **kwargs):
        """Removes a tensor. Returns whether there was one."""
        attr = _attr_of(args, kwargs)
        return self._tables.pop((attr.group_name, attr.attr_name), None) is not None

    def get_tensor_size(self, *args, **kwargs):
        """The shape of the rows that an index names, or of all; None where there is no tensor."""
        attr = _attr_of(args, kwargs)
        if (attr.group_name, attr.attr_name) not in self._tables:
            return None
        shape, index = self._table(attr).shape, _array_of(attr.index)
        if index is None:
            return shape
        if isinstance(index, slice):
            return (len(range(shape[0])[index]), *shape[1:])
        index = np.asarray(index)
        return (int(index.sum()), *shape[1:]) if index.dtype == bool else (*index.shape, *shape[1:])

    def get_all_tensor_attrs(self):
        """What all tensors are known by, without an index."""
        return [TensorAttr(*name) for name in list(self._tables)]

    def prefetch(self, *args, **kwargs):
        """Brings rows into RAM that `get_tensor` will be asked for. A hint."""
        attr = _attr_of(args, kwargs)
        array, index = self._table(attr), _array_of(attr.index)
        if index is None or isinstance(index, slice):
            index = np.arange(array.shape[0])[index or slice(None)]
        array.prefetch(index)

    def __setitem__(self, key, tensor):
        self.put_tensor(tensor, key)

    def __getitem__(self, key):
        return self.get_tensor(key)

    def __delitem__(self, key):
        self.remove_tensor(key)

    def __repr__(self):
        held = math.fsum(array.nbytes for array, _ in self._tables.values())
        return f"aquifer.FeatureStore({len(self._tables)} tensors, {held / (1 << 20):.1f} MiB)"

    def _table(self, attr):
        try:
            return self._tables[attr.group_name, attr.attr_name][0]
        except KeyError:
            raise KeyError(f"there is no tensor {attr.attr_name!r} of group {attr.group_name!r}; put_tensor makes it") from None

    def _begin(self, attr, is_only):
        """The rows, or a future of them where others are asked for as well."""
        array, index = self._table(attr), _array_of(attr.index)
        if index is None:
            return np.asarray(array)
        if is_only or not isinstance(index, np.ndarray) or index.dtype == bool:
            return array[index]
        return array.take_async(index)

    def _result(self, attr, one, convert_type):
        values = one.result() if hasattr(one, "result") else one
        was_tensor = self._tables[attr.group_name, attr.attr_name][1]
        of_index = _is_tensor(attr.index)
        if was_tensor is None or (convert_type and (of_index or isinstance(attr.index, np.ndarray))):
            was_tensor = of_index
        return sys.modules["torch"].from_numpy(np.asarray(values)) if was_tensor else values


def _attr_of(args, kwargs):
    """What PyTorch Geometric casts to a TensorAttr: one, a tuple or a mapping of its fields, or the fields themselves."""
    if len(args) == 1 and not kwargs:
        (one,) = args
        if hasattr(one, "attr_name"):
            return TensorAttr(*(_set_or_none(getattr(one, name)) for name in ("group_name", "attr_name", "index")))
        if isinstance(one, (tuple, list)):
            args = one
        elif isinstance(one, dict):
            args, kwargs = (), one
    return TensorAttr(*args, **kwargs)


def _set_or_none(field):
    """Fields that PyTorch Geometric calls UNSET are all rows, and no group."""
    return None if getattr(field, "name", None) == "UNSET" else field


def _is_tensor(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _array_of(value):
    """A tensor as an `ndarray` of the same memory; others as they are."""
    return value.detach().cpu().numpy() if _is_tensor(value) else value
