"""The figures of a program: counts, and shares of its time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from nki_lab.isa.spec import HBM, Instruction, Unmodelled
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program, Variant, access_columns
from nki_lab.kernel_runtime.recording.derive import fill
from nki_lab.kernel_runtime.recording.figures import peak_flops_per_ns
from nki_lab.kernel_runtime.schedule import Schedule
from nki_lab.kernel_runtime.tensor import psum, sbuf
from nki_lab.kernel_runtime.timing import Timing


class Summary(dict[str, Any]):
    """A dict whose names are attributes as well.

    `later` are values that are worked out when they are first asked for by name; until then they are no items.
    """

    __slots__ = ("later",)

    def __init__(
        self, *values: Any, later: Mapping[str, Callable[[], object]] = MappingProxyType({}), **named: Any
    ) -> None:
        super().__init__(*values, **named)
        self.later = later

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the summary has no {name}; it has {', '.join([*self, *self.later])}") from None

    def __missing__(self, name: str) -> Any:
        if name not in self.later:
            raise KeyError(name)
        return self.later[name]()


def summarise(program: Program) -> Summary:
    """Return the counts of a program, without a model of time.

    `instructions` of all `cores`; `flops` of matrix products, transposes not counted; `dma_bytes` moved by DMA;
    `hbm_read_bytes` and `hbm_write_bytes` of all accesses to HBM; `target`. A name of which some part is not modelled
    is left out. Of a program with device loops, whose trip counts are unknown here, only the recorded
    `instructions` are counted.
    """
    if program.regions:
        return Summary(target=program.arch.target, instructions=len(program), cores=program.cores)
    totals = {"flops": 0, "dma_bytes": 0, "hbm_read_bytes": 0, "hbm_write_bytes": 0}
    unknown: set[str] = set()
    for variant, count in counted(program):
        totals["flops"] += count * variant.instruction.flops(variant.use)
        cost = variant.instruction.cost
        if isinstance(cost, Unmodelled):
            unknown |= {"dma_bytes"} if variant.engine == "dma" else set()
        elif variant.engine == "dma":
            totals["dma_bytes"] += count * int(cost(variant.use).bytes)
        for name, is_out in zip(variant.names, variant.outs, strict=True):
            view = variant.use.types[name]
            if variant.use.space(name) == HBM and not variant.instruction.only_orders:  # which touches no element
                key = "hbm_write_bytes" if is_out else "hbm_read_bytes"
                totals[key] += count * view.partitions * view.free_size * view.dtype.nbytes
    known = {name: value for name, value in totals.items() if name not in unknown}
    counts = {"target": program.arch.target, "instructions": len(program), "cores": program.cores}
    return Summary({**counts, **known})


def counted(program: Program) -> list[tuple[Variant, int]]:
    """Return each variant of a program with the number of its instructions."""
    counts: list[int] = np.bincount(program.variant_column(), minlength=len(program.variants)).tolist()
    return list(zip(program.variants, counts, strict=True))


_PICOSECONDS: Final = 1000  # in a nanosecond


def at_peak(program: Program) -> tuple[float, float]:
    """Nanoseconds of one Tensor Engine for the products and for the transposes of a program, at their peak rates."""
    products = transposes = 0.0
    for variant, count in counted(program):
        use, instruction = variant.use, variant.instruction
        flops, moved = instruction.flops(use), instruction.transpose_flops(use)
        if flops or moved:
            stationary, moving = (use.types[name].dtype for name in _multiplied(instruction))
            peak = peak_flops_per_ns(program.arch, moving, stationary)
            products += count * flops / peak
            transposes += count * moved / peak
    return products, transposes


def _multiplied(instruction: Instruction) -> tuple[str, str]:
    """The stationary and the moving operand of an instruction that multiplies; a transpose has the one."""
    stationary = str(instruction.history["stationary"])
    return stationary, str(instruction.history.get("moving", stationary))


def busy_ns(program: Program, queues: Schedule, timing: Timing) -> dict[str, float]:
    """Nanoseconds in which each engine executes; DMA as the time in which any queue does. Summed over cores."""
    busy: Counter[str] = Counter()
    for lane in timing.lanes:
        if lane.kind == "engine":
            busy[lane.name] += lane.busy
    for core in range(program.cores):
        dma = [number for number, lane in enumerate(queues.lanes) if lane.kind == "dma" and lane.core == core]
        rows = np.flatnonzero(np.isin(queues.lane, dma))
        if len(rows):
            rows = rows[np.argsort(timing.start[rows], kind="stable")]
            start = timing.start[rows]
            ends = np.maximum.accumulate(start + timing.duration[rows])
            busy["dma"] += int(np.maximum(ends - np.maximum(np.concatenate((start[:1], ends[:-1])), start), 0).sum())
    return {name: picoseconds / _PICOSECONDS for name, picoseconds in busy.items()}


def peak_use(program: Program, timing: Timing, allocation: Allocation) -> tuple[int, int]:
    """The most bytes of a partition of SBUF and of PSUM that are in use at one time: the largest in `usage`.

    A tensor is in use from the begin of its first access to the end of its last. That is another figure than the peak,
    which counts what is live from instruction to instruction in program order: loads run ahead into free memory, so
    that more is in use at a time; and it is less where one tensor's last reader has ended before another one, which is
    live beside it in program order, has begun.
    """
    accesses = access_columns(program, indices=False)
    begin, end = np.full(len(program.buffers), np.iinfo(np.int64).max), np.full(len(program.buffers), -1, np.int64)
    done = np.where(accesses.is_out, timing.ready[accesses.op], (timing.start + timing.duration)[accesses.op])
    np.minimum.at(begin, accesses.buffer, timing.start[accesses.op])
    np.maximum.at(end, accesses.buffer, done)
    most = []
    for space in (sbuf, psum):
        used = [buffer for buffer in program.buffers if buffer.space is space and end[buffer.id] >= 0]
        rows = [(buffer.id, buffer.core, buffer.partitions, buffer.partition_bytes) for buffer in used]
        number, core, count, size = np.array(rows, np.int64).reshape(-1, 4).T
        _, level = fill(begin[number], end[number], core, allocation.partition[number], count, size)
        most.append(int(level.max(initial=0)))
    return most[0], most[1]
