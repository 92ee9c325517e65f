"""The program as columns: readable rows, a stable listing, and a check that notices every broken column."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nki_lab.kernel_runtime.ir import Program, access_columns, attributes_of, verify
from tests.calls import kernel_of, traced

TEXT = """def kernel(a, b):
    x = nl.ndarray((128, 64), nl.bfloat16)
    y = nl.ndarray((128, 96), nl.bfloat16, name="right")
    acc = nl.ndarray((64, 96), nl.float32, buffer=nl.psum, address=(0, 2048))
    nisa.dma_copy(x, a)
    nisa.dma_copy(y, b)
    for i in range(2):
        nisa.nc_matmul(acc, x, y, accumulate=i > 0, name=f"step{i}")
    tile = nl.ndarray((64, 96), nl.bfloat16)
    nisa.activation(tile[:, 0:48], nl.exp, acc[:, 48:96], scale=0.5)
    nisa.tensor_copy(tile.view(nl.int16)[:, 48:96:2], tile.view(nl.int16)[:, 0:24])
    out = nl.ndarray((64, 96), nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out
"""

LISTING = """program kernel target=NeuronCore-v3 dialect=current
  %0 = shared_hbm bfloat16[128, 64] input
  %1 = shared_hbm bfloat16[128, 96] input
  %2 = sbuf bfloat16[128, 64]
  %3 = sbuf bfloat16[128, 96] 'right'
  %4 = psum float32[64, 96] at (0, 2048)
  %5 = sbuf bfloat16[64, 96]
  %6 = shared_hbm bfloat16[64, 96] output
     0  dma.dma_copy(dst=%2, src=%0)  ; line 5
     1  dma.dma_copy(dst=%3, src=%1)  ; line 6
     2  tensor.nc_matmul(dst=%4, stationary=%2, moving=%3, accumulate=False) name=step0  ; line 8
     3  tensor.nc_matmul(dst=%4, stationary=%2, moving=%3, accumulate=True) name=step1  ; line 8
     4  scalar.activation(dst=%5@0[[96, 64], [1, 48]], op=nl.exp, data=%4@48[[96, 64], [1, 48]], scale=0.5)  ; line 10
     5  vector.tensor_copy(dst=%5@48[[96, 64], [2, 24]] as int16, src=%5@0[[96, 64], [1, 24]] as int16)  ; line 11
     6  dma.dma_copy(dst=%6, src=%5)  ; line 13
  return %6
"""


@pytest.fixture
def program() -> Program:
    arrays = [np.zeros((128, 64), np.float32), np.zeros((128, 96), np.float32)]
    found, _ = traced(kernel_of(TEXT), arrays, ["bfloat16"] * 2, "trn2")
    return found


def test_the_listing_is_stable(program: Program) -> None:
    assert program.text() == LISTING


def test_rows_are_readable(program: Program) -> None:
    op = program.op(2)
    assert (op.index, op.name, op.site.line, op.variant.engine) == (2, "step0", 8, "tensor")
    moving = op.operand("moving")
    assert moving is not None
    assert moving.buffer.name == "right"
    assert op.operand("bias") is None
    assert [item.index for item in program.ops()] == list(range(len(program))) == list(range(7))


def test_attributes_are_those_that_differ_from_the_declaration(program: Program) -> None:
    assert attributes_of(program.op(3).variant) == {"accumulate": True}
    exp = attributes_of(program.op(4).variant)
    assert exp["scale"] == 0.5
    assert set(exp) == {"op", "scale"}


def test_equal_calls_share_variant_and_views(program: Program) -> None:
    assert program.op(2).views == program.op(3).views
    assert program.op(2).variant is not program.op(3).variant
    assert program.op(0).variant is not program.op(1).variant  # of other shapes
    assert len(program.variants) == 7


def test_a_verified_program_passes_at_every_stage(program: Program) -> None:
    for stage in ("specialized", "allocated", "scheduled"):
        verify(program, stage)  # type: ignore[arg-type]


def shorten(program: Program) -> None:
    program.op_site.pop()


def lose_an_access(program: Program) -> None:
    program.access_view.pop(3)


def append_an_access(program: Program) -> None:
    program.access_view.append(0)


def shift_a_row(program: Program) -> None:
    program.op_access[2] += 1


def swap_operands(program: Program) -> None:
    at = program.op_access[2]
    program.access_view[at + 1], program.access_view[at + 2] = program.access_view[at + 2], program.access_view[at + 1]


def swap_variants(program: Program) -> None:
    program.op_variant[0], program.op_variant[1] = program.op_variant[1], program.op_variant[0]


def take_a_stranger(program: Program) -> None:
    other, _ = traced(kernel_of(TEXT), [np.zeros((128, 64)), np.zeros((128, 96))], ["bfloat16"] * 2, "trn2")
    program.views[0] = other.views[0]


@pytest.mark.parametrize(
    "damage",
    [shorten, lose_an_access, append_an_access, shift_a_row, swap_operands, swap_variants, take_a_stranger],
    ids=lambda damage: damage.__name__,
)
def test_a_broken_column_is_noticed(program: Program, damage: Callable[[Any], None]) -> None:
    damage(program)
    with pytest.raises(AssertionError, match="specialized"):
        verify(program)


def test_columns_are_arrays_of_numbers(program: Program) -> None:
    for column in (program.op_variant, program.op_access, program.op_site, program.access_view):
        assert isinstance(column, array)


def test_accesses_as_columns_agree_with_the_rows(program: Program) -> None:
    columns = access_columns(program)
    rows = [
        (op.index, view.buffer.id, out)
        for op in program.ops()
        for view, out in zip(op.views, op.variant.outs, strict=True)
    ]
    fields = columns._asdict()
    op = next(value for name, value in fields.items() if name in ("op", "row"))
    buffer = fields["buffer"]
    assert sorted(zip(op.tolist(), buffer.tolist(), strict=True)) == sorted((i, b) for i, b, _ in rows)
