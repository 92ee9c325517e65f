"""Addresses: nothing that lives lies on anything else that lives, and what does not fit is named."""

from __future__ import annotations

import cProfile
import dataclasses
import pstats
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import Arch, arch_of, legal_starts
from nki_lab.kernel_runtime.allocate import Allocation, allocate, compiled, first_fit, placing
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.tensor import Buffer
from tests.kernel_runtime.drawn_kernels import Drawn, drawn_kernels, nisa, nl, small, traced

BANK = 2048


# -- brute force -------------------------------------------------------------------------------------------------------


def lives(program: Program) -> dict[int, tuple[int, int]]:
    """First and last op that touches each buffer, counted op by op."""
    out: dict[int, tuple[int, int]] = {}
    for op in program.ops():
        views = list(op.views)
        views += [
            program.views[v.indirect.index._view] for v in views if v.indirect and hasattr(v.indirect.index, "_view")
        ]
        for view in views:
            first, _ = out.get(view.buffer.id, (op.index, 0))
            out[view.buffer.id] = (first, op.index)
    for tensor in program.outputs:
        if tensor._buffer.on_chip and tensor._buffer.id in out:
            out[tensor._buffer.id] = (out[tensor._buffer.id][0], len(program) - 1)
    return out


def check(program: Program, found: Allocation) -> None:
    """Hold an allocation against a bitmap of each memory, op by op."""
    times = lives(program)
    count = len(program.buffers)
    assert [len(column) for column in (found.partition, found.byte, found.first, found.last)] == [count] * 4
    for buffer in program.buffers:
        number = buffer.id
        first, last = times.get(number, (-1, -1))
        assert (found.first[number], found.last[number]) == (first, last)
        if not buffer.on_chip or last < 0:
            assert found.partition[number] == found.byte[number] == -1
        elif buffer.address is not None:
            assert (found.partition[number], found.byte[number]) == buffer.address
        elif found.byte[number] >= 0:
            check_place(buffer, int(found.partition[number]), int(found.byte[number]), program.arch)
    steps = {"sbuf": np.zeros(len(program), np.int64), "psum": np.zeros(len(program), np.int64)}
    for op in range(len(program)):
        live = [program.buffers[n] for n, (first, last) in times.items() if first <= op <= last]
        for space in ("sbuf", "psum"):
            mine = [buffer for buffer in live if buffer.space == space]
            steps[space][op] = check_step(program, found, mine, op)
    assert found.sbuf_peak == steps["sbuf"].max(initial=0)
    assert found.psum_peak == steps["psum"].max(initial=0)
    check_usage(found, steps)


def check_place(buffer: Buffer, partition: int, byte: int, arch: Arch) -> None:
    """An automatic tensor lies where accesses may start, inside its memory, and in PSUM inside a bank."""
    assert partition in legal_starts(buffer.partitions)
    assert byte % buffer.dtype.nbytes == 0
    room = arch.sbuf_partition_bytes if buffer.space == "sbuf" else arch.psum_partition_bytes
    assert 0 <= byte <= byte + buffer.partition_bytes <= room
    if buffer.space == "psum":
        if buffer.partition_bytes > BANK:
            assert byte % BANK == 0
        else:
            assert byte // BANK == (byte + buffer.partition_bytes - 1) // BANK


def check_step(program: Program, found: Allocation, live: list[Buffer], op: int) -> int:
    """No two live tensors share a byte unless both are placed; gives the bytes in use in the fullest partition."""
    ends = [int(found.byte[buffer.id]) + buffer.partition_bytes for buffer in live if found.byte[buffer.id] >= 0]
    owner = np.full((128, max(ends, default=0)), -1, np.int16)
    beside = np.zeros(128, np.int64)
    for buffer in sorted(live, key=lambda item: item.address is None):
        partition, byte = int(found.partition[buffer.id]), int(found.byte[buffer.id])
        if byte < 0:
            assert buffer.address is None
            beside[quadrants(0, buffer.partitions)] += buffer.partition_bytes
            continue
        box = np.s_[partition : partition + buffer.partitions, byte : byte + buffer.partition_bytes]
        if buffer.address is None:
            assert (owner[box] < 0).all(), f"op {op}: {buffer} lies on {program.buffers[owner[box].max()]}"
        owner[quadrants(partition, buffer.partitions), box[1]] = buffer.id
    return int(((owner >= 0).sum(axis=1) + beside).max())


