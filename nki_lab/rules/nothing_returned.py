"""NKI430: a kernel writes a tensor for its caller and returns nothing."""

from __future__ import annotations

import numpy as np

from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.tensor import shared_hbm
from nki_lab.rules.program_facts import ProgramFacts
from nki_lab.rules.rule import Findings, program_rule


@program_rule("NKI430")
def check(facts: ProgramFacts) -> Findings:
    """Yield one finding, at the first write of the first such tensor.

    Nothing is said of a kernel that writes an argument, whose results are there, or that has no results yet.
    """
    program = facts.program
    if not facts.complete or program.observed or program.outputs:
        return
    events = facts.events
    written = distinct(events.buffer[events.is_out])
    if any(program.buffers[number].kind != "temp" for number in written.tolist()):
        return
    read = set(distinct(events.buffer[~events.is_out]).tolist())
    for number in written.tolist():
        buffer = program.buffers[number]
        if buffer.space is shared_hbm and number not in read:
            row = int(np.flatnonzero(events.is_out & (events.buffer == number))[0])
            op = int(events.op[row])
            yield facts.report(
                "NKI430",
                op,
                f"{facts.name(op)}: writes {facts.title(buffer)}, and the kernel returns nothing",
                operand="dst",
                limit="the results of a kernel are the tensors that it returns, and the arguments that it writes",
                use="return the tensor at the end of the kernel",
                related=facts.made(buffer),
            )
            return
