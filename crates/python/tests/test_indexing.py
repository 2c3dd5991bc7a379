"""Any index selects and assigns what NumPy's own arrays do."""
import warnings

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import aquifer

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6)
DTYPES = st.sampled_from(["i1", "u2", "i4", "i8", "f4", "f8", "c16", "S5", "U3", "?", "M8[s]", [("a", "i4"), ("b", "f8", 2)]])
LAYOUTS = st.sampled_from(["auto", "rows", "pages"])
PROGRAMS = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def numbers(shape, dtype):
    """Elements that are all different, as far as the dtype has room."""
    plain = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    dtype = np.dtype(dtype)
    if dtype.names:
        made = np.zeros(shape, dtype)
        made["a"], made["b"] = plain, plain[..., None]
        return made
    return plain.astype("i8").astype(dtype) if dtype.kind == "M" else plain.astype(dtype)


def part(axis):
    """One part of an index, for an axis of this size."""
    outside = st.integers(-axis - 2, axis + 1)
    arrays = hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=4).flatmap(
        lambda shape: hnp.arrays(np.int64, shape, elements=st.integers(-axis, axis - 1) if axis else st.just(0))
    )
    masks = hnp.arrays(bool, axis)
    return st.one_of(outside, st.slices(axis), st.none(), st.just(...), arrays, masks, st.lists(outside, max_size=4), st.booleans())


@st.composite
def indices(draw, shape):
    """Indices of arrays of `shape`, good ones and bad ones."""
    if draw(st.integers(0, 5)) == 0:
        return draw(hnp.arrays(bool, shape[: draw(st.integers(1, len(shape)))]))
    if draw(st.integers(0, 2)) == 0:
        return draw(part(shape[0]))
    count = draw(st.integers(0, len(shape) + 1))
    return tuple(draw(part(shape[min(n, len(shape) - 1)])) for n in range(count))


def outcome(call):
    """What a call returns, or the kind of its exception."""
    with warnings.catch_warnings():
        # NumPy 1.26 takes indices that are out of bounds where nothing is selected.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return call(), None
        except DeprecationWarning:
            return None, IndexError
        except (IndexError, ValueError, TypeError) as error:
            return None, type(error)


def same(left, right):
    """Whether both are the same in type, shape and bytes."""
    assert type(left) is type(right), (type(left), type(right))
    assert np.shape(left) == np.shape(right)
    assert np.asarray(left).dtype == np.asarray(right).dtype
    np.testing.assert_array_equal(left, right)


@PROGRAMS
@given(st.data())
def test_selects_what_numpy_selects(heap, data):
    shape, dtype = data.draw(SHAPES), data.draw(DTYPES)
    native = numbers(shape, dtype)
    row_bytes = native.dtype.itemsize * int(np.prod(shape[1:]))
    layout = data.draw(LAYOUTS) if 0 < row_bytes <= 4096 else "auto"
    array = aquifer.asarray(native, layout=layout, heap=heap)
    key = data.draw(indices(shape))
    (expected, refused), (found, refused_here) = outcome(lambda: native[key]), outcome(lambda: array[key])
    assert refused is refused_here
    if refused is None:
        same(found, expected)


@PROGRAMS
@given(st.data())
def test_assigns_what_numpy_assigns(heap, data):
    shape, dtype = data.draw(SHAPES), data.draw(st.sampled_from(["i2", "f8", "S5"]))
    native = numbers(shape, dtype)
    array = aquifer.asarray(native, heap=heap)
    key = data.draw(indices(shape))
    selected, refused = outcome(lambda: native[key])
    target = (3,) if refused else np.shape(selected)
    kind = data.draw(st.integers(0, 3))
    if kind == 0:
        value = 7
    elif kind == 1:
        value = (numbers(target, "i8") * 3 + 1).astype(dtype)
    elif kind == 2:
        value = (numbers(target[-1:], "i8") + 50).tolist()
    else:
        value = (numbers((1, *target), "f8") + 9).astype(dtype)

    def assign(to):
        to[key] = value

    _, refused = outcome(lambda: assign(native))
    _, refused_here = outcome(lambda: assign(array))
    # Of two reasons, either may be the first that is found.
    assert (refused is None) == (refused_here is None)
    same(np.asarray(array), native)


class _Tensor:
    """An array of another library, which may be a number as well."""

    def __init__(self, value):
        self.value = np.asarray(value)

    def __array__(self, dtype=None, copy=None):
        return self.value if dtype is None else self.value.astype(dtype)

    def __index__(self):
        return int(self.value)


def test_arrays_of_others_are_indices():
    model = np.arange(20.0).reshape(10, 2)
    array = aquifer.asarray(model)
    for index in ([5, 1], 3, [True] + [False] * 9):
        assert (array[_Tensor(index)] == model[np.asarray(index)]).all()
    array[_Tensor([5, 1])] = model[[5, 1]] = 9
    assert (np.asarray(array) == model).all()