def quadrants(partition: int, partitions: int) -> slice:
    """A tensor takes whole quadrants of 32 partitions."""
    return slice(partition // 32 * 32, -(-(partition + partitions) // 32) * 32)


def check_usage(found: Allocation, steps: dict[str, np.ndarray]) -> None:
    usage = found.usage
    assert (np.diff(usage.op) > 0).all()
    both = np.stack((usage.sbuf, usage.psum), axis=1)
    assert (both[1:] != both[:-1]).any(axis=1).all()
    for space, column in (("sbuf", usage.sbuf), ("psum", usage.psum)):
        row = np.searchsorted(usage.op, np.arange(len(steps[space])), side="right") - 1
        assert np.array_equal(np.where(row < 0, 0, column[row] if len(column) else 0), steps[space])


def allocated(program: Program) -> Allocation:
    found = allocate(program)
    check(program, found)
    return found


def codes(found: Allocation) -> list[str]:
    return [item.code for item in found.diagnostics]


# -- properties --------------------------------------------------------------------------------------------------------


@given(drawn_kernels(columns=40, most_tiles=10))
def test_no_live_automatic_tensor_lies_on_another(kernel: Drawn) -> None:
    allocated(traced(kernel, target=small(sbuf=512)))


@given(drawn_kernels(columns=700, most_tiles=10, placed=False))
def test_the_same_holds_with_large_psum_tensors(kernel: Drawn) -> None:
    allocated(traced(kernel, target=small(sbuf=8192)))


@given(drawn_kernels(columns=40, most_tiles=12), st.sampled_from((192, 256, 512)))
def test_what_is_missing_is_said(kernel: Drawn, room: int) -> None:
    program = traced(kernel, target=small(sbuf=room))
    found = allocated(program)
    automatic = [b for b in program.buffers if b.on_chip and b.address is None and found.last[b.id] >= 0]
    missing = [buffer for buffer in automatic if found.byte[buffer.id] < 0]
    said = {"NKI315", "NKI316"} & set(codes(found))
    assert bool(missing) <= bool(said)
    if "NKI315" in said:
        assert missing


@given(drawn_kernels(columns=40, most_tiles=12), st.sampled_from((192, 512, 8192)))
def test_columns_may_be_arrays_as_compiled_code_takes_them(kernel: Drawn, room: int) -> None:
    program = traced(kernel, target=small(sbuf=room))
    lists = allocate(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placing, "run", lambda *columns: compiled.by(first_fit.arrange, *columns))
        arrays = allocate(program)
    for name in ("partition", "byte", "reuse"):
        np.testing.assert_array_equal(getattr(arrays, name), getattr(lists, name), err_msg=name)


@given(drawn_kernels(columns=40, most_tiles=10))
def test_whoever_gets_bytes_names_who_had_them(kernel: Drawn) -> None:
    program = traced(kernel, target=small(sbuf=512))
    found = allocate(program)
    had: dict[tuple[str, int, int], int] = {}
    pairs = {tuple(row) for row in found.reuse.tolist()}
    chip = [b for b in program.buffers if b.on_chip and found.byte[b.id] >= 0]
    for buffer in sorted(chip, key=lambda b: (found.first[b.id], b.id)):
        partition, byte = int(found.partition[buffer.id]), int(found.byte[buffer.id])
        size = buffer.partition_bytes
        size = -(-size // BANK) * BANK if buffer.space == "psum" and size > BANK else size
        rows = quadrants(partition, buffer.partitions)
        for key in [(buffer.space, row, at) for row in range(rows.start, rows.stop) for at in range(byte, byte + size)]:
            before = had.get(key)
            if before is not None and found.last[before] < found.first[buffer.id]:
                assert (before, buffer.id) in pairs
            had[key] = buffer.id
    for earlier, later in pairs:
        assert found.last[earlier] < found.first[later]


# -- liveness ----------------------------------------------------------------------------------------------------------


def test_a_result_that_stays_on_the_chip_lives_to_the_end() -> None:
    def kernel() -> Any:
        a = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(a, 0.0)
        for _ in range(4):
            b = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
            nisa.memset(b, 0.0)
        return a

    program = traced(kernel)
    found = allocated(program)
    assert (found.first[0], found.last[0]) == (0, 4)
    assert found.sbuf_peak == 64 * 4 + 512 * 4


def test_an_index_tensor_lives_as_long_as_it_is_used() -> None:
    def kernel(x: Any) -> None:
        index = nl.ndarray((128, 1), nl.int32, buffer=nl.sbuf)
        nisa.memset(index, 0)
        for _ in range(3):
            rows = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(rows, x.ap([[64, 128], [1, 64]], vector_offset=index, indirect_dim=0))

    program = traced(kernel, (256, 64))
    found = allocated(program)
    assert (found.first[1], found.last[1]) == (0, 3)


def test_tensors_that_nothing_touches_have_no_place() -> None:
    def kernel() -> None:
        nl.ndarray((128, 8192), nl.float32, buffer=nl.sbuf)
        nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, 0))

    found = allocated(traced(kernel))
    assert found.byte.tolist() == found.partition.tolist() == [-1, -1]
    assert found.sbuf_peak == found.psum_peak == len(found.usage.op) == 0
    assert not found.diagnostics


