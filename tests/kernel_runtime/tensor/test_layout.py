"""Views that change sizes and strides: reshape, permute, broadcast, view(dtype), rearrange and the rest."""

from __future__ import annotations

import numpy as np
import pytest


def test_a_fresh_tensor_tells_its_layout(on_chip) -> None:
    tile = on_chip(128, 64, name="w")
    assert tile.shape == (128, 64)
    assert tile.strides == (64, 1)
    assert tile.offset == 0
    assert tile.dtype == np.float32
    assert tile.buffer == "sbuf"
    assert (tile.ndim, tile.size, tile.itemsize) == (2, 128 * 64, 4)
    assert tile.name == "w"
    assert tile.address is None
    assert tile.is_contiguous()
    assert not tile.is_indirect()
    assert len(tile) == 128


def test_the_partition_stride_is_the_elements_of_a_partition(on_chip) -> None:
    assert on_chip(16, 4, 8).strides == (32, 8, 1)
    assert on_chip(16, 4, 8, space=on_chip(1, 1).buffer).reshape((16, 32)).strides == (32, 1)


def test_a_shape_equals_lists_and_tuples_and_hashes_as_a_tuple(on_chip) -> None:
    shape = on_chip(2, 3).shape
    assert shape == [2, 3]
    listed, tupled = [2, 3], (2, 3)
    assert listed == shape
    assert shape == (2, 3)
    assert tupled == shape
    assert shape != [2, 4]
    assert not shape != [2, 3]  # noqa: SIM202 - the operator itself is under test
    assert shape != 3
    assert {(2, 3): 1}[shape] == 1
    assert shape[1:] == (3,)
    assert isinstance(shape, tuple)


def test_reshape_documented_examples(on_chip) -> None:
    tile = on_chip(128, 4, 6)
    assert tile.reshape((128, 24)).shape == (128, 24)
    assert tile.reshape((128, 2, 12)).strides == (24, 12, 1)
    assert on_chip(128, 64).reshape([128, 8, 8]).shape == (128, 8, 8)
    assert on_chip(128, 128).reshape((128, 32, 4)).strides == (128, 4, 1)


def test_hbm_reshapes_freely(in_hbm) -> None:
    assert in_hbm(4, 128, 8).reshape((512, 8)).strides == (8, 1)
    assert in_hbm(4, 128, 8).reshape((4096,)).shape == (4096,)
    assert in_hbm(1, 1).reshape((1, 1, 1)).shape == (1, 1, 1)


def test_reshape_of_a_view_needs_dense_neighbours(on_chip, in_hbm, refused) -> None:
    assert in_hbm(8, 8)[2:4].reshape((16,)).offset == 16
    assert in_hbm(8, 8)[:, 0:4].reshape((8, 2, 2)).strides == (8, 2, 1)
    found = refused("NKI305", lambda: in_hbm(8, 8)[:, 0:4].reshape((32,)))
    assert "copy" in found.help
    refused("NKI305", lambda: on_chip(128, 4, 8).permute((0, 2, 1)).reshape((128, 32)))


def test_reshape_keeps_the_number_of_elements(on_chip, refused) -> None:
    """Asserted at trace time since 0.5.0."""
    found = refused("NKI305", lambda: on_chip(128, 64).reshape((128, 63)))
    assert "8192" in found.message


def test_reshape_keeps_the_partitions(on_chip, refused) -> None:
    refused("NKI312", lambda: on_chip(128, 64).reshape((64, 128)))
    refused("NKI312", lambda: on_chip(128, 64).reshape((8192,)))
    refused("NKI312", lambda: on_chip(128, 64).reshape((1, 128, 64)))


def test_reshape_infers_nothing_but_says_the_size(on_chip, refused) -> None:
    assert "(128, 32, 2)" in refused("NKI305", lambda: on_chip(128, 64).reshape((128, -1, 2))).help
    refused("NKI305", lambda: on_chip(128, 64).reshape((128, -1, -1)))
    refused("NKI305", lambda: on_chip(128, 64).reshape((128, -1, 5)))
    refused("NKI305", lambda: on_chip(128, 64).reshape((128, 0)))


