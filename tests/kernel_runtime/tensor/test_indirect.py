"""Run-time addressing: select, vector_select, nl.ds with registers, ap with offsets, indirect."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.tensor import VirtualRegister, ds, psum


@pytest.fixture(scope="session")
def scalar(on_chip):
    return on_chip(1, 1, dtype="int32")


@pytest.fixture(scope="session")
def vector(on_chip):
    return on_chip(64, 1, dtype="int32")


register = VirtualRegister(id=7)


def test_a_dynamic_select_drops_the_dimension_and_remembers_index_and_stride(in_hbm, scalar) -> None:
    view = in_hbm(4, 128, 8).select(0, scalar)
    assert view.shape == (128, 8)
    assert view.is_indirect()
    record = view._indirect
    assert (record.kind, record.index, record.stride, record.dim, record.extent) == ("scalar", scalar, 1024, 0, 4)
    assert (record.lowest, record.highest, record.frozen_dim) == (0, 3, None)


def test_select_takes_a_register_too(in_hbm) -> None:
    assert in_hbm(4, 128, 8).select(0, register)._indirect.index is register


def test_a_dynamic_select_of_a_slice_counts_from_the_slice(in_hbm, scalar) -> None:
    view = in_hbm(8, 128, 8)[2:8:2].select(0, scalar)
    assert (view.offset, view._indirect.stride, view._indirect.highest) == (2048, 2048, 2)


def test_on_chip_a_free_dimension_is_selected_down_to_two(on_chip, scalar) -> None:
    assert on_chip(128, 8, 64).select(1, scalar).shape == (128, 64)
    view = on_chip(128, 8).select(1, scalar)
    assert (view.shape, view._indirect.stride) == ((128, 1), 1)


def test_partitions_are_not_selected_at_run_time(on_chip, scalar, refused) -> None:
    refused("NKI312", lambda: on_chip(128, 8).select(0, scalar))
    refused("NKI312", lambda: on_chip(128, 8).select(0, register))


def test_one_runtime_index_per_view(in_hbm, on_chip, scalar, vector, refused) -> None:
    tensor = in_hbm(4, 128, 8)
    for once in (tensor.select(0, scalar), tensor.vector_select(0, vector), tensor[ds(register, 2)]):
        refused("NKI309", lambda once=once: once.select(1, scalar))
        refused("NKI309", lambda once=once: once.vector_select(0, vector))
        refused("NKI309", lambda once=once: once[..., ds(register, 1)])
        refused("NKI309", lambda once=once: once.ap([[1, 1]], scalar_offset=scalar))
        refused("NKI309", lambda once=once: once.ap([[1, 1]], vector_offset=vector))
    refused("NKI309", lambda: tensor[ds(register, 1), ds(register, 2)])
    indices = on_chip(128, 4, dtype="int32")
    refused("NKI309", lambda: on_chip(128, 8, 8).select(1, scalar).indirect(indices))


def test_a_new_pattern_does_not_drop_a_runtime_index_silently(in_hbm, scalar, refused) -> None:
    refused("NKI309", lambda: in_hbm(4, 128, 8).select(0, scalar).ap([[8, 4], [1, 8]]))


def test_static_views_go_on_after_a_dynamic_select(in_hbm, scalar, addresses) -> None:
    view = in_hbm(4, 128, 8).select(0, scalar)[3:5, 2].expand_dim(0).permute((1, 0)).reshape((2, 1, 1))
    assert view.shape == (2, 1, 1)
    assert addresses(view).ravel().tolist() == [26, 34]
    assert view._indirect.stride == 1024


def test_vector_select_gives_one_row_per_index(in_hbm, on_chip, vector) -> None:
    view = in_hbm(128, 512).vector_select(0, vector)
    assert view.shape == (64, 512)
    record = view._indirect
    assert (record.kind, record.stride, record.extent, record.frozen_dim) == ("vector", 512, 128, 0)
    assert (record.lowest, record.highest) == (0, 127)
    assert in_hbm(64, 128, 8).vector_select(0, on_chip(128, 1, dtype="int32")).shape == (128, 128, 8)


def test_vector_select_is_for_dimension_0_of_hbm(in_hbm, on_chip, vector, refused) -> None:
    refused("NKI309", lambda: in_hbm(128, 512).vector_select(1, vector))
    refused("NKI309", lambda: on_chip(128, 512).vector_select(0, vector))
    refused("NKI303", lambda: in_hbm(128, 512).vector_select(2, vector))


def test_after_vector_select_dimension_0_is_frozen(in_hbm, vector, refused) -> None:
    view = in_hbm(128, 4, 8).vector_select(0, vector)
    for operation in (
        lambda: view[0:32],
        lambda: view[3],
        lambda: view.select(0, 3),
        lambda: view.permute((1, 0, 2)),
        lambda: view.expand_dim(0),
        lambda: view.reshape_dim(0, (8, 8)),
        lambda: view.flatten_dims(0, 1),
        lambda: view.reshape((256, 8)),
        lambda: view.rearrange(("p", "a", "b"), ("a", "p", "b")),
        lambda: view.view(np.int32),
        lambda: view.reinterpret_cast(np.uint8),
    ):
        refused("NKI309", operation)
    one = in_hbm(128, 4).vector_select(0, vector[0:1])
    refused("NKI309", lambda: one.broadcast(0, 4))
    refused("NKI309", lambda: one.squeeze_dim(0))


def test_after_vector_select_the_other_dimensions_are_free(in_hbm, vector) -> None:
    view = in_hbm(128, 4, 8).vector_select(0, vector)
    for changed, shape in (
        (view[:, 1], (64, 8)),
        (view[..., 0:4], (64, 4, 4)),
        (view.select(1, 2), (64, 8)),
        (view.permute((0, 2, 1)), (64, 8, 4)),
        (view.reshape((64, 32)), (64, 32)),
        (view.expand_dim(1), (64, 1, 4, 8)),
        (view.reshape_dim(2, (2, 4)), (64, 4, 2, 4)),
        (view.flatten_dims(1, 2), (64, 32)),
        (view.rearrange(("p", "a", "b"), ("p", "b", "a")), (64, 8, 4)),
        (view.reshape_dim(0, (64,)), (64, 4, 8)),
    ):
        assert changed.shape == shape
        assert changed._indirect.frozen_dim == 0
        assert changed._indirect.kind == "vector"


def test_a_scalar_index_is_one_integer_in_sbuf_or_a_register(in_hbm, on_chip, vector, refused) -> None:
    tensor = in_hbm(4, 128, 8)
    for index in (
        vector,
        on_chip(1, 1),
        on_chip(1, 1, dtype="int32", space=psum),
        in_hbm(1, 1, dtype="int32"),
        2.0,
        "0",
        None,
        np.zeros(1),
    ):
        refused("NKI309", lambda index=index: tensor.select(0, index))
    assert tensor.select(0, vector[3:4]).is_indirect()
    assert tensor.select(0, on_chip(1, dtype="uint32")).is_indirect()


def test_a_vector_index_is_one_integer_per_partition(in_hbm, on_chip, refused) -> None:
    tensor = in_hbm(128, 8)
    for index in (register, on_chip(64, 2, dtype="int32"), on_chip(64, 1), in_hbm(64, 1, dtype="int32"), 3, None):
        refused("NKI309", lambda index=index: tensor.vector_select(0, index))
    assert tensor.vector_select(0, on_chip(8, 4, dtype="int32")[:, 2]).shape == (8, 8)


# -- nl.ds with a run-time start ----------------------------------------------------------------------------------


def test_a_register_start_keeps_the_dimension(in_hbm, on_chip) -> None:
    view = in_hbm(512, 64)[ds(register, 128), 0:32]
    assert (view.shape, view.strides, view.offset) == ((128, 32), (64, 1), 0)
    record = view._indirect
    assert (record.index, record.stride, record.dim, record.highest, record.frozen_dim) == (register, 64, 0, 384, 0)
    assert on_chip(128, 64)[:, ds(register, 8)]._indirect.stride == 1


def test_partitions_may_start_at_a_register(on_chip) -> None:
    """The API reference shows `sb[nl.ds(i, 8), :]` as a dynamic slice of the partition dimension."""
    view = on_chip(128, 64)[ds(register, 8), :]
    assert (view.shape, view._indirect.stride, view._indirect.highest) == ((8, 64), 64, 120)


def test_the_dimension_of_a_register_start_is_frozen_wherever_it_goes(in_hbm, refused) -> None:
    view = in_hbm(4, 16, 8)[1, ds(register, 4)]
    assert view._indirect.frozen_dim == 0
    turned = view.expand_dim(0).permute((2, 0, 1))
    assert turned._indirect.frozen_dim == 2
    refused("NKI309", lambda: turned[..., 0])
    refused("NKI309", lambda: turned[..., 0:2])
    assert turned[..., 0:4].shape == turned.shape
    assert turned[1:3]._indirect.frozen_dim == 2
    assert turned[1]._indirect.frozen_dim == 1
    assert turned.squeeze_dim(1)._indirect.frozen_dim == 1
    assert turned.flatten_dims(0, 1)._indirect.frozen_dim == 1
    assert turned.reshape_dim(0, (2, 4))._indirect.frozen_dim == 3
    deep = in_hbm(2, 3, 4, 16)[..., ds(register, 4)]
    assert deep.flatten_dims(1, 2)._indirect.frozen_dim == 2
    assert deep.flatten_dims(3, 3)._indirect.frozen_dim == 3
    assert deep.permute((3, 0, 1, 2)).flatten_dims(1, 3)._indirect.frozen_dim == 0


def test_a_new_layout_melts_the_frozen_dimension(in_hbm, on_chip) -> None:
    """The indexed elements are the same whatever their arrangement; only the dimension itself is gone."""
    view = on_chip(128, 64)[:, ds(register, 8)]
    assert view.reshape((128, 2, 4))._indirect.frozen_dim is None
    assert view.reshape((128, 8))._indirect.frozen_dim == 1
    assert view.reshape_dim(1, (2, 4))._indirect.frozen_dim is None
    assert view.reshape_dim(1, (8,))._indirect.frozen_dim == 1
    assert in_hbm(8, 16)[:, ds(register, 16)].flatten_dims(0, 1)._indirect.frozen_dim is None
    one = on_chip(128, 64)[:, ds(register, 1)]
    assert one.squeeze_dim(1)._indirect.frozen_dim == 1
    assert one.expand_dim(1).squeeze_dim(2)._indirect.frozen_dim is None


def test_a_start_outside_is_a_matter_of_the_run_but_a_size_is_not(in_hbm, refused) -> None:
    refused("NKI303", lambda: in_hbm(64, 4)[ds(register, 65)])
    refused("NKI303", lambda: in_hbm(64, 4)[ds(register, 0)])
    assert in_hbm(64, 4)[ds(register, 64)]._indirect.highest == 0


# -- ap -----------------------------------------------------------------------------------------------------------


def test_a_scalar_offset_moves_by_the_receivers_stride(in_hbm, scalar) -> None:
    view = in_hbm(512, 512).ap([[512, 128], [1, 256]], offset=0, scalar_offset=scalar, indirect_dim=0)
    record = view._indirect
    assert view.shape == (128, 256)
    assert (record.kind, record.stride, record.lowest, record.highest) == ("scalar", 512, 0, 384)


def test_the_stride_is_of_the_tensor_ap_is_called_on_not_of_the_storage(in_hbm, scalar) -> None:
    """The API reference scales by the receiver's stride, the deep dive by the product of its sizes to the right; equal
    for dense tensors, and a reshaped cache gets the rows of its new shape."""
    cache = in_hbm(4, 64, 32)
    assert cache.ap([[32, 16], [1, 32]], scalar_offset=scalar)._indirect.stride == 2048
    rows = cache.reshape((256, 32)).ap([[32, 16], [1, 32]], scalar_offset=scalar, indirect_dim=0)
    assert rows._indirect.stride == 32
    assert cache[::2].ap([[32, 16], [1, 32]], scalar_offset=scalar)._indirect.stride == 4096


def test_the_stride_is_rescaled_to_a_new_dtype(in_hbm, on_chip, scalar, refused) -> None:
    """Undocumented unit: an index keeps counting the receiver's own rows."""
    view = in_hbm(64, 32, dtype="int32").ap([[64, 16], [1, 64]], scalar_offset=scalar, dtype="bfloat16")
    assert view._indirect.stride == 64
    tile = on_chip(128, 32)
    view = tile.ap(pattern=[[64, 128], [1, 16]], dtype="bfloat16", scalar_offset=scalar, indirect_dim=1)
    assert view._indirect.stride == 2
    assert view._indirect.highest == 24
    bytes_ = in_hbm(64, 32, dtype="uint8")
    refused("NKI309", lambda: bytes_.ap([[8, 4], [1, 8]], scalar_offset=scalar, indirect_dim=1, dtype=np.float32))


