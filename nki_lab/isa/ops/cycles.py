"""Cycle formulas that several instructions share.

N is the element count per partition of the main operand. Formulas without another source are those of the NKI
2.26 API documentation (the last that printed them); `MIN_II` is the target's minimum initiation interval.

An engine streams `cycles` and adds a fixed part, at least MIN_II together, before it takes the next instruction. The
result can be read a start-up after the streaming.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nki_lab.isa.spec import PSUM, SBUF, Cost, Use

DOC_226: Final = "NKI API documentation of SDK 2.26, per-instruction cost"
ARCH_V3: Final = "Trainium2 architecture guide, Vector Engine performance modes"
PROFILES_V3: Final = "published Trainium2 profiles"
STREAMED_V3: Final = (
    "published shares of the Vector Engine on Trainium2: AdamW kernels, beside tensor_tensor in RoPE kernels"
)
WIDTHS_V3: Final = f"{PROFILES_V3}: 343 ns for 512 float32; other dtypes than 16-bit floats by the width table"

CostOf = Callable[[Use], Cost]


def free_size(use: Use, operand: str) -> int:
    """Return the elements per partition of an operand."""
    return int(use.types[operand].free_size)


def engine_cost(use: Use, cycles: float, *, source: str = DOC_226, confidence: str = "documented") -> Cost:
    """Return the cost of `cycles` of streaming on the instruction's engine.

    Formulas documented for NeuronCore-v2 are carried over to later targets with that target's clock, as inferred.
    GpSimd takes its start-up before each instruction, the other engines after the streaming, beside the next one.
    """
    arch = use.arch
    streaming = cycles * _port_factor(use)
    # An address may come from a register; vector offsets stream like other accesses.
    dynamic = any(view is not None and view.indirect == "scalar" for view in use.types.values())
    least = float(arch.dynamic_initiation_interval if dynamic else arch.min_initiation_interval)
    carried = "inferred" if arch.generation > 2 and confidence == "documented" else confidence
    if use.engine == "gpsimd":
        interval = latency = max(least, arch.gpsimd_start_cycles + streaming)
        apart = 0.0
    else:
        interval = max(least, streaming + arch.engine_overhead_cycles(use.engine))
        latency = max(streaming + arch.engine_start_cycles(use.engine), interval)
        apart = interval - streaming
    return Cost(interval=interval, latency=latency, apart=apart, source=source, confidence=carried)


def streaming(operand: str, factor: float = 1, *, source: str = DOC_226, confidence: str = "documented") -> CostOf:
    """Return the cost of `factor` cycles for each element per partition of an operand."""
    return lambda use: engine_cost(use, factor * free_size(use, operand), source=source, confidence=confidence)


def _port_factor(use: Use) -> int:
    """Return the factor by which a strided operand slows an engine's port down.

    NeuronCore-v2: innermost steps above 16 bytes halve the bandwidth (architecture guide; whether 16 itself does is
    ambiguous there, and taken as full speed). Later guides do not restate it.
    """
    limit = use.arch.strided_limit_bytes
    strided = limit and any(
        view is not None and view.on_chip and view.free_size > 1 and _step_bytes(view) > limit
        for view in use.types.values()
    )
    return use.arch.strided_factor if strided else 1


def _step_bytes(view: Any) -> int:
    return int(abs(view.innermost_stride) * view.dtype.nbytes)


def are_fast(use: Use, *operands: str) -> bool:
    """Check that the Vector Engine's fast modes take the dtypes: 16-bit floats, on NeuronCore-v4 also 8-bit ones."""
    return _are_floats(use, operands, use.arch.vector_fast_bytes)


def _are_floats(use: Use, operands: tuple[str, ...], widths: tuple[int, ...]) -> bool:
    dtypes = [use.dtypes[name] for name in operands]
    return all(dtype is not None and dtype.kind == "float" and dtype.nbytes in widths for dtype in dtypes)


def are_dense(use: Use, *operands: str) -> bool:
    """Check that the innermost free dimensions are contiguous."""
    views = [use.types[name] for name in operands]
    return all(view.free_size == 1 or view.innermost_stride in (0, 1) for view in views)


def copy_factor(use: Use, *operands: str) -> float:
    """Return the cycles per element of a one-input Vector Engine move or scalar operation on 16-bit data.

    From NeuronCore-v3 the engine has automatic fast modes: 4x for 16-bit floats (v4: also 8-bit) that are contiguous
    and in SBUF on both sides, 2x when the innermost dimension is strided or one side is in PSUM.
    """
    good = all(use.space(name) == SBUF for name in operands) + are_dense(use, *operands)
    if not good or not are_fast(use, *operands):
        return 1.0
    return 1 / (use.arch.vector_fast_copy if good == 2 else use.arch.vector_fast_copy_partial)


def in_sbuf(use: Use) -> bool:
    """Check that no tensor operand is in PSUM."""
    return PSUM not in use.spaces()


def scalar_factor(use: Use, *operands: str) -> float:
    """Return the cycles per element of a copy or multiply-add on the Scalar Engine, wider for narrow floats."""
    fast = _are_floats(use, operands, use.arch.scalar_fast_bytes)
    return use.arch.scalar_width / use.arch.scalar_width_narrow if fast else 1.0


def trust(use: Use, **confidences: str) -> str:
    """Return the confidence that is given for the target's generation (`v3="measured"`), else `inferred`."""
    return confidences.get(f"v{use.arch.generation}", "inferred")
