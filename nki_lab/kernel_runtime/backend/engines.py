"""The engine of instructions that leave it to the compiler.

The published profiles of Beta 1 kernels on trn1 (NKIBench) show one-input operations on the Scalar Engine: copies,
and products and sums with a number or a per-partition scalar. `matmul` and `bmm` copy all results from PSUM there
(Vector is active for 0.0004 % and 0.003 % of the time); in `rmsnorm_matmul` Vector executes the reduction only, and
in `silu` Scalar has two operations for each tile, the exponential and the sum. Reciprocals stay on the Vector Engine:
`silu` leaves no room for a third operation on Scalar.

inferred: that holds as long as the Scalar Engine is not what the kernel waits for. Where the operations would give it
more work than any other engine and the DMA engines have, as many stay behind as make it and their own engine equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa import enums
from nki_lab.isa.spec import Unmodelled
from nki_lab.kernel_runtime.backend.listing import Listing
from nki_lab.kernel_runtime.footprint import Column, Mask, distinct
from nki_lab.kernel_runtime.ir import Variant


def choose_engines(listing: Listing) -> None:
    """Let one-input operations run on the engine that takes them over, on each core by itself."""
    reliefs = [_relief(variant) for variant in listing.variants]
    targets = np.array(
        [listing.on_engine(number, engine) if engine else number for number, engine in enumerate(reliefs)], np.int64
    )
    core = listing.program.core_column()[listing.near]
    for engine in dict.fromkeys(filter(None, reliefs)):
        takes = np.array([relief == engine for relief in reliefs])[listing.variant]
        for number in distinct(core[takes]).tolist():
            _relieve(listing, engine, takes & (core == number), core == number, targets)


def _relief(variant: Variant) -> str:
    """Return the engine that the compiler may take instead of the variant's own; empty where the kernel names one."""
    asked = variant.use.attrs.get("engine")
    if asked is not None and asked is not enums.engine.unknown:
        return ""
    engine = variant.instruction.relief(variant.use)
    return engine if engine != variant.engine else ""


def _relieve(listing: Listing, engine: str, takes: Mask, mine: Mask, targets: Column) -> None:
    """Move as many of the operations that `takes` marks as the engine has time for, spread evenly."""
    time, engines = _times(listing)
    rows = np.flatnonzero(takes)
    after = targets[listing.variant[rows]]
    own = np.bincount(engines[listing.variant[mine & ~takes]], time[listing.variant[mine & ~takes]], minlength=16)
    number = {name: index for index, name in enumerate(_NAMES)}[engine]
    there, here = float(time[after].sum()), float(time[listing.variant[rows]].sum())
    behind = int(engines[listing.variant[rows[0]]])
    limit = float(np.delete(own, number).max())
    free = (limit - own[number]) / max(there, 1e-9)
    even = (own[behind] + here - own[number]) / max(there + here, 1e-9)
    share = min(1.0, max(free, even, 0.0))
    place = np.arange(len(rows) + 1)
    moves = np.diff(np.floor(place * share + 1e-9)) > 0
    listing.variant[rows[moves]] = after[moves]
    listing.moved[rows[moves]] = True
    listing.count("instructions on another engine", int(moves.sum()))


_NAMES = ("tensor", "vector", "scalar", "gpsimd", "sync", "dma")


def _times(listing: Listing) -> tuple[NDArray[np.float64], Column]:
    """Return the nanoseconds that each variant keeps its engine, and the engine, as a place in `_NAMES`.

    Of transfers it is the share of all DMA engines.
    """
    arch = listing.program.arch
    time = np.zeros(len(listing.variants))
    for number, variant in enumerate(listing.variants):
        declared = variant.instruction.cost
        if isinstance(declared, Unmodelled):
            continue
        cost = declared(variant.use)
        if variant.engine == "dma":
            time[number] = cost.bytes / (arch.dma_bytes_per_ns * arch.dma_engines)
        else:
            time[number] = cost.interval / arch.ghz(variant.engine)
    return time, np.array([_NAMES.index(variant.engine) for variant in listing.variants], np.int64)
