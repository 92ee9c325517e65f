"""Tensor indirection: views that `NkiTensor.indirect` makes."""

from __future__ import annotations

import numpy as np

from nki_lab.kernel_runtime.tensor import VirtualRegister

register = VirtualRegister(id=7)


def test_indirect_gathers_columns_of_the_free_dimension(on_chip) -> None:
    """Contradiction 13: release notes speak of partitions, the API of free-dimension offsets; the API decides."""
    index = on_chip(16, 4, dtype="uint16")
    view = on_chip(16, 512).indirect(index)
    record = view._indirect
    assert view.shape == (16, 64)
    assert (record.kind, record.stride, record.extent, record.num_elem) == ("gather", 1, 512, 64)
    assert (record.lowest, record.highest, record.frozen_dim) == (0, 511, 1)
    assert view.is_indirect()
    single = on_chip(16, 1).indirect(index, 1)
    assert (single.shape, single._indirect.stride, single._indirect.extent) == ((16, 1), 1, 1)
    assert on_chip(16, 8, 64)[:, :, 3].indirect(index, num_elem=5)._indirect.stride == 64
    assert on_chip(16, 8, 64)[:, :, 3].indirect(index, 5).shape == (16, 5)


def test_without_num_elem_all_offsets_of_a_group_count(on_chip) -> None:
    """The documented default is index.size; beyond 32 partitions no engine's group holds as many offsets."""
    assert on_chip(8, 64).indirect(on_chip(8, 2, dtype="uint16")).shape == (8, 16)
    assert on_chip(32, 64).indirect(on_chip(32, 2, dtype="uint16")).shape == (32, 64)
    assert on_chip(128, 64).indirect(on_chip(128, 2, dtype="uint16")).shape == (128, 32)
    assert on_chip(128, 64).indirect(on_chip(128, 2, dtype="uint16"), 64).shape == (128, 64)


def test_the_rules_of_indirect(on_chip, in_hbm, refused) -> None:
    tile, index = on_chip(128, 64), on_chip(128, 2, dtype="uint16")
    for operation in (
        lambda: in_hbm(128, 64).indirect(index),
        lambda: tile.indirect(on_chip(64, 2, dtype="uint16")),
        lambda: tile.indirect(on_chip(128, 2)),
        lambda: tile.indirect(in_hbm(128, 2, dtype="uint16")),
        lambda: tile.indirect(register),
        lambda: tile.indirect(index, 65),
        lambda: tile.indirect(index, 0),
        lambda: tile.indirect(index, "4"),
        lambda: on_chip(128, 4, 8)[:, :, 0:4].indirect(index),
    ):
        refused("NKI309", operation)


def test_a_gathered_view_goes_to_an_instruction_as_it_is(on_chip, refused) -> None:
    view = on_chip(128, 64).indirect(on_chip(128, 2, dtype="uint16"), 8)
    for operation in (
        lambda: view[:, 0:4],
        lambda: view.reshape((128, 2, 4)),
        lambda: view.reshape_dim(1, (2, 4)),
        lambda: view.permute((0, 1)),
        lambda: view.expand_dim(1),
        lambda: view.squeeze_dim(1),
        lambda: view.broadcast(1, 4),
        lambda: view.flatten_dims(1, 1),
        lambda: view.rearrange(("p", "f"), ("p", "f")),
        lambda: view.view(np.int32),
        lambda: view.indirect(on_chip(128, 2, dtype="uint16")),
        lambda: view.select(1, register),
    ):
        refused("NKI309", operation)
    assert view[...].is_indirect()
    assert view[:, :].shape == (128, 8)