def test_usage_steps_with_the_program() -> None:
    def kernel() -> None:
        for columns in (64, 64, 128):
            a = nl.ndarray((128, columns), nl.float32, buffer=nl.sbuf)
            p = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
            nisa.memset(a, 0.0)
            nisa.memset(p, 0.0)
            nisa.tensor_copy(a[:, 0:64], p)

    usage = allocated(traced(kernel)).usage
    assert usage.op.tolist() == [0, 1, 3, 4, 6, 7]
    assert usage.sbuf.tolist() == [256, 256, 256, 256, 512, 512]
    assert usage.psum.tolist() == [0, 256, 0, 256, 0, 256]


# -- places ------------------------------------------------------------------------------------------------------------


def test_short_lived_tiles_rotate_through_memory() -> None:
    def kernel(x: Any) -> None:
        for _ in range(12):
            a = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(a, x)
            nisa.tensor_copy(a, a)

    found = allocated(traced(kernel, (128, 128), target=small(sbuf=4096)))
    assert found.byte[1:].tolist() == [(number % 8) * 512 for number in range(12)]
    assert found.reuse.tolist() == [[number, number + 8] for number in range(1, 5)]


def test_tensors_that_stay_lie_low_and_out_of_the_rotation() -> None:
    def kernel(x: Any) -> None:
        stay = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(stay, x)
        for _ in range(14):
            a = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(a, x)
            nisa.tensor_tensor(a, a, stay, op=nl.add)

    found = allocated(traced(kernel, (128, 128), target=small(sbuf=4096)))
    assert found.byte[1] == 0
    assert found.byte[2:].tolist() == [512 + (number % 7) * 512 for number in range(14)]


def test_psum_tiles_take_bank_after_bank() -> None:
    def kernel() -> None:
        for columns in (512, 128, 128, 512, 512, 512, 512, 512, 512, 512):
            p = nl.ndarray((128, columns), nl.float32, buffer=nl.psum)
            nisa.memset(p, 0.0)

    found = allocated(traced(kernel))
    assert found.byte.tolist() == [bank * BANK for bank in (*range(8), 0, 1)]
    assert found.reuse.tolist() == [[0, 8], [1, 9]]


