"""The loop of `first_fit` as machine code, where that is worth its while: the same addresses either way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.allocate import first_fit
from nki_lab.kernel_runtime.allocate.first_fit import Choices, Memory, Numbers, Spans, Tensors
from nki_lab.kernel_runtime.compiled_code import CompiledFunction, WhenWorthwhile, compilable
from nki_lab.kernel_runtime.footprint import Column

_COMPILE: Final = 6.0
"""Seconds that it takes to compile `arrange`."""

_RIGHT: Final = compilable(first_fit.search_right)
_LEFT: Final = compilable(first_fit.search_left)
_BUSY: Final = compilable(first_fit.is_busy)
_GAP: Final = compilable(first_fit.gap, bisect_right=_RIGHT, is_busy=_BUSY)
_FIT: Final = compilable(first_fit.fit, bisect_right=_RIGHT, gap=_GAP)
_FIRST_FIT: Final = compilable(first_fit.first_fit, fit=_FIT)
ARRANGE: Final[CompiledFunction] = compilable(
    first_fit.arrange,
    first_fit=_FIRST_FIT,
    bisect_right=_RIGHT,
    bisect_left=_LEFT,
    is_busy=_BUSY,
    joined=compilable(first_fit.joined),
)
_WORTHWHILE: Final = WhenWorthwhile(ARRANGE, _COMPILE)
_FEW: Final = 25  # tensors, for which both take some 60 us, most of it to make arrays


def run(
    memory: Memory, tensors: Tensors, choices: Choices, spans: Spans
) -> tuple[Column, Column, tuple[Column, Column]]:
    """Return the choice and the byte of each tensor, and pairs (earlier, later), as `arrange` has them."""
    compiled = _WORTHWHILE.get() if len(tensors.first) > _FEW else None
    if compiled is not None:
        return by(compiled, memory, tensors, choices, spans)
    with _WORTHWHILE.replaced():
        chosen, byte = [-1] * len(tensors.first), [-1] * len(tensors.first)
        earlier, later = first_fit.arrange(memory, tensors, choices, spans, chosen, byte)
        return _array(chosen), _array(byte), (_array(earlier), _array(later))


def by(
    compiled: Callable[..., Any], memory: Memory, tensors: Tensors, choices: Choices, spans: Spans
) -> tuple[Column, Column, tuple[Column, Column]]:
    """Return the same, by compiled code."""
    chosen, byte = (np.full(len(tensors.first), -1, np.int64) for _ in range(2))
    earlier, later = compiled(
        memory, Tensors(*map(_array, tensors)), Choices(*map(_array, choices)), Spans(*map(_array, spans)), chosen, byte
    )
    return chosen, byte, (_array(earlier), _array(later))


def _array(column: Numbers) -> Any:
    return np.array(column, np.int64)
