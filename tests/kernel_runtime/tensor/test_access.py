"""Explicit access patterns: the reading of every argument of `ap`, and each place where the documents disagree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st


def parts(view):
    return view.shape, view.strides, view.offset, view._dtype


def test_every_other_element_of_each_partition(on_chip) -> None:
    view = on_chip(128, 1024, dtype="float16").ap(pattern=[(1024, 128), (2, 512)])
    assert view.shape == (128, 512)
    assert view.get_pattern() == [[1024, 128], [2, 512]]


def test_a_pattern_addresses_the_flattened_storage(on_chip, addresses) -> None:
    view = on_chip(16, 16).ap(pattern=[[16, 16], [1, 8]], offset=8)
    assert np.array_equal(addresses(view), np.arange(256).reshape(16, 16)[:, 8:16])


def test_a_four_dimensional_pattern_has_the_shape_of_its_counts(on_chip, addresses) -> None:
    view = on_chip(4, 60).ap([[60, 3], [20, 2], [3, 5], [1, 2]], 4)
    assert view.shape == (3, 2, 5, 2)
    for w, z, y, x in ((0, 0, 0, 0), (2, 1, 4, 1), (1, 0, 3, 1)):
        assert addresses(view)[w, z, y, x] == 4 + w * 60 + z * 20 + y * 3 + x


def test_a_slice_and_its_pattern_are_the_same_view(on_chip) -> None:
    tile = on_chip(128, 64)
    assert parts(tile.slice(dim=1, start=8, end=24)) == parts(tile.ap(pattern=[[64, 128], [1, 16]], offset=8))


def test_the_own_pattern_may_be_changed_and_passed_back(on_chip) -> None:
    tile = on_chip(128, 64)
    pattern = tile.get_pattern()
    pattern[0][1] = 64
    assert tile.ap(pattern=pattern).shape == (64, 64)
    assert tile.shape == (128, 64)


def test_arguments_are_positional_too(on_chip, in_hbm) -> None:
    index = on_chip(64, 1, dtype="int32")
    view = in_hbm(128, 512).ap([[512, 64], [1, 512]], 0, None, index, 0, np.int32)
    assert view.is_indirect()
    assert view.dtype == np.int32


def test_an_outer_pattern_overrides_the_inner_one(on_chip) -> None:
    tile = on_chip(128, 256)
    inner = tile.ap(pattern=[[256, 128], [2, 128]])
    assert parts(inner.ap(pattern=[[256, 128], [1, 64]])) == parts(tile.ap(pattern=[[256, 128], [1, 64]]))


def test_no_offset_keeps_the_views_own(on_chip) -> None:
    """Contradiction 21: the parameter's description inherits the view's offset; a warning in the guide says that
    `t.slice(...).ap(p)` equals `t.ap(p)`. The API reference decides: inherited."""
    tile = on_chip(128, 64)
    assert tile[:, 8:24].ap([[64, 128], [1, 16]]).offset == 8
    assert tile.ap([[64, 64], [1, 16]], offset=3).ap([[64, 64], [1, 8]]).offset == 3


def test_an_explicit_offset_is_added_to_the_views_own(on_chip) -> None:
    """Contradiction 1: the API reference adds ("offset=0 keeps the base"), the guide overrides. Added."""
    tile = on_chip(128, 64)
    assert tile[:, 8:24].ap([[64, 128], [1, 8]], offset=0).offset == 8
    assert tile[:, 8:24].ap([[64, 128], [1, 8]], offset=4).offset == 12
    assert tile.ap([[64, 128], [1, 8]], offset=4).offset == 4


def test_an_offset_may_move_back_inside_the_storage(on_chip, refused) -> None:
    tile = on_chip(128, 64)
    assert tile[:, 8:24].ap([[64, 128], [1, 8]], offset=-8).offset == 0
    refused("NKI303", lambda: tile[:, 8:24].ap([[64, 128], [1, 8]], offset=-9))


def test_pattern_and_offset_count_elements_of_the_new_dtype(on_chip) -> None:
    tile = on_chip(128, 256, dtype="int32")
    view = tile.ap(pattern=[[512, 128], [1, 512]], offset=0, dtype="bfloat16")
    assert view.shape == (128, 512)
    assert view.dtype.name == "bfloat16"
    assert tile.ap([[512, 128], [1, 4]], offset=3, dtype="bfloat16").offset == 3
    assert tile[:, 2:4].ap([[512, 128], [1, 4]], offset=3, dtype="bfloat16").offset == 7
    assert tile.ap([[256, 128], [1, 256]], dtype=np.float32).shape == (128, 256)


def test_packed_types_are_reinterpreted_from_integers_of_their_width(in_hbm) -> None:
    view = in_hbm(128, 64, dtype="uint32").ap(dtype="float8_e4m3fn_x4", pattern=[[64, 128], [1, 64]], offset=0)
    assert view._dtype.name == "float8_e4m3fn_x4"


def test_a_new_dtype_divides_offset_and_partition(on_chip, refused) -> None:
    bytes_ = on_chip(128, 10, dtype="uint8")
    refused("NKI305", lambda: bytes_.ap([[2, 128], [1, 2]], dtype=np.float32))
    refused("NKI305", lambda: on_chip(128, 8, dtype="uint8")[:, 1:].ap([[4, 128], [1, 2]], dtype="float16"))


def test_the_partition_step_is_a_whole_partition(on_chip, refused) -> None:
    tile = on_chip(16, 32)
    found = refused("NKI305", lambda: tile.ap(pattern=[[64, 8], [1, 32]], offset=0))
    assert "64" in found.message
    assert "32" in found.message
    assert "[32, 8]" in found.help
    refused("NKI305", lambda: tile.ap([[1, 16], [1, 32]]))
    refused("NKI305", lambda: tile.ap([[0, 16], [1, 32]]))


def test_the_partition_step_of_a_three_dimensional_tile_is_the_product_of_its_free_sizes(on_chip, refused) -> None:
    tile = on_chip(16, 4, 8)
    assert tile.ap([[32, 16], [1, 32]]).shape == (16, 32)
    refused("NKI305", lambda: tile.ap([[8, 16], [1, 8]]))
    assert tile.reshape((16, 2, 16)).ap([[32, 16], [1, 32]]).shape == (16, 32)


def test_one_partition_needs_no_particular_step(on_chip) -> None:
    assert on_chip(16, 32).ap([[1, 1], [1, 32]]).shape == (1, 32)
    assert on_chip(16, 32).ap([[1, 1], [1, 32]], offset=5 * 32).offset == 160
    assert on_chip(16, 32)[3:4].ap([[7, 1], [1, 1]], 31).offset == 127


def test_hbm_takes_any_step(in_hbm) -> None:
    assert in_hbm(16, 32).ap([[64, 8], [1, 32]]).shape == (8, 32)
    assert in_hbm(16, 32).ap([[1, 16], [0, 4], [16, 4]]).shape == (16, 4, 4)


def test_a_zero_step_repeats_on_free_dimensions(on_chip, addresses) -> None:
    view = on_chip(4, 8).ap([[8, 4], [0, 3], [2, 4]])
    assert addresses(view)[1].tolist() == [[8, 10, 12, 14]] * 3


def test_a_negative_free_step_reads_backwards(on_chip, addresses) -> None:
    view = on_chip(4, 8).ap([[8, 4], [-1, 8]], offset=7)
    assert addresses(view)[1].tolist() == list(range(15, 7, -1))


def test_an_access_stays_in_its_own_partition(on_chip, refused) -> None:
    """Flattened, elements past the row are the next partition's; on the chip they are other memory of this one."""
    tile = on_chip(16, 32)
    assert tile.ap([[32, 15], [1, 32]], offset=32).offset == 32
    refused("NKI303", lambda: tile.ap([[32, 8], [1, 32]], offset=1))
    refused("NKI303", lambda: tile.ap([[32, 8], [1, 33]]))
    refused("NKI303", lambda: tile.ap([[32, 8], [-1, 2]]))


