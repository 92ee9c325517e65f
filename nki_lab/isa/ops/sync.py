"""Cooperation of the two cores of a launch: they exchange tiles, and wait for each other."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa import enums
from nki_lab.isa.ops.dma import copy_cost, noted, route_of
from nki_lab.isa.ops.shapes import one_dtype
from nki_lab.isa.spec import (
    HBM,
    SBUF,
    Arrays,
    Cost,
    EngineState,
    Fault,
    Predicate,
    Route,
    Synchronization,
    Unmodelled,
    Use,
    arg,
    attr,
    choice,
    instruction,
    out,
)

ELEMENTS: Final = 256
"""Most elements a partition that GpSimd's own DMA engine moves: 1024 bytes of 4-byte, 512 of 2-byte, 256 of 1-byte
elements (NKI API, nki.isa.sendrecv)."""

_DMA = enums.dma_engine


def _one_shape(use: Use) -> Fault:
    dst, src = tuple(use.types["dst"].shape), tuple(use.types["src"].shape)
    return None if dst == src else f"src is {src} and dst is {dst}"


def _small(use: Use) -> Fault:
    view = use.types["src"]
    if use.attrs["dma_engine"] is not _DMA.gpsimd_dma or view.free_size <= ELEMENTS:
        return None
    size, most = view.free_size * view.dtype.nbytes, ELEMENTS * view.dtype.nbytes
    return f"src has {size} bytes a partition, dma_engine.gpsimd_dma moves up to {most} of {view.dtype.name}"


@instruction(engine="dma", since=3, see="NKI API, nki.isa.sendrecv")
class sendrecv:
    """dst = src of core recv_from_rank, while src goes to dst of core send_to_rank: both cores call it.

    The calls of the two cores with one pipe_id are paired in their order, and each pair is complete on both cores
    before what follows from it starts; calls with different pipe_ids do not wait for each other.
    """

    src = arg("E", (SBUF,), "tile of this core that is sent")
    dst = out("E", (SBUF,), "tile of this core that receives, of src's shape and dtype")
    send_to_rank = attr("any", "core that gets src: 0 or 1", choices=(0, 1))
    recv_from_rank = attr("any", "core whose src comes into dst: 0 or 1", choices=(0, 1))
    pipe_id = attr("number", "calls with the same number belong together")
    dma_engine = choice("dma, or gpsimd_dma for small tiles", _DMA.dma)

    dtype = Predicate(
        "NKI207",
        "dst.dtype == src.dtype",
        one_dtype("dst", "src"),
        operand="dst",
        help="cast before or after the exchange",
        refuses={"dst": "sbuf bfloat16 128x128"},
    )
    shape = Predicate(
        "NKI203",
        "dst.shape == src.shape",
        _one_shape,
        operand="dst",
        help="reshape one of the tiles",
        refuses={"dst": "sbuf float32 128x2x64"},
    )
    small = Predicate(
        "NKI222",
        "dma_engine.gpsimd_dma: 1024 bytes a partition of 4-byte, 512 of 2-byte, 256 of 1-byte elements",
        _small,
        operand="dma_engine",
        help="leave dma_engine out, or split the tile",
        accepts={"src": "sbuf float32 128x256", "dst": "sbuf float32 128x256", "dma_engine": _DMA.gpsimd_dma},
        refuses={"src": "sbuf float32 128x257", "dst": "sbuf float32 128x257", "dma_engine": _DMA.gpsimd_dma},
    )

    example = {
        "src": "sbuf float32 128x128",
        "dst": "sbuf float32 128x128",
        "send_to_rank": 1,
        "recv_from_rank": 1,
        "pipe_id": 0,
    }

    precision = "native"
    exact = True

    def synchronizes(use: Use) -> Synchronization:
        attrs = use.attrs
        return Synchronization((attrs["pipe_id"],), attrs["send_to_rank"], attrs["recv_from_rank"])

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        # A core that sends to itself; what goes to the other one is brought there by the walker, which sees both.
        np.copyto(out.dst, ins.src)

    def dma_route(use: Use) -> Route:
        if use.attrs["dma_engine"] is _DMA.gpsimd_dma:  # "implies GpSimd as trigger"
            return Route("gpsimd", "software", "gpsimd")
        return route_of(use)

    def cost(use: Use) -> Cost:
        plain = copy_cost(use.arch, use.types["dst"], use.types["src"])
        if use.attrs["dma_engine"] is _DMA.gpsimd_dma:
            return replace(
                plain,
                fixed_ns=plain.bytes / use.arch.gpsimd_dma_bytes_per_ns,
                confidence="inferred",
                source="Trainium2 architecture guide: rate of GpSimd's integrated DMA engines",
            )
        return replace(
            plain,
            fixed_ns=plain.fixed_ns + use.arch.core_barrier_ns,
            confidence="guess",
            source="guess: a copy at a DMA engine's rate behind one core barrier (NKI API: 'with CoreBarrier')",
        )

    beta1 = Unmodelled("Beta 1 has no sendrecv")


def _both(use: Use) -> Fault:
    cores = use.attrs["cores"]
    return None if cores in ((0, 1), (0,)) else f"cores is {cores}"


@instruction(engine=("gpsimd", "tensor", "vector", "scalar", "sync"), since=3, see="NKI API, nki.isa.core_barrier")
class core_barrier:
    """Wait until the other core is here too: earlier writes to data are visible to later reads of it.

    Both cores call it with one tensor in shared HBM, each after its writes; only the engine that executes it waits.
    """

    data = arg("E", (HBM, SBUF), "tensor in shared HBM that both cores access")
    cores = attr("integers", "the cores that wait for each other: (0, 1)")
    engine = choice("engine that waits", enums.engine.gpsimd)

    both = Predicate(
        "NKI012",
        "cores is (0, 1)",
        _both,
        operand="cores",
        help="write cores=(0, 1)",
        refuses={"cores": (0, 1, 2)},
    )

    example = {"data": "hbm float32 128x512", "cores": (0, 1)}

    choose = "gpsimd"
    precision = "native"

    def synchronizes(use: Use) -> Synchronization | None:
        return Synchronization() if len(use.attrs["cores"]) > 1 else None

    def warns(use: Use) -> list[Diagnostic]:
        notes = (
            (
                len(use.attrs["cores"]) == 1,
                "cores",
                "cores is (0,), a core does not wait for itself",
                "cores is (0, 1)",
                "write cores=(0, 1), or leave the barrier out",
            ),
            (
                use.space("data") == SBUF,
                "data",
                "data is in SBUF, which the other core does not see",
                "data is in shared HBM",
                "name the tensor in shared HBM that the cores exchange data through",
            ),
        )
        return noted(use, "NKI406", notes)

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        """Nothing: the walker executes the cores in an order that the barrier allows."""

    def cost(use: Use) -> Cost:
        if len(use.attrs["cores"]) == 1:
            return Cost(source="no wait, no time", confidence="guess")
        cycles = use.arch.core_barrier_ns * use.arch.ghz(use.engine)
        return Cost(
            interval=cycles,
            latency=cycles,
            confidence="guess",
            source="guess: one semaphore exchange each way through shared memory",
        )

    beta1 = Unmodelled("Beta 1 has no core_barrier")
