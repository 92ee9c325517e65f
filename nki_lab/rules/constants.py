"""NKI503 and NKI504: numbers that a dtype does not hold exactly, or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from math import isfinite
from typing import TypeVar

import numpy as np

from nki_lab.isa.alu import AluOp
from nki_lab.isa.dtype import F32, DType
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.rules.program_facts import ProgramFacts, distinct
from nki_lab.rules.rule import Findings, program_rule

T = TypeVar("T")
Number = int | float


def first_ops(facts: ProgramFacts, judge: Callable[[Variant], T | None]) -> Iterator[tuple[int, Variant, T]]:
    """Yield (first op, variant, verdict) for each place of the variants on which `judge` gives a verdict."""
    verdicts = [(variant, found) for variant in facts.program.variants if (found := judge(variant)) is not None]
    ops = (
        (op, variant, found)
        for variant, found in verdicts
        for op in np.flatnonzero(facts.variant == variant.id).tolist()
    )
    return distinct(ops, lambda item: facts.program.op_site[item[0]])


def constants(variant: Variant) -> Iterator[tuple[str, Number]]:
    """Yield (operand, number) of the values that an instruction computes with."""
    operands = variant.instruction.operands
    for name, value in variant.use.attrs.items():
        if operands[name].scalar and isinstance(value, int | float | np.integer | np.floating):
            yield name, value.item() if isinstance(value, np.generic) else value


@program_rule("NKI503")
def check_integers(facts: ProgramFacts) -> Findings:
    """Yield one finding for each place: constants of integer arithmetic that is done in float32, and integers up to
    which `iota` counts in a floating-point tile.
    """
    for op, _, (operand, value, dtype) in first_ops(facts, _inexact):
        yield facts.report(
            "NKI503",
            op,
            f"{facts.name(op)}: {value} is no {dtype.name}, the nearest is {_nearest(value, dtype)}",
            operand=operand,
            limit=f"{dtype.name} holds every integer up to {2 ** (dtype.mantissa_bits + 1)}, and not every one above",
            use="keep integers that matter below that, or use an instruction that computes on int32",
        )


def _inexact(variant: Variant) -> tuple[str, int, DType] | None:
    """Return (operand, integer, the type that does not hold it)."""
    dst = variant.use.dtypes.get("dst")
    if dst is None:
        return None
    fill = variant.instruction.fills
    if fill is not None:
        low, high = fill.bounds(variant.use) or (0, 0)
        if not dst.is_float or low == high:  # one number is as the author writes it
            return None
        return next(((fill.operand, int(value), dst) for value in (high, low) if _missed(value, dst)), None)
    if not dst.is_integer or variant.instruction.precision(variant.use) != "float32":
        return None
    return next(((name, int(value), F32) for name, value in constants(variant) if _missed(value, F32)), None)


def _missed(value: Number, dtype: DType) -> bool:
    """Return whether a whole number is beyond the integers that a type holds without gaps, and not one of those it
    holds.
    """
    if not math.isfinite(value) or value != int(value):
        return False
    return abs(value) > 2 ** (dtype.mantissa_bits + 1) and _nearest(value, dtype) != int(value)


def _nearest(value: Number, dtype: DType) -> int:
    bits = max(0, int(abs(value)).bit_length() - dtype.mantissa_bits - 1)
    return round(int(value) / 2**bits) * 2**bits


@program_rule("NKI504")
def check_range(facts: ProgramFacts) -> Findings:
    """Yield one finding for each place that fills a floating-point tile beyond its range, or limits values to more."""
    for op, variant, (operand, value, what) in first_ops(facts, _beyond):
        dtype = variant.use.dtypes["dst"]
        assert dtype is not None
        yield facts.report(
            "NKI504",
            op,
            f"{facts.name(op)}: {what} {value:g}, the largest {dtype.name} is {dtype.max_finite:g}",
            operand=operand,
            limit=f"|value| <= {dtype.max_finite:g} ({dtype.name})",
            use="scale the values, limit them to the dtype's range, or take a wider dtype",
        )


def _beyond(variant: Variant) -> tuple[str, Number, str] | None:
    """Return (operand, value, what it is)."""
    dst = variant.use.dtypes.get("dst")
    if dst is None or not dst.is_float or dst.nbytes > 2:
        return None
    fill = variant.instruction.fills
    if fill is not None and (bounds := fill.bounds(variant.use)) is not None:
        value = max(bounds, key=abs)
        what = "the tile is filled with" if bounds[0] == bounds[1] else "the tile is filled up to"
        return (fill.operand, value, what) if _is_beyond(value, dst) else None
    for name, value in constants(variant):
        if _is_beyond(value, dst) and name == _last_limit(variant):
            return name, value, "values are limited to"
    return None


def _is_beyond(value: Number, dtype: DType) -> bool:
    return isfinite(value) and abs(value) > dtype.max_finite


def _last_limit(variant: Variant) -> str:
    """Return the operand of a minimum or maximum that is the last thing that an instruction does; empty without one."""
    ops = ((number, variant.use.attrs.get(f"op{number}")) for number in (1, 0))
    last, op = next(((number, op) for number, op in ops if isinstance(op, AluOp)), (0, None))
    return f"operand{last}" if op is not None and op.name in ("minimum", "maximum") else ""
