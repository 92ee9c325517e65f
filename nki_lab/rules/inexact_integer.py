"""NKI503: an integer that the arithmetic's floating-point type does not hold."""

from __future__ import annotations

import math

from nki_lab.isa.dtype import F32, DType
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.rules.constants import Number, constants, first_ops
from nki_lab.rules.program_facts import ProgramFacts
from nki_lab.rules.rule import Findings, program_rule


@program_rule("NKI503")
def check(facts: ProgramFacts) -> Findings:
    """One finding for each place: constants of integer arithmetic that is done in float32, and integers up to which
    `iota` counts in a floating-point tile."""
    for op, _, (operand, value, dtype) in first_ops(facts, _inexact):
        yield facts.report(
            "NKI503", op,
            f"{facts.name(op)}: {value} is no {dtype.name}, the nearest is {_nearest(value, dtype)}",
            operand=operand,
            limit=f"{dtype.name} holds every integer up to {2 ** (dtype.mantissa_bits + 1)}, and not every one above",
            use="keep integers that matter below that, or use an instruction that computes on int32",
        )  # fmt: skip


def _inexact(variant: Variant) -> tuple[str, int, DType] | None:
    """(operand, integer, the type that does not hold it)."""
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
    """Whether a whole number is beyond the integers that a type holds without gaps, and not one of those it holds."""
    if not math.isfinite(value) or value != int(value):
        return False
    return abs(value) > 2 ** (dtype.mantissa_bits + 1) and _nearest(value, dtype) != int(value)


def _nearest(value: Number, dtype: DType) -> int:
    bits = max(0, int(abs(value)).bit_length() - dtype.mantissa_bits - 1)
    return round(int(value) / 2**bits) * 2**bits
