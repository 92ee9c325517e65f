"""View types: what two views must share to be one class, and what the class knows."""

from __future__ import annotations

import numpy as np

from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.tensor import Buffer, VirtualRegister, ds, psum, view_type, whole


def test_hbm_slices_that_differ_in_place_share_a_type(in_hbm) -> None:
    tensor, other = in_hbm(512, 512), in_hbm(1024, 512)
    assert view_type(tensor[0:128, 0:64]) is view_type(tensor[128:256, 64:128])
    assert view_type(tensor[0:128, 0:64]) is view_type(other[512:640, 0:64])


def test_tiles_of_one_shape_share_a_type(on_chip) -> None:
    assert view_type(on_chip(128, 64)) is view_type(on_chip(128, 64))
    assert view_type(on_chip(128, 64)[:, 0:8]) is view_type(on_chip(128, 64)[:, 8:16])


def test_types_differ_where_legality_or_cost_may(on_chip, in_hbm) -> None:
    tile = on_chip(128, 64)
    kinds = {
        id(view_type(view))
        for view in (
            tile,
            tile[0:64],
            tile[64:128],
            tile[:, ::2],
            tile[0:64:2],
            tile.view(np.int32),
            on_chip(128, 64, space=psum),
            in_hbm(128, 64),
            in_hbm(128, 64, dtype="bfloat16"),
            in_hbm(256, 64)[ds(VirtualRegister(), 128)],
            in_hbm(256, 64).vector_select(0, on_chip(128, 1, dtype="int32")),
        )
    }
    assert len(kinds) == 11


def test_a_type_is_found_once_and_kept(on_chip) -> None:
    tile = on_chip(16, 16)
    assert tile._type is None
    assert view_type(tile) is tile._type is view_type(tile)
    assert tile[...]._type is None


def test_ids_count_upwards_and_tell_types_apart(on_chip) -> None:
    one, two = view_type(on_chip(3, 7)), view_type(on_chip(3, 11))
    assert one.id != two.id
    assert repr(one).startswith("<view type ")


def test_an_on_chip_type_knows_its_partitions_and_its_free_pattern(on_chip) -> None:
    kind = view_type(on_chip(128, 4, 8)[32:64, :, 2:6])
    assert (kind.partitions, kind.start_partition, kind.partition_step) == (32, 32, 1)
    assert kind.free_size == 16
    assert (kind.free_shape, kind.free_strides) == ((4, 4), (8, 1))
    assert kind.innermost_stride == 1
    assert not kind.contiguous
    assert kind.span_bytes == (3 * 8 + 3 + 1) * 4
    assert kind.dtype is dtype_of("float32")
    assert (kind.shape, kind.strides) == ((32, 4, 4), (32, 8, 1))
    assert kind.on_chip
    assert kind.indirect is None


def test_strided_partitions_are_counted_in_partitions(on_chip) -> None:
    kind = view_type(on_chip(128, 64)[32::4])
    assert (kind.partitions, kind.start_partition, kind.partition_step) == (24, 32, 4)
    assert view_type(on_chip(128, 64).ap([[1, 1], [1, 64]], 64)).partition_step == 1
    assert view_type(on_chip(128, 64)[:, ::2].ap([[64, 128], [4, 16]])).innermost_stride == 4


def test_a_single_element_has_an_empty_free_pattern(on_chip) -> None:
    kind = view_type(on_chip(128, 64)[5, 7])
    assert (kind.free_shape, kind.free_size, kind.innermost_stride, kind.span_bytes) == ((), 1, 1, 4)
    assert kind.contiguous
    assert kind.start_partition == 5


def test_in_hbm_all_dimensions_are_free(in_hbm) -> None:
    kind = view_type(in_hbm(128, 64)[:, 0:32])
    assert (kind.partitions, kind.start_partition, kind.free_size) == (1, 0, 4096)
    assert (kind.free_shape, kind.free_strides) == ((128, 32), (64, 1))
    assert kind.span_bytes == (127 * 64 + 32) * 4
    assert not kind.on_chip
    assert view_type(in_hbm(128, 64)).free_shape == (8192,)


def test_addresses_count_towards_start_partition_and_bank(on_chip) -> None:
    placed = whole(Buffer(0, psum, dtype_of("float32"), (32, 512), address=(64, 2048)))
    kind = view_type(placed[:, 100:200])
    assert (kind.start_partition, kind.bank_offset) == (64, 400)
    wide = whole(Buffer(0, psum, dtype_of("bfloat16"), (128, 2048)))
    assert view_type(wide[:, 1024:1536]).bank_offset == 0
    assert view_type(wide[:, 1000:1100]).bank_offset == 2000
    assert view_type(on_chip(128, 1024)[:, 100:]).bank_offset == 0


def test_a_reinterpreted_view_keeps_its_partition_and_place(on_chip) -> None:
    tile = on_chip(128, 64, space=psum)
    kind = view_type(tile[32:64, 8:16].view("bfloat16"))
    assert (kind.start_partition, kind.bank_offset, kind.free_size, kind.span_bytes) == (32, 32, 16, 32)


def test_indirect_types_name_their_kind(on_chip, in_hbm) -> None:
    index = on_chip(16, 1, dtype="int32")
    assert view_type(in_hbm(4, 8).vector_select(0, index)).indirect == "vector"
    assert view_type(in_hbm(4, 8).select(0, index[0])).indirect == "scalar"
    assert view_type(on_chip(16, 64).indirect(index)).indirect == "gather"


def test_a_broadcast_spans_one_element(on_chip) -> None:
    kind = view_type(on_chip(128, 1).broadcast(1, 512))
    assert (kind.free_shape, kind.free_strides, kind.span_bytes, kind.innermost_stride) == ((512,), (0,), 4, 0)
    assert not kind.contiguous
