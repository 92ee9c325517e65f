"""The figures that reports and views show of a run, each with its one definition."""

from __future__ import annotations

from typing import Final, NamedTuple

from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import FP8, PACKED, DType


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
)  # fmt: skip
DEFINITIONS: Final = {figure.name: figure.definition for figure in FIGURES}


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


def hbm_bytes_per_ns(arch: Arch, cores: int) -> float:
    """Return the bytes that HBM gives in a nanosecond to the `cores` of a run, or to two where one of them runs alone.

    MBU is a share of it, as with the vendor's profiler; the counter of HBM has its line there, and several cores
    together never get more.
    """
    return max(arch.mbu_bytes_per_ns, arch.hbm_bytes_per_ns * cores / arch.cores_per_chip)
