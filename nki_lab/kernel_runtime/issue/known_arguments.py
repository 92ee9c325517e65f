"""Calls of which only some arguments are known: what is wrong for every value of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import TARGETS, arch_of
from nki_lab.isa.dtype import DType, dtype_of
from nki_lab.isa.spec import REQUIRED, Instruction, Operand
from nki_lab.kernel_runtime.issue import legality
from nki_lab.kernel_runtime.issue.nisa_functions import members
from nki_lab.kernel_runtime.issue.target import choice
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor, check_allocation


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """A tensor of which its memory, its dtype or all of it may be known; `whole` is then a tensor without values."""

    space: MemoryRegion | None = None
    dtype: DType | None = None
    whole: NkiTensor | None = None

    def __repr__(self) -> str:
        return "a tensor"


OPEN: Final = object()
"""Stands for an argument of which nothing is known."""


def misuse(instruction: Instruction, values: Mapping[str, object], *, complete: bool) -> list[Diagnostic]:
    """Return what is wrong with a call of `instruction`: findings that do not stop it, then the first that does.

    `values` are arguments by name, `OPEN` those that are not known; others are missing where the call is `complete`.
    """
    notes: list[Diagnostic] = []
    try:
        operands = _spread(instruction, values)
        tensors = [
            (operand, value)
            for name, operand in instruction.operands.items()
            if (value := _examined(instruction, operand, operands, notes, complete=complete)) is not None
        ]
        for operand, value in tensors:
            if value.space is not None:
                legality.check_memory(instruction, operand, value.space, {})
            if value.dtype is not None:
                legality.check_dtype(instruction, operand, value.dtype, {})
    except NkiError as error:
        return [*notes, *error.diagnostics]
    return notes


def _spread(instruction: Instruction, values: Mapping[str, object]) -> dict[str, object]:
    """Return the values by operand: those of a list one by one."""
    found = dict(values)
    for group, names in instruction.groups.items():
        value = found.pop(group, REQUIRED)
        if isinstance(value, list | tuple):
            found |= dict(zip(names, members(instruction, group, value), strict=True))
        elif value is OPEN or isinstance(value, KnownTensor):
            found |= dict.fromkeys(names, OPEN)
        elif value is not REQUIRED:
            members(instruction, group, value)
    return found


def _examined(
    instruction: Instruction,
    operand: Operand,
    values: Mapping[str, object],
    notes: list[Diagnostic],
    *,
    complete: bool,
) -> KnownTensor | None:
    """Return the tensor that an operand is; None for another value, which is checked."""
    value = values.get(operand.name, REQUIRED)
    if value is REQUIRED:
        if complete and operand.default is REQUIRED:
            raise legality.missing(instruction, operand.name)
    elif value is not OPEN and not _has_open(value):
        if isinstance(value, KnownTensor) and operand.is_tensor:
            return value
        if operand.is_tensor:
            legality.tensor_or_number(instruction, operand, value)
        else:
            legality.attribute(instruction, operand, value, notes)
    return None


def _has_open(value: object) -> bool:
    return isinstance(value, list | tuple) and any(
        item is OPEN or isinstance(item, KnownTensor) or _has_open(item) for item in value
    )


def new_tensor(shape: object, dtype: object, buffer: object, address: object) -> KnownTensor:
    """Return the tensor that an allocation makes, as far as its arguments are known.

    Raises the error of the first argument that every target refuses.
    """
    kind = None if dtype is OPEN else dtype_of(dtype)
    space = buffer if isinstance(buffer, MemoryRegion) else None
    if shape is OPEN or _has_open(shape) or kind is None or buffer is OPEN:
        if buffer is not OPEN and space is None:
            check_allocation((1, 1), kind or dtype_of("float32"), buffer, None, arch_of(choice.outside()))
        return KnownTensor(space, kind)
    known = None if address is OPEN or _has_open(address) else address
    for arch in dict.fromkeys(TARGETS.values()):
        try:
            sizes, region, _ = check_allocation(shape, kind, buffer, known, arch)
        except NkiError:
            continue
        return KnownTensor(region, kind, NkiTensor(sizes, kind, buffer=region) if address is None else None)
    check_allocation(shape, kind, buffer, known, arch_of(choice.outside()))
    raise AssertionError("a target refuses this and accepts it")