@pytest.mark.parametrize("shape", [64, None, (), "ab", (128, 8.0, 8), (128, None)])
def test_a_reshape_takes_a_tuple_of_integers(shape, on_chip, refused) -> None:
    found = refused("NKI305", lambda: on_chip(128, 64).reshape(shape))
    assert found.help == ("write reshape((64,))" if shape == 64 else "")


def test_permute_reorders(on_chip, in_hbm) -> None:
    assert on_chip(128, 4, 8).permute((0, 2, 1)).shape == (128, 8, 4)
    assert on_chip(128, 4, 8).permute([0, 2, 1]).strides == (32, 1, 8)
    assert in_hbm(2, 3, 4).permute((2, 0, 1)).shape == (4, 2, 3)


@pytest.mark.parametrize("dims", [(0, 1), (0, 1, 1), (0, 1, 3), (0, -1, 1), 0, (0, "1", 2), None, (0.0, 1, 2)])
def test_permute_takes_each_dimension_once(dims, in_hbm, refused) -> None:
    refused("NKI305", lambda: in_hbm(2, 3, 4).permute(dims))


def test_permute_leaves_the_partitions_first(on_chip, refused) -> None:
    refused("NKI312", lambda: on_chip(2, 3).permute((1, 0)))


def test_broadcast_repeats_a_dimension_of_one(on_chip, in_hbm, refused) -> None:
    view = on_chip(128, 1, 64).broadcast(1, 8)
    assert (view.shape, view.strides) == ((128, 8, 64), (64, 0, 1))
    assert in_hbm(1, 4).broadcast(0, 128).shape == (128, 4)
    assert in_hbm(1, 4).broadcast(0, 1).shape == (1, 4)
    refused("NKI312", lambda: on_chip(1, 64).broadcast(0, 128))
    refused("NKI305", lambda: on_chip(128, 2).broadcast(1, 4))
    refused("NKI305", lambda: on_chip(128, 1).broadcast(1, 0))
    refused("NKI305", lambda: on_chip(128, 1).broadcast(1, None))
    refused("NKI303", lambda: on_chip(128, 1).broadcast(2, 4))


def test_expand_dim_inserts_a_dimension_of_one(on_chip, in_hbm, refused) -> None:
    assert on_chip(128, 64).expand_dim(1).shape == (128, 1, 64)
    assert on_chip(128, 64).expand_dim(2).shape == (128, 64, 1)
    assert in_hbm(4).expand_dim(0).shape == (1, 4)
    refused("NKI312", lambda: on_chip(128, 64).expand_dim(0))
    refused("NKI303", lambda: on_chip(128, 64).expand_dim(3))
    refused("NKI303", lambda: on_chip(128, 64).expand_dim(-1))


def test_squeeze_dim_removes_a_dimension_of_one_down_to_the_floor(on_chip, in_hbm, refused) -> None:
    assert on_chip(128, 1, 64).squeeze_dim(1).shape == (128, 64)
    assert on_chip(128, 1).squeeze_dim(1).shape == (128, 1)
    assert in_hbm(1, 4).squeeze_dim(0).shape == (4,)
    assert in_hbm(1).squeeze_dim(0).shape == (1,)
    refused("NKI305", lambda: on_chip(128, 2, 4).squeeze_dim(1))
    refused("NKI312", lambda: on_chip(1, 2, 4).squeeze_dim(0))


