"""What the two cores of a launch do together: exchange tiles, and wait for each other."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa import enums
from nki_lab.isa.arch import Arch
from nki_lab.isa.ops.dma import copy_cost, route_of
from nki_lab.isa.ops.shapes import one_dtype
from nki_lab.isa.spec import (
    HBM,
    SBUF,
    Cost,
    Route,
    Synchronization,
    Unmodelled,
    Use,
    arg,
    attr,
    instruction,
    out,
    predicate,
)

ELEMENTS: Final = 256
"""Most elements a partition that GpSimd's own DMA engine moves: 1024 bytes of 4-byte, 512 of 2-byte, 256 of 1-byte
elements (NKI API, nki.isa.sendrecv)."""

_DMA = enums.dma_engine


def _one_shape(use: Use) -> str | None:
    dst, src = tuple(use.types["dst"].shape), tuple(use.types["src"].shape)
    return None if dst == src else f"src is {src} and dst is {dst}"


def _small(use: Use) -> str | None:
    view: Any = use.types["src"]
    if use.attrs["dma_engine"] is not _DMA.gpsimd_dma or view.free_size <= ELEMENTS:
        return None
    size, most = view.free_size * view.dtype.nbytes, ELEMENTS * view.dtype.nbytes
    return f"src has {size} bytes a partition, dma_engine.gpsimd_dma moves up to {most} of {view.dtype.name}"


@instruction(engine="dma", since=3, see="NKI API, nki.isa.sendrecv")
class sendrecv:
    """dst = src of core recv_from_rank, while src goes to dst of core send_to_rank: both cores call it.

    The calls of the two cores with one pipe_id meet in their order, and each pair is complete on both cores before
    what follows from it starts; calls with different pipe_ids do not wait for each other.
    """

    src = arg("E", (SBUF,), "tile of this core that is sent")
    dst = out("E", (SBUF,), "tile of this core that receives, of src's shape and dtype")
    send_to_rank = attr("any", "core that gets src: 0 or 1", choices=(0, 1))
    recv_from_rank = attr("any", "core whose src comes into dst: 0 or 1", choices=(0, 1))
    pipe_id = attr("number", "calls with the same number meet each other")
    dma_engine = attr("enum", "dma, or gpsimd_dma for small tiles", default=_DMA.dma, enum=_DMA)

    dtype = predicate("NKI207", "dst.dtype == src.dtype", one_dtype("dst", "src"), operand="dst",
                      help="cast before or after the exchange", accepts={"dst": "sbuf float32 128x128"},
                      refuses={"dst": "sbuf bfloat16 128x128"})  # fmt: skip
    shape = predicate("NKI203", "dst.shape == src.shape", _one_shape, operand="dst", help="reshape one of the tiles",
                      accepts={"dst": "sbuf float32 128x128"}, refuses={"dst": "sbuf float32 128x2x64"})  # fmt: skip
    small = predicate("NKI222", "dma_engine.gpsimd_dma: 1024 bytes a partition of 4-byte, 512 of 2-byte, 256 of 1-byte "
                      "elements", _small, operand="dma_engine", help="leave dma_engine out, or split the tile",
                      accepts={"src": "sbuf float32 128x256", "dst": "sbuf float32 128x256",
                               "dma_engine": _DMA.gpsimd_dma},
                      refuses={"src": "sbuf float32 128x257", "dst": "sbuf float32 128x257",
                               "dma_engine": _DMA.gpsimd_dma})  # fmt: skip

    example = {"src": "sbuf float32 128x128", "dst": "sbuf float32 128x128", "send_to_rank": 1, "recv_from_rank": 1,
               "pipe_id": 0}  # fmt: skip

    precision = "native"
    exact = True

    def synchronizes(use: Use) -> Synchronization:
        attrs = use.attrs
        return Synchronization((attrs["pipe_id"],), attrs["send_to_rank"], attrs["recv_from_rank"])

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        # A core that sends to itself; what goes to the other one is brought there by the walker, which sees both.
        np.copyto(out.dst, ins.src)

    def dma_route(use: Use) -> Route:
        if use.attrs["dma_engine"] is _DMA.gpsimd_dma:  # "implies GpSimd as trigger"
            return Route("gpsimd", "software", "gpsimd")
        return route_of(use)

    def cost(arch: Arch, use: Use) -> Cost:
        plain = copy_cost(arch, use.types["dst"], use.types["src"])
        if use.attrs["dma_engine"] is _DMA.gpsimd_dma:
            return replace(
                plain, fixed_ns=plain.bytes / arch.gpsimd_dma_bytes_per_ns, confidence="inferred",
                source="Trainium2 architecture guide: rate of GpSimd's integrated DMA engines",
            )  # fmt: skip
        return replace(
            plain, fixed_ns=plain.fixed_ns + arch.core_barrier_ns, confidence="guess",
            source="guess: a copy at a DMA engine's rate behind one core barrier (NKI API: 'with CoreBarrier')",
        )  # fmt: skip

    legacy = Unmodelled("Beta 1 has no sendrecv")


def _both(use: Use) -> str | None:
    cores = use.attrs["cores"]
    return None if cores in ((0, 1), (0,)) else f"cores is {cores}"


@instruction(engine=("gpsimd", "tensor", "vector", "scalar", "sync"), since=3, see="NKI API, nki.isa.core_barrier")
class core_barrier:
    """Wait until the other core is here too: what was written to data before is there for what reads it afterwards.

    Both cores call it with one tensor in shared HBM, each after its writes; only the engine that executes it waits.
    """

    data = arg("E", (HBM, SBUF), "tensor in shared HBM that both cores access")
    cores = attr("integers", "the cores that wait for each other: (0, 1)")
    engine = attr("enum", "engine that waits", default=enums.engine.gpsimd, enum=enums.engine)

    both = predicate("NKI012", "cores is (0, 1)", _both, operand="cores", help="write cores=(0, 1)",
                     accepts={"cores": (0, 1)}, refuses={"cores": (0, 1, 2)})  # fmt: skip

    example = {"data": "hbm float32 128x512", "cores": (0, 1)}

    choose = "gpsimd"
    precision = "native"

    def synchronizes(use: Use) -> Synchronization | None:
        return Synchronization() if len(use.attrs["cores"]) > 1 else None

    def warns(use: Use) -> list[Diagnostic]:
        found = []
        if len(use.attrs["cores"]) == 1:
            found.append(
                diagnose("NKI406", "core_barrier: cores is (0,), a core does not wait for itself", operand="cores",
                         limit="cores is (0, 1)", help="write cores=(0, 1), or leave the barrier out")
            )  # fmt: skip
        if use.space("data") == SBUF:
            found.append(
                diagnose("NKI406", "core_barrier: data is in SBUF, which the other core does not see", operand="data",
                         limit="data is in shared HBM",
                         help="name the tensor in shared HBM that the cores exchange data through")
            )  # fmt: skip
        return found

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        """Nothing: the walker executes the cores in an order that the barrier allows."""

    def cost(arch: Arch, use: Use) -> Cost:
        if len(use.attrs["cores"]) == 1:
            return Cost(source="no wait, no time", confidence="guess")
        cycles = arch.core_barrier_ns * arch.ghz(use.engine)
        return Cost(interval=cycles, latency=cycles, confidence="guess",
                    source="guess: one semaphore exchange each way through shared memory")  # fmt: skip

    legacy = Unmodelled("Beta 1 has no core_barrier")
