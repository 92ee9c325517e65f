"""Makespans of a program on changed machines: what one part of the machine costs, told by timing without it.

An ordinary run pays nothing for these: each is a walk of its own, taken when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import Schedule
from nki_lab.kernel_runtime.timing.costs import VariantCost, costs_of
from nki_lab.kernel_runtime.timing.walk import makespan_of
from nki_lab.kernel_runtime.vocabulary import ENGINES

Change = Callable[[str, VariantCost], VariantCost]
"""The cost of a variant on a changed machine, from the engine of the variant and its cost."""


def makespans_without(program: Program, schedule: Schedule, allocation: Allocation) -> dict[str, int]:
    """Return the makespans in picoseconds without one part of the machine each, under the name of what is missing.

    `<engine> time`: this engine computes in no time. `DMA time`: data moves in no time, once it starts. `DMA latency`:
    descriptors, the start of the data and the signal of its end take no time, and neither does the pause between two
    transfers. `HBM limit`: the cores that share HBM do not slow each other down. `semaphores`: engines see each
    other's results at once. `launch`: nothing happens before the first instruction and after the last one. Parts that
    the program does not use are left out. The order of the program stays.
    """
    found: dict[str, int] = {}
    for name, without, arch, options in _machines(program):
        other = copy(program)
        other.arch = arch
        costs = [
            without(variant.engine, cost) for variant, cost in zip(program.variants, costs_of(program), strict=True)
        ]
        found[name] = makespan_of(other, schedule, allocation, costs, options)
    return found


def _machines(program: Program) -> Iterator[tuple[str, Change, Arch, Options]]:
    """Return (what is missing, costs, constants, options) of each changed machine."""
    arch, options = program.arch, program.options
    used = {program.variants[number].engine for number in set(program.op_variant)}
    for engine in sorted(used & set(ENGINES), key=ENGINES.index):
        yield f"{engine} time", partial(_instant, engine), arch, options
    if "dma" in used:
        yield "DMA time", partial(_instant, "dma"), arch, options
        quick = replace(arch, dma_completion_ns=0.0, dma_engine_overhead_ns=0.0, dma_issue_interval_ns=0.0)
        yield "DMA latency", _at_once, quick, options
        if program.cores > 1:
            yield "HBM limit", _local, arch, options
    yield "semaphores", _same, replace(arch, semaphore_ns=0.0), options
    if options.launch_overhead:
        yield "launch", _same, arch, replace(options, launch_overhead=False)


def _same(_engine: str, cost: VariantCost) -> VariantCost:
    return cost


def _instant(engine: str, mine: str, cost: VariantCost) -> VariantCost:
    """Return the cost on a machine on which one engine takes no time."""
    if mine != engine:
        return cost
    return replace(cost, interval=0, latency=0, issue=0, hbm_bytes=0, stagger=0, stationary=-1, table=None)


def _at_once(mine: str, cost: VariantCost) -> VariantCost:
    if mine != "dma":
        return cost
    return replace(cost, trigger=0, generation=0, start_latency=0, stagger=0, spaced=False)


def _local(_engine: str, cost: VariantCost) -> VariantCost:
    return replace(cost, hbm_bytes=0)
