"""Paths, and walking a program along one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np

from nki_lab.diagnostic import Diagnostic, diagnose, error_of
from nki_lab.isa.spec import content_of
from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import Program, Region, Variant, register_written, registers_read
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.tensor import VirtualRegister

Entry = TypeVar("Entry")
Token = TypeVar("Token")

UNKNOWN: Final = -(2**62)
"""Stands in a path for a loaded value that is unknown, or that is no integer."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Path:
    """The way of one run through the device loops of a program.

    `trips[i]`: iterations of a loop when one is entered for the i-th time, counted over all loops. `loaded[i]`: the
    value that the i-th executed instruction loads which loads a register, or UNKNOWN; loads beyond the end of the
    column are unknown too. `rows`: the instructions executed where the run failed on the way; -1: all.
    """

    trips: Column
    loaded: Column
    rows: int = -1

    def key(self) -> tuple[bytes, bytes, int]:
        """Return the same for equal paths, for use in a dict."""
        return self.trips.tobytes(), self.loaded.tobytes(), self.rows


class PathLog:
    """A path that grows with a run; `rows` instructions have been executed up to now."""

    __slots__ = ("loaded", "rows", "trips")

    def __init__(self) -> None:
        self.trips: array[int] = array("q")
        self.loaded: array[int] = array("q")
        self.rows = 0

    def enter(self) -> int:
        """Enter a loop; return the place where its iterations are counted."""
        self.trips.append(0)
        return len(self.trips) - 1

    def load(self, value: object) -> None:
        """Note that an instruction loaded `value` into a register."""
        self.loaded.append(value if type(value) is int else UNKNOWN)

    def path(self, *, failed: bool = False) -> Path:
        """Return the path up to here; where the run `failed`, it ends with the instruction that did."""
        rows = self.rows + 1 if failed else -1
        return Path(trips=np.array(self.trips, np.int64), loaded=np.array(self.loaded, np.int64), rows=rows)


def endless(program: Program, region: Region, limit: int) -> Diagnostic:
    """Return NKI011 at a device loop that has used up the budget of instructions."""
    name = region.variable or region.name
    called = "" if not name else f" over {name}" if region.kind == "for" else f" on {name}"
    return placed(
        diagnose(
            "NKI011",
            f"the device loop{called} has executed {limit} instructions and has not ended",
            limit="instructions <= max_instructions",
            help="let the body change what ends the loop, or raise max_instructions if it is meant to be this long",
        ),
        program.sites[region.site],
    )


def uneven(program: Program, region: Region, counts: Sequence[object]) -> Diagnostic:
    """Return NKI405 at a device loop that the cores wait for each other in and do not go round equally often."""
    said = " and ".join(f"core {core} {count}" for core, count in enumerate(counts))
    return placed(
        diagnose(
            "NKI405",
            f"the cores wait for each other in a device loop which they do not go round equally often: {said}",
            limit="what one core waits in, the other one comes to, in the same order",
            help="compute the loop's bounds, or what ends it, from the same values on both cores",
        ),
        program.sites[region.site],
    )


def ops_of(program: Program, variants: Iterable[int]) -> list[int]:
    """Return the ops of some variants, in program order."""
    return np.flatnonzero(np.isin(program.variant_column(), list(variants))).tolist()


def register_writes(program: Program) -> list[tuple[int, int, Variant]]:
    """Return (op, register, variant) of the ops that write registers, in program order."""
    writers = {item.id: register_written(item) for item in program.variants if item.instruction.writes_register}
    rows = program.op_variant
    return [(op, writers[rows[op]], program.variants[rows[op]]) for op in ops_of(program, writers)]


def register_reads(program: Program) -> list[tuple[int, int, int]]:
    """Return (op, operand, register) of the ops that read registers, in program order; operand -1: an attribute."""
    moved = {
        view.id: view.indirect.index.id
        for view in program.views
        if view.indirect is not None and isinstance(view.indirect.index, VirtualRegister)
    }
    accesses, starts = np.frombuffer(program.access_view, np.uint32), np.frombuffer(program.op_access, np.uint32)
    at = np.flatnonzero(np.isin(accesses, list(moved)))
    ops = np.searchsorted(starts, at, "right") - 1
    found = zip(ops.tolist(), (at - starts[ops]).tolist(), [moved[view] for view in accesses[at].tolist()], strict=True)
    reading = {item.id: read for item in program.variants if (read := registers_read(item))}
    attributes = (
        (op, -1, register.number)
        for op in ops_of(program, reading)
        for register in reading[program.op_variant[op]].values()
    )
    return sorted([*found, *attributes])


