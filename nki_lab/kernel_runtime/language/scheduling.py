"""Statements of a kernel about order: `nl.no_reorder()`, `depends_on` of instructions, pairs of `with_schedule`.

All three constrain when instructions run, never what they compute. They end as `Program.user_edges` and
`Program.fences`, which the schedule obeys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nki_lab.diagnostic import Diagnostic, coded_error, diagnose
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.issue.context import current

Pair = tuple[str, tuple[str, ...]]
"""(name of the consumer, names of its producers)."""


@dataclass(slots=True, eq=False, repr=False)
class NoReorder:
    """An open block of `nl.no_reorder()`: instructions that are issued meanwhile keep their order on all engines."""

    _builder: Builder | None = None
    _first: int = 0

    def __enter__(self) -> None:
        builder = self._builder = current("nl.no_reorder")
        builder.sync()
        builder.fenced += 1
        self._first = len(builder.program)

    def __exit__(self, *_error: object) -> None:
        builder = self._builder
        assert builder is not None  # left after it was entered
        builder.sync()
        builder.fenced -= 1
        fences, end = builder.program.fences, len(builder.program)
        if not builder.fenced and end - self._first > 1:  # an inner block is part of the outer one
            fences.append((self._first, end))


def no_reorder() -> NoReorder:
    """`with nl.no_reorder():` instructions of the block, called functions included, run in program order.

    Each waits for the one before it, on whichever engines they are. Blocks may be nested.
    """
    return NoReorder()


def pairs_of(edges: Iterable[Any]) -> tuple[Pair, ...]:
    """The edges of `with_schedule` in one form; NKI012 for what is no pair of names."""
    out: list[Pair] = []
    for edge in edges:
        if isinstance(edge, (tuple, list)) and len(edge) == 2 and isinstance(edge[0], str):
            producers = tuple(edge[1]) if isinstance(edge[1], (tuple, list)) else (edge[1],)
            if all(isinstance(name, str) for name in producers):
                out.append((edge[0], producers))
                continue
        raise coded_error(
            "NKI012",
            f"with_schedule: {edge!r} is no edge",
            operand="edges",
            limit="an edge is (consumer, producer) or (consumer, [producer, ...]), by the name= of instructions",
            help='for example kernel.with_schedule([("plus", "recip")])',
        )
    return tuple(out)


def edges_of(program: Program, pairs: Iterable[Pair]) -> tuple[list[tuple[int, int]], list[Diagnostic]]:
    """(consumer op, producer op) for pairs of names; NKI403 for names that no instruction has, NKI413 across cores.

    Each core has its own instructions. Where several instructions of a core have a name, the edge holds for all.
    """
    named: dict[str, dict[int, list[int]]] = {}
    for op, name in program.op_names.items():
        named.setdefault(name, {}).setdefault(program.core_of(op), []).append(op)
    out: dict[tuple[int, int], None] = {}
    missing: dict[str, Diagnostic] = {}
    for consumer, producers in pairs:
        for name in (consumer, *producers):
            if name not in named and name not in missing:
                missing[name] = _unknown(name, named)
        for producer in producers:
            if consumer in named and producer in named and not set(named[consumer]) & set(named[producer]):
                missing[f"{consumer}, {producer}"] = _across(consumer, producer, named)
            for core, waiting in named.get(consumer, {}).items():
                awaited = named.get(producer, {}).get(core, ())
                out.update({(op, other): None for op in waiting for other in awaited})
    return list(out), list(missing.values())


def _across(consumer: str, producer: str, named: dict[str, dict[int, list[int]]]) -> Diagnostic:
    here, there = (" and ".join(map(str, named[name])) for name in (consumer, producer))
    return diagnose(
        "NKI413",
        f"with_schedule says that {consumer!r}, on core {here}, waits for {producer!r}, on core {there}",
        operand=consumer,
        limit="an edge joins instructions of one core; cores wait for each other in core_barrier and sendrecv",
        help="leave the edge out, and put a core_barrier between the two",
    )


def _unknown(name: str, named: Iterable[str]) -> Diagnostic:
    known = list(named)
    listed = f"the kernel names {', '.join(map(repr, known[:8]))}{' and more' if len(known) > 8 else ''}"
    return diagnose(
        "NKI403",
        f"with_schedule names {name!r}, and no instruction of the kernel is called so",
        operand=name,
        limit="an edge joins two instructions that were issued with name=",
        help=did_you_mean(name, known) or (listed if known else "give both instructions a name="),
    )
