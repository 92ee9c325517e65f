"""The interval of a predicted time, from how far predictions are from published times.

`residuals.json` beside this file holds, for classes of runs, the quotients of published over predicted times that bound
80 % of them, and by how much a run in which something is not modelled differs more. The calibration alone writes it
(`python -m benchmarks.calibration --kernels DIR`, or `--residuals ROWS` from kept rows): it has no entry for a kernel
or a shape. A run takes the bounds of the narrowest class that it belongs to and that has enough published times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa import enums
from nki_lab.kernel_runtime.backend import MEMORY_NOTES
from nki_lab.kernel_runtime.ir import Program, access_columns
from nki_lab.kernel_runtime.options import compiler_steps

COVERAGE: Final = 0.8
"""The share of times that intervals are to contain."""

ATTRIBUTES: Final = ("dialect", "bound", "cores", "target", "compiler")
"""What a class may fix: the dialect of the kernel, the busiest engine, the number of cores, the target, and what the
compiler model did: `nothing`, `changed`, or `spilled`."""

REPEATED: Final = 1.5
"""Loads are repeated where HBM is read by more than this, in bytes of the tensors that are read."""

TINY: Final = 16
"""Instructions with results of no more elements in a partition than this are tiny: their fixed costs decide."""

UNMODELLED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spill": "more memory is needed than there is, and which tiles the compiler spills is not known",
        "engine": "the compiler chooses the engine of some instructions, and which one is not known",
        "repeats": "tensors are loaded repeatedly, which the compiler may change",
        "tiny": "most instructions are tiny, and the compiler may make fewer and longer ones of them",
        "target": "no, or hardly any, published time is of this target",
    }
)
"""What may be unknown about a run, in words."""

_NO_ROOM: Final = ("NKI315", "NKI318")

LEAST_WIDENING: Final = 1.05
"""Whatever is unknown makes the logarithm of each bound at least this much larger, and the bounds no tighter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The class of a run and what is unknown about it: a value for each of `ATTRIBUTES`, and names of `UNMODELLED`."""

    attributes: Mapping[str, str]
    unmodelled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Residuals:
    """Bounds of published over predicted times of a class of runs: those that have all its `attributes`.

    `low` and `high` are quotients; `rows` published times of `families` families of kernels are behind them.
    """

    attributes: Mapping[str, str]
    rows: int
    families: int
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Classes of residuals, the one to prefer first; the last one contains every run.

    `widening` multiplies the logarithms of the bounds where something in it is not modelled. `targets` are those with
    enough published times.
    """

    classes: tuple[Residuals, ...]
    widening: Mapping[str, float]
    targets: tuple[str, ...]

    def of(self, attributes: Mapping[str, str]) -> Residuals:
        """Return the first class that a run with these attributes belongs to."""
        return next(item for item in self.classes if item.attributes.items() <= attributes.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Bounds of a time, as quotients of the predicted one; `basis` and `notes` say where they come from."""

    low: float
    high: float
    basis: str
    notes: tuple[str, ...]


@cache
def table() -> Table:
    """Return the residuals that the calibration wrote."""
    return read(json.loads(resources.files("nki_lab.timeline").joinpath("residuals.json").read_text("utf-8")))


def read(data: Mapping[str, Any]) -> Table:
    """Return a table from its JSON."""
    return Table(
        classes=tuple(Residuals(**item) for item in data["classes"]),
        widening=MappingProxyType(dict(data["widening"])),
        targets=tuple(data["targets"]),
    )


def interval(case: Case, residuals: Table | None = None) -> Interval:
    """Return the 80 % interval of a run. It contains the prediction, and is wider if more is not modelled."""
    known = table() if residuals is None else residuals
    found = known.of(case.attributes)
    unknown = {*case.unmodelled, *(() if case.attributes["target"] in known.targets else ("target",))}
    missing = [name for name in UNMODELLED if name in unknown]
    power = math.prod(max(LEAST_WIDENING, known.widening[name]) for name in missing)
    low, high = math.log(min(found.low, 1.0)) * power, math.log(max(found.high, 1.0)) * power
    if missing:
        edge = math.log(power) / 10  # also where a bound is the prediction
        low, high = low - edge, high + edge
    return Interval(
        low=math.exp(low),
        high=math.exp(high),
        basis=f"{found.rows} published times of {found.families} families of kernels ({words(found.attributes)})",
        notes=tuple(UNMODELLED[name] for name in missing),
    )


def words(attributes: Mapping[str, str]) -> str:
    """Return a class in words: "Beta 1, dma-bound, 1 core"."""
    said = []
    for name in ATTRIBUTES:
        if value := attributes.get(name):
            written = {
                "dialect": "Beta 1" if value == "beta1" else f"{value} dialect",
                "bound": f"{value}-bound",
                "cores": f"{value} core{'s' * (value != '1')}",
                "compiler": f"compiler model: {value}",
            }
            said.append(written.get(name, value))
    return ", ".join(said) or "all"


def case_of(
    program: Program,
    chip: Program,
    findings: Iterable[Diagnostic],
    notes: Mapping[str, int],
    *,
    busy: Mapping[str, float],
    read_bytes: int,
) -> Case:
    """Return what the interval of a run depends on.

    `program` is what the kernel says and `chip` what is executed; `findings` are those about memory, `notes` count what
    the compiler model did, `busy` is the time of each engine, and `read_bytes` those read from HBM.
    """
    spilled = any(name in notes for name in MEMORY_NOTES)
    attributes = {
        "dialect": program.dialect,
        "bound": max(busy, key=busy.__getitem__, default="dma"),
        "cores": str(program.cores),
        "target": program.arch.target,
        "compiler": "spilled" if spilled else "changed" if notes else "nothing",
    }
    unmodelled = []
    if any(item.code in _NO_ROOM for item in findings) or spilled:
        unmodelled.append("spill")
    if "engines" not in compiler_steps(program.options) and _leaves_engines_open(program):
        unmodelled.append("engine")
    if program.dialect == "beta1" and read_bytes > REPEATED * _bytes_to_read(chip):
        unmodelled.append("repeats")
    if program.dialect == "beta1" and _is_tiny(chip):
        unmodelled.append("tiny")
    return Case(attributes=attributes, unmodelled=tuple(unmodelled))


def _leaves_engines_open(program: Program) -> bool:
    """Whether an instruction leaves it to the compiler which engine executes it."""
    for variant in program.variants:
        asked = variant.use.attrs.get("engine")
        left = asked is enums.engine.unknown or (asked is None and variant.instruction.relief(variant.use))
        if left and variant.instruction.relief(variant.use) not in ("", variant.engine):
            return True
    return False


def _is_tiny(program: Program) -> bool:
    """Whether most instructions of the engines are tiny. DMA transfers do not count."""
    tiny = total = 0
    counts: list[int] = np.bincount(program.variant_column(), minlength=len(program.variants)).tolist()
    for variant, count in zip(program.variants, counts, strict=True):
        sizes = [
            variant.use.types[name].free_size
            for name, is_out in zip(variant.names, variant.outs, strict=True)
            if is_out
        ]
        if sizes and variant.engine != "dma":
            total += count
            tiny += count * (max(sizes) <= TINY)
    return 2 * tiny > total


def _bytes_to_read(program: Program) -> int:
    """Return the bytes of the tensors in HBM that a program reads."""
    accesses = access_columns(program, indices=False)
    read = set(accesses.buffer[~accesses.is_out].tolist())
    return sum(buffer.nbytes for buffer in program.buffers if buffer.id in read and not buffer.on_chip)


def figures_of(case: Case, nanoseconds: float) -> dict[str, Any]:
    """Return the names of the summary about the interval of a time: bounds in nanoseconds, where from, why wider.

    A program without instructions takes no time, for certain: it has none of them.
    """
    if nanoseconds == 0:
        return {}
    found = interval(case)
    return {
        "makespan_interval_ns": [nanoseconds * found.low, nanoseconds * found.high],
        "makespan_interval_basis": found.basis,
        "makespan_interval_notes": list(found.notes),
    }
