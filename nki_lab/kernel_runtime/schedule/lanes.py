"""The lane of each op: on each core a lane for each engine, and one for each DMA queue that its body uses.

A DMA has a row of its own on its queue; what its trigger costs an engine is for the timing walk to say. The queues of
a core are numbered as the chip has them (16; NKI DMA overview). A queue goes with the engine that triggers it and the
way its descriptors are made (the same page); each declaration names both, and the group of its queues, as its
`dma_route`. Guesses, since the compiler's choice is not published: Sync, Scalar and GpSimd have a queue each for what
is asked of them by name, each `priority` of NeuronCore-v4 has one, and the transfers that are left to the compiler go
round the others in program order. Of these, loads and stores have queues of their own, two of three for loads, so that
a store that waits for its result holds up no load; a program that has static descriptors beside the compiler's choice
gives each half of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import Route
from nki_lab.kernel_runtime.footprint import Column, distinct
from nki_lab.kernel_runtime.ir import Program, arriving
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


_ARRIVALS: Final = Route("collective", "hardware", "sync")
"""The route of what other ranks send."""


def lanes_of(program: Program) -> tuple[tuple[Lane, ...], NDArray[np.uint16]]:
    """The lanes of a program, core after core, and the lane of each op.

    All engines are lanes; of the DMA queues those that are used.
    """
    names = list(ENGINES)
    routes: list[Route] = []
    group_of = np.zeros(len(program.variants), np.int64)
    for variant in program.variants:
        route_of = variant.instruction.dma_route
        if route_of is not None:
            route = route_of(variant.use)
            if route not in routes:
                routes.append(route)
            group_of[variant.id] = -1 - routes.index(route)
        else:
            if variant.engine not in names:
                names.append(variant.engine)
            group_of[variant.id] = names.index(variant.engine)
    group = group_of[program.variant_column()]
    arrivals = list(arriving(program))
    if arrivals:
        routes.append(_ARRIVALS)
        group[arrivals] = -len(routes)
    queues = _queues(program.arch, routes)
    lanes: list[Lane] = []
    lane = np.zeros(len(group), np.int64)
    cores = program.core_column()
    for core in range(program.cores):
        rows = np.flatnonzero(cores == core)
        mine, of_op = _of_core(core, group[rows], names, routes, queues)
        lane[rows] = of_op + len(lanes)
        lanes += mine
    return tuple(lanes), lane.astype(np.uint16)


def _of_core(
    core: int, group: Column, names: list[str], routes: list[Route], queues: list[range]
) -> tuple[list[Lane], Column]:
    """The lanes of one core, and those of its ops: engine `group[op]`, or a queue of route -1 - `group[op]`."""
    lane = group.copy()
    triggers: dict[int, str] = {}
    # DMA rows first get their queue's number, counted behind the engines.
    for number, (route, members) in enumerate(zip(routes, queues, strict=True)):
        rows = np.flatnonzero(group == -1 - number)
        lane[rows] = len(names) + np.array(members, np.int64)[np.arange(len(rows)) % len(members)]
        triggers |= dict.fromkeys(members, route.trigger)
    used, lane = _dense(lane, len(names))
    lanes = [Lane(name=name, kind="engine", core=core) for name in names]
    for queue in (number - len(names) for number in used):
        trigger = triggers[queue]
        name = f"dma q{queue} {trigger}".rstrip()
        lanes.append(Lane(name=name, kind="dma", core=core, queue=queue, trigger=trigger))
    return lanes, lane


def _dense(lane: Column, engines: int) -> tuple[list[int], Column]:
    """The used numbers from `engines` on, and the lanes with these numbered without gaps."""
    used = distinct(lane[lane >= engines])
    numbers = np.concatenate((np.arange(engines), engines + np.arange(len(used))))
    return used.tolist(), numbers[np.searchsorted(np.concatenate((np.arange(engines), used)), lane)]


def _queues(arch: Arch, routes: list[Route]) -> list[range]:
    """The DMA queues of a core that each route takes."""
    triggers = ("sync", "scalar", "gpsimd")
    levels = arch.dma_qos_classes
    shared = arch.dma_queues_per_engine - len(triggers) - levels
    loads = -(-2 * shared // 3)
    members = {"load": range(loads), "store": range(loads, shared)}
    alone = (*(f"priority {level}" for level in range(levels)), *triggers)
    members |= {name: range(number, number + 1) for number, name in enumerate(alone, shared)}
    # Cores of their own conduct collectives; their queue is none of the numbered ones.
    members |= {_ARRIVALS.queues: range(arch.dma_queues_per_engine, arch.dma_queues_per_engine + 1)}
    spread = {(route.queues, route.descriptors) for route in routes if route.queues in ("load", "store")}
    found = []
    for route in routes:
        mine = members[route.queues]
        if arch.dge_hardware_ns and (route.queues, "static") in spread:
            mine = mine[-1:] if route.descriptors == "static" else mine[:-1]
        found.append(mine)
    return found
