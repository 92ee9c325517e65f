"""What a path is, and walking a program along one."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa.spec import content_of
from nki_lab.kernel_runtime.ir import Program, Region, Variant, register_written
from nki_lab.kernel_runtime.issue.source_location import placed

UNKNOWN: Final = -(2**62)
"""Stands in a path for a loaded value that nobody knows, or that is no integer."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Path:
    """Which way a program goes through its device loops.

    `trips[i]`: passes of a loop when one is entered for the i-th time, counted over all loops. `loaded[i]`: what the
    i-th executed instruction that loads a register reads, or UNKNOWN; loads beyond the end of the column are unknown
    too. `rows`: how many instructions were executed where the run failed on the way; -1: all.
    """

    trips: NDArray[np.int64]
    loaded: NDArray[np.int64]
    rows: int = -1

    def key(self) -> tuple[bytes, bytes, int]:
        """Equal for equal paths, for use in a dict."""
        return self.trips.tobytes(), self.loaded.tobytes(), self.rows


class PathLog:
    """A path while it is being gone; `rows` instructions have been executed up to now."""

    __slots__ = ("loaded", "rows", "trips")

    def __init__(self) -> None:
        self.trips: array[int] = array("q")
        self.loaded: array[int] = array("q")
        self.rows = 0

    def enter(self) -> int:
        """A loop is entered; gives the place where its passes are counted."""
        self.trips.append(0)
        return len(self.trips) - 1

    def load(self, value: object) -> None:
        """An instruction loaded `value` into a register."""
        self.loaded.append(value if type(value) is int else UNKNOWN)

    def path(self, *, failed: bool = False) -> Path:
        """The path up to here; where the run `failed`, it ends with the instruction that did."""
        rows = self.rows + 1 if failed else -1
        return Path(trips=np.array(self.trips, np.int64), loaded=np.array(self.loaded, np.int64), rows=rows)


def endless(program: Program, region: Region, limit: int) -> Diagnostic:
    """NKI011 at a device loop that has used up the budget of instructions."""
    item = diagnose(
        "NKI011",
        f"the device loop{_called(region)} has executed {limit} instructions and has not ended",
        limit="instructions <= max_instructions",
        help="let the body change what ends the loop, or raise max_instructions if it is meant to be this long",
    )
    return placed(item, program.sites[region.site])


def _called(region: Region) -> str:
    name = region.variable or region.name
    return f" over {name}" if name and region.kind == "for" else f" on {name}" if name else ""


class Follower:
    """Walks the blocks and loops of a program in the order in which the chip does.

    `values` are the registers' contents by number, None where they are unknown. Subclasses decide `more`, whether a
    loop makes another pass, and `loaded`, what is loaded into a register; `straight`, `begin` and `finish` follow the
    walk. `executed` ops and `passes` count it.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: list[int | None] = [None] * len(program.registers)
        self.executed = self.iterations = 0
        self._inside: dict[int, list[Region]] = {}
        for region in program.regions:
            self._inside.setdefault(region.parent, []).append(region)
        self._writes = self._register_writes()
        self._places = [op for op, *_ in self._writes]

    def run(self) -> None:
        """Go from the first op to the last."""
        self._block(0, len(self.program), -1)

    # -- what subclasses say and hear --------------------------------------------------------------------------------

    def more(self, region: Region, entry: int, done: int, known: bool | None) -> bool:
        """Whether a loop makes a pass beyond `done`; `known` is what the registers say, None where they do not."""
        raise NotImplementedError

    def at_once(self, region: Region, count: int | None) -> int:
        """How many of the passes that a loop begins with are not gone one by one; `count` is what the registers say."""
        return 0

    def loaded(self, op: int) -> int | None:
        """What `op`, which loads a register, reads this time."""
        raise NotImplementedError

    def enter(self, region: Region) -> int:
        """A loop is entered; gives a number for this time."""
        raise NotImplementedError

    def leave(self, region: Region, entry: int, done: int) -> None:
        """The loop made `done` passes."""

    def begin(self, region: Region, done: int) -> Any:
        """A pass begins, its register being set; what this gives goes to `finish`."""

    def finish(self, region: Region, token: Any) -> None:
        """The pass is over."""

    def straight(self, first: int, end: int) -> None:
        """Ops `first` to before `end` are executed; registers are as before them."""

    def wrote(self, register: int, op: int) -> None:
        """A register was written by `op`, which is part of the stretch that was told last."""

    # -- the walk ----------------------------------------------------------------------------------------------------

    def _block(self, first: int, end: int, around: int) -> None:
        for region in self._inside.get(around, ()):
            self._stretch(first, region.first)
            self._loop(region)
            first = region.end
        self._stretch(first, end)

    def _stretch(self, first: int, end: int) -> None:
        """Ops without loops between them, cut where a register changes."""
        if first >= end:
            return
        self.executed += end - first
        at = bisect_left(self._places, first)
        while at < len(self._writes) and self._writes[at][0] < end:
            op, register, writer = self._writes[at]
            self.straight(first, op + 1)
            first = op + 1
            value_of = writer.instruction.register_value
            self.values[register] = self.loaded(op) if value_of is None else value_of(writer.use, self.values)
            self.wrote(register, op)
            at += 1
        if first < end:
            self.straight(first, end)

    def _loop(self, region: Region) -> None:
        entry = self.enter(region)
        lower, upper = content_of(self.values, region.lower), content_of(self.values, region.upper)
        count = len(range(lower, upper, region.step)) if lower is not None and upper is not None else None
        done = self.at_once(region, count)
        if done:
            self.values[region.register] = None if lower is None else lower + (done - 1) * region.step
        while True:
            if region.kind == "for":
                known = None if count is None else done < count
                value = None if lower is None else lower + done * region.step
            else:
                value = content_of(self.values, region.upper if done else region.lower)
                known = None if value is None else value != 0
            if not self.more(region, entry, done, known):
                break
            self.values[region.register] = value
            token = self.begin(region, done)
            self._block(region.first, region.end, region.id)
            self.finish(region, token)
            done += 1
            self.iterations += 1
        self.leave(region, entry, done)

    def _register_writes(self) -> list[tuple[int, int, Variant]]:
        """(op, register, variant) of the ops that write registers, in program order."""
        program = self.program
        writers = [variant.id for variant in program.variants if variant.instruction.writes_register]
        if not writers:
            return []
        found = np.flatnonzero(np.isin(np.frombuffer(program.op_variant, np.uint32), writers)).tolist()
        variants = [program.variants[program.op_variant[op]] for op in found]
        return [(op, register_written(item), item) for op, item in zip(found, variants, strict=True)]