def test_small_psum_tiles_share_a_bank_when_all_are_taken() -> None:
    def kernel() -> None:
        tiles = [nl.ndarray((128, 128), nl.float32, buffer=nl.psum) for _ in range(32)]
        for tile in tiles:
            nisa.memset(tile, 0.0)
        for tile in tiles:
            nisa.tensor_copy(tile, tile)

    found = allocated(traced(kernel))
    assert sorted(found.byte.tolist()) == [512 * number for number in range(32)]
    assert found.psum_peak == 16384
    assert not found.diagnostics


def test_a_psum_tensor_of_several_banks_takes_whole_ones() -> None:
    def kernel() -> None:
        wide = nl.ndarray((128, 768), nl.float32, buffer=nl.psum)
        small_one = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
        nisa.memset(wide, 0.0)
        nisa.memset(small_one, 0.0)
        nisa.tensor_copy(wide, wide)

    found = allocated(traced(kernel))
    assert found.byte.tolist() == [0, 2 * BANK]
    assert found.psum_peak == 768 * 4 + 64 * 4


def test_small_tensors_move_to_other_quadrants_before_anything_is_missing() -> None:
    def kernel() -> None:
        tiles = [nl.ndarray((32, 256), nl.float32, buffer=nl.sbuf) for _ in range(8)]
        tiles += [nl.ndarray((64, 256), nl.float32, buffer=nl.sbuf) for _ in range(4)]
        for tile in tiles:
            nisa.memset(tile, 0.0)
        for tile in tiles:
            nisa.tensor_copy(tile, tile)

    found = allocated(traced(kernel, target=small(sbuf=4096)))
    assert not found.diagnostics
    assert set(found.partition.tolist()) == {0, 32, 64}
    assert found.sbuf_peak == 4096


def test_a_small_tensor_starts_at_partition_0_where_there_is_room() -> None:
    def kernel() -> None:
        for rows in (1, 32, 33, 64, 128):
            nisa.memset(nl.ndarray((rows, 64), nl.float32, buffer=nl.sbuf), 0.0)

    assert set(allocated(traced(kernel)).partition.tolist()) == {0}


def test_automatic_tensors_keep_clear_of_placed_ones_that_come_later() -> None:
    def kernel(x: Any) -> None:
        a = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(a, x)
        b = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 0))
        nisa.dma_copy(b, x)
        nisa.tensor_tensor(a, a, b, op=nl.add)
        c = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(c, x)

    found = allocated(traced(kernel, (128, 128), target=small(sbuf=1024)))
    assert found.byte[1:].tolist() == [512, 0, 0]
    assert found.reuse.tolist() == [[2, 3]]


def test_rotation_gives_way_to_packing_before_anything_is_missing() -> None:
    def kernel() -> None:
        keep = []
        for _ in range(6):
            a = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)  # short
            nisa.memset(a, 0.0)
            b = nl.ndarray((128, 16), nl.float32, buffer=nl.sbuf)  # stays, and would lie between the short ones
            nisa.tensor_copy(b, a[:, 0:16])
            keep.append(b)
        wide = nl.ndarray((128, 400), nl.float32, buffer=nl.sbuf)
        nisa.memset(wide, 0.0)
        for b in keep:
            nisa.tensor_copy(wide[:, 0:16], b)

    found = allocated(traced(kernel, target=small(sbuf=2048)))
    assert (found.byte >= 0).all()
    assert not found.diagnostics


def test_planning_finds_room_that_packing_leaves_in_pieces() -> None:
    def kernel() -> None:
        def tile(units: int) -> Any:
            made = nl.ndarray((128, 64 * units), nl.float32, buffer=nl.sbuf)
            nisa.memset(made, 0.0)
            return made

        a, b, c = tile(2), tile(2), tile(2)
        nisa.tensor_copy(a, c)
        nisa.tensor_copy(c, c)  # b is last used here at the latest
        d = tile(3)
        nisa.tensor_copy(d[:, 0:128], a)
        nisa.tensor_copy(d[:, 0:128], c)

    found = allocated(traced(kernel, target=small(sbuf=7 * 256)))
    assert (found.byte >= 0).all()
    assert not found.diagnostics


