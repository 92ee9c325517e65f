"""The path that a program takes whatever the data: from constants, and from trip counts that the user gives."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from nki_lab.diagnostic import Diagnostic, diagnose, error_of
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.ir import Program, Region
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.path.follow import Follower, Path, PathLog, endless

TripCounts = Mapping[str, int] | Mapping[int, int] | Mapping[str | int, int]
"""Passes of device loops by line, variable or name of the body's function."""


def known_path(program: Program, trip_counts: TripCounts | None = None) -> Path | tuple[Diagnostic, ...]:
    """The path of a program; else NKI801 for each loop whose passes are not known, or NKI011 for one without end.

    `trip_counts` gives the passes of loops whose bounds depend on data, by line, variable or name of the body's
    function; the others make theirs.
    """
    chosen = {str(name): count for name, count in (trip_counts or {}).items()}
    follower = _Known(program, chosen)
    try:
        follower.run()
    except _EndlessError as found:
        return (endless(program, found.region, program.options.max_instructions),)
    if follower.unknown:
        return tuple(_unknown(program, region) for region in follower.unknown)
    return follower.log.path()


class _EndlessError(Exception):
    """A loop has used up the budget of instructions, or will."""

    def __init__(self, region: Region) -> None:
        super().__init__()
        self.region = region


class _Known(Follower):
    def __init__(self, program: Program, trip_counts: Mapping[str, int]) -> None:
        super().__init__(program)
        self.log = PathLog()
        self.unknown: dict[Region, None] = {}
        self._trip_counts = trip_counts
        self._limit = program.options.max_instructions
        self._around = {region.parent for region in program.regions}  # loops with loops inside
        self._before: list[int | None] = []

    def enter(self, region: Region) -> int:
        return self.log.enter()

    def leave(self, region: Region, entry: int, done: int) -> None:
        self.log.trips[entry] = done

    def loaded(self, op: int) -> int | None:
        return None

    def at_once(self, region: Region, count: int | None) -> int:
        """All passes of a "for" loop in which nothing changes a register or depends on one."""
        known = given_for(self.program, region, self._trip_counts) if count is None else count
        if known is None or region.kind == "while" or self._writes_within(region) or region.id in self._around:
            return 0
        self.executed += known * (region.end - region.first)
        self.iterations += known
        self._keep_within_limit(region)
        return known

    def more(self, region: Region, entry: int, done: int, known: bool | None) -> bool:
        self._keep_within_limit(region)
        if known is None:
            given = given_for(self.program, region, self._trip_counts)
            if given is None:
                self.unknown[region] = None
                return done < 1  # one pass, to find the loops inside
            return done < given
        if known and done and region.kind == "while" and self.values == self._before:
            raise _EndlessError(region)  # every further pass is like this one
        return known

    def _keep_within_limit(self, region: Region) -> None:
        if self.executed + self.iterations > self._limit:
            raise _EndlessError(region)

    def _writes_within(self, region: Region) -> bool:
        at = bisect_left(self._places, region.first)
        return at < len(self._places) and self._places[at] < region.end

    def begin(self, region: Region, done: int) -> list[int | None]:
        return list(self.values) if region.kind == "while" else []

    def finish(self, region: Region, token: list[int | None]) -> None:
        self._before = token


def given_for(program: Program, region: Region, trip_counts: Mapping[str, int]) -> int | None:
    """What the user says of a loop: by its line, its variable, or the name of its body."""
    if not trip_counts:
        return None
    for name in names_of(program, region):
        if name in trip_counts:
            return trip_counts[name]
    return None


def names_of(program: Program, region: Region) -> tuple[str, ...]:
    """What a loop can be called in `trip_counts`."""
    line = str(program.sites[region.site].line)
    return tuple(name for name in (line, region.variable, region.name) if name)


def check_trip_counts(program: Program, trip_counts: Mapping[Any, Any]) -> None:
    """NKI012 for a count that is none, and for a name that no loop of the program has."""
    known = [name for region in program.regions for name in names_of(program, region)]
    for name, count in trip_counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise _refused(f"the trip count of {name} is {count!r}", "a whole number, 0 or more", "")
        if str(name) not in known:
            what = "has no device loops" if not known else f"has no device loop {name}"
            listed = ", ".join(dict.fromkeys(known)) or "none"
            raise _refused(f"{program.name} {what}", f"loops by line or name: {listed}", did_you_mean(str(name), known))


def _refused(message: str, limit: str, remedy: str) -> Exception:
    return error_of(diagnose("NKI012", f"trip_counts: {message}", operand="trip_counts", limit=limit, help=remedy))


def _unknown(program: Program, region: Region) -> Diagnostic:
    line, *names = names_of(program, region)
    name = repr(names[0]) if names else line
    what = f"loop over {names[0]}" if names and region.kind == "for" else f"loop on {names[0]}" if names else "loop"
    item = diagnose(
        "NKI801",
        f"the passes of the device {what} at line {line} depend on data: the kernel has no times",
        limit="times are known where the number of passes is",
        help=f"pass trip_counts={{{name}: 16}}, or run the kernel on data",
    )
    return placed(item, program.sites[region.site])
