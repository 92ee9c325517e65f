"""NKI417: a matmul overwrites one part of its window and adds to the other."""

from __future__ import annotations

import numpy as np

from nki_lab.rules.program_facts import ProgramFacts, distinct, title
from nki_lab.rules.rule import Findings, program_rule


@program_rule("NKI417")
def check(facts: ProgramFacts) -> Findings:
    """One finding for each such matmul of the source."""
    program = facts.program
    mixed = ((op, added) for op, added in facts.coverage.add.items() if not isinstance(added, bool))
    for op, added in distinct(mixed, lambda item: program.op_site[item[0]]):
        view = program.op(op).operand("dst")
        assert view is not None
        count = int(np.count_nonzero(added))
        yield facts.report(
            "NKI417", op,
            f"{facts.name(op)}: adds to {count} elements of {title(view.buffer)} that a matmul has written, and "
            f"overwrites the other {added.size - count}",
            operand="dst", limit="the windows of two accumulation groups are the same, or have nothing in common",
            use="give each sum a window of its own, or say accumulate=True or False", related=facts.made(view.buffer),
        )  # fmt: skip
