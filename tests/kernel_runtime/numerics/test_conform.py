"""Operands in one shape: every presentation is the view it stands for, read in order."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nki_lab.isa.dtype import F32
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.numerics.conform import present, refinement
from nki_lab.kernel_runtime.numerics.pool import Bound
from nki_lab.kernel_runtime.numerics.storage import SHADOW, strided
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor, make_view, psum, sbuf, shared_hbm, view_type
from tests.draws import Drawn, factors, row_major

SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_a_refinement_splits_every_shape(shapes: list[tuple[int, ...]]) -> None:
    count = math.prod(shapes[0])
    assume(all(math.prod(shape) == count for shape in shapes))
    found = refinement(shapes)
    if found is None:
        return
    assert math.prod(found) == count
    for shape in shapes:
        # Products of the trailing sizes of each shape are products of trailing sizes of the refinement.
        marks = {math.prod(found[k:]) for k in range(len(found) + 1)}
        assert {math.prod(shape[k:]) for k in range(len(shape) + 1)} <= marks


@pytest.mark.parametrize(
    ("shapes", "want"),
    [
        ([(8, 64), (512,)], (8, 64)), ([(3, 4), (4, 3)], None), ([(2, 6), (4, 3)], (2, 2, 3)), ([(1, 5), (5,)], (5,)),
        ([(), ()], ()),
    ],
)  # fmt: skip
def test_refinements_by_example(shapes: list[tuple[int, ...]], want: tuple[int, ...] | None) -> None:
    assert refinement(shapes) == want


def tensor(draw: Any, space: Any, shape: tuple[int, ...]) -> NkiTensor:
    """A view of a shape: dense, permuted, stepped, or repeating."""
    choice = Drawn(lambda low, high: draw(st.integers(low, high)))
    fixed = 0 if space is shared_hbm else 1
    steps = list(range(fixed, len(shape)))
    order = list(range(fixed)) + [steps.pop(choice.integer(0, len(steps) - 1)) for _ in range(len(steps))]
    gaps = [choice.pick((1, 1, 2)) if k >= fixed else 1 for k in range(len(shape))]
    sizes = [0] * len(shape)
    for place, dim in enumerate(order):
        sizes[place] = shape[dim] * gaps[dim]
    strides = [0] * len(shape)
    for place, dim in enumerate(order):
        strides[dim] = row_major(sizes)[place] * gaps[dim]
    if choice.chance(20):
        strides[-1] = 0 if len(shape) > fixed else strides[-1]
    return make_view(Buffer(0, space, F32, tuple(sizes)), shape, tuple(strides), 0, F32)


def elements(view: NkiTensor) -> np.ndarray[Any, Any]:
    values = np.arange(math.prod(view._buffer.shape), dtype=np.float32)
    return np.lib.stride_tricks.as_strided(values, view._shape, tuple(4 * step for step in view._strides))


@given(st.data())
def test_a_presentation_reads_the_view_in_its_order(data: Any) -> None:
    choice = Drawn(lambda low, high: data.draw(st.integers(low, high)))
    rows, columns = choice.integer(1, 4), choice.integer(1, 24)
    names = {"dst": sbuf, "data1": sbuf, "data2": psum}
    operands = {name: tensor(data.draw, space, (rows, *factors(choice, columns))) for name, space in names.items()}
    use: Any = SimpleNamespace(types={name: view_type(view) for name, view in operands.items()}, dims={})
    shown = present(TABLE["tensor_tensor"], use)
    assert len({item.shape for item in shown.values()}) == 1
    for name, view in operands.items():
        shape, strides = shown[name]
        assert shape[0] == rows
        if strides is not None:
            values = np.arange(math.prod(view._buffer.shape), dtype=np.float32)
            got = np.lib.stride_tricks.as_strided(values, shape, tuple(4 * step for step in strides))
            np.testing.assert_array_equal(got.reshape(-1), elements(view).reshape(-1))


@given(st.data())
def test_a_column_broadcasts_against_every_shape(data: Any) -> None:
    choice = Drawn(lambda low, high: data.draw(st.integers(low, high)))
    rows, columns = choice.integer(1, 4), choice.integer(1, 24)
    operands = {name: tensor(data.draw, sbuf, (rows, *factors(choice, columns))) for name in ("dst", "data")}
    operands["operand0"] = tensor(data.draw, sbuf, (rows, 1))
    types = {name: view_type(view) for name, view in operands.items()}
    shown = present(TABLE["tensor_scalar"], SimpleNamespace(types=types | {"operand1": None}, dims={}))  # type: ignore[arg-type]
    assert shown["operand0"].shape == (rows,) + (1,) * (len(shown["dst"].shape) - 1)
    assert np.broadcast_shapes(shown["operand0"].shape, shown["data"].shape) == shown["dst"].shape


@given(st.data())
def test_a_presentation_on_chip_fits_partitions_that_lie_apart(data: Any) -> None:
    choice = Drawn(lambda low, high: data.draw(st.integers(low, high)))
    rows, columns = choice.integer(1, 6), choice.integer(1, 24)
    name = choice.pick(("dma_copy", "tensor_copy"))
    spaces = {"dst": sbuf, "src": choice.pick((sbuf, shared_hbm)) if name == "dma_copy" else psum}
    operands = {
        name: tensor(data.draw, space, (rows, *factors(choice, columns)) if space is not shared_hbm else
                     choice.pick(((rows * columns,), (columns, rows), (rows, columns))))
        for name, space in spaces.items()
    }  # fmt: skip
    use: Any = SimpleNamespace(types={name: view_type(view) for name, view in operands.items()}, dims={})
    shown = present(TABLE[name], use)
    for name, view in operands.items():
        shape, strides = shown[name]
        buffer = view._buffer
        if strides is None or not buffer.on_chip:
            continue
        row, pitch = buffer.row_elements, buffer.row_elements + 3
        flat = np.full(buffer.partitions * pitch, np.nan, np.float32)
        flat.reshape(-1, pitch)[:, :row] = np.arange(buffer.partitions * row, dtype=np.float32).reshape(-1, row)
        got = strided(Bound(SHADOW, flat, 0, row, pitch), F32, 0, shape, strides)
        np.testing.assert_array_equal(got.reshape(-1), elements(view).reshape(-1))


def test_dma_of_dense_views_keeps_the_partitions_of_a_tile() -> None:
    dst = make_view(Buffer(0, sbuf, F32, (6, 20)), (6, 4, 5), (20, 5, 1), 0, F32)
    src = make_view(Buffer(1, shared_hbm, F32, (120,)), (120,), (1,), 0, F32)
    types = {"dst": view_type(dst), "src": view_type(src)}
    shown = present(TABLE["dma_copy"], SimpleNamespace(types=types, dims={}))  # type: ignore[arg-type]
    assert shown["dst"] == shown["src"] == ((6, 20), (20, 1))


def test_dma_shows_whole_views_without_partitions() -> None:
    dst = make_view(Buffer(0, sbuf, F32, (6, 20)), (6, 20), (20, 1), 0, F32)
    src = make_view(Buffer(1, shared_hbm, F32, (20, 6)), (6, 20), (1, 6), 0, F32)
    types = {"dst": view_type(dst), "src": view_type(src)}
    shown = present(TABLE["dma_copy"], SimpleNamespace(types=types, dims={}))  # type: ignore[arg-type]
    assert shown["dst"].shape == shown["src"].shape == (6, 20)
    assert shown["src"].strides == (1, 6)
