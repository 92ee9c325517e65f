"""Keys: which elements `tensor[key]`, `slice` and static `select` address, and which keys are refused."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.kernel_runtime.tensor import VirtualRegister, ds

CUBE = [
    (np.s_[0, 0, 10], (1, 1)),
    (np.s_[:, 0], (64, 64)),
    (np.s_[:, 0, 10], (64, 1)),
    (np.s_[0:64, 0, 0:64], (64, 64)),
    (np.s_[:, 0, :], (64, 64)),
    (np.s_[:, :, ::2], (64, 64, 32)),
    (np.s_[...], (64, 64, 64)),
    (np.s_[:, ...], (64, 64, 64)),
    (np.s_[0, ..., :], (1, 64, 64)),
    (np.s_[0, ...], (1, 64, 64)),
    (np.s_[0], (1, 64, 64)),
    (np.s_[..., 0], (64, 64)),
    (np.s_[-1, -1, -1], (1, 1)),
    (np.s_[5:6, 3, 4], (1, 1)),
    (np.s_[:, 3, 0:1], (64, 1)),
    (np.s_[:, 0:1, 3], (64, 1)),
    ((), (64, 64, 64)),
]


@pytest.mark.parametrize(("key", "shape"), CUBE)
def test_on_chip_results_keep_partitions_and_two_dimensions(key, shape, on_chip) -> None:
    assert on_chip(64, 64, 64)[key].shape == shape


def test_an_integer_addresses_the_element_that_it_names(on_chip, addresses) -> None:
    cube = on_chip(64, 64, 64)
    assert addresses(cube[3, 2, 10]).tolist() == [[3 * 4096 + 2 * 64 + 10]]
    assert addresses(cube[:, 7, -1])[:, 0].tolist() == [p * 4096 + 7 * 64 + 63 for p in range(64)]


def test_the_last_indexed_free_dimension_is_the_one_that_stays(on_chip) -> None:
    """Where all free dimensions are indexed by integers, the kept one has the stride of the last."""
    assert on_chip(16, 4, 8)[:, 1, 2].strides == (32, 1)


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (np.s_[1], (2, 2)),
        (np.s_[0, :, :], (2, 2)),
        (np.s_[1, 1], (2,)),
        (np.s_[1, 1, 1], (1,)),
        (np.s_[:, 1, 1], (2,)),
        (np.s_[..., 1], (2, 2)),
        (np.s_[-2, ..., 0:1], (2, 1)),
    ],
)
def test_hbm_integers_drop_their_dimension_down_to_one(key, shape, in_hbm) -> None:
    assert in_hbm(2, 2, 2)[key].shape == shape


def test_a_one_dimensional_hbm_tensor_is_indexed_down_to_one_element(in_hbm, addresses) -> None:
    assert addresses(in_hbm(9)[4]).tolist() == [4]


def test_documented_chain_of_slice_permutation_and_index(on_chip, addresses) -> None:
    tile = on_chip(128, 4, 16)
    view = tile[0:64, :, :].permute((0, 2, 1))[:, 0, :]
    assert view.shape == (64, 4)
    assert np.array_equal(addresses(view), np.arange(128 * 64).reshape(128, 4, 16)[:64, :, 0])


def test_documented_chain_of_index_and_slice(on_chip) -> None:
    first = on_chip(64, 64, 64)[0, ...]
    assert first[:, 0:32, :].shape == (1, 32, 64)


def test_slices_of_both_dimensions_compose(on_chip, addresses) -> None:
    tile = on_chip(128, 256)
    once = tile.slice(dim=0, start=0, end=128).slice(dim=1, start=0, end=256, step=2)
    twice = once.slice(dim=0, start=0, end=64).slice(dim=1, start=0, end=64)
    assert twice.shape == (64, 64)
    assert np.array_equal(addresses(twice), np.arange(128 * 256).reshape(128, 256)[:64, 0:128:2])


def test_slice_documented_examples(on_chip) -> None:
    tile = on_chip(128, 64)
    assert tile.slice(1, 8, 24, 1).shape == (128, 16)
    assert tile.slice(1, 0, 64, 2).shape == (128, 32)
    assert tile.slice(1, 0, 64, 3).shape == (128, 22)
    part = tile.slice(dim=1, start=8, end=24)
    assert part.get_pattern() == [[64, 128], [1, 16]]
    assert part.offset == 8


def test_nl_ds_is_a_slice_of_start_and_size(on_chip, in_hbm) -> None:
    tile = on_chip(128, 64)
    for left, right in ((tile[ds(8, 8), :], tile[8:16, :]), (tile[:, ds(start=3, size=5)], tile[:, 3:8])):
        assert (left.shape, left.strides, left.offset) == (right.shape, right.strides, right.offset)
    assert in_hbm(256, 4)[ds(128, 128)].offset == 512


def test_numpy_integers_are_keys(on_chip) -> None:
    tile = on_chip(128, 8, 64)
    view = tile[np.int64(0) : np.int32(4), np.uint8(3), ds(np.int64(4), np.int64(8))]
    assert (view.shape, view.offset) == ((4, 8), 3 * 64 + 4)


def test_negative_slice_bounds_count_from_the_end(on_chip, in_hbm) -> None:
    tile = on_chip(128, 64)
    assert tile[:, -8:].offset == 56
    assert tile[:, -8:-2].shape == (128, 6)
    assert in_hbm(64)[-3:].shape == (3,)


@pytest.mark.parametrize(
    "key",
    [
        np.s_[0:129], np.s_[:, 0:65], np.s_[:, 64:65], np.s_[:, 8:8], np.s_[:, 9:8], np.s_[:, -65:3], np.s_[:, 3:-62],
        np.s_[:, 64:], np.s_[128], np.s_[-129], np.s_[0, 64], np.s_[0, 0, 0], np.s_[:, ::-1], np.s_[:, 0:8:0],
        (slice(None), ds(60, 5)), (slice(None), ds(-1, 2)), (slice(None), ds(0, 0)), (slice(None), ds(0, 65)),
        np.s_[0:200, 0:4], np.s_[0:4, 100:200], np.s_[4:4, 0:4], np.s_[5:4, 0:4], np.s_[0:4, 4:4], np.s_[0:4, 5:4],
        np.s_[-129:4, 0:4], np.s_[128:129, 0:4], np.s_[0:4, -65:4],
    ],
)  # fmt: skip
def test_keys_outside_the_tensor_are_refused(key, on_chip, in_hbm, refused) -> None:
    refused("NKI303", lambda: on_chip(128, 64)[key])
    refused("NKI303", lambda: in_hbm(128, 64)[key])


def test_bounds_are_never_clipped_and_the_message_names_dimension_bounds_and_size(on_chip, refused) -> None:
    found = refused("NKI303", lambda: on_chip(100, 64)[0:128, :])
    assert "0:128" in found.message
    assert "dimension 0" in found.message
    assert "100" in found.message
    assert "min(stop, 100)" in found.help


def test_refusals_of_bounds_are_index_errors(on_chip) -> None:
    with pytest.raises(IndexError):
        on_chip(4, 4)[4]


@pytest.mark.parametrize(
    "item",
    [None, True, np.bool_(True), 1.0, "x", [0, 1], np.arange(3), np.ones(4, bool), object(), ds(1.5, 2), ds(0, 1.5),
     slice(0, 2.0), slice("a", None), slice(None, None, 1.5)],
)  # fmt: skip
def test_other_kinds_of_key_are_refused(item, on_chip, in_hbm, refused) -> None:
    refused("NKI304", lambda: on_chip(128, 64)[:, item])
    refused("NKI304", lambda: in_hbm(128, 64)[item])


def test_refusals_of_keys_are_type_errors(on_chip) -> None:
    with pytest.raises(TypeError):
        on_chip(4, 4)[None]


def test_two_ellipses_are_refused(on_chip, refused) -> None:
    refused("NKI304", lambda: on_chip(4, 4, 4)[..., 0, ...])


def test_new_axis_beyond_the_rank_is_called_by_its_name(on_chip, refused) -> None:
    assert "expand_dim(1)" in refused("NKI304", lambda: on_chip(4, 4)[:, None, :]).help


def test_a_tensor_key_is_refused_with_the_gather_that_says_it(on_chip, in_hbm, refused) -> None:
    index = on_chip(64, 1, dtype="int32")
    found = refused("NKI304", lambda: in_hbm(128, 64)[index[:, 0], :8])
    assert "vector_select" in found.help
    assert "ap(vector_offset" in found.help


def test_tensors_as_bounds_are_refused(on_chip, in_hbm, refused) -> None:
    index = on_chip(1, 1, dtype="int32")
    refused("NKI304", lambda: in_hbm(128, 64)[index:, :])
    refused("NKI304", lambda: in_hbm(128, 64)[ds(index, 4), :])
    refused("NKI304", lambda: in_hbm(128, 64)[0:4, ds(0, index)])


def test_a_register_in_a_key_is_a_select(in_hbm, on_chip, refused) -> None:
    register = VirtualRegister(id=1)
    for tensor, key, same in (
        (in_hbm(8, 128, 64), register, lambda t: t.select(0, register)),
        (in_hbm(8, 128, 64), (slice(2, 4), register), lambda t: t[2:4].select(1, register)),
        (on_chip(128, 4, 64), (slice(None), register), lambda t: t.select(1, register)),
        (on_chip(128, 64), (slice(0, 32), register), lambda t: t[0:32].select(1, register)),
        (in_hbm(64), register, lambda t: t.select(0, register)),
    ):
        view, wanted = tensor[key], same(tensor)
        assert (view.shape, view.strides, view.offset) == (wanted.shape, wanted.strides, wanted.offset)
        assert view._indirect is not None
        assert (view._indirect.stride, view._indirect.highest) == (wanted._indirect.stride, wanted._indirect.highest)
        refused("NKI309", lambda view=view: view[register] if view._shape[0] > 1 else view.select(0, register))
    refused("NKI312", lambda: on_chip(128, 64)[register])
    refused("NKI309", lambda: in_hbm(8, 8, 8)[register, register])


def test_a_register_bounds_no_slice(in_hbm, refused) -> None:
    register = VirtualRegister(id=1)
    assert "nl.ds(start, size)" in refused("NKI304", lambda: in_hbm(128, 64)[register:, :]).help
    refused("NKI304", lambda: in_hbm(128, 64)[ds(0, register)])


@pytest.mark.parametrize(
    "operation", [lambda t: t.slice(2, 0, 1), lambda t: t.slice(-1, 0, 1), lambda t: t.select(2, 0)]
)
def test_a_dimension_that_is_not_there_is_refused(operation, on_chip, refused) -> None:
    refused("NKI303", lambda: operation(on_chip(4, 4)))


def test_a_negative_dimension_is_refused_with_its_positive_number(on_chip, refused) -> None:
    assert "dim=1" in refused("NKI303", lambda: on_chip(4, 4).slice(-1, 0, 1)).help


def test_a_dimension_number_is_an_integer(on_chip, refused) -> None:
    refused("NKI304", lambda: on_chip(4, 4).slice("1", 0, 1))
    refused("NKI304", lambda: on_chip(4, 4).select(None, 0))


@pytest.mark.parametrize(("start", "end", "step"), [(-2, 4, 1), (0, -1, 1), (2, 2, 1), (0, 5, 1), (0, 4, 0), (3, 1, 1)])
def test_slice_takes_ascending_bounds_inside_the_dimension(start, end, step, on_chip, refused) -> None:
    refused("NKI303", lambda: on_chip(4, 4).slice(1, start, end, step))


def test_static_select_drops_the_dimension_but_for_partitions(on_chip, in_hbm) -> None:
    tile = on_chip(128, 8, 64)
    assert tile.select(1, 3).shape == (128, 64)
    assert tile.select(1, 3).offset == 192
    assert tile.select(0, 5).shape == (1, 8, 64)
    assert on_chip(128, 8).select(1, 3).shape == (128, 1)
    assert in_hbm(4, 128, 8).select(0, 2).shape == (128, 8)
    assert in_hbm(4).select(0, 2).shape == (1,)


@pytest.mark.parametrize("index", [-1, 8, np.int64(9)])
def test_static_select_stays_inside_the_dimension(index, on_chip, refused) -> None:
    refused("NKI303", lambda: on_chip(128, 8, 64).select(1, index))


def test_partitions_may_be_stepped_over_in_a_view(on_chip) -> None:
    """No document forbids the view; the instruction that uses it decides."""
    assert on_chip(128, 64)[0:128:2].strides == (128, 1)


def test_every_key_gives_a_new_view_of_the_same_buffer(on_chip) -> None:
    tile = on_chip(128, 64)
    for key in (np.s_[...], np.s_[:, :], np.s_[0:4], np.s_[1, 2]):
        assert tile[key] is not tile
        assert tile[key]._buffer is tile._buffer
