"""Cycle formulas that several instructions share.

N is the element count per partition of the main operand. Formulas without another source are those of the NKI
2.26 API documentation (the last that printed them); `MIN_II` is the target's minimum initiation interval.

An engine streams `cycles`, floored by MIN_II, before it takes the next instruction; from NeuronCore-v3 the Vector
Engine adds a fixed part to each. The result can be read a start-up after the streaming.
"""

from __future__ import annotations

from typing import Any, Final

from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import DType
from nki_lab.isa.spec import PSUM, SBUF, Cost, Use

DOC_226: Final = "NKI API documentation of SDK 2.26, per-instruction cost"
ARCH_V3: Final = "Trainium2 architecture guide, Vector Engine performance modes"
PROFILES_V3: Final = "published Trainium2 profiles"

# From the most to the least trusted.
_TRUST: Final = ("documented", "measured", "inferred", "guess")


def free_size(use: Use, operand: str) -> int:
    """Elements per partition of an operand."""
    view: Any = use.types[operand]
    return int(view.free_size)


def engine_cost(arch: Arch, use: Use, cycles: float, *, source: str = DOC_226, confidence: str = "documented") -> Cost:
    """Cost of `cycles` of streaming on the instruction's engine.

    Formulas documented for NeuronCore-v2 are carried over to later targets with that target's clock, as inferred.
    GpSimd takes its start-up before each instruction, the other engines after the streaming, beside the next one.
    """
    streaming = cycles * port_factor(arch, use)
    floor = float(arch.dynamic_initiation_interval if _is_dynamic(use) else arch.min_initiation_interval)
    carried = "inferred" if arch.generation > 2 and confidence == "documented" else confidence
    if use.engine == "gpsimd":
        occupied = max(floor, arch.gpsimd_start_cycles + streaming)
        return Cost(interval=occupied, latency=occupied, source=source, confidence=carried)
    overhead = arch.vector_issue_overhead_cycles if use.engine == "vector" else 0
    interval = max(floor, streaming + overhead)
    latency = max(streaming + arch.engine_start_cycles(use.engine), interval)
    return Cost(interval=interval, latency=latency, source=source, confidence=carried)


def lowest(*confidences: str) -> str:
    """The least trusted of some confidences."""
    return max(confidences, key=_TRUST.index)


def _is_dynamic(use: Use) -> bool:
    """Whether an operand's address comes from a register; vector offsets stream like other accesses."""
    return any(view is not None and view.indirect == "scalar" for view in use.types.values())


def port_factor(arch: Arch, use: Use) -> int:
    """How much a strided operand slows an engine's port down.

    NeuronCore-v2: innermost steps above 16 bytes halve the bandwidth (architecture guide; whether 16 itself does is
    ambiguous there, and taken as full speed). Later guides do not restate it.
    """
    limit = arch.strided_limit_bytes
    if not limit:
        return 1
    strided = any(
        view is not None and view.on_chip and view.free_size > 1 and _step(view) > limit for view in use.types.values()
    )
    return arch.strided_factor if strided else 1


def _step(view: Any) -> int:
    return int(abs(view.innermost_stride) * view.dtype.nbytes)


def is_fast(arch: Arch, dtype: DType | None) -> bool:
    """Whether the Vector Engine's fast modes take a dtype: 16-bit floats, on NeuronCore-v4 also 8-bit ones."""
    return dtype is not None and dtype.kind == "float" and dtype.nbytes in arch.vector_fast_bytes


def is_dense(view: Any) -> bool:
    """Whether the innermost free dimension is contiguous."""
    return view.free_size == 1 or view.innermost_stride in (0, 1)


def copy_factor(arch: Arch, use: Use, *operands: str) -> float:
    """Cycles per element of a one-input Vector Engine move or scalar operation on 16-bit data.

    From NeuronCore-v3 the engine has automatic fast modes: 4x for 16-bit floats (v4: also 8-bit) that are contiguous
    and in SBUF on both sides, 2x when the innermost dimension is strided or one side is in PSUM.
    """
    views: list[Any] = [use.types[name] for name in operands]
    if not all(is_fast(arch, view.dtype) for view in views):
        return 1.0
    onchip = all(view.space == SBUF for view in views)
    dense = all(is_dense(view) for view in views)
    if onchip and dense:
        return 1 / arch.vector_fast_copy
    return 1 / arch.vector_fast_copy_partial if onchip or dense else 1.0


def in_sbuf(use: Use) -> bool:
    """Whether no tensor operand is in PSUM."""
    return PSUM not in use.spaces()


def scalar_factor(arch: Arch, use: Use, *operands: str) -> float:
    """Cycles per element of a copy or multiply-add on the Scalar Engine, which doubles its width for narrow floats."""
    dtypes = [use.dtypes[name] for name in operands]
    fast = all(d is not None and d.kind == "float" and d.nbytes in arch.scalar_fast_bytes for d in dtypes)
    return arch.scalar_width / arch.scalar_width_narrow if fast else 1.0
