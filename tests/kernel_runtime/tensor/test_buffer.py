"""Memory regions, buffers and the rules of allocation."""

from __future__ import annotations

from enum import Enum

import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import V2, V3, V4
from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.tensor import (
    Buffer,
    MemoryRegion,
    Space,
    check_allocation,
    hbm,
    private_hbm,
    psum,
    row_major,
    sbuf,
    shared_hbm,
    whole,
)
from nki_lab.kernel_runtime.tensor.view_type import PSUM_BANK_BYTES

F32 = dtype_of("float32")
BF16 = dtype_of("bfloat16")


def test_a_region_equals_its_name_and_hashes_like_it() -> None:
    assert sbuf == "sbuf"
    name = "psum"
    assert name == psum
    assert hash(shared_hbm) == hash("shared_hbm")
    assert {"private_hbm": 1}[private_hbm] == 1
    assert sbuf != psum
    assert str(sbuf) == "sbuf"


def test_hbm_is_another_name_of_private_hbm_and_no_member() -> None:
    assert hbm is private_hbm
    assert [member.name for member in MemoryRegion] == ["sbuf", "psum", "private_hbm", "shared_hbm"]
    assert issubclass(MemoryRegion, Enum)
    assert Space is MemoryRegion


def test_an_on_chip_buffer_counts_rows_of_its_free_dimensions() -> None:
    buffer = Buffer(3, sbuf, BF16, (128, 4, 8), name="w")
    assert (buffer.partitions, buffer.row_elements, buffer.partition_bytes, buffer.nbytes) == (128, 32, 64, 8192)
    assert buffer.on_chip


def test_an_hbm_buffer_is_one_row() -> None:
    buffer = Buffer(3, shared_hbm, F32, (4, 8))
    assert (buffer.partitions, buffer.row_elements, buffer.partition_bytes, buffer.nbytes) == (1, 32, 128, 128)
    assert not buffer.on_chip