def test_reshape_dim_splits_one_dimension(on_chip, in_hbm, refused) -> None:
    tile = on_chip(128, 24)
    assert tile.reshape_dim(1, (4, 6)).shape == (128, 4, 6)
    assert tile.reshape_dim(1, (4, -1)).strides == (24, 6, 1)
    assert tile.reshape_dim(0, (128,)).shape == (128, 24)
    assert tile.reshape_dim(0, (-1,)).shape == (128, 24)
    assert tile.reshape_dim(1, (1, 24)).shape == (128, 1, 24)
    assert tile.reshape_dim(1, (4, 1, -1)).strides == (24, 6, 6, 1)
    assert in_hbm(24, 2).reshape_dim(0, (-1, 3, 4)).shape == (2, 3, 4, 2)
    assert tile[:, ::2].reshape_dim(1, (3, 4)).strides == (24, 8, 2)
    refused("NKI312", lambda: tile.reshape_dim(0, (2, 64)))
    for shape in ((5, 5), (-1, -1), (5, -1), (0, -1), (-2, -12), (-24, -1), (), 24):
        refused("NKI305", lambda shape=shape: tile.reshape_dim(1, shape))


def test_flatten_dims_merges_a_range(on_chip, in_hbm, refused) -> None:
    tile = on_chip(128, 2, 3, 4)
    assert tile.flatten_dims(1, 2).shape == (128, 6, 4)
    assert tile.flatten_dims(1, 3).strides == (24, 1)
    assert tile.flatten_dims(2, 2).shape == (128, 2, 3, 4)
    assert in_hbm(2, 3, 4).flatten_dims(0, 1).shape == (6, 4)
    assert on_chip(128, 4, 8)[:, :, 0:1].flatten_dims(1, 2).strides == (32, 8)
    refused("NKI312", lambda: tile.flatten_dims(0, 1))
    refused("NKI305", lambda: tile.flatten_dims(2, 1))
    refused("NKI303", lambda: tile.flatten_dims(1, 4))
    refused("NKI305", lambda: tile[:, :, 0:2].flatten_dims(1, 2))
    refused("NKI305", lambda: tile.permute((0, 2, 1, 3)).flatten_dims(1, 2))


def test_view_reinterprets_the_bytes(on_chip) -> None:
    tile = on_chip(128, 64)
    assert tile.view(np.uint8).shape == (128, 256)
    assert tile.view(np.uint8).strides == (256, 1)
    assert tile.view(dtype=np.int32).shape == (128, 64)
    assert tile.view(np.int32).dtype == np.int32
    assert on_chip(128, 256, dtype="uint8").view(np.float32).shape == (128, 64)
    assert tile.reinterpret_cast(np.uint16)[:, 2:4].offset == 2
    assert tile[3:5, 8:16].view("bfloat16").offset == 3 * 128 + 16


def test_view_of_a_dimension_of_one_widens_it(on_chip) -> None:
    view = on_chip(128, 4, 8)[:, :, 3:4].view(np.uint16)
    assert (view.shape, view.strides, view.offset) == ((128, 4, 2), (64, 16, 1), 6)


def test_view_needs_a_contiguous_last_dimension_of_whole_elements(on_chip, in_hbm, refused) -> None:
    refused("NKI305", lambda: on_chip(128, 64)[:, ::2].view(np.uint8))
    refused("NKI305", lambda: on_chip(128, 4)[:, ::2].view(np.uint8))
    refused("NKI305", lambda: on_chip(128, 4, 8).permute((0, 2, 1)).view(np.uint8))
    refused("NKI305", lambda: on_chip(128, 6, dtype="uint8")[:, 0:4].view(np.float32))
    refused("NKI305", lambda: in_hbm(4, 8, dtype="uint8")[:, 0:6].view(np.float32))
    refused("NKI305", lambda: in_hbm(4, 8, dtype="uint8")[:, 2:6].view(np.float32))
    refused("NKI305", lambda: in_hbm(4, 6, dtype="uint8")[:, 0:4].view(np.float32))
    assert in_hbm(4, 6, dtype="uint8")[2:3, 0:4].view(np.float32).offset == 3
    refused("NKI312", lambda: on_chip(128).view(np.uint8))


def test_view_on_chip_counts_whole_elements_of_a_partition(on_chip, refused) -> None:
    """Six bytes a partition: the byte of partition 2 would pass for partition 3 when counted in fours."""
    refused("NKI305", lambda: on_chip(128, 6, dtype="uint8")[2:3, 0:4].view(np.float32))


