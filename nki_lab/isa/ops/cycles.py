"""Cycle formulas that several instructions share.

N is the element count per partition of the main operand. Formulas without another source are those of the NKI
2.26 API documentation (the last that printed them); `MIN_II` is the target's minimum initiation interval.
"""

from __future__ import annotations

from typing import Any, Final

from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import BF16, F16, FP8
from nki_lab.isa.spec import Cost, Use

DOC_226: Final = "NKI API documentation of SDK 2.26, per-instruction cost"
ARCH_V3: Final = "Trainium2 architecture guide, Vector Engine performance modes"


def free_size(use: Use, operand: str) -> int:
    """Elements per partition of an operand."""
    view: Any = use.types[operand]
    return int(view.free_size)


def engine_cost(arch: Arch, use: Use, cycles: float, *, source: str = DOC_226, confidence: str = "documented") -> Cost:
    """Cost of `cycles` of streaming on the instruction's engine, floored by the minimum initiation interval.

    The formulas were published for NeuronCore-v2; on later targets they are carried over with that target's clock.
    """
    interval = max(float(arch.min_initiation_interval), cycles)
    start = arch.engine_start_cycles(use.engine)
    carried = confidence if arch.generation == 2 or confidence != "documented" else "inferred"
    return Cost(interval=interval, latency=interval + start, source=source, confidence=carried)


def vector_factor(arch: Arch, use: Use, *operands: str) -> float:
    """Cycles per element of a one-input Vector Engine move or scalar operation.

    From NeuronCore-v3 the engine has automatic fast modes: 4x for 16-bit data (v4: also 8-bit floats) that is
    contiguous and in SBUF on both sides, 2x when the innermost dimension is strided or one side is in PSUM.
    """
    if arch.generation < 3:
        return 1.0
    fast = {BF16, F16} | (set(FP8) if arch.generation >= 4 else set())
    views: list[Any] = [use.types[name] for name in operands]
    if any(view.dtype not in fast for view in views):
        return 1.0
    onchip = all(view.space == "sbuf" for view in views)
    dense = all(view.innermost_stride in (0, 1) or view.free_size == 1 for view in views)
    if onchip and dense:
        return 0.25
    return 0.5 if onchip or dense else 1.0


def both_sbuf(use: Use, *operands: str) -> bool:
    return all(use.space(name) == "sbuf" for name in operands)
