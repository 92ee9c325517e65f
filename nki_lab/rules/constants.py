"""The numbers that instructions name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from nki_lab.kernel_runtime.ir import Variant
from nki_lab.rules.program_facts import ProgramFacts, distinct

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
    """(operand, number) of the values that an instruction computes with."""
    operands = variant.instruction.operands
    for name, value in variant.use.attrs.items():
        if operands[name].scalar and isinstance(value, int | float | np.integer | np.floating):
            yield name, value.item() if isinstance(value, np.generic) else value
