"""NKI415: a matmul adds to a sum that another instruction has written over."""

from __future__ import annotations

from nki_lab.diagnostic import Related
from nki_lab.rules.accumulations import interrupted
from nki_lab.rules.program_facts import ProgramFacts, title
from nki_lab.rules.rule import Findings, program_rule


@program_rule("NKI415")
def check(facts: ProgramFacts) -> Findings:
    """One finding for each matmul of the source that goes on with such a sum."""
    for item in facts.once(interrupted):
        if item.is_read:
            continue
        yield facts.report(
            "NKI415", item.op,
            f"{facts.name(item.op)}: adds to {title(item.view.buffer)}, which {facts.name(item.before)} at line "
            f"{facts.line(item.before)} has written since the last matmul",
            operand="dst", limit="between the first matmul of a sum and the last, only matmuls write it",
            use="begin anew with accumulate=False, or take another PSUM tile",
            related=(Related("it is written here", facts.span(item.before)), *facts.made(item.view.buffer)),
        )  # fmt: skip
