"""Calls of which only some arguments are known: what is wrong for every value of the others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import TARGETS, Arch, arch_of
from nki_lab.isa.dtype import DType, dtype_of
from nki_lab.isa.spec import REQUIRED, Instruction, Operand, Use
from nki_lab.kernel_runtime.issue import legality
from nki_lab.kernel_runtime.issue.gathers import Problem
from nki_lab.kernel_runtime.issue.legality import ANY_SIZE, noted
from nki_lab.kernel_runtime.issue.nisa_functions import members
from nki_lab.kernel_runtime.issue.target import choice
from nki_lab.kernel_runtime.tensor import MemoryRegion, check_allocation, hbm

OPEN: Final = object()
"""Stands for an argument of which nothing is known."""


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """A tensor of which its memory, its dtype or its shape may be known; sizes in it may be `ANY_SIZE`.

    `made` is the call that allocates it, where this is all of a tensor whose allocation is known.
    """

    space: MemoryRegion | None = None
    dtype: DType | None = None
    shape: tuple[int, ...] | None = None
    made: ast.Call | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return "a tensor"


class _View:
    """A view of which memory and shape are known, with the attributes of a `ViewType` that shapes are judged by."""

    start_partition = 0

    def __init__(self, tensor: KnownTensor) -> None:
        assert tensor.space is not None
        assert tensor.shape is not None
        self.space = tensor.space
        self.dtype = tensor.dtype or _UnknownDType
        self.shape = tensor.shape
        self.on_chip = not tensor.space.endswith("hbm")
        self.partitions = tensor.shape[0] if self.on_chip else 1
        self.free_size = prod(tensor.shape[1:] if self.on_chip else tensor.shape)


class _UnknownDType:
    name = "?"


def misuse(instruction: Instruction, values: Mapping[str, object], *, complete: bool) -> list[Diagnostic]:
    """Return what is wrong with a call of `instruction`: findings that do not stop it, then the first that does.

    `values` are arguments by name, `OPEN` those that are not known; others are missing where the call is `complete`.
    """
    notes: list[Diagnostic] = []
    attrs = _Known()
    try:
        operands = _spread(instruction, values)
        tensors: dict[str, KnownTensor] = {}
        for name, operand in instruction.operands.items():
            value = _examined(instruction, operand, operands, notes, complete=complete)
            if isinstance(value, KnownTensor):
                tensors[name] = value
            elif value is not OPEN:
                attrs[name] = value
        for name, value in tensors.items():
            operand = instruction.operands[name]
            if value.space is not None:
                notes += noted(instruction, {}, legality.memory_problems(operand, value.space))
            if value.dtype is not None:
                notes += noted(instruction, {}, legality.dtype_problems(operand, value.dtype))
        _check_sizes(instruction, tensors)
        if complete:
            _on_every_target(lambda arch: noted(instruction, {}, _attribute_problems(instruction, attrs, arch)))
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
) -> object:
    """Return the tensor or number that an operand is, or the value of an attribute, which is checked; else `OPEN`."""
    value = values.get(operand.name, REQUIRED)
    if value is REQUIRED:
        if not complete:
            return OPEN
        if operand.default is REQUIRED:
            raise legality.missing(instruction, operand.name)
        value = operand.default
    if value is OPEN or _has_open(value) or (isinstance(value, KnownTensor) and operand.is_tensor):
        return value if isinstance(value, KnownTensor) else OPEN
    if operand.is_tensor:
        return legality.tensor_or_number(instruction, operand, value)[1]
    return legality.attribute(instruction, operand, value, notes)


def _has_open(value: object) -> bool:
    return isinstance(value, list | tuple) and any(
        item is OPEN or isinstance(item, KnownTensor) or _has_open(item) for item in value
    )


def _check_sizes(instruction: Instruction, tensors: Mapping[str, KnownTensor]) -> None:
    """Check the sizes that are known against each other and against the limits of all targets."""
    views: dict[str, Any] = {
        name: _View(item) for name, item in tensors.items() if item.space is not None and item.shape is not None
    }
    if not views:
        return
    use = Use(instruction, arch_of(choice.outside()), views, {}, {})
    noted(instruction, views, legality.size_problems(use))
    known = dict(use.dims)
    known |= {f"{name}_bytes": item.dtype.nbytes for name, item in tensors.items() if item.dtype is not None}

    def problems(arch: Arch) -> Iterator[Problem]:
        yield from legality.limit_problems(instruction, known, arch)
        for name, view in views.items():
            if view.on_chip and view.partitions is not ANY_SIZE:
                yield from legality.partition_problems(name, view, arch)

    _on_every_target(lambda arch: noted(instruction, views, problems(arch)))


class _Known(dict[str, Any]):
    """Values by name; asking for one that is not known, or for all of them, raises LookupError."""

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]

    def _refuse(self, *_: object) -> Any:
        raise LookupError("not all values are known")

    __iter__ = __contains__ = __len__ = keys = values = items = _refuse


def _attribute_problems(instruction: Instruction, attrs: _Known, arch: Arch) -> Iterator[Problem]:
    """Check the predicates of a call that look at nothing but its attributes, and at numbers for tensors."""
    use = object.__new__(Use)  # it has no engine: that depends on the tensors
    use.instruction, use.arch, use.attrs = instruction, arch, attrs
    use.types = use.dims = use.dtypes = _Known()
    for item in instruction.predicates:
        try:
            problem = legality.predicate_problem(item, use)
        except Exception:  # noqa: BLE001 - it asks for something that is not known
            continue
        if problem is not None:
            yield problem


def attribute_problem(instruction: Instruction, name: str, value: object, arch: Arch) -> str:
    """Return what is wrong on a target with one attribute of a call, whatever its other arguments are; else ""."""
    try:
        kept = legality.attribute(instruction, instruction.operands[name], value, [])
    except NkiError as error:
        return error.diagnostics[0].message
    problem = next(_attribute_problems(instruction, _Known({name: kept}), arch), None)
    return "" if problem is None else problem.message


def _on_every_target(check: Callable[[Arch], object]) -> None:
    """Raise the error of a check that fails on every target, in the numbers of the one that is chosen."""
    for arch in dict.fromkeys(TARGETS.values()):
        try:
            check(arch)
        except NkiError:
            continue
        return
    check(arch_of(choice.outside()))


def new_tensor(shape: object, dtype: object, buffer: object, address: object) -> KnownTensor:
    """Return the tensor that an allocation makes, as far as its arguments are known.

    Raises the error of the first argument that every target refuses.
    """
    kind = None if dtype is OPEN else dtype_of(dtype)
    sizes: Any = (1,) if shape is OPEN else shape
    if isinstance(sizes, list | tuple):
        sizes = tuple(ANY_SIZE if size is OPEN else size for size in sizes)
    space = buffer if isinstance(buffer, MemoryRegion) else None
    known = shape is not OPEN and kind is not None
    measured = known and not (isinstance(sizes, tuple) and ANY_SIZE in sizes[1:])
    region = hbm if buffer is OPEN or (space is not None and not measured) else buffer
    place = None if region is hbm or address is OPEN or _has_open(address) else address
    _on_every_target(partial(check_allocation, sizes, kind or _NARROWEST, region, place))
    return KnownTensor(space, kind, None if shape is OPEN else sizes)


_NARROWEST: Final = dtype_of("uint8")
