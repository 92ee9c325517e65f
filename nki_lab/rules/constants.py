"""The numbers that instructions name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nki_lab.kernel_runtime.ir import Variant
from nki_lab.rules.program_facts import ProgramFacts


def first_ops(facts: ProgramFacts, wanted: Callable[[Variant], bool]) -> Iterator[tuple[int, Variant]]:
    """The first op at each place of the variants that are `wanted`."""
    program = facts.program
    told = set()
    for variant in filter(wanted, program.variants):
        for op in np.flatnonzero(facts.variant == variant.id).tolist():
            if program.op_site[op] not in told:
                told.add(program.op_site[op])
                yield op, variant


def constants(variant: Variant) -> Iterator[tuple[str, Any]]:
    """(operand, number) of the values that an instruction computes with."""
    operands = variant.instruction.operands
    for name, value in variant.use.attrs.items():
        if operands[name].scalar and isinstance(value, int | float | np.integer | np.floating):
            yield name, value
