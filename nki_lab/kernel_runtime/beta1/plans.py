"""Plans of calls: how a call of the same instruction on the same types is recorded, found out once for a kernel.

Most calls of a kernel repeat earlier ones on other tiles. Where the first one took a single instruction on its tensors
as they are, the others need neither binding nor conversion: only the tensors and the result's tile are new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DType
from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.beta1.builder import DeferringBuilder
from nki_lab.kernel_runtime.language import operations
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor, view_type

Key = tuple[Any, ...]
_FIXED: Final = (str, Enum, DType, FunctionType, BuiltinFunctionType, np.ufunc, np.dtype, type)
_is_fixed: Final[dict[type, bool]] = {bool: False, int: False, float: False}


def key_of(instruction: Instruction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Key, list[NkiTensor]]:
    """Return what calls with the same plan have in common, and the tensors; an empty key where there is no plan.

    Lists, index expressions, masks, names of instructions and views that leave their tensors have none.
    """
    parts: list[Any] = [instruction, len(args)]
    tensors: list[NkiTensor] = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = value.__class__
        if kind is NkiTensor:
            if value._type is None and value._buffer.fault is not None:
                return (), tensors
            parts.append(value._type or view_type(value))
            tensors.append(value)
        elif value is None:
            parts.append(None)
        elif kind is int or kind is float or kind is bool:
            parts += (kind, value or repr(value))  # 0.0 and -0.0 are equal
        else:
            fixed = _is_fixed.get(kind)
            if fixed is None:
                fixed = _is_fixed[kind] = issubclass(kind, _FIXED)
            if not fixed:
                return (), tensors
            parts.append(value)
    if kwargs:
        if kwargs.get("name") is not None or kwargs.get("mask") is not None:
            return (), tensors
        parts += kwargs
    return tuple(parts), tensors


@dataclass(slots=True, kw_only=True)
class Plan:
    """How to record a call: `live` and `fixed` operands as `issue` takes them, and the tile of the result.

    `places` are (place among the live operands, number of the call's tensor). The result has `shape`, `dtype` and
    `space`; the instruction itself writes `own_dtype` to `own_space`.
    """

    instruction: Instruction
    live: tuple[Any, ...]
    places: tuple[tuple[int, int], ...]
    result: int
    fixed: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: DType
    space: MemoryRegion
    own_dtype: DType
    own_space: MemoryRegion

    def follow(self, builder: DeferringBuilder, tensors: Sequence[NkiTensor]) -> NkiTensor:
        """Record the call on these tensors; gives the result."""
        live = list(self.live)
        for place, number in self.places:
            live[place] = tensors[number]
        tile = live[self.result] = builder.allocate(self.shape, self.dtype, self.space)
        try:
            builder.issue(self.instruction, tuple(live), self.fixed)
        except NkiError:
            # Results of a fixed dtype or memory are cast by a copy.
            if self.own_dtype is self.dtype and self.own_space is self.space:
                raise
            live[self.result] = first = builder.allocate(self.shape, self.own_dtype, self.own_space)
            builder.issue(self.instruction, tuple(live), self.fixed)
            operations.assign(tile, first)
        return tile


def places_of(values: Sequence[Any], tensors: Sequence[NkiTensor]) -> tuple[tuple[int, int], ...] | None:
    """Return which of the call's tensors stand where among operands; None where that cannot be told.

    It cannot where a tensor is another one than the call was given, or was given twice.
    """
    numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
    if len(numbers) < len(tensors):
        return None
    found = []
    for place, value in enumerate(values):
        if isinstance(value, NkiTensor):
            if id(value) not in numbers:
                return None
            found.append((place, numbers[id(value)]))
    return tuple(found)