def test_partitions_are_counted_against_the_storage(on_chip, refused) -> None:
    found = refused("NKI303", lambda: on_chip(16, 32).ap([[32, 16], [1, 4]], offset=32))
    assert "16 partitions from partition 1" in found.message


@pytest.mark.parametrize(
    "pattern",
    [
        [32, 16],
        [[32, 16, 1]],
        [],
        None,
        3,
        [[32]],
        [[32, 0], [1, 4]],
        [[32, -1]],
        [[32, 4.0]],
        [["a", 1]],
        [(32, 4), 1],
        [[None, 4]],
    ],
)
def test_a_pattern_is_a_list_of_pairs(pattern, on_chip, refused) -> None:
    refused("NKI305", lambda: on_chip(16, 32).ap(pattern))


@pytest.mark.parametrize("offset", [1.0, "1", [1], True])
def test_an_offset_is_an_integer(offset, on_chip, refused) -> None:
    refused("NKI304", lambda: on_chip(16, 32).ap([[32, 16], [1, 4]], offset))


def test_a_runtime_offset_in_the_wrong_place_is_told_where_to_go(on_chip, refused) -> None:
    index = on_chip(1, 1, dtype="int32")
    assert "scalar_offset" in refused("NKI304", lambda: on_chip(16, 32).ap([[32, 16], [1, 4]], index)).help


