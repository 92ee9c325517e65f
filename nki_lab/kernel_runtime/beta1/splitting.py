"""Calls on views of more dimensions than an access pattern has: several instructions, as in Beta 1's compiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.issue.legality import live_names
from nki_lab.kernel_runtime.tensor import NkiTensor, make_view, view_type

MOST_FREE_DIMENSIONS: Final = 4
"""Free dimensions of an on-chip access pattern, as legality has it."""

Live = tuple[Any, ...]


def parts(instruction: Instruction, live: Live) -> Iterator[Live]:
    """The operands of each instruction that a call takes: cut along the outermost free dimension until they fit."""
    if not too_many(live):
        yield live
        return
    operands = [instruction.operands[name] for name in live_names(instruction)]
    tensors = [value for value in live if isinstance(value, NkiTensor)]
    full = [
        value
        for value, operand in zip(live, operands, strict=True)
        if isinstance(value, NkiTensor) and operand.dims == ("P", "F")
    ]
    narrow = [
        value
        for value, operand in zip(live, operands, strict=True)
        if isinstance(value, NkiTensor) and operand.dims == ("P", "1") and operand.role == "in"
    ]
    apart = instruction.elementwise and len(full) + len(narrow) == len(tensors)
    if not apart or len({value._shape for value in full}) > 1:
        yield live
        return
    whole = {id(value) for value in full}
    for position in range(full[0]._shape[1]):
        yield from parts(
            instruction, tuple([_without_dim_1(value, position) if id(value) in whole else value for value in live])
        )


def too_many(live: Live) -> bool:
    """Whether an operand on the chip has more free dimensions than an access pattern has."""
    for value in live:
        if (
            value.__class__ is NkiTensor
            and len(value._shape) > MOST_FREE_DIMENSIONS + 1
            and value._buffer.on_chip
            and len(view_type(value).free_shape) > MOST_FREE_DIMENSIONS
        ):
            return True
    return False


def _without_dim_1(tensor: NkiTensor, position: int) -> NkiTensor:
    """The view at a position of dimension 1."""
    shape, strides = tensor._shape, tensor._strides
    return make_view(
        tensor._buffer,
        (shape[0], *shape[2:]),
        (strides[0], *strides[2:]),
        tensor._offset + position * strides[1],
        tensor._dtype,
        tensor._indirect,
    )
