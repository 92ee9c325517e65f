"""NKI502: float32 values go through a narrower tile and come out as float32 again."""

from __future__ import annotations

import numpy as np

from nki_lab.diagnostic import Related
from nki_lab.isa.dtype import F32
from nki_lab.isa.spec import HBM
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.rules.program_facts import ProgramFacts, distinct, title
from nki_lab.rules.rule import Findings, program_rule


@program_rule("NKI502")
def check(facts: ProgramFacts) -> Findings:
    """One finding for each place that fills a tile of 16 or 8 bits from float32, of which nothing but copies to
    float32 is made."""
    program = facts.program
    narrows, widens = program.variants_where(_narrows), program.variants_where(_widens)
    if not (facts.complete and narrows.any() and widens.any()):
        return
    accesses = facts.accesses
    variant = facts.variant[accesses.op]
    fits = np.where(accesses.is_out, narrows[variant], widens[variant])
    count = len(program.buffers)
    other, written, read = (
        np.bincount(accesses.buffer[rows], minlength=count)
        for rows in (~fits, fits & accesses.is_out, fits & ~accesses.is_out)
    )
    detours = []
    for number in np.flatnonzero((other == 0) & (written > 0) & (read > 0)).tolist():
        buffer, mine = program.buffers[number], accesses.buffer == number
        if buffer.kind == "temp" and buffer.on_chip and number not in facts.doubtful:
            writer, reader = (int(accesses.op[mine & (accesses.is_out == out)][0]) for out in (True, False))
            detours.append((writer, reader, buffer))
    for writer, reader, buffer in distinct(detours, lambda item: program.op_site[item[0]]):
        yield facts.report(
            "NKI502", writer,
            f"{facts.name(writer)}: float32 is rounded to {buffer.dtype.name} in {title(buffer)}, and line "
            f"{facts.line(reader)} makes it float32 again",
            operand="dst", limit=f"{buffer.dtype.name} keeps {buffer.dtype.mantissa_bits + 1} of 24 bits",
            use="make the tile float32, and leave the copy out",
            related=(Related("it is copied to float32 here", facts.span(reader)), *facts.made(buffer)),
        )  # fmt: skip


def _narrows(variant: Variant) -> bool:
    """Whether an instruction makes 16 or 8 bits of float32."""
    types = variant.use.types
    sources, results = (
        [types[name].dtype for name, out in zip(variant.names, variant.outs, strict=True) if out is wanted]
        for wanted in (False, True)
    )
    return F32 in sources and len(results) == 1 and results[0].is_float and results[0].nbytes <= 2


def _widens(variant: Variant) -> bool:
    """Whether an instruction does nothing but make float32 of fewer bits, on the chip."""
    use = variant.use
    copies = variant.instruction.role == "copy" and HBM not in use.spaces()
    return copies and use.dtypes["dst"] is F32 and use.dtypes["src"] is not F32