# -- what does not fit -------------------------------------------------------------------------------------------------


def overflowing(x: Any) -> None:
    """Three tiles of 80 KiB a partition live at once."""
    names = ("left", "middle", "right")
    tiles = [nl.ndarray((128, 20480), nl.float32, buffer=nl.sbuf, name=name) for name in names]
    little = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf, name="little")
    nisa.dma_copy(little, x)
    for tile in tiles:
        nisa.memset(tile, 0.0)
    for tile in tiles:
        nisa.tensor_copy(tile[:, 0:8], little)


def line_of(kernel: Any, text: str) -> int:
    """Line of a kernel's source that contains a text."""
    import inspect

    lines, first = inspect.getsourcelines(kernel)
    return first + next(number for number, line in enumerate(lines) if text in line)


def test_an_overflow_names_the_need_the_room_the_line_and_the_live_tensors() -> None:
    program = traced(overflowing, (128, 8))
    found = allocated(program)
    (item,) = found.diagnostics
    assert (item.code, item.outcome, item.severity) == ("NKI315", "reject", "error")
    need = 3 * 81920 + 32
    assert (
        item.message == f"memset: live SBUF tensors need {need} bytes in each partition, NeuronCore-v3 has 229376 bytes"
    )
    assert (item.file, item.line) == (__file__, line_of(overflowing, "nisa.memset"))
    uses = (line_of(overflowing, "nisa.memset"), line_of(overflowing, "tensor_copy"))
    assert [entry.message for entry in item.related] == [
        *(f"'{name}': 81920 bytes, in use at lines {uses[0]} to {uses[1]}" for name in ("left", "middle", "right")),
        f"'little': 32 bytes, in use at lines {line_of(overflowing, 'dma_copy')} to {uses[1]}",
    ]
    made = line_of(overflowing, "tiles = [")
    assert [entry.span.line for entry in item.related[:3] if entry.span] == [made] * 3
    assert found.sbuf_peak == need
    assert (found.byte[1:] < 0).sum() == 1


def test_the_same_kernel_fits_the_next_generation() -> None:
    found = allocated(traced(overflowing, (128, 8), target="trn3"))
    assert codes(found) == ["NKI316"]
    found = allocated(traced(overflowing, (128, 8), target="trn1"))
    assert codes(found) == ["NKI315"]


def test_an_overflow_of_psum_counts_banks() -> None:
    def kernel() -> None:
        tiles = [nl.ndarray((128, 300), nl.float32, buffer=nl.psum) for _ in range(9)]
        for tile in tiles:
            nisa.memset(tile, 0.0)
        for tile in tiles:
            nisa.tensor_copy(tile, tile)

    found = allocated(traced(kernel))
    (item,) = found.diagnostics
    assert item.message == (
        "memset: live PSUM tensors need 18432 bytes (9 banks) in each partition, "
        "NeuronCore-v3 has 16384 bytes (8 banks)"
    )
    assert len(item.related) == 7
    assert item.related[-1].message == "and 3 more with 3600 bytes together"
    assert item.related[0].message.startswith("a (128, 300) float32 tensor: 1200 bytes, in use at lines ")
    assert found.psum_peak == 9 * 1200


def test_the_worst_line_is_named_beside_the_first() -> None:
    def kernel() -> None:
        tiles = []
        for _ in range(4):
            tiles.append(nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf))
            nisa.memset(tiles[-1], 0.0)
        for tile in tiles:
            nisa.tensor_copy(tile, tile)
        wide = [nl.ndarray((128, 384), nl.float32, buffer=nl.sbuf) for _ in range(2)]
        nisa.memset(wide[0], 0.0)
        nisa.tensor_copy(wide[1], wide[0])

    (item,) = allocated(traced(kernel, target=small(sbuf=1536))).diagnostics
    assert item.line == line_of(kernel, "memset(tiles")
    assert item.note == f"at most 3072 bytes, at line {line_of(kernel, 'copy(wide')}"


