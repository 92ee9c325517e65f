"""Bytes that views touch, held equal to sets of bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.isa.arch import arch_of
from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.footprint import WrittenPart, cells_of, elements_of, overlap_of, rect_of, rectangles, runs
from nki_lab.kernel_runtime.ir import Accesses, Program, View
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.race.findings import writes_twice
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor, sbuf, shared_hbm, view_type, whole
from tests.kernel_runtime.drawn_kernels import elements

# -- views of one buffer -----------------------------------------------------------------------------------------------


@st.composite
def patterns(draw: st.DrawFn, buffer: Buffer) -> tuple[int, tuple[int, ...], tuple[int, ...], str]:
    """The offset, shape, strides and dtype of a view inside of a buffer."""
    dtype = draw(st.sampled_from([buffer.dtype.name, buffer.dtype.name, "uint8"]))
    scale = buffer.dtype.nbytes // dtype_of(dtype).nbytes
    total = buffer.nbytes // dtype_of(dtype).nbytes
    units = [math.prod(buffer.shape[k + 1 :]) * scale for k in range(len(buffer.shape))]
    near = st.one_of(
        st.integers(-6, 30), st.sampled_from(units), st.builds(int.__mul__, st.sampled_from(units), st.integers(-1, 4))
    )
    low = high = 0
    shape, strides = [], []
    for _ in range(draw(st.integers(1, 4))):
        size, step = draw(st.sampled_from([1, 2, 2, 3, 4, 8])), draw(near)
        if high - low + abs((size - 1) * step) < total:
            shape.append(size)
            strides.append(step)
            low += min(0, (size - 1) * step)
            high += max(0, (size - 1) * step)
    offset = draw(st.integers(-low, total - 1 - high))
    return offset, tuple(shape) or (1,), tuple(strides) or (1,), dtype


@st.composite
def views_of_a_buffer(draw: st.DrawFn) -> list[View]:
    """Some views of one HBM tensor."""
    shape = draw(st.lists(st.sampled_from([1, 2, 2, 3, 4, 6, 8]), min_size=1, max_size=4).map(tuple))
    buffer = Buffer(0, shared_hbm, dtype_of("float32"), shape)
    return [view_at(buffer, n, *draw(patterns(buffer))) for n in range(draw(st.integers(1, 5)))]


def view_at(
    buffer: Buffer, number: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str
) -> View:
    tensor = NkiTensor.__new__(NkiTensor)
    tensor._buffer, tensor._dtype, tensor._offset = buffer, dtype_of(dtype), offset
    tensor._shape, tensor._strides, tensor._indirect, tensor._type = shape, strides, None, None
    full = len(elements(View(number, buffer, offset, view_type(tensor), None, False))) == buffer.nbytes
    return View(number, buffer, offset, view_type(tensor), None, full and dtype == buffer.dtype.name)


@given(views_of_a_buffer())
def test_a_rectangle_has_the_bytes_of_its_view(views: list[View]) -> None:
    for view in views:
        found, columns = rect_of(view), view.buffer.shape[-1]
        if found is not None:
            top, bottom, left, right = found
            covered = {row * columns + column for row in range(top, bottom) for column in range(left, right)}
            assert {4 * at + byte for at in covered for byte in range(4)} == elements(view)


@given(views_of_a_buffer())
def test_views_have_a_cell_in_common_where_they_have_a_byte(views: list[View]) -> None:
    program = Program("views", arch_of("trn2"), Options())
    program.buffers, program.views = [views[0].buffer], views
    number = np.arange(len(views))
    accesses = Accesses(op=number, view=number, buffer=np.zeros(len(views), np.int64), is_out=np.ones(len(views), bool))
    for apart in (False, True):
        found = cells_of(program, accesses, apart=apart)
        cells = [set(found.cell[found.access == n].tolist()) for n in number]
        for a, one in enumerate(views):
            for b, other in enumerate(views):
                assert bool(cells[a] & cells[b]) == bool(elements(one) & elements(other))


@st.composite
def views_of_placed_tensors(draw: st.DrawFn) -> list[View]:
    """Some views of tensors that are placed on the chip, many of them over each other."""
    views: list[View] = []
    for number in range(draw(st.integers(1, 4))):
        rows, columns = draw(st.sampled_from([1, 32, 64])), draw(st.lists(st.sampled_from([1, 2, 3, 4]), max_size=2))
        dtype = draw(st.sampled_from(["float32", "bfloat16", "uint8"]))
        place = draw(st.sampled_from([0, 32])), draw(st.integers(0, 6)) * dtype_of(dtype).nbytes
        buffer = Buffer(number, sbuf, dtype_of(dtype), (rows, *columns), address=place)
        for _ in range(draw(st.integers(1, 3))):
            part = whole(buffer)
            for axis, size in enumerate(buffer.shape):
                first = draw(st.sampled_from([0, 0, size // 2]))
                step = draw(st.sampled_from([1, 1, 2]))
                part = part[(*[slice(None)] * axis, slice(first, size, step))]
            full = part._shape == buffer.shape
            views.append(View(len(views), buffer, part._offset, view_type(part), None, full))
    return views


def on_the_chip(view: View) -> set[tuple[int, int]]:
    """The partitions and bytes of a view of a placed tensor."""
    buffer = view.buffer
    assert buffer.address is not None
    rows = (divmod(byte, buffer.partition_bytes) for byte in elements(view))
    return {(buffer.address[0] + row, buffer.address[1] + byte) for row, byte in rows}


@given(views_of_placed_tensors())
def test_placed_tensors_have_a_cell_in_common_where_their_views_have_a_byte(views: list[View]) -> None:
    program = Program("views", arch_of("trn2"), Options())
    program.buffers, program.views = list({view.buffer.id: view.buffer for view in views}.values()), views
    number = np.arange(len(views))
    buffer = np.array([view.buffer.id for view in views], np.int64)
    found = cells_of(program, Accesses(op=number, view=number, buffer=buffer, is_out=np.ones(len(views), bool)))
    cells = [set(found.cell[found.access == n].tolist()) for n in number]
    for a, one in enumerate(views):
        for b, other in enumerate(views):
            assert bool(cells[a] & cells[b]) == bool(on_the_chip(one) & on_the_chip(other))


@given(views_of_a_buffer())
def test_an_overlap_spans_the_bytes_in_common(views: list[View]) -> None:
    one, other = views[0], views[-1]
    shared, found = elements(one) & elements(other), overlap_of(one, other)
    assert (found is None) == (not shared)
    if found is not None:
        first = found.rows[0] * found.row_bytes + found.columns[0]
        last = (found.rows[1] - 1) * found.row_bytes + found.columns[1]
        assert (first, last) == (min(shared), max(shared) + 1)


@given(views_of_a_buffer(), st.booleans())
def test_a_part_is_written_as_far_as_its_views_reach(views: list[View], as_rectangles: bool) -> None:
    buffer = views[0].buffer
    part, written = WrittenPart(buffer, buffer.dtype.nbytes), set[int]()
    if all(view.type.dtype is buffer.dtype for view in views):
        part = WrittenPart(buffer, 1)
    for view in views:
        rect = rect_of(view) if as_rectangles else None
        assert part.holds(view, rect) == (elements(view) <= written)
        assert part.touches(view) == bool(elements(view) & written)
        part.write(view, rect)
        written |= elements(view)
        assert part.holds(view, rect)
        assert not part.complete or len(written) == buffer.nbytes
    assert part.missing() == (buffer.nbytes - len(written)) // buffer.dtype.nbytes


@given(views_of_a_buffer())
def test_a_pattern_writes_twice_where_it_has_fewer_places_than_elements(views: list[View]) -> None:
    for view in views:
        kind = view.type
        places = len(elements(view)) // kind.dtype.nbytes
        assert writes_twice(kind.shape, kind.strides) == (places < math.prod(kind.shape))


def test_slices_of_any_dimension_are_rectangles_of_one_table() -> None:
    tensor = whole(Buffer(0, shared_hbm, dtype_of("float32"), (8, 4, 6)))
    parts = [tensor[0:4], tensor[2:6, 1:3], tensor[7:8, 1:2], tensor]
    kinds = [view_type(part) for part in parts]
    found = rectangles.rectangles(tensor._buffer, np.array([part._offset for part in parts]), kinds)
    assert found is not None
    for row, (part, kind) in enumerate(zip(parts, kinds, strict=True)):
        covered = {
            at * found.width + byte
            for at in range(found.top[row], found.bottom[row])
            for byte in range(found.left[row], found.right[row])
        }
        assert covered == elements(View(0, tensor._buffer, part._offset, kind, None, False))


# -- runs ----------------------------------------------------------------------------------------------------------------

DIMS = st.lists(st.tuples(st.integers(2, 5), st.integers(1, 30)), max_size=3)


def members(found: runs.Runs) -> list[int]:
    return [at for start, stop in zip(found.start, found.stop, strict=True) for at in range(start, stop)]


@given(st.integers(0, 20), DIMS, st.integers(1, 4))
def test_runs_are_the_set_that_strides_address(low: int, dims: list[tuple[int, int]], width: int) -> None:
    wanted = {low + at for at in range(width)}
    for count, step in dims:
        wanted = {at + number * step for at in wanted for number in range(count)}
    found = runs.progression(low, dims, width)
    assert members(found) == sorted(wanted)
    assert (found.start[1:] > found.stop[:-1]).all()


@given(st.lists(st.tuples(st.integers(0, 20), DIMS, st.integers(1, 4)), min_size=1, max_size=6))
def test_an_axis_is_cut_as_finely_as_needed_and_no_finer(drawn: list[tuple[int, list[tuple[int, int]], int]]) -> None:
    sets = [set(members(runs.progression(*item))) for item in drawn]
    table = runs.classes([runs.progression(*item) for item in drawn])
    kinds = {frozenset(n for n, one in enumerate(sets) if at in one) for at in set().union(*sets)}
    found = [set(table.member[table.start[n] : table.start[n + 1]].tolist()) for n in range(len(sets))]
    owners = [frozenset(n for n, one in enumerate(found) if at in one) for at in range(table.size)]
    assert sorted(map(sorted, owners)) == sorted(map(sorted, kinds))


def test_a_set_of_too_many_runs_counts_as_all_between_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_MOST_RUNS", 3)
    assert members(runs.progression(5, [(3, 4)], 1)) == [5, 9, 13]
    assert members(runs.progression(5, [(4, 4)], 2)) == list(range(5, 19))


# -- elements in words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([(0, 0)], "element 0 of partition 0"), ([(0, 0), (0, 1), (0, 2)], "partition 0"),
        ([(0, 1), (1, 1), (3, 1)], "element 1 of partitions 0 to 1 and 3"),
        ([(0, 0), (0, 2), (2, 0), (2, 1), (2, 2)], "elements 0 and 2 of partition 0, partition 2"),
        ([(0, 0), (2, 0), (4, 0), (6, 0)], "element 0 of partitions 0, 2, 4 and 1 more ranges"),
        ([(0, 0), (1, 1), (2, 2), (3, 0), (3, 1)],
         "element 0 of partition 0, element 1 of partition 1, element 2 of partition 2, and others in 1 more ways"),
    ],
)  # fmt: skip
def test_sets_of_elements_in_words(cells: list[tuple[int, int]], words: str) -> None:
    mask = np.zeros((8, 3), bool)
    mask[tuple(zip(*cells, strict=True))] = True
    assert elements_of(mask, "partition") == words
    assert elements_of(mask.reshape(8, 3, 1), "partition") == words


def test_many_elements_are_told_by_their_rows() -> None:
    mask = np.zeros((8, 1 << 20), bool)
    mask[2:4, 5] = True
    assert elements_of(mask, "row") == "in rows 2 to 3"


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_distinct_numbers_are_those_of_numpy(numbers: list[int]) -> None:
    column = np.array(numbers, np.int64)
    np.testing.assert_array_equal(runs.distinct(column), np.unique(column))
