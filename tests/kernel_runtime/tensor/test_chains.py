"""Chains of view operations address exactly the elements that NumPy's do."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.tensor import ds, view_type
from tests.scale import scaled

sizes = st.sampled_from([1, 2, 3, 4, 6, 8])


def keys(data: Any, array: np.ndarray, on_chip: bool) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A key for the tensor and the same for NumPy, where integers that must not drop their dimension are slices."""
    ours: list[Any] = []
    plain: list[Any] = []
    for size in array.shape[: data.draw(st.integers(0, array.ndim))]:
        start = data.draw(st.integers(0, size - 1))
        stop = data.draw(st.integers(start + 1, size))
        step = data.draw(st.integers(1, 3))
        choice = data.draw(st.sampled_from(["int", "negative", "slice", "step", "tail", "ds", "all"]))
        forms = {
            "int": (start, start),
            "negative": (start - size, start),
            "slice": (slice(start, stop), slice(start, stop)),
            "step": (slice(start, stop, step), slice(start, stop, step)),
            "tail": (slice(start - size, None), slice(start, None)),
            "ds": (ds(start, stop - start), slice(start, stop)),
            "all": (slice(None), slice(None)),
        }
        one, two = forms[choice]
        ours.append(one)
        plain.append(two)
    # NumPy drops every integer's dimension; keep those that the tensor keeps.
    full = plain + [slice(None)] * (array.ndim - len(plain))
    if on_chip and isinstance(full[0], int):
        full[0] = slice(full[0], full[0] + 1)
    floor = 2 if on_chip and array.ndim > 1 else 1
    dropped = [k for k, item in enumerate(full) if isinstance(item, int)]
    if dropped and array.ndim - len(dropped) < floor:
        full[dropped[-1]] = slice(full[dropped[-1]], full[dropped[-1]] + 1)
    if data.draw(st.booleans()):
        ours.append(...)
    return tuple(ours), tuple(full)


def factors(data: Any, size: int) -> tuple[int, ...]:
    """Sizes that multiply to `size`."""
    out = []
    while size > 1:
        part = data.draw(st.sampled_from([d for d in range(2, size + 1) if size % d == 0]))
        out.append(part)
        size //= part
    if data.draw(st.booleans()):
        out.insert(data.draw(st.integers(0, len(out))), 1)
    return tuple(out) or (1,)


def reshape_target(data: Any, array: np.ndarray, on_chip: bool) -> tuple[int, ...]:
    if on_chip:
        return (array.shape[0], *factors(data, array[0].size))
    return factors(data, array.size)


def step(data: Any, view: Any, array: np.ndarray, on_chip: bool) -> tuple[Any, Any]:
    """One random operation on the tensor and on the NumPy view of the element numbers."""
    first = 1 if on_chip else 0
    operation = data.draw(
        st.sampled_from(
            ["key", "slice", "select", "permute", "broadcast", "expand", "squeeze", "split", "flatten", "reshape"]
        )
    )
    if operation == "key":
        ours, plain = keys(data, array, on_chip)
        return view[ours], array[plain]
    if operation == "permute":
        order = (*range(first), *data.draw(st.permutations(range(first, array.ndim))))
        return view.permute(order), array.transpose(order)
    if operation == "expand":
        dim = data.draw(st.integers(first, array.ndim))
        return view.expand_dim(dim), np.expand_dims(array, dim)
    if operation == "reshape":
        shape = reshape_target(data, array, on_chip)
        return view.reshape(shape), array.reshape(shape, copy=False)
    if array.ndim == first:
        return view, array
    dim = data.draw(st.integers(first, array.ndim - 1))
    size = array.shape[dim]
    index = (slice(None),) * dim
    if operation == "slice":
        start = data.draw(st.integers(0, size - 1))
        stop = data.draw(st.integers(start + 1, size))
        pace = data.draw(st.integers(1, 3))
        return view.slice(dim, start, stop, pace), array[(*index, slice(start, stop, pace))]
    if operation == "select":
        place = data.draw(st.integers(0, size - 1))
        stays = array.ndim <= (2 if on_chip else 1)
        return view.select(dim, place), array[(*index, slice(place, place + 1) if stays else place)]
    if operation == "split":
        parts = factors(data, size)
        shape = (*array.shape[:dim], *parts, *array.shape[dim + 1 :])
        return view.reshape_dim(dim, parts), array.reshape(shape, copy=False)
    if operation == "flatten":
        last = data.draw(st.integers(dim, array.ndim - 1))
        shape = (*array.shape[:dim], -1, *array.shape[last + 1 :])
        return view.flatten_dims(dim, last), array.reshape(shape, copy=False)
    if size != 1:
        return view, array
    if operation == "broadcast":
        count = data.draw(st.integers(1, 4))
        return view.broadcast(dim, count), np.repeat(array, count, dim) if count == 1 else _repeated(array, dim, count)
    stays = array.ndim <= (2 if on_chip else 1)
    return view.squeeze_dim(dim), array if stays else np.squeeze(array, dim)