def test_more_than_the_usable_bytes_is_a_warning() -> None:
    def kernel() -> None:
        a = nl.ndarray((128, 54 * 1024), nl.float32, buffer=nl.sbuf)
        nisa.memset(a, 0.0)

    (item,) = allocated(traced(kernel)).diagnostics
    assert (item.code, item.outcome, item.severity) == ("NKI316", "advice", "warning")
    assert item.message == "memset: live SBUF tensors need 221184 bytes of the 229376 in each partition"
    assert str(arch_of("trn2").sbuf_usable_bytes) in item.limit


def test_exactly_the_usable_bytes_is_silent() -> None:
    def kernel() -> None:
        a = nl.ndarray((128, 52 * 1024), nl.float32, buffer=nl.sbuf)
        nisa.memset(a, 0.0)

    assert arch_of("trn2").sbuf_usable_bytes == 52 * 1024 * 4
    assert not allocated(traced(kernel)).diagnostics


def test_room_in_pieces_only_is_a_warning() -> None:
    def kernel(x: Any) -> None:
        wall = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, 768))
        nisa.dma_copy(wall, x)
        wide = nl.ndarray((128, 256), nl.float32, buffer=nl.sbuf, name="wide")
        nisa.memset(wide, 0.0)
        nisa.tensor_copy(wide[:, 0:64], wall)

    (item,) = allocated(traced(kernel, (128, 64), target=small(sbuf=1792))).diagnostics
    assert item.code == "NKI316"
    assert item.message == "memset: no 1024 bytes in one piece were found in SBUF for 'wide'"
    assert item.line == line_of(kernel, "nisa.memset")


def test_tensors_placed_over_each_other_count_once() -> None:
    def kernel(x: Any) -> None:
        a = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 0))
        b = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 256))
        nisa.memset(a, 0.0)
        nisa.tensor_copy(b, a)
        nisa.tensor_copy(a, b)

    found = allocated(traced(kernel, (128, 128), target=small(sbuf=768)))
    assert found.sbuf_peak == 768
    assert "NKI315" not in codes(found)


# -- placed over each other --------------------------------------------------------------------------------------------


def test_a_value_that_is_overwritten_before_it_is_read_is_a_warning() -> None:
    def kernel(x: Any) -> None:
        a = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 0), name="a")
        b = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 256), name="b")
        c = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(a, x)
        nisa.memset(b, 0.0)
        nisa.tensor_tensor(c, a, b, op=nl.add)

    found = allocated(traced(kernel, (128, 128)))
    (item,) = found.diagnostics
    assert (item.code, item.outcome, item.severity) == ("NKI317", "advice", "warning")
    read = line_of(kernel, "tensor_tensor")
    assert item.message == (
        f"memset: 'b' at (0, 256) is written over 'a' at (0, 0), which is read again at line {read}"
    )
    assert item.line == line_of(kernel, "nisa.memset")
    assert [entry.message for entry in item.related] == ["'a' is placed here", "'b' is placed here"]
    assert found.overlaps.tolist() == [[1, 2]]


def test_a_reader_that_works_in_place_reads_what_was_overwritten_too() -> None:
    def kernel(x: Any) -> None:
        a = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 0))
        b = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 256))
        nisa.dma_copy(a, x)
        nisa.memset(b, 0.0)
        nisa.tensor_tensor(a, a, b, op=nl.add)

    (item,) = allocated(traced(kernel, (128, 128))).diagnostics
    assert item.code == "NKI317"
    assert item.message.endswith(f"which is read again at line {line_of(kernel, 'tensor_tensor')}")


def alternating(reads_first: bool) -> Any:
    """Two names for one place, in turn."""

    def kernel(x: Any) -> None:
        a = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 0))
        b = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 0))
        out = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
        for tile in (a, b, a, b):
            nisa.dma_copy(tile, x)
            if reads_first:
                nisa.tensor_copy(out, tile)
        nisa.tensor_copy(out, a)

    return kernel


