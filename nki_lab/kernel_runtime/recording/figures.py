"""The figures that reports and views show of a run, each with its one definition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import FP8, PACKED, DType

REGULAR: Final = 0.1
"""The share of a loop's median interval by which the interval of a regular iteration differs from it at most. guess: a
tenth tells the pipeline's filling from its usual beat, and is above the jitter of shared DMA queues."""


class Figure(NamedTuple):
    """A figure: its name in the schema of the views, its label, and what it is."""

    name: str
    label: str
    definition: str


FIGURES: Final = (
    Figure("interval", "80 % interval", "The interval that contains 80 % of published times of runs of the same class "
           "(dialect, busiest engine, cores, target, what the compiler model did), around the predicted time: wider "
           "where something about the run is known not to be modelled."),
    Figure("sources", "sources of costs", "How the costs on the critical path are known, as shares of it: documented, "
           "measured, inferred or guess. It does not tell how far off the time is."),
    Figure("busy", "busy", "The time in which a lane executes instructions, slowed parts included; of DMA, the time in "
           "which any queue of the core does. Shares are of the time shown."),
    Figure("slowed", "slowed", "The part of the busy time by which instructions take longer than their own work."),
    Figure("critical", "critical", "The part of the busy time that lies on the critical path."),
    Figure("waiting", "waiting", "The time in which a lane is idle before an instruction that it will execute next; "
           "of DMA, the time in which no queue of the core executes before one will."),
    Figure("empty", "nothing queued", "The time after a lane's last instruction."),
    Figure("live", "live", "Bytes of tiles in use at a time, from the first write to the last read, in the fullest "
           "partition of a core."),
    Figure("peak", "peak", "The most live bytes at any time, in the fullest partition of a core; of a run, of its "
           "fullest core."),
    Figure("addressed", "addressed up to", "The end of the highest address that any tile of a core takes; what lies "
           "free below counts."),
    Figure("dead", "dead", "Bytes of tiles that were read for the last time and that no other tile took since, in the "
           "partition with most of them."),
    Figure("free", "free", "Bytes of a partition that neither live nor dead tiles take, in any partition of a core."),
    Figure("fragmented", "fragmented", "The share of the free bytes outside the largest gap."),
    Figure("mfu", "MFU", "The share of the run in which the Tensor Engines of its cores would do its matrix products, "
           "each at the peak rate of bfloat16, with which the profiler of AWS compares float32 too, or at the higher "
           "one of fp8 with two rows in a partition, or of MX. Transposes are not counted."),
    Figure("hfu", "HFU", "MFU with the transposes that the Tensor Engine does as products."),
    Figure("mbu", "MBU", "Bytes read from and written to HBM, as a share of what HBM gives in the time of the run to "
           "the two cores that share it."),
    Figure("iteration", "interval of an iteration", "What an iteration adds to the time of its loop: from the end of "
           "those before it in the same execution of the loop, of the first from its begin, to its own end; 0 where it "
           "ends earlier. The intervals of an execution add up to its time."),
    Figure("regular", "regular iteration", "An iteration whose interval differs by at most "
           f"{100 * REGULAR:.0f} % from the median of its loop's."),
    Figure("warm_up", "warm-up", "The iterations of an execution of a loop before the first two regular ones that "
           "follow each other."),
    Figure("steady", "steady state", "The iterations from there on. An execution without two such iterations "
           "has none."),
    Figure("outlier", "outlier", "An iteration after the warm-up that is not regular."),
    Figure("initiation", "initiation interval", "Of a loop, the median interval of its iterations after the warm-up; "
           "of all where there is no steady state. Mean and spread (standard deviation) are of the same iterations."),
    Figure("representative", "representative iteration", "The iteration whose interval is nearest to the initiation "
           "interval; of several the first."),
    Figure("awaited", "awaited", "Of a rank, the time for which others wait in collectives because its data comes "
           "last, added up over them."),
    Figure("slowest", "slowest rank", "The rank that is awaited longest; where none is, the one that ends last, and "
           "none where all end at the same time."),
)  # fmt: skip
DEFINITIONS: Final = {figure.name: figure.definition for figure in FIGURES}


def interval(summary: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the 80 % interval of the makespan in picoseconds; None of a summary without one."""
    found = summary.get("makespan_interval_ns")
    if not isinstance(found, list | tuple) or len(found) != 2:
        return None
    low, high = found
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in (low, high)):
        return None
    return round(low * 1000), round(high * 1000)


def peak_flops_per_ns(arch: Arch, moving: DType, stationary: DType) -> float:
    """Return the operations in a nanosecond that MFU and HFU compare products of these dtypes with.

    Of fp8 operands it is the rate with two rows in a partition, whether a product has them or not. float32 is compared
    with bfloat16: the MFU in AWS's matmul tutorial, whose operands are float32, divides by 78.64 TFLOP/s.
    """
    if moving in PACKED:
        peak = arch.tensor_tflops_mx
    elif {moving, stationary} <= FP8:
        peak = arch.tensor_tflops_fp8
    else:
        peak = arch.tensor_tflops_bf16
    return peak * 1e3


def hbm_bytes_per_ns(arch: Arch, cores: int, ranks: int = 1) -> float:
    """Return the bytes that HBM gives in a nanosecond to the `cores` of a run, or to two where one of them runs alone.

    MBU is a share of it, as with the vendor's profiler; the counter of HBM has its line there, and several cores
    together never get more. Of several ranks, which share no HBM, it is what they get together, and `cores` are
    those of all.
    """
    each = max(arch.mbu_bytes_per_ns, arch.hbm_bytes_per_ns * cores / ranks / arch.cores_per_chip)
    return each * ranks
