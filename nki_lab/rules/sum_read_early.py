"""NKI416: a matmul adds to a sum that has already been read."""

from __future__ import annotations

from nki_lab.diagnostic import Related
from nki_lab.rules.accumulations import interrupted
from nki_lab.rules.program_facts import ProgramFacts, title
from nki_lab.rules.rule import Findings, program_rule


@program_rule("NKI416")
def check(facts: ProgramFacts) -> Findings:
    """One finding for each matmul of the source that goes on with such a sum."""
    for item in facts.once(interrupted):
        if not item.is_read:
            continue
        variant = facts.program.variants[facts.program.op_variant[item.op]]
        accumulation = variant.instruction.accumulation
        assert accumulation is not None
        why = "" if accumulation.mode(variant.use) else ": accumulate=None adds wherever a matmul has written before"
        yield facts.report(
            "NKI416", item.op,
            f"{facts.name(item.op)}: adds to {title(item.view.buffer)}, which {facts.name(item.before)} at line "
            f"{facts.line(item.before)} has already read{why}",
            operand=accumulation.operand, limit="a sum is complete before it is read, and the next one begins anew",
            use="write accumulate=(k > 0), allocate the tile where its sum begins, or read it after the last matmul",
            related=(Related("it is read here", facts.span(item.before)), *facts.made(item.view.buffer)),
        )  # fmt: skip