def test_allocators_that_use_a_place_in_turn_are_left_alone() -> None:
    found = allocated(traced(alternating(False), (128, 128)))
    assert codes(found) == ["NKI317"]

    def kernel(x: Any) -> None:
        tiles = [nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, n % 2 * 512)) for n in range(8)]
        for tile in tiles:
            nisa.dma_copy(tile, x)
            nisa.tensor_copy(tile, tile)

    found = allocated(traced(kernel, (128, 128)))
    assert not found.diagnostics
    assert not len(found.overlaps)
    assert found.reuse.tolist() == [[n, n + 2] for n in range(1, 7)]


def test_two_names_of_one_value_are_left_alone() -> None:
    def kernel(x: Any) -> None:
        a = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 0))
        alias = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, 0))
        out = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(a, x)
        nisa.tensor_copy(out[:, 0:64], alias)
        nisa.tensor_copy(out, a)

    found = allocated(traced(kernel, (128, 128)))
    assert not found.diagnostics
    assert found.overlaps.tolist() == [[1, 2]]


def test_an_op_may_work_in_place_under_two_names() -> None:
    def kernel(x: Any) -> None:
        a = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 0))
        b = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf, address=(0, 0))
        nisa.dma_copy(a, x)
        nisa.tensor_copy(b, a)
        nisa.tensor_copy(b, b)

    found = allocated(traced(kernel, (128, 128)))
    assert not found.diagnostics
    assert not len(found.overlaps)


def test_tensors_side_by_side_do_not_overlap() -> None:
    def kernel() -> None:
        places = ((0, 0), (0, 256), (32, 0), (64, 0))
        tiles = [nl.ndarray((32, 64), nl.float32, buffer=nl.sbuf, address=place) for place in places]
        for tile in (*tiles, *tiles):
            nisa.memset(tile, 0.0)

    assert not len(allocated(traced(kernel)).overlaps)


def test_an_allocation_is_a_function_of_the_program() -> None:
    def columns(found: Allocation) -> list[Any]:
        skip = ("diagnostics", "usage")
        return [np.asarray(getattr(found, f.name)).tolist() for f in dataclasses.fields(found) if f.name not in skip]

    program = traced(overflowing, (128, 8))
    listing = program.text()
    assert columns(allocate(program)) == columns(allocate(program))
    assert program.text() == listing


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_diagnostics_are_complete(target: str) -> None:
    def complete(item: Diagnostic) -> bool:
        return bool(item.message and item.limit and item.help and item.line)

    assert all(complete(item) for item in allocate(traced(overflowing, (128, 8), target=target)).diagnostics)


# -- size --------------------------------------------------------------------------------------------------------------


def mixed(count: int) -> Program:
    """Placed and automatic tiles in turn, each placed one under another one, and some that stay to the end."""

    def kernel(x: Any) -> None:
        held = [nl.ndarray((128, 4), nl.float32, address=(0, 65536 + 16 * i)) for i in range(count // 4)]
        for tile in held:
            nisa.memset(tile, 0.0, engine=nisa.engine.vector)
        for i in range(count):
            a = nl.ndarray((128, 64), nl.float32, address=(0, 256 * (i % 32)))
            part = nl.ndarray((128, 32), nl.float32, address=(0, 256 * (i % 32)))
            b = nl.ndarray((128, 64), nl.float32)
            nisa.memset(a, 0.0, engine=nisa.engine.vector)
            nisa.tensor_copy(part, a[:, 0:32], engine=nisa.engine.vector)
            nisa.tensor_copy(b[:, 0:32], part, engine=nisa.engine.scalar)
        for tile in held:
            nisa.tensor_copy(tile, tile, engine=nisa.engine.scalar)

    return traced(kernel, (1, 1))


def calls(program: Program) -> int:
    """How many functions allocating a program calls: the same every time, unlike seconds."""
    profile = cProfile.Profile()
    profile.enable()
    found = allocate(program)
    profile.disable()
    assert not found.diagnostics
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_placed_tensors_beside_automatic_ones_cost_in_proportion() -> None:
    small_one, large_one = mixed(100), mixed(400)
    assert calls(large_one) < 5 * calls(small_one)
