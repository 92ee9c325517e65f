"""Tensors placed by address: where they overlap they are the same bytes, in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.isa.arch import legal_starts
from nki_lab.isa.dtype import DTYPES, F32
from nki_lab.kernel_runtime.footprint import box_of
from nki_lab.kernel_runtime.numerics.placed import PlacedMemory
from nki_lab.kernel_runtime.tensor import Buffer, sbuf
from tests.isa.ops.kernels import run
from tests.scale import scaled

Box = tuple[int, int, int, int, str]


@st.composite
def boxes(draw: Any) -> list[Box]:
    """A few placed tensors: (partition, partitions, byte, columns, dtype), many of them overlapping."""
    found = []
    for _ in range(draw(st.integers(2, 5))):
        rows = draw(st.sampled_from([1, 32, 33, 64, 128]))
        first = draw(st.sampled_from([start for start in legal_starts(rows) if start + rows <= 128]))
        dtype = draw(st.sampled_from(["float32", "bfloat16", "uint8", "int32"]))
        width = DTYPES[dtype].nbytes
        byte = draw(st.integers(0, 16)) * width
        found.append((first, rows, byte, draw(st.integers(1, 8)), dtype))
    return found


def meets(a: Box, b: Box) -> bool:
    def ends(box: Box) -> tuple[int, int]:
        return box[0] + box[1], box[2] + box[3] * DTYPES[box[4]].nbytes

    return a[0] < ends(b)[0] and b[0] < ends(a)[0] and a[2] < ends(b)[1] and b[2] < ends(a)[1]


@settings(max_examples=scaled(40))
@given(boxes(), st.data())
def test_programs_over_placed_tensors_follow_one_memory(placed: list[Box], data: Any) -> None:
    """A fill of one tensor is seen through every other, byte for byte, as in an array of bytes."""
    chip = np.full((128, 256), 0xFF, np.uint8)
    lines = ["def kernel(a):"]
    for number, (first, rows, byte, columns, dtype) in enumerate(placed):
        lines.append(f"    t{number} = nl.ndarray(({rows}, {columns}), nl.{dtype}, address=({first}, {byte}))")
    written: set[int] = set()
    for _ in range(data.draw(st.integers(1, 6))):
        number = data.draw(st.integers(0, len(placed) - 1))
        first, rows, byte, columns, dtype = placed[number]
        value = data.draw(st.integers(0, 100))
        kind = DTYPES[dtype].storage
        size = columns * kind.itemsize
        chip[first : first + rows, byte : byte + size] = np.full((rows, columns), value, kind).view(np.uint8)
        lines.append(f"    nisa.memset(t{number}, {value})")
        written.add(number)
    lines += ["    return ({})".format("".join(f"t{n}, " for n in range(len(placed)))), ""]
    results = run("\n".join(lines), np.zeros((1, 1), np.float32))
    for number, got in enumerate(results):
        first, rows, byte, columns, dtype = placed[number]
        alone = not any(meets(placed[number], other) for k, other in enumerate(placed) if k != number)
        if alone and number not in written:
            continue  # fresh memory of its own is poisoned in its own way
        size = columns * DTYPES[dtype].nbytes
        want = np.ascontiguousarray(chip[first : first + rows, byte : byte + size])
        np.testing.assert_array_equal(got.view(np.uint8).reshape(rows, size), want)


def buffer(number: int, address: tuple[int, int], *shape: int) -> Buffer:
    return Buffer(number, sbuf, F32, shape, address=address)


def test_tensors_that_only_touch_are_apart() -> None:
    memory = PlacedMemory()
    assert not list(memory.add(buffer(0, (0, 0), 32, 4)))
    assert not list(memory.add(buffer(1, (0, 16), 32, 4)))
    assert not list(memory.add(buffer(2, (32, 0), 32, 4)))
    assert {found.id for found in memory.add(buffer(3, (0, 12), 32, 2))} == {0, 1, 3}


def test_a_bridge_joins_what_was_apart() -> None:
    memory = PlacedMemory()
    left, right = buffer(0, (0, 0), 64, 4), buffer(1, (64, 32), 64, 4)
    list(memory.add(left))
    list(memory.add(right))
    bridge = buffer(2, (0, 8), 128, 8)
    assert {found.id for found in memory.add(bridge)} == {0, 1, 2}
    bounds = [memory.bind(item) for item in (left, right, bridge)]
    assert bounds[0].flat is bounds[1].flat is bounds[2].flat
    assert box_of(bridge) == (0, 128, 8, 40)


@pytest.mark.parametrize("final", [True, False])
def test_a_tensor_is_overwritten_through_its_neighbour(final: bool) -> None:
    text = """
