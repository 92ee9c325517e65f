"""NKI504: a constant that is beyond the range of the dtype it is meant for."""

from __future__ import annotations

from math import isfinite

from nki_lab.isa.alu import AluOp
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.rules.constants import constants, filled, first_ops
from nki_lab.rules.program_facts import ProgramFacts
from nki_lab.rules.rule import Findings, program_rule


@program_rule("NKI504")
def check(facts: ProgramFacts) -> Findings:
    """One finding for each place that fills a floating-point tile beyond its range, or limits values to more."""
    for op, variant in first_ops(facts, _matters):
        found = _beyond(variant)
        if found is not None:
            operand, value, what = found
            dtype = variant.use.dtypes["dst"]
            assert dtype is not None
            yield facts.report(
                "NKI504", op, f"{facts.name(op)}: {what} {value:g}, the largest {dtype.name} is {dtype.max_finite:g}",
                operand=operand, limit=f"|value| <= {dtype.max_finite:g} ({dtype.name})",
                use="scale the values, limit them to the dtype's range, or take a wider dtype",
            )  # fmt: skip


def _matters(variant: Variant) -> bool:
    return _beyond(variant) is not None


def _beyond(variant: Variant) -> tuple[str, float, str] | None:
    """(operand, value, what it is)."""
    dst = variant.use.dtypes.get("dst")
    if dst is None or not dst.is_float or dst.nbytes > 2:
        return None
    if variant.instruction.name == "iota":
        value = max(filled(variant), key=abs)
        return ("pattern", value, "the tile is filled up to") if abs(value) > dst.max_finite else None
    for name, value in constants(variant):
        if not isfinite(value) or abs(value) <= dst.max_finite:
            continue
        if variant.instruction.name == "memset":
            return name, value, "the tile is filled with"
        if name == _last_limit(variant):
            return name, value, "values are limited to"
    return None


def _last_limit(variant: Variant) -> str:
    """The operand of a minimum or maximum that is the last thing that an instruction does; empty without one."""
    attrs = variant.use.attrs
    for number in ("1", "0"):
        op = attrs.get(f"op{number}")
        if isinstance(op, AluOp):
            return f"operand{number}" if op.name in ("minimum", "maximum") else ""
    return ""
