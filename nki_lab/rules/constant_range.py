"""NKI504: a constant that is beyond the range of the dtype it is meant for."""

from __future__ import annotations

from math import isfinite

from nki_lab.isa.alu import AluOp
from nki_lab.isa.dtype import DType
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.rules.constants import Number, constants, first_ops
from nki_lab.rules.program_facts import ProgramFacts
from nki_lab.rules.rule import Findings, program_rule


@program_rule("NKI504")
def check(facts: ProgramFacts) -> Findings:
    """One finding for each place that fills a floating-point tile beyond its range, or limits values to more."""
    for op, variant, (operand, value, what) in first_ops(facts, _beyond):
        dtype = variant.use.dtypes["dst"]
        assert dtype is not None
        yield facts.report(
            "NKI504", op, f"{facts.name(op)}: {what} {value:g}, the largest {dtype.name} is {dtype.max_finite:g}",
            operand=operand, limit=f"|value| <= {dtype.max_finite:g} ({dtype.name})",
            use="scale the values, limit them to the dtype's range, or take a wider dtype",
        )  # fmt: skip


def _beyond(variant: Variant) -> tuple[str, Number, str] | None:
    """(operand, value, what it is)."""
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
    """The operand of a minimum or maximum that is the last thing that an instruction does; empty without one."""
    ops = ((number, variant.use.attrs.get(f"op{number}")) for number in (1, 0))
    last, op = next(((number, op) for number, op in ops if isinstance(op, AluOp)), (0, None))
    return f"operand{last}" if op is not None and op.name in ("minimum", "maximum") else ""