def _repeated(array: np.ndarray, dim: int, count: int) -> np.ndarray:
    shape = (*array.shape[:dim], count, *array.shape[dim + 1 :])
    return np.broadcast_to(array, shape)


def run(data: Any, tensor: Any, on_chip: bool, addresses: Any) -> None:
    view, array = tensor, np.arange(tensor.size).reshape(tensor._shape)
    for _ in range(data.draw(st.integers(1, 6))):
        try:
            view, array = step(data, view, array, on_chip)
        except NkiError as error:
            assert error.diagnostics[0].code == "NKI305"
            continue
        except ValueError as error:
            raise AssertionError("NumPy needs a copy where the tensor made a view") from error
        assert view._shape == array.shape
        assert np.array_equal(addresses(view), array)
        assert view._buffer is tensor._buffer
        # Taking back its own pattern changes nothing.
        again = view.ap(view.get_pattern()) if not on_chip or view._strides[0] == tensor._strides[0] else view
        assert np.array_equal(addresses(again), array)


@settings(max_examples=scaled(300))
@given(shape=st.lists(sizes, min_size=1, max_size=4).map(tuple), data=st.data())
def test_hbm_chains_are_numpys(shape, data, in_hbm, addresses) -> None:
    run(data, in_hbm(*shape), False, addresses)


@settings(max_examples=scaled(300))
@given(shape=st.lists(sizes, min_size=2, max_size=4).map(tuple), data=st.data())
def test_on_chip_chains_are_numpys_within_the_partition_rules(shape, data, on_chip, addresses) -> None:
    run(data, on_chip(*shape), True, addresses)


@given(shape=st.lists(sizes, min_size=2, max_size=4).map(tuple), data=st.data())
def test_every_element_of_an_on_chip_view_lies_in_the_partition_of_its_row(shape, data, on_chip, addresses) -> None:
    tensor = on_chip(*shape)
    view, array = tensor, np.arange(tensor.size).reshape(shape)
    for _ in range(3):
        try:
            view, array = step(data, view, array, True)
        except NkiError:
            continue
    kind = view_type(view)
    row = tensor.size // shape[0]
    partition = addresses(view) // row
    wanted = kind.start_partition + kind.partition_step * np.arange(kind.partitions)
    assert np.array_equal(partition, np.broadcast_to(wanted.reshape(-1, *[1] * (view.ndim - 1)), view._shape))


@given(shape=st.lists(sizes, min_size=1, max_size=4).map(tuple), data=st.data())
def test_a_reshape_is_refused_only_where_numpy_copies(shape, data, in_hbm) -> None:
    view, array = in_hbm(*shape), np.arange(np.prod(shape)).reshape(shape)
    order = data.draw(st.permutations(range(len(shape))).map(tuple))
    ours, plain = keys(data, array.transpose(order), False)
    view, array = view.permute(order)[ours], array.transpose(order)[plain]
    target = reshape_target(data, array, False)
    try:
        array.reshape(target, copy=False)
    except ValueError:
        possible = False
    else:
        possible = True
    try:
        view.reshape(target)
    except NkiError:
        assert not possible
    else:
        assert possible


@given(
    shape=st.lists(sizes, min_size=1, max_size=3).map(tuple),
    old=st.sampled_from(["uint8", "uint16", "float32"]),
    new=st.sampled_from(["uint8", "uint16", "float32"]),
    data=st.data(),
)
def test_view_of_a_dtype_is_numpys(shape, old, new, data, in_hbm, addresses) -> None:
    """Compared on bytes: the first byte of each element, where NumPy gives the view too."""
    before, after = np.dtype(old), np.dtype(new)
    base = np.zeros(shape, before)
    key = tuple(slice(a, data.draw(st.integers(a + 1, n))) for n in shape for a in [data.draw(st.integers(0, n - 1))])
    array = base[key]
    try:
        view = in_hbm(*shape, dtype=old)[key].view(after)
    except NkiError as error:
        assert error.diagnostics[0].code == "NKI305"
        return
    wanted = array.view(after) if before != after else array
    assert view._shape == wanted.shape
    start = wanted.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    first = np.full(wanted.shape, start)
    for axis, (size, step_bytes) in enumerate(zip(wanted.shape, wanted.strides, strict=True)):
        first += np.arange(size).reshape([-1 if k == axis else 1 for k in range(wanted.ndim)]) * step_bytes
    assert np.array_equal(addresses(view) * after.itemsize, first)