def test_buffers_compare_and_hash_by_identity() -> None:
    one, two = Buffer(0, sbuf, F32, (1, 1)), Buffer(0, sbuf, F32, (1, 1))
    assert one != two
    assert len({one, two}) == 2
    assert repr(one) == "<buffer 0 (1, 1) float32 in sbuf>"
    placed = Buffer(4, psum, F32, (1, 8), name="acc", address=(0, 2048))
    assert repr(placed) == "<buffer 4 'acc' (1, 8) float32 in psum at (0, 2048)>"


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4), (7, 1, 1, 2)])
def test_row_major_strides_are_numpys(shape: tuple[int, ...]) -> None:
    assert row_major(shape) == tuple(step // 4 for step in np.zeros(shape, np.int32).strides)


def test_a_list_of_numpy_integers_is_a_shape() -> None:
    shape, space, address = check_allocation([np.int64(128), 4], F32, sbuf, None, V3)
    assert (shape, space, address) == ((128, 4), sbuf, None)
    assert all(type(size) is int for size in shape)


@pytest.mark.parametrize("shape", [(), [], (0, 4), (4, -1), (4, 2.0), (4, None), "44", 128, None, (True, 4)])
def test_a_shape_is_positive_integers(shape: object, refused) -> None:
    refused("NKI307", lambda: check_allocation(shape, F32, sbuf, None, V3))


@pytest.mark.parametrize(
    ("name", "advice"), [("sbuf", "nl.sbuf"), ("hbm", "nl.hbm"), ("SBUF", "nl.sbuf"), ("dram", "")]
)
def test_a_string_is_no_buffer(name: str, advice: str, refused) -> None:
    found = refused("NKI311", lambda: check_allocation((1, 1), F32, name, None, V3))
    assert advice in found.help


def test_the_refusal_of_a_buffer_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        check_allocation((1, 1), F32, 3, None, V3)


def test_more_partitions_than_the_chip_has_are_legal_to_allocate() -> None:
    """The instruction that touches them refuses, not the allocation."""
    assert check_allocation((256, 4), F32, sbuf, None, V3)[0] == (256, 4)


def test_a_one_dimensional_on_chip_tensor_is_accepted() -> None:
    """Contradiction 17: the guide says at least two dimensions, the register examples allocate shape [1] in SBUF."""
    shape, space, _ = check_allocation([1], F32, sbuf, None, V3)
    tensor = whole(Buffer(0, space, F32, shape))
    assert tensor.shape == (1,)
    assert tensor.strides == (1,)
    assert tensor[0].shape == (1,)


@pytest.mark.parametrize("arch", [V2, V3, V4])
def test_a_tensor_fits_a_partition_to_the_byte(arch, refused) -> None:
    for space, room in ((sbuf, arch.sbuf_partition_bytes), (psum, arch.psum_partition_bytes)):
        assert check_allocation((128, room // 4), F32, space, None, arch)
        found = refused(
            "NKI313", lambda space=space, room=room: check_allocation((1, room // 4 + 1), F32, space, None, arch)
        )
        assert str(room) in found.message
    assert check_allocation((1, 2**24), F32, shared_hbm, None, arch)


def test_every_generation_has_the_same_psum_bank() -> None:
    assert {arch.psum_bank_bytes for arch in (V2, V3, V4)} == {PSUM_BANK_BYTES}


def test_the_free_offset_of_an_address_is_in_bytes() -> None:
    """Contradiction 2: prose says elements; the PSUM example (bank times 2048) and the modulo example use bytes.

    Bank 7 starts at byte 14336 of 16384; counted in bfloat16 elements it would lie outside the partition.
    """
    assert check_allocation((128, 1024), BF16, psum, (0, 7 * 2048), V3)[2] == (0, 14336)


@pytest.mark.parametrize(
    ("address", "expected"),
    [(None, None), ((32, 64), (32, 64)), ([96, 0], (96, 0)), (0, (0, 0)), ((np.int64(64), 4), (64, 4))],
)
def test_addresses_are_pairs_or_none_or_a_bare_zero(address: object, expected: object) -> None:
    assert check_allocation((32, 4), F32, sbuf, address, V3)[2] == expected


@pytest.mark.parametrize("address", [5, (0,), (0, 1, 2), (0, 1.5), ("0", 0), "00", (None, 0), (False, 0)])
def test_anything_else_is_no_address(address: object, refused) -> None:
    refused("NKI306", lambda: check_allocation((32, 4), F32, sbuf, address, V3))


@pytest.mark.parametrize(
    ("partitions", "start", "legal"),
    [
        (128, 0, True), (128, 32, False), (65, 0, True), (65, 64, False), (64, 64, True), (64, 32, False),
        (33, 64, True), (33, 96, False), (32, 96, True), (32, 32, True), (32, 16, False), (1, 96, True), (1, 4, False),
        (1, 128, False), (1, -32, False), (200, 0, False),
    ],
)  # fmt: skip
def test_placed_tensors_start_where_the_architecture_allows(partitions: int, start: int, legal: bool, refused) -> None:
    def place() -> object:
        return check_allocation((partitions, 4), F32, sbuf, (start, 0), V3)

    if legal:
        assert place()
    else:
        refused("NKI306", place)


def test_a_placed_psum_tensor_starts_at_a_bank(refused) -> None:
    assert check_allocation((128, 512), F32, psum, (0, 2048), V3)
    found = refused("NKI306", lambda: check_allocation((128, 4), F32, psum, (0, 2052), V3))
    assert "2052" in found.message
    assert check_allocation((128, 4), F32, sbuf, (0, 2052), V3)


def test_a_placed_tensor_ends_inside_its_partition(refused) -> None:
    room = V3.sbuf_partition_bytes
    assert check_allocation((128, 16), F32, sbuf, (0, room - 64), V3)
    refused("NKI306", lambda: check_allocation((128, 16), F32, sbuf, (0, room - 63), V3))
    refused("NKI306", lambda: check_allocation((128, 16), F32, sbuf, (0, -1), V3))


def test_hbm_tensors_have_no_address(refused) -> None:
    refused("NKI306", lambda: check_allocation((4, 4), F32, shared_hbm, (0, 0), V3))


def test_refusals_of_shapes_are_assertion_errors() -> None:
    with pytest.raises(AssertionError) as caught:
        check_allocation((0,), F32, sbuf, None, V3)
    assert isinstance(caught.value, NkiError)
