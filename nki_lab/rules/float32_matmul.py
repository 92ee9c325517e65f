"""NKI702: matmuls and transposes in float32 where bfloat16 would do."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np

from nki_lab.isa.dtype import BF16, F32
from nki_lab.isa.spec import Use
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.kernel_runtime.timing import VariantCost
from nki_lab.rules.program_facts import Mask
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import TimedFacts


@timed_rule("NKI702")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that bfloat16 operands would make faster, at the matmul that costs it most.

    The gain is that of matmuls and of transposes on the Tensor Engine alone; less to load and shorter passes of the
    other engines come on top of it. It says whether nothing would be lost.
    """
    program = timed.program
    wide = {item.id for item in program.variants if _is_float32(item)}
    ops = np.isin(timed.facts.variant, list(wide)) & timed.own
    saving = timed.saving(ops, lambda number, cost: _narrow(program.variants[number], cost) if number in wide else cost)
    if saving is None:
        return
    facts, first = timed.facts, saving.first
    exact = _from_narrower(timed, ops)
    call = program.variants[program.op_variant[first]]
    what = "transposes" if call.instruction.transpose_flops(call.use) else "multiplies"
    why = "their operands are copies of bfloat16: nothing is lost" if exact else "where 8 bits are enough"
    yield facts.report(
        "NKI702",
        first,
        f"{facts.name(first)}: {what} float32, bfloat16 would gain {saving.gain}; {why}",
        note=timed.shape(first),
        limit=f"the Tensor Engine takes {program.arch.fp32_matmul_factor:g} times as long for float32",
        use="keep the operands in bfloat16; PSUM adds up in float32 all the same",
        related=saving.related,
        gain=saving.share,
    )


def _is_float32(variant: Variant) -> bool:
    """Whether a call on the Tensor Engine multiplies or transposes float32."""
    product, use = variant.instruction.contraction, variant.use
    multiplies = product is not None and product.plain(use)
    read = [use.dtypes[name] for name, out in zip(variant.names, variant.outs, strict=True) if not out]
    if variant.engine != "tensor" or not (multiplies or variant.instruction.transpose_flops(use)):
        return False
    return all(dtype is F32 for dtype in read)


def _narrow(variant: Variant, cost: VariantCost) -> VariantCost:
    """Return the cost of the same call in bfloat16."""
    use: Use = copy(variant.use)
    use.dtypes = {name: BF16 if dtype is F32 else dtype for name, dtype in use.dtypes.items()}
    assert callable(variant.instruction.cost)
    found = variant.instruction.cost(use)
    clock = use.arch.ghz(variant.engine)
    return replace(cost, interval=round(1000 * found.interval / clock), latency=round(1000 * found.latency / clock))


def _from_narrower(timed: TimedFacts, ops: Mask) -> bool:
    """Return whether all that these matmuls read was made of bfloat16 by copies."""
    facts, program = timed.facts, timed.program
    accesses = facts.accesses
    read = np.zeros(len(program.buffers), bool)
    read[accesses.buffer[ops[accesses.op] & ~accesses.is_out]] = True
    widens = program.variants_where(_widens)
    writes = read[accesses.buffer] & accesses.is_out
    filled = np.zeros(len(program.buffers), bool)
    filled[accesses.buffer[writes]] = True
    return bool(widens[facts.variant[accesses.op[writes]]].all() and (filled | ~read).all())


def _widens(variant: Variant) -> bool:
    return variant.instruction.role == "copy" and variant.use.dtypes["src"] is BF16