def test_a_register_moves_one_element_along_the_free_dimension(on_chip) -> None:
    view = on_chip(1, 16).ap([[1, 1], [1, 1]], scalar_offset=register, indirect_dim=1)
    assert (view.shape, view._indirect.stride, view._indirect.highest) == ((1, 1), 1, 15)


def test_a_vector_offset_replaces_the_leading_step(in_hbm, vector) -> None:
    view = in_hbm(128, 512).ap([[512, 64], [1, 512]], 0, vector_offset=vector, indirect_dim=0)
    assert (view._indirect.kind, view._indirect.stride, view._indirect.highest) == ("vector", 512, 127)
    ignored = in_hbm(128, 512).ap([[1, 64], [1, 512]], 0, vector_offset=vector)
    assert (ignored._indirect.stride, ignored._indirect.highest) == (512, 127)


def test_more_indices_than_rows_are_gathered(in_hbm, vector) -> None:
    assert in_hbm(4, 8).ap([[8, 64], [1, 8]], vector_offset=vector).shape == (64, 8)


def test_the_rules_of_runtime_offsets(in_hbm, on_chip, scalar, vector, refused) -> None:
    tensor = in_hbm(128, 512)
    pattern = [[512, 64], [1, 512]]
    for code, operation in (
        ("NKI309", lambda: tensor.ap(pattern, scalar_offset=scalar, vector_offset=vector)),
        ("NKI309", lambda: tensor.ap(pattern, vector_offset=vector, indirect_dim=1)),
        ("NKI309", lambda: on_chip(128, 512).ap([[512, 64], [1, 8]], vector_offset=vector)),
        ("NKI309", lambda: tensor.ap(pattern, scalar_offset=scalar, indirect_dim=2)),
        ("NKI309", lambda: tensor.ap(pattern, scalar_offset=scalar, indirect_dim=-1)),
        ("NKI309", lambda: tensor.ap(pattern, scalar_offset=scalar, indirect_dim=None)),
        ("NKI309", lambda: tensor.ap(pattern, scalar_offset=vector)),
        ("NKI309", lambda: tensor.ap(pattern, scalar_offset=3)),
        ("NKI309", lambda: tensor.ap(pattern, vector_offset=register)),
        ("NKI309", lambda: tensor.ap([[512, 65], [1, 512]], vector_offset=vector)),
        ("NKI309", lambda: in_hbm(1, 8).broadcast(0, 4).ap([[8, 1], [1, 8]], scalar_offset=scalar)),
        ("NKI303", lambda: tensor.ap([[512, 129], [1, 512]], scalar_offset=scalar)),
        ("NKI303", lambda: tensor.ap([[512, 64], [128, 513]], vector_offset=vector)),
        ("NKI303", lambda: on_chip(128, 64).ap([[64, 128], [1, 65]], scalar_offset=register, indirect_dim=1)),
        ("NKI303", lambda: on_chip(128, 64).ap([[64, 129], [1, 64]], scalar_offset=register, indirect_dim=1)),
        ("NKI303", lambda: on_chip(128, 64).ap([[64, 129], [1, 64]], scalar_offset=register, indirect_dim=0)),
        ("NKI303", lambda: on_chip(128, 64).ap([[64, 8], [1, 65]], scalar_offset=register, indirect_dim=0)),
        ("NKI309", lambda: on_chip(4, 8).ap([[1, 1], [1, 2]]).ap([[8, 1], [1, 2]], scalar_offset=register)),
    ):
        refused(code, operation)


