"""The path of a program for any data: from constants, and from trip counts that the user gives."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from nki_lab.diagnostic import Diagnostic, NkiError, coded_error, diagnose, error_of
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.ir import Program, Region
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.path.follow import Follower, Path, PathLog, endless

TripCounts = Mapping[str, int] | Mapping[int, int] | Mapping[str | int, int]
"""IterationTracker of device loops by line, variable or name of the body's function."""


def known_path(program: Program, trip_counts: TripCounts | None = None) -> Path | tuple[Diagnostic, ...]:
    """Return the path of a program; else NKI801 for each loop of unknown trip count, or NKI011 for one without end.

    `trip_counts` gives the trip counts of loops whose bounds depend on data, by line, variable or name of the body's
    function; the others make theirs.
    """
    follower = _KnownPath(program, {str(name): count for name, count in (trip_counts or {}).items()})
    try:
        follower.run()
    except NkiError as error:
        return error.diagnostics
    if follower.unknown:
        return tuple(_unknown(program, region) for region in follower.unknown)
    return follower.log.path()


class _KnownPath(Follower[int, list[int | None]]):
    def __init__(self, program: Program, trip_counts: Mapping[str, int]) -> None:
        super().__init__(program)
        self.log = PathLog()
        self.unknown: dict[Region, None] = {}
        self._trip_counts = trip_counts
        self._before: list[int | None] = []

    def enter(self, region: Region) -> int:
        return self.log.enter()

    def leave(self, region: Region, entry: int, done: int) -> None:
        self.log.trips[entry] = done

    def loaded(self, op: int) -> int | None:
        return None

    def at_once(self, region: Region, count: int | None) -> int:
        """Return all iterations of a "for" loop in which nothing changes a register or depends on one."""
        known = self._given(region) if count is None else count
        writes = bisect_left(self._write_ops, region.first) < bisect_left(self._write_ops, region.end)
        if known is None or region.kind == "while" or writes or region.id in self._inside:
            return 0
        self.executed += known * (region.end - region.first)
        self.iterations += known
        self.check_limit(region)
        return known

    def more(self, region: Region, entry: int, done: int, known: bool | None) -> bool:
        self.check_limit(region)
        if known is None:
            given = self._given(region)
            if given is None:
                self.unknown[region] = None
                return done < 1  # one iteration, to find the loops inside
            return done < given
        if known and done and region.kind == "while" and self.values == self._before:
            raise error_of(endless(self.program, region, self._limit))  # every further iteration is like this one
        return known

    def begin(self, region: Region, done: int) -> list[int | None]:
        return list(self.values) if region.kind == "while" else []

    def finish(self, region: Region, token: list[int | None]) -> None:
        self._before = token

    def _given(self, region: Region) -> int | None:
        """Return the user's trip count of a loop: by its line, its variable, or the name of its body."""
        names = names_of(self.program, region) if self._trip_counts else ()
        return next((self._trip_counts[name] for name in names if name in self._trip_counts), None)


def names_of(program: Program, region: Region) -> tuple[str, ...]:
    """Return the names that a loop can have in `trip_counts`."""
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
    return coded_error("NKI012", f"trip_counts: {message}", operand="trip_counts", limit=limit, help=remedy)


def _unknown(program: Program, region: Region) -> Diagnostic:
    line, *names = names_of(program, region)
    name = repr(names[0]) if names else line
    what = f"loop over {names[0]}" if names and region.kind == "for" else f"loop on {names[0]}" if names else "loop"
    return placed(
        diagnose(
            "NKI801",
            f"the iterations of the device {what} at line {line} depend on data: the kernel has no times",
            limit="times are known where the number of iterations is",
            help=f"pass trip_counts={{{name}: 16}}, or run the kernel on data",
        ),
        program.sites[region.site],
    )