def kernel(a):
    whole = nl.ndarray((128, 8), nl.float32, address=(0, 0))
    half = nl.ndarray((128, 4), nl.float32, address=(0, 16))
    nisa.dma_copy(whole, a)
    nisa.memset(half, 7.0)
    nisa.tensor_copy(whole[:, 0:2], half[:, 2:4])
    out = nl.ndarray((128, 8), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, whole)
    return out
"""
    a = np.random.default_rng(0).standard_normal((128, 8)).astype(np.float32)
    (got,) = run(text, a)
    want = a.copy()
    want[:, 4:8] = 7
    want[:, 0:2] = 7
    np.testing.assert_array_equal(got, want)


def test_what_a_tensor_held_is_kept_when_a_neighbour_appears_later() -> None:
    from nki_lab.kernel_runtime.numerics.executor import Executor
    from nki_lab.kernel_runtime.tensor import sbuf as space
    from tests.calls import kernel_of, traced

    text = """
def kernel(a):
    first = nl.ndarray((32, 4), nl.bfloat16, address=(0, 0))
    nisa.memset(first, 3.0)
    return first
"""
    program, builder = traced(kernel_of(text), [np.zeros((1, 1), np.float32)], ["float32"], "trn2")
    executor = Executor(program, {0: np.zeros((1, 1), np.float32)})
    executor.run(final=False)
    second = builder.allocate((32, 2), "uint16", space, address=(0, 4))
    builder.view_of(second)
    executor.run(final=False)
    np.testing.assert_array_equal(executor.read(second), np.full((32, 2), 0x4040, np.uint16))
    assert (executor.read(program.outputs[0]) == 3).all()


@settings(max_examples=scaled(60))
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.booleans()), min_size=1, max_size=12))
def test_whoever_is_given_is_enough_to_bind_again(items: list[tuple[int, int, bool]]) -> None:
    """Buffers enter in stretches, and are bound between them: those that overlap are always the same bytes."""
    memory = PlacedMemory()
    bounds: dict[int, Any] = {}
    entered: list[Buffer] = []
    waiting: dict[int, Buffer] = {}
    for number, (byte, columns, stop) in enumerate(items):
        item = buffer(number, (0, 4 * byte), 32, columns)
        entered.append(item)
        waiting.update((found.id, found) for found in memory.add(item))
        if not stop and number < len(items) - 1:
            continue
        bounds |= {found.id: memory.bind(found) for found in waiting.values()}
        waiting.clear()
        for a in entered:
            for b in entered:
                first, second = box_of(a), box_of(b)
                if a is b or not (first[2] < second[3] and second[2] < first[3]):
                    continue
                assert bounds[a.id].flat is bounds[b.id].flat
                assert bounds[b.id].base - bounds[a.id].base == second[2] - first[2]


def test_an_allocator_may_use_the_same_bytes_again_and_again() -> None:
    memory = PlacedMemory()
    given_back = sum(1 for n in range(3000) for _ in memory.add(buffer(n, (0, 16 * (n % 10)), 128, 6)))
    assert given_back < 3 * 3000
