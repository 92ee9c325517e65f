"""NKI501 and NKI502: values of float32 that a narrower tile rounds."""

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.diagnostic import Related
from nki_lab.isa.alu import AluOp
from nki_lab.isa.dtype import F32
from nki_lab.isa.spec import HBM
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.quantities import share
from nki_lab.rules.program_facts import Column, Mask, ProgramFacts, distinct
from nki_lab.rules.rule import Findings, program_rule

TOLERATED: Final = 1 / 16
"""The share of a sum that may be lost to rounding. guess: results of bfloat16 are compared with about that."""


@program_rule("NKI501")
def check_sums(facts: ProgramFacts) -> Findings:
    """Yield one finding for each place that adds to such a sum so often that its rounding may amount to `TOLERATED`."""
    program = facts.program
    adding = program.variants_where(_adds)
    if not adding.any():
        return
    op, view = _additions(facts, adding)
    times = np.bincount(view, minlength=1)
    bits_of = [item.type.dtype.mantissa_bits + 1 for item in program.views]
    sums = (
        (int(op[view == into].max()), into, lost)
        for into in np.flatnonzero(times > 1).tolist()
        if (lost := int(times[into]) * 2.0 ** -bits_of[into]) >= TOLERATED
    )
    for last, into, lost in distinct(sums, lambda item: program.op_site[item[0]]):
        kind, buffer, bits = program.views[into].type.dtype, program.views[into].buffer, bits_of[into]
        yield facts.report(
            "NKI501",
            last,
            f"{facts.name(last)}: {facts.title(buffer)} is added to {times[into]} times in {kind.name}, rounded each "
            f"time: up to {share(min(lost, 1))} of the sum may be lost",
            operand="dst",
            limit=f"{kind.name} has {bits} bits: what is 2^{bits} times smaller than a sum adds nothing",
            use="keep the sum in float32 and cast it at the end",
            related=facts.made(buffer),
        )


def _additions(facts: ProgramFacts, adding: Mask) -> tuple[Column, Column]:
    """Return (op, view) of each addition to what a view holds."""
    accesses = facts.accesses
    rows = np.flatnonzero(adding[facts.variant][accesses.op])
    op, view, is_out = accesses.op[rows], accesses.view[rows], accesses.is_out[rows]
    pair = op * max(len(facts.program.views), 1) + view
    # What a matmul adds to is no operand of its own.
    kept = is_out & (facts.can_accumulate[op] | np.isin(pair, pair[~is_out]))
    return op[kept], view[kept]


def _adds(variant: Variant) -> bool:
    """Return whether an instruction may add to what is in a result of 16 or 8 bits."""
    dtype = variant.use.dtypes.get("dst")
    if dtype is None or not dtype.is_float or dtype.nbytes > 2:
        return False
    if variant.instruction.accumulation is not None:
        return variant.instruction.accumulates(variant.use)
    attrs = variant.use.attrs
    ops = [attrs.get(name) for name in ("op", "op0", "op1", "reduce_op")]
    return any(isinstance(item, AluOp) and item.name in ("add", "subtract") for item in ops)


@program_rule("NKI502")
def check_detours(facts: ProgramFacts) -> Findings:
    """Yield one finding for each place that fills a tile of 16 or 8 bits from float32, of which nothing but copies to
    float32 is made.
    """
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
            "NKI502",
            writer,
            f"{facts.name(writer)}: float32 is rounded to {buffer.dtype.name} in {facts.title(buffer)}, and line "
            f"{facts.line(reader)} makes it float32 again",
            operand="dst",
            limit=f"{buffer.dtype.name} keeps {buffer.dtype.mantissa_bits + 1} of 24 bits",
            use="make the tile float32, and leave the copy out",
            related=(Related("it is copied to float32 here", facts.span(reader)), *facts.made(buffer)),
        )


def _narrows(variant: Variant) -> bool:
    """Return whether an instruction makes 16 or 8 bits of float32."""
    types = variant.use.types
    sources, results = (
        [types[name].dtype for name, out in zip(variant.names, variant.outs, strict=True) if out is wanted]
        for wanted in (False, True)
    )
    return F32 in sources and len(results) == 1 and results[0].is_float and results[0].nbytes <= 2


def _widens(variant: Variant) -> bool:
    """Return whether an instruction does nothing but make float32 of fewer bits, on the chip."""
    use = variant.use
    copies = variant.instruction.role == "copy" and HBM not in use.spaces()
    return copies and use.dtypes["dst"] is F32 and use.dtypes["src"] is not F32
