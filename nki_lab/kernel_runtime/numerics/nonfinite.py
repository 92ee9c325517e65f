"""The first instruction of a finished program that writes NaN, or an infinity from finite numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program, Variant, View
from nki_lab.kernel_runtime.numerics import blas
from nki_lab.kernel_runtime.numerics.rounding import Array
from nki_lab.kernel_runtime.numerics.stepping import SteppingExecutor


class Contents(NamedTuple):
    """Whether NaN and infinities are among some values."""

    nan: bool
    infinite: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nonfinite:
    """A result that is not finite: `value` at `index` of the operand `view`, one of `count` such elements.

    `created` is True where no input was NaN, and none was infinite where the value is an infinity. `inputs` are the
    operands that had such values.
    """

    op: int
    view: View
    index: tuple[int, ...]
    value: float
    count: int
    created: bool
    inputs: tuple[str, ...]


class Search(NamedTuple):
    """The result of a search: what was `found`, and how many `ops` were looked at."""

    found: Nonfinite | None
    ops: int


@blas.single_thread()
def first_nonfinite(
    program: Program, arrays: Mapping[int, Array], allocation: Allocation | None, *, seconds: float = math.inf
) -> Search:
    """Execute a complete program until an op writes NaN, or an infinity although its inputs are finite.

    An infinity that an op copies, or that its call names, as those of masks do, is no finding. The search ends after
    about `seconds`, and at the fault of a program that has one.
    """
    executor = SteppingExecutor(program, arrays, allocation)
    given = {**program.constants, **arrays}
    doubtful = {number for number, values in given.items() if not _is_finite(values)} | set(executor.tracker.suspects)
    end = time.monotonic() + seconds
    named = {variant.id: _names_infinity(variant) for variant in program.variants}
    for op in range(len(program)):
        if time.monotonic() > end:
            return Search(None, op)
        variant, views = program.variant_of(op), program.views_of(op)
        pairs = list(zip(variant.names, views, variant.outs, strict=True))
        before: dict[str, Contents] = {}
        updates = variant.instruction.updates(variant.use)
        if not variant.instruction.only_orders:
            for name, view, is_out in pairs:
                if view.buffer.id in doubtful and (not is_out or updates) and view.type.dtype.is_float:
                    before[name] = _contents(executor.floats(view, variant.use))
        try:
            executor.advance(op + 1)
        except NkiError:  # the fault of the run
            return Search(None, len(program))
        if variant.instruction.only_orders:
            continue
        for _, view, is_out in pairs:
            if not is_out or not view.type.dtype.is_float:
                continue
            values = executor.floats(view, variant.use)
            now = _contents(values)
            if not (now.nan or now.infinite):
                continue
            doubtful.add(view.buffer.id)
            if op in program.partners:
                continue  # what the other core sent; found where that was written
            bad = tuple(name for name, found in before.items() if found.nan or found.infinite)
            had_nan = any(found.nan for found in before.values())
            had_infinity = named[variant.id] or any(found.infinite for found in before.values())
            if now.nan or not (had_infinity or had_nan):
                wrong = np.isnan(values) if now.nan else np.isinf(values)
                index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
                found = Nonfinite(
                    op=op,
                    view=view,
                    index=index,
                    value=float(values[index]),
                    count=int(np.count_nonzero(~np.isfinite(values))),
                    created=not had_nan,
                    inputs=bad,
                )
                return Search(found, op + 1)
    return Search(None, len(program))


def _contents(values: Array) -> Contents:
    finite = np.isfinite(values)
    if finite.all():
        return Contents(False, False)
    nan = np.isnan(values)
    return Contents(bool(nan.any()), bool((~finite & ~nan).any()))


def _is_finite(values: Array) -> bool:
    if values.dtype.kind in "iub" or values.dtype.names:
        return True
    return bool(np.isfinite(np.asarray(values, np.float32) if values.dtype.kind == "V" else values).all())


def _names_infinity(variant: Variant) -> bool:
    """Whether a call has an infinite number among its arguments."""
    return any(isinstance(value, float | np.floating) and math.isinf(value) for value in variant.use.attrs.values())