def test_rearrange_splits_reorders_and_merges(on_chip, in_hbm, addresses) -> None:
    tile = on_chip(128, 24)
    view = tile.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4})
    assert view.shape == (128, 6, 4)
    assert np.array_equal(addresses(view), np.arange(128 * 24).reshape(128, 4, 6).transpose(0, 2, 1))
    assert on_chip(64, 30).rearrange(("p", ("a", "c")), ("p", "c", "a"), {"a": 5}).shape == (64, 6, 5)
    merged = in_hbm(4, 6, 8).rearrange(["a", "b", "c"], [("a", "b"), "c"])
    assert (merged.shape, merged.strides) == ((24, 8), (8, 1))
    assert in_hbm(4, 6).rearrange(("a", "b"), ("b", "a")).shape == (6, 4)
    assert in_hbm(4, 6).rearrange(("a", "b"), ((), "b", "a")).shape == (1, 6, 4)


@pytest.mark.parametrize(
    ("source", "target", "sizes"),
    [
        (("p", "f"), ("p", "g"), None),
        (("p", "f"), ("p", "f", "f"), None),
        (("p", "f"), ("p",), None),
        (("p",), ("p",), None),
        (("p", ("a", "b")), ("p", "a", "b"), None),
        (("p", ("a", "b")), ("p", "a", "b"), {"a": 5}),
        (("p", ("a", "b")), ("p", "a", "b"), {"a": "4"}),
        (("p", ("a", "a")), ("p", "a", "a"), {"a": 4}),
        (("p", ("p", "b")), ("p", "b"), {"p": 4}),
        (("p", ("a", "b")), ("p", ("b", "a")), {"a": 4}),
        (("p", "f"), ("p", "f"), {"f": 23}),
        ("p f", "p f", None),
        ("pf", ("p", "f"), None),
        (("p", 3), ("p", "f"), None),
        (("p", "f"), (), None),
    ],
)
def test_rearrange_refuses_what_no_view_can_say(source, target, sizes, on_chip, in_hbm, refused) -> None:
    refused("NKI305", lambda: in_hbm(128, 24).rearrange(source, target, sizes))


def test_rearrange_leaves_the_partitions_first_and_whole(on_chip, refused) -> None:
    tile = on_chip(128, 24)
    refused("NKI312", lambda: tile.rearrange(("p", "f"), ("f", "p")))
    refused("NKI312", lambda: tile.rearrange((("a", "p"), "f"), ("a", "p", "f"), {"a": 2}))
    refused("NKI312", lambda: tile.rearrange(("p", "f"), (("p", "f"),)))
    refused("NKI312", lambda: tile.rearrange((("a", "p"), "f"), (("a", "p"), "f"), {"a": 2}))


def test_contiguity_skips_partitions_and_dimensions_of_one(on_chip, in_hbm) -> None:
    assert on_chip(128, 64)[0:32].is_contiguous()
    assert on_chip(128, 4, 8)[::2, 1:2].is_contiguous()
    assert not on_chip(128, 64)[:, ::2].is_contiguous()
    assert not on_chip(128, 4, 8)[:, :, 0:4].is_contiguous()
    assert not on_chip(128, 4, 8).permute((0, 2, 1)).is_contiguous()
    assert on_chip(128, 64)[:, 8:16].is_contiguous()
    assert not in_hbm(128, 64)[:, 8:16].is_contiguous()
    assert in_hbm(128, 64)[4:5, 8:16].is_contiguous()
    assert not in_hbm(1, 64).broadcast(0, 4).is_contiguous()


def test_a_view_tells_the_tensor_of_its_refusal(on_chip, refused) -> None:
    found = refused("NKI305", lambda: on_chip(128, 64, name="weights", dtype="bfloat16").reshape((128, 63)))
    assert found.note == "weights: (128, 64) bfloat16 in sbuf"