class Follower(ABC, Generic[Entry, Token]):
    """Walks the blocks and loops of a program in the order in which the chip does.

    `values` are the registers' contents by number, None where they are unknown. Subclasses decide `more`, whether a
    loop makes another iteration, and `loaded`, what is loaded into a register; `straight`, `begin` and `finish` follow
    the walk. `executed` ops and `iterations` count it.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: list[int | None] = [None] * len(program.registers)
        self.executed = self.iterations = 0
        self._limit = program.options.max_instructions
        self._inside: dict[int, list[Region]] = {}
        for region in program.regions:
            self._inside.setdefault(region.parent, []).append(region)
        self._writes = register_writes(program)
        self._write_ops = [op for op, *_ in self._writes]

    def run(self) -> None:
        """Go from the first op to the last."""
        self._block(0, len(self.program), -1)

    # -- decisions and notes of subclasses -----------------------------------------------------------------------------

    @abstractmethod
    def more(self, region: Region, entry: Entry, done: int, known: bool | None) -> bool:
        """Whether a loop makes an iteration beyond `done`; `known`: as the registers have it, None where unknown."""

    def at_once(self, region: Region, count: int | None) -> int:
        """Return how many of the first iterations are not walked one by one; `count` is the registers' trip count."""
        return 0

    @abstractmethod
    def loaded(self, op: int) -> int | None:
        """Return the value that `op`, which loads a register, reads this time."""

    @abstractmethod
    def enter(self, region: Region) -> Entry:
        """Enter a loop; return a token of this time."""

    def leave(self, region: Region, entry: Entry, done: int) -> None:
        """Leave a loop after `done` iterations."""

    @abstractmethod
    def begin(self, region: Region, done: int) -> Token:
        """Begin an iteration, its register being set; the result goes to `finish`."""

    def finish(self, region: Region, token: Token) -> None:
        """Finish an iteration."""

    def straight(self, first: int, end: int) -> None:
        """Execute ops `first` to before `end`; registers are as before them."""

    def wrote(self, register: int, op: int) -> None:
        """Note that `op`, the last one executed, wrote a register."""

    def check_limit(self, region: Region) -> None:
        """NKI011 where the budget of instructions is used up."""
        if self.executed + self.iterations > self._limit:
            raise error_of(endless(self.program, region, self._limit))

    # -- the walk ----------------------------------------------------------------------------------------------------

    def _block(self, first: int, end: int, around: int) -> None:
        for region in self._inside.get(around, ()):
            self._interval(first, region.first)
            self._loop(region)
            first = region.end
        self._interval(first, end)

    def _interval(self, first: int, end: int) -> None:
        """Execute ops without loops between them, cut where a register changes."""
        self.executed += end - first
        low = bisect_left(self._write_ops, first)
        for op, register, writer in self._writes[low : bisect_left(self._write_ops, end, low)]:
            self.straight(first, op + 1)
            first = op + 1
            value_of = writer.instruction.register_value
            self.values[register] = self.loaded(op) if value_of is None else value_of(writer.use, self.values)
            self.wrote(register, op)
        if first < end:
            self.straight(first, end)

    def _loop(self, region: Region) -> None:
        entry = self.enter(region)
        counts = [self._count(side) for side in region.sides]
        if None not in counts and len(set(counts)) > 1:
            raise error_of(uneven(self.program, region, [f"{count} times" for count in counts]))
        count = counts[0]
        done = self.at_once(region, count)
        begins = [content_of(self.values, side.lower) for side in region.sides]
        if done:
            self._set(region, [None if first is None else first + (done - 1) * region.step for first in begins])
        while True:
            if region.kind == "for":
                known = None if count is None else done < count
                values = [None if first is None else first + done * region.step for first in begins]
            else:
                values = [content_of(self.values, side.upper if done else side.lower) for side in region.sides]
                known = None if values[0] is None else values[0] != 0
            if not self.more(region, entry, done, known):
                break
            self._set(region, values)
            token = self.begin(region, done)
            self._block(region.first, region.end, region.id)
            self.finish(region, token)
            done += 1
            self.iterations += 1
        self.leave(region, entry, done)

    def _count(self, side: Region) -> int | None:
        """Return the trip count of a "for" loop as the registers have it; None where it is unknown."""
        lower, upper = content_of(self.values, side.lower), content_of(self.values, side.upper)
        if lower is None or upper is None or side.kind == "while":
            return None
        return len(range(lower, upper, side.step))

    def _set(self, region: Region, values: list[int | None]) -> None:
        """Set the register of a loop, on each core."""
        for side, value in zip(region.sides, values, strict=True):
            self.values[side.register] = value
