"""The instructions of a call in a kernel, with the operands, limits and cost of this very call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import Unmodelled, Use
from nki_lab.kernel_runtime.ir import Program, Variant
from nki_lab.kernel_runtime.issue.legality import describe

MOST: Final = 6
"""Different instructions of one call that are shown; composites issue several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructed:
    """One instruction as a call issued it, `count` times over the kernel.

    `operands` are (name, view in words). `limits` are (rule, this call's value, the target's value). `time` is in
    nanoseconds: until the engine takes the next instruction, and until the result can be read; `time_source` says how
    far to trust that; all are empty where the cost is not modelled.
    """

    name: str
    engine: str
    count: int
    operands: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, str, str], ...] = ()
    cycles: float = 0.0
    time: tuple[float, float] = (0.0, 0.0)
    bytes: int = 0
    time_source: str = ""


@dataclass(frozen=True, slots=True)
class Issued:
    """The instructions of one call, as far as they differ, in the order of their first issue."""

    target: str
    instructions: tuple[Instructed, ...]
    total: int


def issued(program: Program, file: str) -> dict[tuple[int, int], Issued]:
    """Return the calls in `file` that issued instructions, by 1-based line and 0-based UTF-8 byte column."""
    if not len(program):
        return {}
    site = np.frombuffer(program.op_site, np.uint32).astype(np.int64)
    variant = np.frombuffer(program.op_variant, np.uint32).astype(np.int64)
    pairs, first, counts = np.unique(site * len(program.variants) + variant, return_index=True, return_counts=True)
    by_site: dict[int, list[tuple[int, int, int]]] = {}
    for pair, start, count in zip(pairs.tolist(), first.tolist(), counts.tolist(), strict=True):
        by_site.setdefault(pair // len(program.variants), []).append((start, pair % len(program.variants), count))
    found: dict[tuple[int, int], Issued] = {}

    @cache
    def instructed(number: int) -> Instructed:
        return _instructed(program.arch, program.variants[number])

    for number, rows in by_site.items():
        place = program.sites[number]
        if place.file != file:
            continue
        instructions = tuple(replace(instructed(which), count=count) for _, which, count in sorted(rows)[:MOST])
        total = sum(count for _, _, count in rows)
        found.setdefault((place.line, place.column), Issued(program.arch.target, instructions, total))
    return found


def _instructed(arch: Arch, variant: Variant) -> Instructed:
    use = variant.use
    operands = tuple((name, describe(use.types[name])) for name in variant.names)
    limits = tuple(_limits(variant, use))
    declared = variant.instruction.cost
    plain = Instructed(name=variant.instruction.name, engine=variant.engine, count=1, operands=operands, limits=limits)
    if isinstance(declared, Unmodelled):
        return plain
    cost = declared(use)
    source = f"{cost.confidence}: {cost.source}"
    if variant.engine == "dma":
        return replace(plain, bytes=cost.bytes, time=(cost.fixed_ns, cost.fixed_ns), time_source=source)
    clock = arch.ghz(variant.engine)
    time = cost.interval / clock, cost.latency / clock
    return replace(plain, cycles=cost.interval, time=time, bytes=cost.bytes, time_source=source)


def _limits(variant: Variant, use: Use) -> list[tuple[str, str, str]]:
    names = limit_names(use.arch) | dict(use.dims)
    for name, dtype in use.dtypes.items():
        names[f"{name}_bytes"] = dtype.nbytes if dtype is not None else 0
    return [
        (item.text, str(left), str(right)) for item in variant.instruction.limits for left, right in [item.sides(names)]
    ]


def limit_names(arch: Arch) -> dict[str, Any]:
    """Return the numbers of a target that limits speak of."""
    return {name: fact.value for name, fact in arch.facts.items()}