def test_limits_of_the_instruction_encoding_are_not_the_patterns(in_hbm) -> None:
    """Steps are 16 bits wide in instructions, not in views; the instruction decides."""
    assert in_hbm(70000, 2).ap([[70000, 2], [1, 69999]]).shape == (2, 69999)


small = st.integers(1, 4)


@given(
    sizes=st.tuples(small, small, small),
    offset=st.integers(-3, 20),
    pattern=st.lists(st.tuples(st.integers(-4, 9), small), min_size=1, max_size=4),
)
def test_hbm_patterns_are_accepted_exactly_where_every_element_exists(
    sizes, offset, pattern, in_hbm, addresses, refused
) -> None:
    tensor = in_hbm(*sizes)
    shape = tuple(count for _, count in pattern)
    reached = np.full(shape, offset)
    for axis, (step, count) in enumerate(pattern):
        reached = reached + np.arange(count).reshape([-1 if k == axis else 1 for k in range(len(shape))]) * step
    inside = reached.min() >= 0 and reached.max() < tensor.size
    view = tensor.ap([list(pair) for pair in pattern], offset)
    assert np.array_equal(addresses(view), reached)
    if not inside:
        refused("NKI303", view.numpy)
    else:
        assert view._buffer.fault is None


@given(
    sizes=st.tuples(small, small, small),
    offset=st.integers(-3, 20),
    partitions=small,
    free=st.lists(st.tuples(st.integers(-3, 5), small), min_size=1, max_size=3),
)
def test_on_chip_patterns_are_accepted_exactly_where_each_partition_reads_itself(
    sizes, offset, partitions, free, on_chip, addresses, refused
) -> None:
    tensor = on_chip(*sizes)
    row = sizes[1] * sizes[2]
    pattern = [[row, partitions], *map(list, free)]
    shape = tuple(count for _, count in pattern)
    reached = np.full(shape, offset)
    for axis, (step, count) in enumerate(pattern):
        reached = reached + np.arange(count).reshape([-1 if k == axis else 1 for k in range(len(shape))]) * step
    wanted = (offset // row + np.arange(partitions)).reshape(-1, *[1] * len(free))
    inside = bool((reached // row == wanted).all() and reached.min() >= 0 and reached.max() < tensor.size)
    view = tensor.ap(pattern, offset)
    assert np.array_equal(addresses(view), reached)
    if not inside:
        refused("NKI303", view.numpy)
    else:
        assert view._buffer.fault is None


def test_the_step_of_a_partition_may_be_that_of_the_part_of_a_tile_that_ap_is_called_on(on_chip) -> None:
    """AWS's library makes patterns from the shape of a view: 16 columns of a tile of 64 are a partition step of 16."""
    part = on_chip(128, 64)[:, 8:24]
    assert parts(part.ap([[16, 128], [1, 16]])) == parts(part.ap([[64, 128], [1, 16]]))
    with pytest.raises(AssertionError, match="partition step is 8"):
        part.ap([[8, 128], [1, 8]])
