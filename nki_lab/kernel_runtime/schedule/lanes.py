"""Who executes each op: on each core a lane for each engine, and one for each DMA queue that its body uses.

A DMA has a row of its own on its queue; what its trigger costs an engine is for the timing walk to say. The queues of
a core are numbered as the chip has them (16; NKI DMA overview). A queue goes with the engine that triggers it and the
way its descriptors are made (the same page), so: hardware descriptors have the queue of Sync or Scalar, software
descriptors that of GpSimd, which alone follow run-time index vectors. Everything else has static descriptors. Guesses,
since the compiler's choice is not published: `dge_mode.unknown` is static where all addresses are known and hardware,
on NeuronCore-v2 software, where a register or index takes part; hardware without `engine=` is triggered by Sync; static
transfers go round their queues in program order, and loads and stores have queues of their own, two of three for loads,
so that a store that waits for its result holds up no load; each `priority` of NeuronCore-v4 has one queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa import enums
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.ir import Program, Variant
from nki_lab.kernel_runtime.vocabulary import ENGINES


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A queue that runs its ops in order, one after the other.

    `queue` is the number of a DMA queue, -1 for an engine; `trigger` the engine that starts its transfers, empty for
    static descriptors.
    """

    name: str
    kind: Literal["engine", "dma"]
    core: int = 0
    queue: int = -1
    trigger: str = ""


def lanes_of(program: Program) -> tuple[tuple[Lane, ...], NDArray[np.uint16]]:
    """The lanes of a program, core after core, and the lane of each op.

    All engines are lanes; of the DMA queues those that are used.
    """
    names = list(ENGINES)
    groups: list[str] = []
    group_of = np.zeros(len(program.variants), np.int64)
    for variant in program.variants:
        if variant.engine == "dma":
            name = _queue_group(variant)
            if name not in groups:
                groups.append(name)
            group_of[variant.id] = -1 - groups.index(name)
        else:
            if variant.engine not in names:
                names.append(variant.engine)
            group_of[variant.id] = names.index(variant.engine)
    group = group_of[np.frombuffer(program.op_variant, np.uint32).astype(np.int64)]
    lanes: list[Lane] = []
    lane = np.zeros(len(group), np.int64)
    cores = program.core_column()
    for core in range(program.cores):
        rows = np.flatnonzero(cores == core)
        mine, of_op = _of_core(core, group[rows], names, groups, _Queues(program.arch))
        lane[rows] = of_op + len(lanes)
        lanes += mine
    return tuple(lanes), lane.astype(np.uint16)


def _of_core(
    core: int, group: NDArray[np.int64], names: list[str], groups: list[str], queues: _Queues
) -> tuple[list[Lane], NDArray[np.int64]]:
    """The lanes of one core, and those of its ops: engine `group[op]`, or a queue of group -1 - `group[op]`."""
    lane = group.copy()
    # DMA rows first get their queue's number, counted behind the engines.
    for number, name in enumerate(groups):
        rows = np.flatnonzero(group == -1 - number)
        members = np.array(queues.members(name), np.int64)
        lane[rows] = len(names) + members[np.arange(len(rows)) % len(members)]
    used, lane = _dense(lane, len(names))
    lanes = [Lane(name=name, kind="engine", core=core) for name in names]
    return lanes + [queues.lane(number - len(names), core) for number in used], lane


def _dense(lane: NDArray[np.int64], engines: int) -> tuple[list[int], NDArray[np.int64]]:
    """The used numbers from `engines` on, and the lanes with these numbered without gaps."""
    used = np.unique(lane[lane >= engines])
    numbers = np.concatenate((np.arange(engines), engines + np.arange(len(used))))
    return used.tolist(), numbers[np.searchsorted(np.concatenate((np.arange(engines), used)), lane)]


class _Queues:
    """The DMA queues of a core by what they are for."""

    def __init__(self, arch: Arch) -> None:
        triggers = ("sync", "scalar", "gpsimd")
        levels = arch.dma_qos_classes
        static = arch.dma_queues_per_engine - len(triggers) - levels
        loads = -(-2 * static // 3)
        self._members = {"load": range(loads), "store": range(loads, static)}
        for level in range(levels):
            self._members[f"priority {level}"] = range(static + level, static + level + 1)
        for number, name in enumerate(triggers, static + levels):
            self._members[name] = range(number, number + 1)
        self._triggers = {static + levels + number: name for number, name in enumerate(triggers)}

    def members(self, group: str) -> range:
        """The queues of a group."""
        return self._members[group]

    def lane(self, queue: int, core: int) -> Lane:
        """The lane of a queue of a core."""
        trigger = self._triggers.get(queue, "")
        return Lane(name=f"dma q{queue}{trigger and ' '}{trigger}", kind="dma", core=core, queue=queue, trigger=trigger)


def _queue_group(variant: Variant) -> str:
    """Which queues a DMA goes to: load, store, a priority, or the engine that triggers it."""
    use, attrs = variant.use, variant.use.attrs
    mode = attrs.get("dge_mode", enums.dge_mode.unknown)
    if attrs.get("dma_engine") is enums.dma_engine.gpsimd_dma or mode is enums.dge_mode.swdge:
        return "gpsimd"
    if mode is enums.dge_mode.hwdge:
        return "scalar" if attrs.get("engine") is enums.engine.scalar else "sync"
    dynamic = {view.indirect for view in use.types.values() if view is not None} - {None}
    if dynamic:
        return "sync" if dynamic == {"scalar"} and use.arch.dge_instances else "gpsimd"
    if attrs.get("priority") is not None:
        return f"priority {attrs['priority']}"
    first_out = next(name for name, is_out in zip(variant.names, variant.outs, strict=True) if is_out)
    return "store" if use.space(first_out) == "hbm" else "load"