def test_a_compile_time_index_is_told_where_to_go(in_hbm, refused) -> None:
    found = refused("NKI309", lambda: in_hbm(8, 8).ap([[8, 2], [1, 8]], scalar_offset=3))
    assert "offset=" in found.help


sizes = st.integers(1, 5)


@given(
    shape=st.tuples(sizes, sizes, sizes),
    dim=st.integers(0, 2),
    offset=st.integers(0, 20),
    pattern=st.lists(st.tuples(st.integers(0, 6), sizes), min_size=1, max_size=3),
)
def test_hbm_index_limits_are_exactly_those_that_stay_inside(
    shape, dim, offset, pattern, in_hbm, scalar, addresses
) -> None:
    tensor = in_hbm(*shape)
    view = tensor.ap([list(pair) for pair in pattern], offset, scalar_offset=scalar, indirect_dim=dim)
    if view._buffer.fault is not None:
        assert view._buffer.fault.code == "NKI303"
        span = sum(step * (count - 1) for step, count in pattern)
        starts = [offset + value * tensor.strides[dim] for value in range(-30, 130)]
        assert not [start for start in starts if start >= 0 and start + span < tensor.size]
        return
    record = view._indirect
    for value in range(record.lowest - 2, record.highest + 3):
        moved = addresses(view) + value * record.stride
        assert (record.lowest <= value <= record.highest) == (moved.min() >= 0 and moved.max() < tensor.size)


@given(shape=st.tuples(sizes, sizes, sizes), dim=st.integers(0, 2), data=st.data())
def test_on_chip_index_limits_are_exactly_those_that_stay_in_place(
    shape, dim, data, on_chip, scalar, addresses
) -> None:
    tensor = on_chip(*shape)
    row = shape[1] * shape[2]
    count = data.draw(st.integers(1, shape[0]))
    start = data.draw(st.integers(0, shape[0] - count))
    columns = data.draw(st.integers(1, row))
    first = data.draw(st.integers(0, row - columns))
    view = tensor.ap([[row, count], [1, columns]], start * row + first, scalar_offset=scalar, indirect_dim=dim)
    record = view._indirect
    base = addresses(view)
    for value in range(record.lowest - 2, record.highest + 3):
        moved = base + value * record.stride
        if dim == 0:
            inside = moved.min() >= 0 and moved.max() < tensor.size
        else:
            inside = bool((moved // row == base // row).all())
        assert (record.lowest <= value <= record.highest) == inside


def test_refusals_of_runtime_addressing_are_assertion_errors(in_hbm) -> None:
    with pytest.raises(AssertionError):
        in_hbm(4, 4).select(0, "x")
